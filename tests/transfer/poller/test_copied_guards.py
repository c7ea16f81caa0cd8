"""A copy of a job that is away is freed of the guard that qresub has copied with it."""

from types import SimpleNamespace

import pytest

from gridbridge.errors import GridbridgeError
from gridbridge.model.job_request import FAR_S, OWN_JOB, JobRequest
from gridbridge.program.cluster_observer import ClusterQueryResult
from gridbridge.program.threads_and_backoff import AT_ONCE
from gridbridge.transfer.poller.home_start_guard_and_suspension_repair import (
    COPIED_GUARD_QUERY_INTERVAL_S,
    CopiedGuardRemover,
)
from tests.decisions.transfer.test_transfer_policy import a_snapshot, a_transfer

OWN = JobRequest(owner="alice")
COPY = JobRequest(owner="alice", start=FAR_S, context=((OWN_JOB, "7"),))


class Home:
    """A home whose waiting jobs are looked at, at once; job 7 is away."""

    def __init__(self) -> None:
        self.waiting: dict[int, JobRequest] = {}
        self.asked: list[tuple[int, ...]] = []
        self.freed: list[int] = []
        self.failing: set[int] = set()
        self.now_s = 0.0
        policy = SimpleNamespace(site=SimpleNamespace(cluster="alpha"))
        ledger = SimpleNamespace(open_transfers=lambda: (a_transfer(name="gb.alpha.7.0.1"),))
        workers = SimpleNamespace(do=self._do)
        self.copies = CopiedGuardRemover(policy, ledger, self, workers, lambda: self.now_s)  # type: ignore[arg-type]  # what it needs of them

    def query_deferred_jobs(self) -> frozenset[int]:
        """Return the jobs that wait."""
        return frozenset(self.waiting)

    def query_requests(self, jobs: tuple[int, ...]) -> dict[int, JobRequest]:
        """Return what these ask for."""
        self.asked.append(jobs)
        return {job: self.waiting[job] for job in jobs}

    def remove_copied_guard(self, job: int) -> None:
        """Free one, or refuse."""
        if job in self.failing:
            raise GridbridgeError("denied")
        self.freed.append(job)

    def answers(self) -> None:
        """Have home answer twice: what the first one began the second one takes."""
        for _ in range(2):
            self.copies.remove_copies_if_due((ClusterQueryResult(cluster="alpha", snapshot=a_snapshot("alpha", 9)),))

    def _do(self, owner: str, act: object, subject: frozenset[int]) -> object:
        del owner
        result = act(subject)  # type: ignore[operator]
        return SimpleNamespace(done=lambda: True, result=lambda: result)


def test_a_qresub_copy_is_freed_of_the_copied_guard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    home = Home()
    home.waiting = {5: OWN, 7: COPY, 8: COPY}

    home.answers()

    assert home.freed == [8]
    assert "event=freed job=8 why='qresub has copied the guard of job 7" in caplog.text


def test_a_waiting_job_is_queried_once_and_new_jobs_are_queried_each_minute() -> None:
    home = Home()
    home.waiting = {5: OWN}
    for _ in range(3):
        home.answers()
    assert home.asked == [(5,)]

    home.now_s += COPIED_GUARD_QUERY_INTERVAL_S
    home.waiting[8] = COPY
    home.answers()

    assert home.asked == [(5,), (8,)]
    assert home.freed == [8]


def test_a_copy_that_cannot_be_freed_is_retried_and_delays_no_other_copy(caplog: pytest.LogCaptureFixture) -> None:
    home = Home()
    home.waiting = {8: COPY, 9: COPY}
    home.failing = {8}
    home.answers()
    assert home.freed == [9]
    assert "act=free_copy job=8 why='denied'" in caplog.text

    home.failing.clear()
    home.now_s += COPIED_GUARD_QUERY_INTERVAL_S
    home.answers()

    assert 8 in home.freed


def test_many_waiting_jobs_are_queried_in_turns_of_a_limited_number() -> None:
    home = Home()
    home.waiting = dict.fromkeys(range(1, 2 * AT_ONCE), OWN)
    for _ in range(3):
        home.answers()
        home.now_s += COPIED_GUARD_QUERY_INTERVAL_S

    assert [(some[0], len(some)) for some in home.asked] == [(1, 100), (101, 99)]
