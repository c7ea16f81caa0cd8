"""The poller restores missing guards at home, and removes copied and stale guards in spite of failures and restarts."""

import os
import threading
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from gridbridge.errors import GridbridgeError
from gridbridge.model.job_request import FAR_S, OWN_JOB, JobRequest
from gridbridge.model.transfer.claim_and_guard import HomeStartGuard
from gridbridge.model.transfer.transfers_and_actions import Transfer, TransferAction, TransferActKind
from gridbridge.model.transfer_messages_in_spool import TransferMessage, TransferMessageKind, TransferOutcome
from gridbridge.program.cluster_observer import ClusterQueryResult
from gridbridge.program.threads_and_backoff import AT_ONCE
from gridbridge.transfer.poller import home_start_guard_and_suspension_repair as repair
from gridbridge.transfer.poller.transfer_acts import TransferActRunner
from gridbridge.transfer.transfer_history_rows import TransferRows
from tests.decisions.transfer.test_transfer_policy import VERDICT, a_row, a_snapshot, a_transfer
from tests.transfer.poller.messages import NAME, RECORD, CallsAtOnce
from tests.transfer.poller.test_transfer_round import Machine

OTHER = JobRequest(owner="alice")


class Home:
    """A home whose queries are answered at once, with the requests of its jobs."""

    def __init__(self, *transfers: Transfer) -> None:
        self.open = {transfer.name: transfer for transfer in transfers}
        self.acts: list[TransferAction] = []
        self.requests: dict[int, JobRequest] = {}
        self.error: GridbridgeError | None = None
        self.asked: list[tuple[int, ...]] = []
        self.failing: set[int] = set()  # jobs whose copied guard cannot be removed
        self.freed: list[int] = []
        self.now_s = 0.0
        policy = SimpleNamespace(site=SimpleNamespace(cluster="alpha"), queues=("transfer-beta",))
        ledger = SimpleNamespace(open_transfers=lambda: tuple(self.open.values()), store_transfer=self._store)
        parts: tuple[Any, ...] = (policy, ledger, self, CallsAtOnce())
        self.guards = repair.MissingGuardRestorer(*parts, self.acts.append, lambda: self.now_s)
        self.copies = repair.ResubmittedJobGuardRemover(*parts, lambda: self.now_s)

    def query_local_job_requests(self, jobs: tuple[int, ...]) -> dict[int, JobRequest]:
        self.asked.append(jobs)
        if self.error:
            raise self.error
        return {job: self.requests[job] for job in jobs if job in self.requests}

    def query_deferred_jobs(self) -> frozenset[int]:
        return frozenset(self.requests)

    def remove_guard_copied_by_qresub(self, job: int) -> None:
        """Record the removal of a guard, or fail."""
        if job in self.failing:
            raise GridbridgeError("denied")
        self.freed.append(job)

    def answers(self, letters: str, jobs: Iterable[int] = (7,)) -> list[tuple[str, str]]:
        """Let home list these jobs in a state; return each act that follows, with its guard."""
        self.acts.clear()
        seen = a_snapshot("alpha", 9, *(a_row(job, letters) for job in jobs))
        self.guards.find_missing_guards((ClusterQueryResult(cluster="alpha", snapshot=seen),), "alpha")
        self.guards.restore_missing_guards()
        return [(action.act.value, action.transfer.guard) for action in self.acts]

    def remove_copied_guards(self) -> None:
        """Let home answer twice: the second answer takes the result of what the first one began."""
        answers = (ClusterQueryResult(cluster="alpha", snapshot=a_snapshot("alpha", 9)),)
        for _ in range(2):
            self.copies.remove_copied_guards_if_due(answers)

    def _store(self, transfer: Transfer) -> None:
        self.open[transfer.name] = transfer


HELD = [(TransferActKind.GUARD_LOCAL.value, HomeStartGuard.HOLD)]


def test_only_a_hold_missing_in_two_successive_home_job_lists_is_restored() -> None:
    home, brief = Home(a_transfer()), Home(a_transfer())

    assert [home.answers("r"), home.answers("r")] == [[], HELD]
    assert [brief.answers(letters) for letters in ("r", "hr", "r", "Rq", "r")] == [[]] * 5


