"""Find remote jobs to delete, and tasks whose state or guard at home does not match their remote job.

A remote job may run again after its end: `qmod -f -rj` restarts it even with `-r n` (sge_status(5)), and OAR
copies a job that failed to launch. The home job list overrules the queue's methods, because the shepherd may
skip a method. A mismatch needs two successive job lists that are younger than the owner's last message.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from gridbridge.decisions.transfer.transfers_in_job_lists import TransferSituation, find_home_task_of_transfer
from gridbridge.errors import ParseError
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot
from gridbridge.model.job_and_queue_states import JobState
from gridbridge.model.job_request import JobRequest
from gridbridge.model.transfer import claim_and_guard
from gridbridge.model.transfer.claim_and_guard import HOME, HomeStartGuard
from gridbridge.model.transfer.transfers_and_actions import OrphanRemoteJob, Transfer, TransferAction, TransferActKind
from gridbridge.model.transfer_messages_in_spool import (
    ERROR,
    REQUEUE,
    DesiredLocalJobState,
    StarterPhase,
    TransferMessage,
    TransferOutcome,
)
from gridbridge.model.transfer_name import PREFIX, TransferAttemptId, parse_transfer_name

NO_GRACE = timedelta()  # no grace, because a job that waits after its recorded end would run a second time
RESTARTED_GRACE = timedelta(seconds=10)  # a qmaster learns within about two seconds that a job has ended
EPILOG_GRACE = timedelta(minutes=10)  # how long the epilog of a job's first run may copy results
ORPHAN_AGE = timedelta(seconds=60)  # no starter is still submitting a held job of this age


def plan_outliving_job_deletions(
    ended_transfers: Iterable[Transfer], situation: TransferSituation
) -> Iterator[TransferAction]:
    for transfer in ended_transfers:
        remote = _remote_job_list_after_last_change(transfer, situation)
        row = _remote_job_or_copy_row(transfer, remote, situation) if remote else None
        if not remote or not row or row.state.is_deleting:
            continue
        if row.state.is_waiting or transfer.claimed == HOME:  # the remote job runs no process
            grace = NO_GRACE
        else:
            grace = RESTARTED_GRACE if row.state.is_restarted else EPILOG_GRACE
        since_end = remote.taken_at - transfer.updated_at
        if since_end > grace:
            why = f"the job has ended, but {remote.cluster} lists the job as {row.state.text}"
            yield TransferAction(act=TransferActKind.DELETE_REMOTE, transfer=transfer, why=why)


def find_orphan_jobs(transfers: Iterable[Transfer], situation: TransferSituation) -> Iterator[OrphanRemoteJob]:
    """Find orphans: held remote jobs under a transfer's name that no transfer has recorded.

    Nothing proves an orphan's owner, so an orphan is deleted only while it is held. A transfer without a remote id is
    still being submitted, and its held job is no orphan.
    """
    recorded = frozenset((transfer.name, transfer.owner, transfer.remote_id) for transfer in transfers)
    open_names = frozenset((name, owner) for name, owner, _ in recorded)
    for remote in situation.snapshots.values():
        for row in (row for rows in remote.jobs.values() for row in rows):
            is_ours = _transfer_name_of_home(row, situation.home) and row.state.is_held and not row.state.is_deleting
            name = (row.name, row.owner)
            if not is_ours or {(*name, row.job_id), (*name, 0)} & recorded:
                continue
            is_open = name in open_names
            why = "another job is recorded for the transfer" if is_open else "no transfer with the job's name is open"
            if is_open or (row.since is not None and situation.now - row.since > ORPHAN_AGE):
                cluster, job = remote.cluster, row.job_id
                yield OrphanRemoteJob(cluster=cluster, job_id=job, name=row.name, owner=row.owner, why=why)


def is_remote_job_unlisted(transfer: Transfer, situation: TransferSituation) -> bool:
    """Say whether a remote job list newer than the transfer's last change lacks the job."""
    remote = _remote_job_list_after_last_change(transfer, situation)
    return remote is not None and _remote_job_or_copy_row(transfer, remote, situation) is None


def may_remote_folder_have_outputs(transfer: Transfer) -> bool:
    """Say whether wanted outputs may exist only in the remote folder; false for a deleted job."""
    may_have_run = transfer.verdict is not None and not transfer.verdict.claim
    return may_have_run and transfer.desired != DesiredLocalJobState.DEAD


