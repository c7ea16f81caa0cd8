"""Close the queues to a cluster at which jobs fail fast, for a while, before it swallows them all.

Jobs are counted, not tasks or tries, so one bad array is one failure. A job that runs there proves
the cluster well. Once the time is over one job is let in to probe it: its failure doubles the time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from gridbridge.model.claim import HOME
from gridbridge.model.ids import parse_transfer
from gridbridge.model.message import Desired, Outcome, Phase
from gridbridge.model.policy import Poller
from gridbridge.model.shown import ShownBreaker
from gridbridge.model.transfer import Transfer

TRIED = "tried in vain: "  # how starters tell of a submission that failed for now
PERSONAL = ("ssh: ", "rsync: ")  # then it is about one person's key, or quota, or a broken line
MAX_DOUBLINGS = 32
WHY_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A job that failed fast."""

    job: int
    why: str
    was_accepted: bool  # it failed though the cluster had taken it


def failure(before: Transfer | None, one: Transfer, policy: Poller) -> Failure | None:
    """Return what a transfer's news says against its cluster, None for nothing."""
    why = _why(before, one)
    fast = timedelta(seconds=policy.breaker_fast_s)
    if not why or one.desired == Desired.DEAD or one.updated_at - one.created_at > fast:
        return None
    job = parse_transfer(one.name).job
    return Failure(job=job, why=why[:WHY_CHARACTERS], was_accepted=one.remote_id != 0)


def _why(before: Transfer | None, one: Transfer) -> str:
    if one.verdict:
        is_news = before is None or before.verdict is None
        failed = one.verdict.outcome in (Outcome.ERROR, Outcome.REQUEUE) and not has_run(one)
        is_called = one.claimed == HOME
        return one.verdict.reason if is_news and failed and not is_called else ""
    if before and before.reason == one.reason:
        return ""
    _, tried, why = one.reason.partition(TRIED)
    if tried and one.phase == Phase.SUBMITTING:
        return "" if why.startswith(PERSONAL) else why
    _, refused, why = one.reason.partition(f"{one.remote} refused it: ")
    return why if refused and one.is_over else ""


def has_run(one: Transfer) -> bool:
    """Say whether its remote job was seen to run, or ended by itself."""
    if one.verdict and one.verdict.outcome in (Outcome.EXIT, Outcome.SIGNAL):
        return True
    return "r" in one.remote_state


def fail(known: ShownBreaker, failed: Failure, now: datetime, policy: Poller) -> ShownBreaker:
    """Count a failure; the last that is borne, or that of a probe, closes the queues."""
    if known.until and now < known.until:
        return known  # those that were on their way
    jobs = (*(job for job in known.jobs if job != failed.job), failed.job)
    borne = 1 if known.times else policy.breaker_failures
    accepted = {*known.accepted, failed.job} if failed.was_accepted else {*known.accepted}
    counted = ShownBreaker(
        cluster=known.cluster,
        jobs=jobs[-policy.breaker_failures :],
        accepted=tuple(sorted(accepted.intersection(jobs))),
        times=known.times,
        failures=known.failures,
        until=known.until,
        why=failed.why,
    )
    return _trip(counted, now, policy) if len(jobs) >= borne else counted


def _trip(counted: ShownBreaker, now: datetime, policy: Poller) -> ShownBreaker:
    pause_s = policy.breaker_pause_s * 2 ** min(counted.times, MAX_DOUBLINGS)
    return ShownBreaker(
        cluster=counted.cluster,
        times=counted.times + 1,
        failures=counted.failures + len(counted.jobs),
        until=now + timedelta(seconds=min(pause_s, policy.breaker_pause_max_s)),
        why=counted.why,
    )


def accept(known: ShownBreaker) -> ShownBreaker:
    """Forget the jobs that the cluster did not even take: it took one."""
    if known.times:
        return known
    return ShownBreaker(
        cluster=known.cluster, jobs=known.accepted, accepted=known.accepted, why=known.why
    )


def is_closed(
    known: ShownBreaker, transfers: Iterable[Transfer], now: datetime, policy: Poller
) -> bool:
    """Say whether no job is let in: the time is not over, or a probe is out and young."""
    if not known.until:
        return False
    young = max(known.until, now - timedelta(seconds=policy.breaker_fast_s))
    return now < known.until or any(
        one.remote == known.cluster and one.created_at > young for one in transfers
    )