def test_jobs_with_start_time_guards_are_queried_once_a_minute() -> None:
    home = Home(a_transfer(guard=HomeStartGuard.START))
    home.requests = {7: OTHER}

    assert [home.answers("r") for _ in range(3)] == [[]] * 3
    home.now_s += repair.RESTORE_AFTER_S
    assert home.answers("r") == []
    assert home.answers("r") == [(TransferActKind.GUARD_LOCAL.value, HomeStartGuard.START)]
    assert home.asked == [(7,)]


def test_a_job_that_newly_needs_a_guard_has_the_guard_stored_first() -> None:
    home = Home(a_transfer(guard=HomeStartGuard.NONE))
    home.requests = {7: OTHER.with_changes(queues="all.q")}
    home.now_s += repair.RESTORE_AFTER_S
    home.answers("r")

    assert home.answers("r") == [(TransferActKind.GUARD_LOCAL.value, HomeStartGuard.START)]
    assert home.open["gb.alpha.7.0.1"].guard == HomeStartGuard.START


def test_many_guarded_jobs_are_queried_in_turns_of_a_limited_number() -> None:
    jobs = range(1, 2 * AT_ONCE)
    home = Home(*(a_transfer(name=f"gb.alpha.{job}.0.1", guard=HomeStartGuard.NONE) for job in jobs))
    for _ in range(3):
        home.now_s += repair.RESTORE_AFTER_S
        home.answers("r", jobs)
    home.answers("r", jobs)

    assert [(some[0], len(some)) for some in home.asked] == [(1, 100), (101, 99), (1, 100)]


def test_a_failed_query_of_guards_is_repeated(caplog: pytest.LogCaptureFixture) -> None:
    home = Home(a_transfer(guard=HomeStartGuard.START))
    home.error = GridbridgeError("no answer")
    for _ in range(3):
        home.now_s += repair.RESTORE_AFTER_S
        assert home.answers("r") == []

    assert len(home.asked) == 3
    assert "act=look_at_guards cluster=alpha why='no answer'" in caplog.text


def test_no_guard_is_restored_after_the_job_end_is_recorded() -> None:
    home = Home(a_transfer(guard=HomeStartGuard.START))
    home.requests = {7: OTHER}
    home.now_s += repair.RESTORE_AFTER_S
    home.answers("r")
    home.open["gb.alpha.7.0.1"] = a_transfer(guard=HomeStartGuard.START, verdict=VERDICT)

    assert home.answers("r") == []
    assert home.asked == [(7,)]


OWN = JobRequest(owner="alice")
COPY = JobRequest(owner="alice", start=FAR_S, context=((OWN_JOB, "7"),))


def test_a_qresub_copy_is_freed_of_the_copied_guard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    home = Home(a_transfer())
    home.requests = {5: OWN, 7: COPY, 8: COPY}

    home.remove_copied_guards()

    assert home.freed == [8]
    assert "event=freed job=8 why='qresub has copied the guard of transferred job 7" in caplog.text


def test_a_waiting_job_is_queried_once_and_new_jobs_are_queried_each_minute() -> None:
    home = Home(a_transfer())
    home.requests = {5: OWN}
    for _ in range(3):
        home.remove_copied_guards()
    assert home.asked == [(5,)]

    home.now_s += repair.COPIED_GUARD_QUERY_INTERVAL_S
    home.requests[8] = COPY
    home.remove_copied_guards()

    assert home.asked == [(5,), (8,)]
    assert home.freed == [8]


def test_a_copy_that_cannot_be_freed_is_retried_and_delays_no_other_copy(caplog: pytest.LogCaptureFixture) -> None:
    home = Home(a_transfer())
    home.requests = {8: COPY, 9: COPY}
    home.failing = {8}
    home.remove_copied_guards()
    assert home.freed == [9]
    assert "act=free_copy job=8 why='denied'" in caplog.text

    home.failing.clear()
    home.now_s += repair.COPIED_GUARD_QUERY_INTERVAL_S
    home.remove_copied_guards()

    assert 8 in home.freed


def test_many_waiting_jobs_are_queried_in_turns_of_a_limited_number() -> None:
    home = Home(a_transfer())
    home.requests = dict.fromkeys(range(1, 2 * AT_ONCE), OWN)
    for _ in range(3):
        home.remove_copied_guards()
        home.now_s += repair.COPIED_GUARD_QUERY_INTERVAL_S

    assert [(some[0], len(some)) for some in home.asked] == [(1, 100), (101, 99)]


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
