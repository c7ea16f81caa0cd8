"""Close the transfer queues to a remote cluster after several jobs in a row have failed fast there."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from gridbridge.decisions.transfer.transfers_in_job_lists import is_task_listed_as_owners
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.published_status_and_reports import PublishedClusterBreaker, PublishedFastJobFailure
from gridbridge.model.transfer.transfer_config_sections import BreakerSection
from gridbridge.model.transfer.transfers_and_actions import OwnerSeenInHomeJobList, Transfer
from gridbridge.model.transfer_messages_in_spool import (
    DesiredLocalJobState,
    StarterPhase,
    TransferFailureCause,
    TransferOutcome,
)
from gridbridge.model.transfer_name import parse_transfer_name

CLUSTER_FAULTS = (
    *(TransferFailureCause.UNREACHED, TransferFailureCause.DENIED, TransferFailureCause.BLOCKED),
    *(TransferFailureCause.VANISHED, TransferFailureCause.LOST, TransferFailureCause.HOST),
)
FAILURE_CAUSE_WORDS: Mapping[str, str] = {
    TransferFailureCause.UNREACHED: "{} did not accept these jobs",
    TransferFailureCause.DENIED: "{} rejects all jobs of this site",
    TransferFailureCause.BLOCKED: "{} put these jobs into error state",
    TransferFailureCause.VANISHED: "{} neither lists these jobs nor has their accounting records",
    TransferFailureCause.DISPUTED: "accounting records of these jobs at {} contradict each other",
    TransferFailureCause.LOST: "{} did not see how these jobs ended",
    TransferFailureCause.HOST: "a host of {} could not start these jobs",
}


def describe_failure_cause(cause: str, cluster: str) -> str:
    return FAILURE_CAUSE_WORDS.get(cause, "these jobs failed at {}").format(cluster)


MAX_DOUBLINGS = 32
MOST_STORED_OWNERS = 2  # largest number of job owners stored with a count of failures


class BreakerEvidenceKind(Enum):
    """What a transfer shows about its remote cluster: a fast failure, an accepted job, or a job that ran."""

    FAILED = "failed"  # the job failed fast, by a fault of the cluster
    TAKEN = "taken"
    RAN = "ran"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerEvidence:
    """A change of a transfer that counts for or against closing the queues to its remote cluster."""

    sign: BreakerEvidenceKind
    transfer: Transfer
    cause: str = ""

    @property
    def home_job_number(self) -> int:
        return parse_transfer_name(self.transfer.name).job


def is_owner_task_in_home_queue(transfer: Transfer, home: ClusterSnapshot) -> bool:
    """Say whether the home job list has a transfer's task, in the transfer's queue and of the transfer's owner.

    A held task that never started does not count, because anybody may submit held jobs.
    """
    name = parse_transfer_name(transfer.name)
    row = home.find_job_list_row(name.job, name.task)
    if row is None or not is_task_listed_as_owners(transfer.name, transfer.owner, home):
        return False
    return row.state.is_restarted or row.state.is_error or row.queue.partition("@")[0] == transfer.queue


def breaker_evidence_of_transfer(
    before: Transfer | None, transfer: Transfer, policy: BreakerSection
) -> BreakerEvidence | None:
    if cause := fast_failure_cause(before, transfer, policy):
        sign = BreakerEvidenceKind.FAILED
    elif has_remote_job_run(transfer) and not (before and has_remote_job_run(before)):
        sign = BreakerEvidenceKind.RAN
    elif before and StarterPhase.SUBMITTING == before.phase != transfer.phase:
        sign = BreakerEvidenceKind.TAKEN
    else:
        return None
    return BreakerEvidence(sign=sign, transfer=transfer, cause=cause)


def fast_failure_cause(before: Transfer | None, transfer: Transfer, policy: BreakerSection) -> str:
    """Return the cause if a transfer failed fast because of a fault of its remote cluster; else ''."""
    fast = timedelta(seconds=policy.fast_s)
    is_news = before is None or before.cause != transfer.cause
    if not is_news or transfer.cause not in CLUSTER_FAULTS or has_remote_job_run(transfer):
        return ""
    is_left = bool(transfer.verdict) or transfer.is_over or transfer.phase == StarterPhase.SUBMITTING
    is_fast = transfer.updated_at - transfer.created_at <= fast
    return transfer.cause if is_left and is_fast and transfer.desired != DesiredLocalJobState.DEAD else ""


def has_remote_job_run(transfer: Transfer) -> bool:
    """Say whether a transfer's remote job was listed as running, or ended with an exit status or signal."""
    ended = transfer.verdict and transfer.verdict.outcome in (TransferOutcome.EXIT, TransferOutcome.SIGNAL)
    is_seen = ended and transfer.cause not in (TransferFailureCause.LOST, TransferFailureCause.PREEMPTED)
    return bool(is_seen) or transfer.remote_state.has_begun


