"""A move of a task that waits away goes on by its stage and by what its transfer has become."""

import os
from dataclasses import replace
from datetime import timedelta

from gridbridge.model.transfer.transfers_and_actions import TaskMoveStage, WaitingTaskMove
from gridbridge.model.transfer_messages_in_spool import TransferFailureCause
from gridbridge.program.cluster_observer import ClusterQueryResult
from gridbridge.transfer.transfer_rows import MOVES, TaskMoveRows, TransferRows
from tests.transfer.poller.messages import NAME, RECORD
from tests.transfer.poller.test_transfer_round import Machine


def ask(machine: Machine, name: str = NAME, stage: TaskMoveStage = TaskMoveStage.ASKED) -> None:
    """Ask for a move, as gridbridge rebalance does in the state file."""
    now = machine.service.resources.clock.now()
    asked = WaitingTaskMove(name=name, uid=os.getuid(), source="beta", target="delta", asked_at=now, stage=stage)
    TaskMoveRows(machine.service.resources.database).put(asked)


def moves(machine: Machine) -> list[tuple[str, str]]:
    """Return the stage of each move and why it is over, as the state file has them."""
    rows = machine.service.resources.database.rows(MOVES.select())
    return [(row["stage"], row["reason"]) for row in rows]


def settle(machine: Machine) -> None:
    for _, given in machine.service.moves._ending.values():
        given.exception(10)


def ended(machine: Machine, letters: str) -> list[tuple[str, str]]:
    """Return what came of moves that end by this answer of beta's."""
    machine.answer(letters)
    settle(machine)
    machine.answer(letters)
    return moves(machine)


def come_home(machine: Machine) -> None:
    """Let its starter have ended as one whose task was recalled, a minute ago."""
    machine.send(RECORD)
    ledger = machine.service.ledger
    (one,) = ledger.all()
    closed_at = machine.service.resources.clock.now() - timedelta(minutes=1)
    closed = one.but(closed_at=closed_at, cause=TransferFailureCause.RECALLED)
    ledger.keep(closed)
    ledger.forget(closed)


def test_a_task_that_has_started_is_left_alone_and_its_owner_is_told(machine: Machine) -> None:
    machine.send(RECORD)
    ask(machine)

    assert ended(machine, "r") == [("dropped", "the task has started there")]
    events = TransferRows(machine.service.resources.database).events(NAME, os.getuid())
    assert "not moved: the task has started there" in [one.text for one in events]


def test_a_move_of_nothing_that_is_known_is_dropped(machine: Machine) -> None:
    machine.send(RECORD)
    ask(machine, name="gb.alpha.9.0.1")

    assert ended(machine, "qw") == [("dropped", "the transfer is unknown")]


def test_without_a_proof_from_home_nothing_is_recalled(machine: Machine) -> None:
    """So nobody has the service alter jobs by records that he makes up."""
    machine.send(RECORD)
    ask(machine)

    assert ended(machine, "qw") == [("dropped", "the recall limit of the task's queue is reached")]


def test_a_new_process_goes_on_with_a_task_that_has_come_home(machine: Machine) -> None:
    """And home's next answer has to show its job, until it has started somewhere."""
    come_home(machine)
    ask(machine)
    machine.answer("qw")
    machine.restart()

    assert moves(machine) == [("home", "")]
    assert 7 in machine.service.watched_jobs()


def test_its_queues_are_given_back_again_while_home_lists_it(machine: Machine) -> None:
    """Here there is no qalter: what fails is done again, until the job is gone."""
    come_home(machine)
    ask(machine, stage=TaskMoveStage.HOME)
    machine.answer_at_home("r", queue="all.q@n1")
    settle(machine)
    machine.answer_at_home("r", queue="all.q@n1")
    again = moves(machine)
    settle(machine)
    gone = machine.service.resources.observers["alpha"]
    seen = machine.service.answers.good["alpha"]
    now = machine.service.resources.clock.now()
    gone.next = ClusterQueryResult(cluster="alpha", snapshot=replace(seen, jobs={}, taken_at=now))  # type: ignore[attr-defined]  # Told
    machine.service.round()

    assert again == [("home", "")]
    assert moves(machine) == [("done", "the task runs at home")]
