"""Decide what the service does for each transfer, from the job lists of both clusters.

A missing answer never means a job's end. Only a complete job list from after the owner's last message counts;
if several in a row lack the job, the accounting decides. The local task may not start while its remote job may
live.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from gridbridge.decisions.transfer import transfer_status_explanation
from gridbridge.decisions.transfer.starter_message_acceptance import describe_job_end
from gridbridge.decisions.transfer.transfers_in_job_lists import (
    TransferSituation,
    find_home_task_of_transfer,
    prove_transfer_owner_by_home,
)
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot
from gridbridge.model.job_and_queue_states import UNSEEN, QueueStartBlocker
from gridbridge.model.transfer.claim_and_guard import HomeStartGuard
from gridbridge.model.transfer.transfer_config_sections import PollerSection
from gridbridge.model.transfer.transfers_and_actions import (
    OwnerSeenInHomeJobList,
    PollerRoundPlan,
    Transfer,
    TransferAction,
    TransferActKind,
)
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState, TransferFailureCause
from gridbridge.model.transfer_name import parse_transfer_name

NEW_STARTER_MESSAGE_TIME = timedelta(seconds=10)  # time for a new starter to send its first message
DELETION_OVERDUE = timedelta(seconds=30)  # longest wait for a job's terminate method
UNSTARTED_JOB_LOOKUP_TIME = timedelta(seconds=30)  # longest wait for the accounting record of a job that never started
NUMBER_REUSED = "another job at home now has the local job's number"


def update_and_plan_transfers(
    transfers: Iterable[Transfer], situation: TransferSituation, policy: PollerSection
) -> PollerRoundPlan:
    """Return all transfers as the newest job lists show them, and the acts due for each transfer."""
    observed, actions = [], []
    for transfer in transfers:
        row = situation.find_home_task_row(transfer)
        now_known = update_transfer_from_snapshots(transfer, situation, row)
        observed.append(now_known)
        actions += decide_transfer_actions(now_known, situation, policy, row)
    return PollerRoundPlan(transfers=tuple(observed), actions=tuple(actions))


def update_transfer_from_snapshots(
    transfer: Transfer, situation: TransferSituation, home_row: ClusterJobListRow | None
) -> Transfer:
    """Return a transfer as the newest job lists show it; `home_row` is its task's row at home."""
    local = situation.snapshots.get(situation.home)
    if local and transfer.is_unchanged_since_query(local.taken_at):
        transfer = transfer.with_changes(local_state=home_row.state if home_row else UNSEEN)
    if not transfer.is_over and _is_local_job_number_reused(transfer, local, home_row, situation.queues):
        transfer = transfer.with_changes(desired=DesiredLocalJobState.DEAD)
    if local and transfer.listed != OwnerSeenInHomeJobList.YES:
        transfer = transfer.with_changes(listed=prove_transfer_owner_by_home(transfer, local))
    remote = situation.snapshots.get(transfer.remote)
    counted = transfer.missing_since is not None and remote is not None and transfer.seen_at == remote.taken_at
    if remote and transfer.remote_id and transfer.is_unchanged_since_query(remote.taken_at) and not counted:
        transfer = _update_remote_state(transfer, remote, situation)
    if transfer.remote in situation.dropped and not transfer.verdict:
        return transfer.with_changes(
            cause=TransferFailureCause.DROPPED,
            reason=transfer_status_explanation.describe_unconfigured_cluster(transfer.remote),
        )
    return transfer if transfer.cause != TransferFailureCause.DROPPED else transfer.with_changes(cause="")


def _update_remote_state(transfer: Transfer, remote: ClusterSnapshot, situation: TransferSituation) -> Transfer:
    row = situation.remote_job_row(transfer)
    if row is None:
        return transfer.with_changes(
            missed_polls=transfer.missed_polls + 1,
            missing_since=transfer.missing_since or remote.taken_at,
            seen_at=remote.taken_at,
        )
    changed = row.state != transfer.remote_state
    return transfer.with_changes(
        remote_state=row.state,
        remote_host=row.queue.rpartition("@")[2] or transfer.remote_host,
        since=remote.taken_at if changed or not transfer.since else transfer.since,
        missed_polls=0,
        missing_since=None,
        seen_at=remote.taken_at,
        cause=transfer.cause if transfer.verdict else "",
        reason=_describe_remote_job_state(row, remote),
    )


