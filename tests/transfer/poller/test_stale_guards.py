"""Guards that were restored too late are removed, in spite of failures and restarts."""

import os
import threading
from collections.abc import Iterator

import pytest

from gridbridge.errors import GridbridgeError
from gridbridge.model.transfer.claim_and_guard import HomeStartGuard
from gridbridge.model.transfer.transfers_and_actions import TransferAction, TransferActKind
from gridbridge.model.transfer_messages_in_spool import TransferMessage, TransferMessageKind, TransferOutcome
from gridbridge.transfer.poller.transfer_acts import TransferActRunner
from gridbridge.transfer.transfer_rows import TransferRows
from tests.transfer.poller.messages import NAME, RECORD
from tests.transfer.poller.test_transfer_round import Machine

TASK = RECORD.with_changes(guard=HomeStartGuard.HOLD)
AGAIN = TASK.with_changes(kind=TransferMessageKind.CLOSED, outcome=TransferOutcome.REQUEUE)
WELL = TASK.with_changes(kind=TransferMessageKind.CLOSED, outcome=TransferOutcome.EXIT, exit_status="0")
KILLED = AGAIN.with_changes(outcome=TransferOutcome.SIGNAL, signal="9")
GUARD, RELEASE = TransferActKind.GUARD_LOCAL, TransferActKind.RELEASE_LOCAL


class Cell:
    """A qmaster at home that records acts, and may be down."""

    def __init__(self) -> None:
        self.acts: list[TransferActKind] = []
        self.is_down = False
        self.free = threading.Event()
        self.free.set()

    def far(self, action: TransferAction) -> TransferMessage | None:
        self.free.wait(10)
        if self.is_down:
            raise GridbridgeError("unable to contact qmaster")
        self.acts.append(action.act)
        return None


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    cell = Cell()
    monkeypatch.setattr(TransferActRunner, "run_cluster_act", lambda _, action: cell.far(action))
    return cell


@pytest.fixture
def machine(cell: Cell, machine: Machine) -> Iterator[Machine]:
    yield machine
    cell.free.set()


def take_guard_away(machine: Machine) -> None:
    """Send a task whose guard is missing in two job lists of home."""
    machine.send(TASK)
    for _ in range(2):
        machine.list_job("alpha", "r")


@pytest.mark.parametrize("is_late", [True, False], ids=["after the closed message", "after the release"])
def test_a_guard_restored_after_the_release_of_its_task_is_removed(machine: Machine, cell: Cell, is_late: bool) -> None:
    if is_late:
        cell.free.clear()
    take_guard_away(machine)
    if not is_late:
        machine.settle()
    machine.send(AGAIN)
    cell.free.set()
    machine.settle()
    was_queried = 7 in machine.service.watched_job_ids()

    machine.list_job("alpha", "hRq")
    machine.settle()

    assert cell.acts == [GUARD, RELEASE]
    assert (was_queried, 7 in machine.service.watched_job_ids()) == (True, False)


@pytest.mark.parametrize("is_new", [False, True], ids=["the same process", "a new one"])
def test_a_failed_removal_of_a_stale_guard_is_retried(machine: Machine, cell: Cell, is_new: bool) -> None:
    take_guard_away(machine)
    machine.settle()
    machine.send(AGAIN)
    cell.is_down = True
    for _ in range(2):
        machine.list_job("alpha", "hRq")
        machine.settle()
    if is_new:
        machine.restart()
    cell.is_down = False
    for _ in range(2):
        machine.list_job("alpha", "hRq")
        machine.settle()

    assert cell.acts == [GUARD, RELEASE]
    assert TransferRows(machine.service.resources.database).closed_transfers_with_guard() == ()


def test_removing_a_stale_guard_keeps_later_facts_of_the_transfer(machine: Machine, cell: Cell) -> None:
    take_guard_away(machine)
    machine.settle()
    machine.send(AGAIN)
    ledger, transfers = (machine.service.ledger, TransferRows(machine.service.resources.database))
    closed = transfers.find_transfer(NAME, os.getuid())
    transfers.insert_or_update_transfer(closed.with_changes(listed="yes", record=""))

    ledger.record_guard_removal(closed.with_changes(listed=""))

    assert transfers.find_transfer(NAME, os.getuid()) == closed.with_changes(listed="yes", record="", reguarded=False)


def test_a_restarted_poller_removes_the_guard_that_it_had_begun_to_restore(machine: Machine, cell: Cell) -> None:
    cell.free.clear()
    take_guard_away(machine)
    machine.restart()
    cell.free.set()
    machine.send(AGAIN)

    machine.list_job("alpha", "hRq")
    machine.settle()

    assert cell.acts[-1] == RELEASE


@pytest.mark.parametrize(
    ("messages", "letters"),
    [
        ((AGAIN.with_changes(kind=TransferMessageKind.ENDED), AGAIN), ""),
        ((WELL.with_changes(kind=TransferMessageKind.ENDED), WELL), "hr"),
        ((KILLED.with_changes(kind=TransferMessageKind.ENDED), KILLED), "hr"),
        ((AGAIN, TASK.with_changes(transfer=f"{NAME[:-1]}2", remote_id="41", wake="f1")), "hr"),
    ],
    ids=["gone", "exit 0", "signal", "transferred again"],
)
def test_no_guard_is_removed_from_a_task_that_is_gone_or_away_or_missed_its_end(
    machine: Machine, cell: Cell, messages: tuple[TransferMessage, ...], letters: str
) -> None:
    take_guard_away(machine)
    machine.settle()
    machine.send(*messages)
    machine.list_job("alpha", letters)
    machine.settle()

    assert cell.acts == [GUARD]