def update_breaker(
    breaker: PublishedClusterBreaker,
    observation: BreakerEvidence,
    transfers: Iterable[Transfer],
    now: datetime,
    policy: BreakerSection,
) -> PublishedClusterBreaker:
    """Count a success or failure in a cluster's breaker; `transfers` are all open transfers."""
    if observation.sign is BreakerEvidenceKind.RAN:
        return PublishedClusterBreaker(cluster=breaker.cluster)
    if observation.sign is BreakerEvidenceKind.TAKEN:
        return forget_submission_failures(breaker)
    has_others = any(
        transfer.remote == observation.transfer.remote
        and transfer.owner != observation.transfer.owner
        and transfer.listed == OwnerSeenInHomeJobList.YES
        for transfer in transfers
    )
    return count_failure_and_close_queues(breaker, observation, has_others, now, policy)


def clear_owner_breaker_failures(
    breaker: PublishedClusterBreaker, observation: BreakerEvidence
) -> PublishedClusterBreaker:
    """Clear an owner's failures after the owner's job succeeded, even if the home cluster has not proved the owner."""
    if observation.sign is BreakerEvidenceKind.FAILED or breaker.times:
        return breaker
    keeps_accepted = observation.sign is BreakerEvidenceKind.TAKEN
    others = (
        failure
        for failure in breaker.failed
        if failure.owner != observation.transfer.owner or (keeps_accepted and failure.was_accepted)
    )
    return replace(breaker, failed=tuple(others))


def count_failure_and_close_queues(
    breaker: PublishedClusterBreaker,
    observation: BreakerEvidence,
    has_others: bool,
    now: datetime,
    policy: BreakerSection,
) -> PublishedClusterBreaker:
    """Count a fast failure; close the cluster's transfer queues once the failures reach the limit.

    A failed probe (the first job after a pause) closes the queues at once. Failures of a single owner close no queue
    while other owners use the cluster (`has_others`).
    """
    if breaker.until and now < breaker.until:
        return breaker  # the job was submitted before the queues closed
    fresh = PublishedFastJobFailure(
        job=observation.home_job_number,
        owner=observation.transfer.owner,
        was_accepted=observation.transfer.remote_id != 0,
    )
    failed = (*(failure for failure in breaker.failed if failure.job != observation.home_job_number), fresh)[
        -policy.failures :
    ]
    owners = {*breaker.owners, *(failure.owner for failure in failed)}
    is_shared = len(owners) >= MOST_STORED_OWNERS
    borne = 1 if breaker.times and is_shared else policy.failures
    if len(failed) < borne or (has_others and not is_shared):
        return replace(breaker, failed=failed, cause=observation.cause)
    before = breaker.times if is_shared else 0
    pause_s = policy.pause_s * 2 ** min(before, MAX_DOUBLINGS)
    return PublishedClusterBreaker(
        cluster=breaker.cluster,
        owners=tuple(sorted(owners)[:MOST_STORED_OWNERS]),
        times=before + 1,
        failures=breaker.failures + len(failed),
        until=now + timedelta(seconds=min(pause_s, policy.pause_max_s)),
        cause=observation.cause,
    )


def forget_submission_failures(breaker: PublishedClusterBreaker) -> PublishedClusterBreaker:
    """Drop failed submissions from a cluster's count of failures, because the cluster accepts jobs again."""
    if breaker.times:
        return breaker
    return replace(breaker, failed=tuple(failure for failure in breaker.failed if failure.was_accepted))


def first_probe_time_of_each_owner(
    breaker: PublishedClusterBreaker, transfers: Iterable[Transfer]
) -> dict[str, datetime]:
    """Map each proved owner to the start of the owner's first transfer after the queues' pause."""
    since: dict[str, datetime] = {}
    for transfer in transfers:
        is_probe = transfer.remote == breaker.cluster and transfer.listed == OwnerSeenInHomeJobList.YES
        if breaker.until and is_probe and transfer.created_at > breaker.until:
            since[transfer.owner] = min(transfer.created_at, since.get(transfer.owner, transfer.created_at))
    return since


def does_breaker_close_queues(
    breaker: PublishedClusterBreaker, probes: Mapping[str, datetime], now: datetime, policy: BreakerSection
) -> bool:
    """Say whether failures close the queues now: in the pause, and for `fast_s` seconds after each probe.

    `probes` has the start of each owner's first transfer after the pause.
    """
    if not breaker.until:
        return False
    fast = timedelta(seconds=policy.fast_s)
    return now < breaker.until or any(now - at < fast for at in probes.values())