def _describe_remote_job_state(row: ClusterJobListRow, remote: ClusterSnapshot) -> str:
    queue = next((queue for queue in remote.queues if queue.name == row.queue), None)
    if queue and QueueStartBlocker.UNREACHABLE in queue.state.facts:
        return f"unknown: host {queue.host_name} does not report to {remote.cluster}"
    where = f" on {row.queue}" if row.queue else ""
    return f"{row.state.most_important_fact} at {remote.cluster} as {row.job_id}{where}"


def decide_transfer_actions(
    transfer: Transfer, situation: TransferSituation, policy: PollerSection, home_row: ClusterJobListRow | None
) -> list[TransferAction]:
    """Return the act that is due for a transfer; usually none."""
    home, remote = situation.snapshots.get(situation.home), situation.snapshots.get(transfer.remote)
    verdict, is_dead = transfer.verdict, transfer.desired == DesiredLocalJobState.DEAD
    if transfer.is_over or (transfer.remote in situation.dropped and not verdict):
        return []
    is_asleep = transfer.wake in situation.asleep
    is_put_back, is_gone = transfer.local_state.is_put_back, _is_task_gone_from_home(transfer, home)
    # a rescheduled task without a hold or start time starts again, and its new starter continues the remote job
    may_restart = transfer.guard == HomeStartGuard.NONE and is_put_back
    # qalter -q changes a whole job, so wait until each rescheduled task of the job has a new starter
    is_adopted = is_asleep and parse_transfer_name(transfer.name).job not in situation.requeued_jobs
    has_no_reader = verdict and not is_dead and not is_asleep
    is_to_end = is_dead or (not (is_asleep or may_restart) and (is_put_back or is_gone))
    deleted_at = situation.deleted_at_home.get(transfer.name)
    row = situation.remote_job_row(transfer) if is_to_end or deleted_at else None
    is_new = remote is not None and transfer.is_unchanged_since_query(remote.taken_at)
    is_deletable = row is not None and not row.state.is_deleting
    # the queue's terminate method, which runs as the job owner, may end without deleting the remote job
    is_overdue = deleted_at and situation.now - deleted_at >= DELETION_OVERDUE and is_new and is_deletable
    why = "deleted at home" if is_dead else "the starter is gone"
    if is_dead and _is_local_job_number_reused(transfer, home, home_row, situation.queues):
        why = NUMBER_REUSED
    no_job = f"{why}, and no remote job exists at {transfer.remote}"
    blocked = f"{transfer.remote} put job {transfer.remote_id} into error state"
    acts: tuple[tuple[object, TransferActKind | None, str], ...] = (  # the first line whose condition holds decides
        (transfer.pinned and is_adopted, TransferActKind.UNPIN, "a new starter has taken over the transfer"),
        (has_no_reader and may_restart, None, ""),
        (has_no_reader and is_put_back, TransferActKind.ADOPT_LOCAL, "the job's end waits for a new starter"),
        (has_no_reader and is_gone, TransferActKind.CLOSE, "the local job is gone"),
        (verdict and (is_asleep or not is_dead), TransferActKind.PUBLISH, describe_job_end(verdict) if verdict else ""),
        (is_to_end and not is_new, None, ""),
        (
            is_to_end and not is_dead and is_put_back and row and row.state.is_running,
            *(TransferActKind.ADOPT_LOCAL, f"the remote job runs at {transfer.remote}"),
        ),
        (is_to_end and is_deletable, TransferActKind.DELETE_REMOTE, why),
        (is_to_end and (row or is_asleep or _may_home_still_run_task(transfer, situation, home_row)), None, ""),
        (is_to_end and is_put_back and not may_restart, TransferActKind.RELEASE_LOCAL, no_job),
        (is_to_end, TransferActKind.CLOSE, no_job),
        (is_overdue, TransferActKind.DELETE_REMOTE, "deleted at home, and the starter did not delete the remote job"),
        (transfer.remote_state.is_error and transfer.missed_polls == 0, TransferActKind.GIVE_UP, blocked),
        (transfer.missed_polls >= policy.lost_polls, TransferActKind.LOOK_UP_END, f"job unlisted at {transfer.remote}"),
    )
    act, reason = next(((act, reason) for is_due, act, reason in acts if is_due), (None, ""))
    due = transfer.with_changes(remote_id=row.job_id) if row and act is TransferActKind.DELETE_REMOTE else transfer
    told = verdict if act is TransferActKind.PUBLISH else None
    return [TransferAction(act=act, transfer=due, why=reason, verdict=told)] if act else []


