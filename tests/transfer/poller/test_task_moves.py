"""The move of a waiting task continues by its stage and its transfer's state."""

import os
from datetime import timedelta

import pytest

from gridbridge.model.transfer.transfers_and_actions import TaskMoveStage, WaitingTaskMove
from gridbridge.model.transfer_messages_in_spool import TransferFailureCause
from gridbridge.transfer.transfer_history_rows import MOVES, TaskMoveRows, TransferRows
from tests.transfer.poller.messages import NAME, RECORD
from tests.transfer.poller.test_transfer_round import Machine


def ask(machine: Machine, name: str = NAME, stage: TaskMoveStage = TaskMoveStage.ASKED) -> None:
    """Request a move in the state file, as gridbridge rebalance does."""
    now = machine.service.resources.clock.now()
    asked = WaitingTaskMove(name=name, uid=os.getuid(), source="beta", target="delta", asked_at=now, stage=stage)
    TaskMoveRows(machine.service.resources.database).insert_or_update_task_move(asked)


def moves(machine: Machine) -> list[tuple[str, str]]:
    rows = machine.service.resources.database.rows(MOVES.select())
    return [(row["stage"], row["reason"]) for row in rows]


def settle(machine: Machine) -> None:
    for _, given in machine.service.moves._ending.values():
        given.exception(10)


def ended(machine: Machine, letters: str) -> list[tuple[str, str]]:
    """Let beta list the job in this state; return the moves."""
    machine.answer(letters)
    settle(machine)
    machine.answer(letters)
    return moves(machine)


def come_home(machine: Machine) -> None:
    """Close the transfer as recalled a minute ago."""
    machine.send(RECORD)
    ledger = machine.service.ledger
    (one,) = ledger.open_transfers()
    closed_at = machine.service.resources.clock.now() - timedelta(minutes=1)
    closed = one.with_changes(closed_at=closed_at, cause=TransferFailureCause.RECALLED)
    ledger.store_transfer(closed)
    ledger.move_to_ended(closed)


def test_the_move_of_a_started_task_is_dropped_and_noted_in_its_history(machine: Machine) -> None:
    machine.send(RECORD)
    ask(machine)

    assert ended(machine, "r") == [("dropped", "the task has started at the remote cluster")]
    events = TransferRows(machine.service.resources.database).events_of_transfer(NAME, os.getuid())
    assert "not moved: the task has started at the remote cluster" in [one.text for one in events]


@pytest.mark.parametrize(
    ("name", "why"),
    [("gb.alpha.9.0.1", "the transfer is unknown"), (NAME, "the recall limit of the task's queue is reached")],
    ids=["an unknown transfer", "an unproved owner"],
)
def test_a_move_of_an_unknown_transfer_or_unproved_owner_is_dropped(machine: Machine, name: str, why: str) -> None:
    """Otherwise forged records could change jobs."""
    machine.send(RECORD)
    ask(machine, name=name)

    assert ended(machine, "qw") == [("dropped", why)]


def test_a_restarted_poller_continues_the_move_of_a_task_that_is_home(machine: Machine) -> None:
    come_home(machine)
    ask(machine)
    machine.answer("qw")
    machine.restart()

    assert moves(machine) == [("home", "")]
    assert 7 in machine.service.watched_job_ids()


def test_the_queue_list_of_a_moved_task_is_restored_again_while_its_job_is_listed(machine: Machine) -> None:
    """The restore fails here, because there is no qalter."""
    come_home(machine)
    ask(machine, stage=TaskMoveStage.HOME)
    machine.answer_at_home("r", queue="all.q@n1")
    settle(machine)
    machine.answer_at_home("r", queue="all.q@n1")
    again = moves(machine)
    settle(machine)
    machine.list_job("alpha", "")

    assert again == [("home", "")]
    assert moves(machine) == [("done", "the task runs at home")]
