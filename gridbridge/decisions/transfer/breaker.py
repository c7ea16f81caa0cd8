"""Closes the queues to a cluster at which jobs fail fast, for a while.

Jobs are counted, not tasks or tries, so one bad array is one failure. A job that runs there shows
that the cluster works. After the pause one job is let in to probe it: if that fails, and jobs of
more than one owner have failed, the pause doubles.

People's own processes report all of this. So a transfer counts only once home's own list has its
job as its owner's, and failures of one owner alone close nothing that others use.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from gridbridge.decisions.transfer.cause_messages import OF_THE_CLUSTER
from gridbridge.decisions.transfer.ownership_proof import is_listed
from gridbridge.model.ids import parse_transfer
from gridbridge.model.message import DesiredJobState, FailureCause, StarterPhase, TransferOutcome
from gridbridge.model.published import ShownBreaker, ShownFailure
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.model.transfer.transfer_row import OwnershipProof, Transfer
from gridbridge.model.transfer.transfer_sections import Breaker

MAX_DOUBLINGS = 32
SEVERAL = 2  # as many owners are remembered as matter: one, or several


class BreakerEvent(Enum):
    """What a change of a transfer says about its cluster."""

    FAILED = "failed"  # its job failed fast, and the cluster is to blame
    TAKEN = "taken"  # the cluster took its job
    RAN = "ran"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerObservation:
    """What a change of one transfer says about its cluster, and whose it is."""

    sign: BreakerEvent
    cluster: str
    name: str
    owner: str
    queue: str
    at: datetime
    cause: str = ""
    was_accepted: bool = False  # it failed though the cluster had taken it

    @property
    def job(self) -> int:
        """The local job."""
        return parse_transfer(self.name).job

    def is_proved(self, home: ClusterSnapshot) -> bool:
        """Say whether home's own list has its task as its owner's, and in its queue."""
        return is_in_queue(self.name, self.owner, self.queue, home)


def is_in_queue(transfer: str, owner: str, queue: str, home: ClusterSnapshot) -> bool:
    """Say whether home lists the task as its owner's, in that queue.

    A task that was put back or is in error is in no queue, but it has been started. Anybody may
    submit held jobs, which were never let into a queue.
    """
    name = parse_transfer(transfer)
    row = home.find(name.job, name.task)
    if row is None or not is_listed(transfer, owner, home):
        return False
    was_started = row.state.is_restarted or row.state.is_error
    return was_started or row.queue.partition("@")[0] == queue


def news(before: Transfer | None, one: Transfer, policy: Breaker) -> BreakerObservation | None:
    """Return what a transfer's change says of its cluster, None for nothing."""
    if cause := failure(before, one, policy):
        return _news(BreakerEvent.FAILED, one, cause)
    if has_run(one) and not (before and has_run(before)):
        return _news(BreakerEvent.RAN, one)
    if before and StarterPhase.SUBMITTING == before.phase != one.phase:
        return _news(BreakerEvent.TAKEN, one)
    return None


def _news(sign: BreakerEvent, one: Transfer, cause: str = "") -> BreakerObservation:
    return BreakerObservation(
        sign=sign,
        cluster=one.remote,
        name=one.name,
        owner=one.owner,
        queue=one.queue,
        at=one.updated_at,
        cause=cause,
        was_accepted=one.remote_id != 0,
    )


def failure(before: Transfer | None, one: Transfer, policy: Breaker) -> str:
    """Return the cause of a job's fast failure that is its cluster's fault; empty for none."""
    fast = timedelta(seconds=policy.fast_s)
    is_news = before is None or before.cause != one.cause
    if not is_news or one.cause not in OF_THE_CLUSTER or has_run(one):
        return ""
    is_left = bool(one.verdict) or one.is_over or one.phase == StarterPhase.SUBMITTING
    is_fast = one.updated_at - one.created_at <= fast
    return one.cause if is_left and is_fast and one.desired != DesiredJobState.DEAD else ""


def has_run(one: Transfer) -> bool:
    """Say whether its remote job was seen to run, or ended by itself."""
    ended = one.verdict and one.verdict.outcome in (TransferOutcome.EXIT, TransferOutcome.SIGNAL)
    if ended and one.cause not in (FailureCause.LOST, FailureCause.PREEMPTED):
        return True
    return one.remote_state.has_begun