def _remote_job_list_after_last_change(transfer: Transfer, situation: TransferSituation) -> ClusterSnapshot | None:
    remote = situation.snapshots.get(transfer.remote)
    return remote if remote and transfer.is_unchanged_since_query(remote.taken_at) else None


def _remote_job_or_copy_row(
    transfer: Transfer, remote: ClusterSnapshot, situation: TransferSituation
) -> ClusterJobListRow | None:
    """Return the row of the remote job, or of the copy that OAR made after a failed launch."""
    if transfer.remote_id and (row := situation.remote_job_row(transfer)):
        return row
    name_and_owner = transfer.name, transfer.owner
    return next((row for row in remote.copies if (row.name, row.owner) == name_and_owner), None)


def _transfer_name_of_home(row: ClusterJobListRow, home: str) -> TransferAttemptId | None:
    if not row.name.startswith(f"{PREFIX}.{home}."):
        return None
    try:
        return parse_transfer_name(row.name)
    except ParseError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspensionMismatch:
    """A job that runs at home while its remote job is suspended, or the reverse."""

    desired: str  # state of the job at home: running or suspended
    at: tuple[datetime, ...]  # query times: home cluster, then remote cluster
    why: str

    def is_same_mismatch(self, earlier: "SuspensionMismatch") -> bool:
        """Say whether two mismatches show the same state at home, and are based on equally many job lists."""
        return self.desired == earlier.desired and len(self.at) == len(earlier.at)

    def confirms_mismatch(self, earlier: "SuspensionMismatch") -> bool:
        """Say whether `earlier` is the same mismatch, seen in older job lists only."""
        return self.is_same_mismatch(earlier) and all(map(datetime.__gt__, self.at, earlier.at))


def find_suspension_mismatch(
    transfer: Transfer, situation: TransferSituation, shows: Container[str]
) -> SuspensionMismatch | None:
    """Return the mismatch if a remote job does not follow its suspended or resumed home job; else None."""
    home, state = situation.snapshots.get(situation.home), transfer.local_state
    if (
        not _may_starter_follow_suspension(transfer, situation)
        or not home
        or not transfer.is_unchanged_since_query(home.taken_at)
    ):
        return None
    if not state.is_running or _is_job_waiting_or_ending(state):
        return None
    is_now = DesiredLocalJobState.SUSPENDED if state.is_suspended else DesiredLocalJobState.RUNNING
    intended = transfer.desired or DesiredLocalJobState.RUNNING
    if is_now != intended:
        why = f"qstat at home shows the job as {is_now}; the last method set {intended}"
        return SuspensionMismatch(desired=is_now, at=(home.taken_at,), why=why)
    if transfer.remote in shows and transfer.seen_at and _is_suspension_state_different(transfer, is_now):
        why = f"the job is {is_now} at home and {transfer.remote_state.text} at {transfer.remote}"
        return SuspensionMismatch(desired=is_now, at=(home.taken_at, transfer.seen_at), why=why)
    return None


def _may_starter_follow_suspension(transfer: Transfer, situation: TransferSituation) -> bool:
    is_free = not transfer.is_over and transfer.verdict is None and transfer.desired != DesiredLocalJobState.DEAD
    has_remote_job = transfer.phase in (StarterPhase.HELD, StarterPhase.RELEASED)
    return is_free and has_remote_job and transfer.wake in situation.asleep


def _is_suspension_state_different(transfer: Transfer, is_now: str) -> bool:
    """Say whether the local job (state `is_now`) is suspended and the remote job is not, or the reverse.

    A remote job counts as suspended only if gridbridge suspended it.
    """
    is_fresh = (
        transfer.seen_at is not None
        and transfer.is_unchanged_since_query(transfer.seen_at)
        and not transfer.missed_polls
    )
    state = transfer.remote_state
    if not is_fresh or not state.is_listed or _is_job_waiting_or_ending(state):
        return False
    if is_now == DesiredLocalJobState.SUSPENDED:
        return state.is_running and not state.is_suspended
    return state.is_held and state.is_by_hand  # a job with both facts was suspended by gridbridge


def _is_job_waiting_or_ending(state: JobState) -> bool:
    return state.is_waiting or state.is_deleting or state.is_error


UNDELIVERED_REASON = "rescheduled at home: the qmaster did not hear the job's end"
RESTARTED_ANSWER = "yes"  # value of key `restarted` in the message of a rescheduled task


