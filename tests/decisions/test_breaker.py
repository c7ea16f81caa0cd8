"""A cluster at which jobs fail fast gets no more of them for a while, and then one to probe it."""

from datetime import UTC, datetime, timedelta

import pytest

from gridbridge.decisions import breaker
from gridbridge.decisions.breaker import Failure
from gridbridge.model.message import Desired, Message, Outcome, Phase
from gridbridge.model.policy import Poller
from gridbridge.model.shown import ShownBreaker
from gridbridge.model.transfer import Transfer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = Poller(breaker_failures=3, breaker_pause_s=60, breaker_pause_max_s=150)
NONE = ShownBreaker(cluster="beta")
TRIED = "being submitted to beta; tried in vain: no answer"


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def transfer(job: int = 7, **values: object) -> Transfer:
    begun = Transfer(
        name=f"gb.alpha.{job}.0.1",
        uid=1001,
        owner="alice",
        remote="beta",
        queue="transfer-beta",
        phase=Phase.SUBMITTING,
        record="m.1",
        wake="w",
        rerun="",
        created_at=NOW,
        updated_at=after(5),
    )
    return begun.but(**values)


def failed(*jobs: int, since: ShownBreaker = NONE, at: datetime = NOW) -> ShownBreaker:
    """Return the breaker after these jobs failed."""
    for job in jobs:
        since = breaker.fail(since, Failure(job=job, why="no", was_accepted=False), at, POLICY)
    return since


def ended(outcome: str, **values: str) -> Message:
    return Message(outcome=outcome, reason="no such host", **values)


REFUSED = "ended here: comes home to run again: beta refused it: no"
OVER = {"closed_at": after(5)}


@pytest.mark.parametrize(
    ("news", "why"),
    [
        ({"reason": TRIED}, "no answer"),
        ({"reason": REFUSED, **OVER}, "no"),
        ({"verdict": ended(Outcome.ERROR), "remote_id": 4}, "no such host"),
        ({"verdict": ended(Outcome.REQUEUE), "remote_id": 4}, "no such host"),
        ({"verdict": ended(Outcome.REQUEUE), "remote_state": "r"}, ""),
        ({"verdict": ended(Outcome.EXIT, exit_status="1")}, ""),
        ({"verdict": ended(Outcome.SIGNAL, signal="9")}, ""),
        ({"reason": "ended here: comes home to run again: beta has no h_rt", **OVER}, ""),
        ({"reason": TRIED, "desired": Desired.DEAD}, ""),
        ({"reason": TRIED, "updated_at": after(61)}, ""),
        ({"reason": f"{TRIED[:-9]}ssh: beta does not let the key of bob in"}, ""),
        ({"reason": f"{TRIED[:-9]}rsync: No space left on device"}, ""),
        ({"reason": "waiting at beta"}, ""),
    ],
)
def test_a_fast_failure_is_the_clusters_and_not_the_jobs_own(
    news: dict[str, object], why: str
) -> None:
    found = breaker.failure(transfer(), transfer(**news), POLICY)

    assert (found.why if found else "") == why


def test_what_was_told_before_is_no_news() -> None:
    assert breaker.failure(transfer(reason=TRIED), transfer(reason=TRIED), POLICY) is None


def test_so_many_jobs_in_a_row_close_the_queues() -> None:
    assert failed(1, 2).until is None
    assert failed(1, 2, 3) == ShownBreaker(
        cluster="beta", times=1, failures=3, until=after(60), why="no"
    )


def test_one_job_that_fails_again_and_again_closes_nothing() -> None:
    assert failed(*[1] * 9, 2).until is None


def test_a_job_that_is_taken_clears_those_that_were_not() -> None:
    assert failed(3, 4, since=breaker.accept(failed(1, 2))).until is None


def test_a_job_that_is_taken_does_not_clear_those_that_were_taken_and_failed() -> None:
    taken = breaker.fail(NONE, Failure(job=1, why="no", was_accepted=True), NOW, POLICY)

    assert failed(2, 3, since=breaker.accept(taken)).until == after(60)


@pytest.mark.parametrize(("times", "pause_s"), [(1, 60), (2, 120), (3, 150), (40, 150)])
def test_each_probe_that_fails_doubles_the_time_up_to_a_bound(times: int, pause_s: int) -> None:
    now, known = NOW, failed(1, 2, 3)
    for _ in range(times - 1):
        assert known.until
        now = known.until
        known = failed(9, since=known, at=now)

    assert known.until == now + timedelta(seconds=pause_s)


def test_all_that_failed_since_a_job_ran_are_counted() -> None:
    closed = failed(1, 2, 3)

    assert failed(9, since=closed, at=after(60)).failures == 4


def test_those_that_were_on_their_way_add_nothing() -> None:
    closed = failed(1, 2, 3)

    assert failed(4, 5, since=closed, at=after(30)) == closed


@pytest.mark.parametrize(
    ("now_s", "probe_s", "is_closed"),
    [(59, None, True), (61, None, False), (65, 62, True), (65, 50, False), (130, 62, False)],
    ids=["not over", "over", "a probe is out", "an older job", "the probe is no news any more"],
)
def test_one_job_is_let_in_when_the_time_is_over(
    now_s: float, probe_s: float | None, is_closed: bool
) -> None:
    probes = [transfer(created_at=after(probe_s))] if probe_s else []

    assert breaker.is_closed(failed(1, 2, 3), probes, after(now_s), POLICY) is is_closed


def test_nothing_is_closed_before_anything_failed() -> None:
    assert not breaker.is_closed(failed(1, 2), [], NOW, POLICY)