def _may_home_still_run_task(
    transfer: Transfer, situation: TransferSituation, home_row: ClusterJobListRow | None
) -> bool:
    """Say whether home may still run the task of a transfer that is being deleted.

    Home lists a rescheduled task (qmod -rj) as running until its execd reports the end. A task without a hold or
    start time may run again already, in an ordinary queue or with a new starter.
    """
    if transfer.guard == HomeStartGuard.NONE or transfer.transfer_key in situation.with_new_starter:
        return False
    home = situation.snapshots.get(situation.home)
    if home is None or not transfer.is_unchanged_since_query(home.taken_at):
        return True
    is_running = transfer.local_state.is_running and not transfer.local_state.is_deleting
    return is_running and not _runs_in_ordinary_home_queue(transfer, home_row, situation.queues)


def is_home_task_deleted(transfer: Transfer, situation: TransferSituation) -> bool:
    """Say whether the home job list shows a transfer's task as being deleted, or not at all."""
    home = situation.snapshots.get(situation.home)
    return transfer.local_state.is_deleting or _is_task_gone_from_home(transfer, home)


def _is_task_gone_from_home(transfer: Transfer, home: ClusterSnapshot | None) -> bool:
    if home is None or transfer.local_state.is_listed:
        return False
    return transfer.is_unchanged_since_query(home.taken_at - NEW_STARTER_MESSAGE_TIME)


def _runs_in_ordinary_home_queue(
    transfer: Transfer, home_row: ClusterJobListRow | None, queues: frozenset[str]
) -> bool:
    queue = home_row.queue.partition("@")[0] if home_row else ""
    return bool(queue) and queue not in queues | {transfer.queue}


def is_home_job_id_reused(transfer: Transfer, home: ClusterSnapshot, queues: frozenset[str]) -> bool:
    return _is_local_job_number_reused(transfer, home, find_home_task_of_transfer(transfer, home), queues)


def _is_local_job_number_reused(
    transfer: Transfer, home: ClusterSnapshot | None, home_row: ClusterJobListRow | None, queues: frozenset[str]
) -> bool:
    """Say whether a new job with a transfer's job number runs in a home queue, as after a restored spool."""
    if home is None or not transfer.is_unchanged_since_query(home.taken_at):
        return False
    is_new = home_row is not None and home_row.state.has_begun and not home_row.state.is_restarted
    return is_new and _runs_in_ordinary_home_queue(transfer, home_row, queues)


def rescheduled_jobs_with_transfer(transfers: Iterable[Transfer]) -> frozenset[int]:
    requeued = (transfer for transfer in transfers if transfer.local_state.is_put_back)
    return frozenset(parse_transfer_name(transfer.name).job for transfer in requeued)


def is_job_end_search_over(transfer: Transfer, policy: PollerSection, now: datetime) -> bool:
    """Say whether the search for an unlisted job's end is given up, which happens earlier if the job never started."""
    if transfer.missing_since is None:
        return False
    has_started = transfer.remote_state.is_listed and not transfer.remote_state.is_waiting
    limit = timedelta(seconds=policy.ended_lookup_s)
    return now - transfer.missing_since > (limit if has_started else min(limit, UNSTARTED_JOB_LOOKUP_TIME))


def plan_pushed_end_lookups(transfers: Iterable[Transfer], cluster: str, ids: frozenset[int]) -> list[TransferAction]:
    """Plan to look up the end of each job that a cluster has reported as ended."""
    return [
        TransferAction(act=TransferActKind.LOOK_UP_END, transfer=transfer, why=f"{cluster} pushed the job's end")
        for transfer in transfers
        if transfer.remote == cluster and transfer.remote_id in ids and not transfer.verdict
    ]