def may_home_have_missed_task_end(ended_transfer: Transfer) -> bool:
    """Say whether home may reschedule a task although its starter has reported the job's end.

    With reschedule_unknown (sge_conf(5)) a task of a silent execd waits again, with a hold that no starter removes.
    """
    if ended_transfer.verdict is None or ended_transfer.desired == DesiredLocalJobState.DEAD:
        return False
    if ended_transfer.verdict.outcome == TransferOutcome.EXIT:
        return int(ended_transfer.verdict.exit_status) not in (REQUEUE, ERROR)
    return ended_transfer.verdict.outcome == TransferOutcome.SIGNAL


def does_ended_task_wait_at_home(ended_transfer: Transfer, local: ClusterSnapshot) -> bool:
    row = find_home_task_of_transfer(ended_transfer, local)
    return is_home_answer_after_task_end(ended_transfer, local) and row is not None and row.state.is_put_back


def ended_transfer_of_requeued_job(attempts: Iterable[Transfer], message: TransferMessage) -> Transfer | None:
    """Return a rescheduled task's last transfer if home may have missed its end; else None."""
    last = max(attempts, key=lambda transfer: parse_transfer_name(transfer.name).attempt, default=None)
    is_known = last is not None and last.is_over and may_home_have_missed_task_end(last)
    return last if is_known and message.restarted == RESTARTED_ANSWER else None


def is_ended_task_gone_from_home(ended_transfer: Transfer, local: ClusterSnapshot) -> bool:
    """Say whether an ended transfer's task has left the home job list, so that home knows its end."""
    return (
        is_home_answer_after_task_end(ended_transfer, local)
        and find_home_task_of_transfer(ended_transfer, local) is None
    )


def is_home_answer_after_task_end(ended_transfer: Transfer, local: ClusterSnapshot) -> bool:
    return ended_transfer.is_over and ended_transfer.is_unchanged_since_query(local.taken_at)


def transfers_lacking_home_hold(transfers: Iterable[Transfer], local: ClusterSnapshot) -> frozenset[str]:
    """Name the transfers whose task runs at home without the hold that prevents a second start."""
    guarded = (transfer for transfer in transfers if transfer.guard == HomeStartGuard.HOLD)
    running = ((transfer.name, _running_home_task_row(transfer, local)) for transfer in guarded)
    return frozenset(name for name, row in running if row and not row.state.is_held)


def jobs_needing_start_time_query(transfers: Iterable[Transfer], local: ClusterSnapshot) -> tuple[int, ...]:
    """Return the local jobs whose start times must be queried, because qstat does not show start times."""
    unheld = (transfer for transfer in transfers if transfer.guard != HomeStartGuard.HOLD)
    hidden = (transfer for transfer in unheld if _running_home_task_row(transfer, local))
    return tuple(sorted({parse_transfer_name(transfer.name).job for transfer in hidden}))


def missing_home_start_guard(transfer: Transfer, request: JobRequest, transfer_queues: Collection[str]) -> str:
    """Name the missing hold or start time that must keep a home task from starting; '' if none."""
    if request.owner != transfer.owner or (transfer.guard == HomeStartGuard.START and request.is_deferred):
        return ""
    is_array = bool(parse_transfer_name(transfer.name).task)
    guard_wanted = claim_and_guard.choose_home_start_guard(
        request.hard, request.owner_requested_queues, transfer_queues, is_array
    )
    if transfer.guard == HomeStartGuard.START:
        return HomeStartGuard.START
    return "" if guard_wanted == HomeStartGuard.NONE else guard_wanted


def qresub_jobs_with_copied_guard(waiting: Mapping[int, JobRequest], jobs_away: Container[int]) -> tuple[int, ...]:
    """Return waiting jobs whose start time qresub copied from another job; jobs at other clusters are left out."""
    bearers = (job for job, request in waiting.items() if request.job_number_if_deferred not in (0, job))
    return tuple(job for job in bearers if job not in jobs_away)


def may_restored_guard_be_stale(closed: Transfer) -> bool:
    """Say whether an old hold or start time may keep the task of a closed transfer from starting."""
    return closed.reguarded and closed.is_over and not may_home_have_missed_task_end(closed)


def _running_home_task_row(transfer: Transfer, local: ClusterSnapshot) -> ClusterJobListRow | None:
    """Return a running task's row in the home job list if the remote job shall continue; otherwise None."""
    row = find_home_task_of_transfer(transfer, local)
    is_ending = transfer.verdict or transfer.pinned or transfer.desired == DesiredLocalJobState.DEAD
    is_known = transfer.is_unchanged_since_query(local.taken_at)
    return row if row and row.state.is_running and is_known and not is_ending else None