def count(
    known: ShownBreaker,
    one: BreakerObservation,
    transfers: Iterable[Transfer],
    now: datetime,
    policy: Breaker,
) -> ShownBreaker:
    """Count proved news; `transfers` are all open ones."""
    if one.sign is BreakerEvent.RAN:
        return ShownBreaker(cluster=known.cluster)
    if one.sign is BreakerEvent.TAKEN:
        return count_acceptance(known)
    return count_failure(known, one, has_others(one, transfers), now, policy)


def count_unproved(known: ShownBreaker, one: BreakerObservation) -> ShownBreaker:
    """Count news that is not proved: it can only clear its owner's own failures."""
    if one.sign is BreakerEvent.FAILED or known.times:
        return known
    keeps_accepted = one.sign is BreakerEvent.TAKEN
    failed = tuple(
        each
        for each in known.failed
        if each.owner != one.owner or (keeps_accepted and each.was_accepted)
    )
    return replace(known, failed=failed)


def has_others(one: BreakerObservation, transfers: Iterable[Transfer]) -> bool:
    """Say whether anybody else has a transfer there that home's own list has proved."""
    return any(
        each.remote == one.cluster and each.owner != one.owner and each.listed == OwnershipProof.YES
        for each in transfers
    )


def count_failure(
    known: ShownBreaker, one: BreakerObservation, has_others: bool, now: datetime, policy: Breaker
) -> ShownBreaker:
    """Count a failure; the last one allowed, or that of a probe, closes the queues.

    With `has_others` failures of one owner alone close nothing. Without, they close the queues each
    time only after the full number of failures, and the pause does not grow.
    """
    if known.until and now < known.until:
        return known  # jobs that were on their way when the queues closed
    fresh = ShownFailure(job=one.job, owner=one.owner, was_accepted=one.was_accepted)
    older = (each for each in known.failed if each.job != one.job)
    failed = (*older, fresh)[-policy.failures :]
    counted = replace(known, failed=failed, cause=one.cause)
    owners = {*known.owners, *(each.owner for each in failed)}
    is_shared = len(owners) >= SEVERAL
    borne = 1 if known.times and is_shared else policy.failures
    if len(failed) < borne or (has_others and not is_shared):
        return counted
    return _trip(counted, owners, now, policy)


def _trip(counted: ShownBreaker, owners: set[str], now: datetime, policy: Breaker) -> ShownBreaker:
    before = counted.times if len(owners) >= SEVERAL else 0
    pause_s = policy.pause_s * 2 ** min(before, MAX_DOUBLINGS)
    return ShownBreaker(
        cluster=counted.cluster,
        owners=tuple(sorted(owners)[:SEVERAL]),
        times=before + 1,
        failures=counted.failures + len(counted.failed),
        until=now + timedelta(seconds=min(pause_s, policy.pause_max_s)),
        cause=counted.cause,
    )


def count_acceptance(known: ShownBreaker) -> ShownBreaker:
    """Forget the jobs that the cluster did not even take: it took one."""
    if known.times:
        return known
    return replace(known, failed=tuple(each for each in known.failed if each.was_accepted))


def first_probes(known: ShownBreaker, transfers: Iterable[Transfer]) -> dict[str, datetime]:
    """Return when each owner's first probe began: the first job after the pause.

    Only what home's own list has proved is a probe.
    """
    since: dict[str, datetime] = {}
    for one in transfers:
        is_probe = one.remote == known.cluster and one.listed == OwnershipProof.YES
        if known.until and is_probe and one.created_at > known.until:
            since[one.owner] = min(one.created_at, since.get(one.owner, one.created_at))
    return since


def is_closed(
    known: ShownBreaker, probes: Mapping[str, datetime], now: datetime, policy: Breaker
) -> bool:
    """Say whether no job is let in: in the pause, or while an owner's first probe is young.

    A further probe of the same owner keeps nothing closed.
    """
    if not known.until:
        return False
    fast = timedelta(seconds=policy.fast_s)
    return now < known.until or any(now - at < fast for at in probes.values())
