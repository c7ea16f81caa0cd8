"""The poller restores missing guards at home, and removes guards that qresub copied."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from gridbridge.errors import GridbridgeError
from gridbridge.model.job_request import FAR_S, OWN_JOB, JobRequest
from gridbridge.model.transfer.claim_and_guard import HomeStartGuard
from gridbridge.model.transfer.transfers_and_actions import Transfer, TransferAction, TransferActKind
from gridbridge.program.cluster_observer import ClusterQueryResult
from gridbridge.program.threads_and_backoff import AT_ONCE
from gridbridge.transfer.poller import home_start_guard_and_suspension_repair as repair
from tests.decisions.transfer.test_transfer_policy import VERDICT, a_row, a_snapshot, a_transfer
from tests.transfer.poller.messages import CallsAtOnce

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
