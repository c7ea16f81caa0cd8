"""Find remote jobs to delete: jobs that outlive their transfer, and orphans.

A remote cluster may restart a job whose end the starter has reported. `qmod -f -rj` lists the job without a gap
as `Rq`, `Rt`, `Rr` (sge_status(5)), even with `-r n`. OAR copies a job that failed to launch. No starter waits
for the end of a second run. A killed starter, or a starter that lost the answer to its submission, leaves a
held job behind (design: exactly once).

The transfer's record proves who owns a surviving job, which is deleted as its owner. Nothing proves the owner
of an orphan, which the service deletes as an operator, and only while the job is held.

The home job list takes precedence over method reports, because the shepherd may skip a method that follows
another at once. A mismatch counts only in two successive snapshots that are younger than the owner's last
message.

An execd may be unreachable when a starter ends. With reschedule_unknown (sge_conf(5)) the qmaster then
reschedules the task, still guarded and without a starter to release the guard. The rescheduled task is the same
job if the home list has shown the job ever since (transfer/poller/undelivered_task_ends).
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from gridbridge.decisions.transfer.transfers_in_job_lists import TransferDecisionInputs, find_home_task_of_transfer
from gridbridge.errors import ParseError
from gridbridge.model.cluster_snapshot import ClusterSnapshot, JobListRow
from gridbridge.model.states import JobState
from gridbridge.model.transfer import claim_and_guard
from gridbridge.model.transfer.claim_and_guard import HOME, HomeStartGuard, Pairs
from gridbridge.model.transfer.transfers_and_actions import (
    OrphanRemoteJob,
    Transfer,
    TransferAction,
    TransferActKind,
)
from gridbridge.model.transfer_message import (
    ERROR,
    REQUEUE,
    DesiredLocalJobState,
    StarterPhase,
    TransferMessage,
    TransferOutcome,
)
from gridbridge.model.transfer_name import PREFIX, TransferAttemptId, parse_transfer_name

NO_GRACE = timedelta()  # a job that waits after its recorded end waits for a second run
RESTARTED_GRACE = timedelta(seconds=10)  # a qmaster usually hears of an end within two seconds
EPILOG_GRACE = timedelta(minutes=10)  # the first run's epilog may still copy its results
ORPHAN_AGE = timedelta(seconds=60)  # a held job without a record has no starter after this time


def plan_outliving_job_deletions(
    ended: Iterable[Transfer], situation: TransferDecisionInputs
) -> Iterator[TransferAction]:
    """Return a deletion act for each remote job that still runs after its recorded end."""
    for transfer in ended:
        remote = _fresh(transfer, situation)
        row = _row(transfer, remote, situation) if remote else None
        if remote and row and _outlives(transfer, row, remote):
            why = f"the job has ended, but {remote.cluster} lists the job as {row.state.text}"
            yield TransferAction(act=TransferActKind.DELETE_REMOTE, transfer=transfer, why=why)


def find_orphan_jobs(transfers: Iterable[Transfer], situation: TransferDecisionInputs) -> Iterator[OrphanRemoteJob]:
    """Find held remote jobs under our transfer names that no transfer has recorded.

    A transfer with remote id 0 is still being submitted, so its held job is no orphan. Only a
    transfer of the same owner counts.
    """
    recorded = frozenset((transfer.name, transfer.owner, transfer.remote_id) for transfer in transfers)
    open_names = frozenset((name, owner) for name, owner, _ in recorded)
    for remote in situation.snapshots.values():
        for row in (row for rows in remote.jobs.values() for row in rows):
            is_ours = _our_name(row, situation.home) and row.state.is_held and not row.state.is_deleting
            name = (row.name, row.owner)
            if not is_ours or {(*name, row.job_id), (*name, 0)} & recorded:
                continue
            if why := _orphaned(row, name in open_names, situation.now):
                yield OrphanRemoteJob(
                    cluster=remote.cluster, job_id=row.job_id, name=row.name, owner=row.owner, why=why
                )


def is_remote_job_unlisted(transfer: Transfer, situation: TransferDecisionInputs) -> bool:
    """Say whether a fresh remote snapshot lacks a transfer's job, which never returns."""
    remote = _fresh(transfer, situation)
    return remote is not None and _row(transfer, remote, situation) is None


def may_remote_folder_have_outputs(transfer: Transfer) -> bool:
    """Say whether output files may exist only in the transfer's remote folder.

    A starter removes the folder once all files are home; a killed starter does not. Only after a
    deletion by a person are the files unwanted.
    """
    may_have_run = transfer.verdict is not None and not transfer.verdict.claim
    return may_have_run and transfer.desired != DesiredLocalJobState.DEAD


def _fresh(transfer: Transfer, situation: TransferDecisionInputs) -> ClusterSnapshot | None:
    remote = situation.snapshots.get(transfer.remote)
    return remote if remote and transfer.is_older_than(remote.taken_at) else None


def _row(transfer: Transfer, remote: ClusterSnapshot, situation: TransferDecisionInputs) -> JobListRow | None:
    """Return the row of the remote job, or of OAR's copy after a failed launch."""
    if transfer.remote_id and (row := situation.row(transfer)):
        return row
    name_and_owner = transfer.name, transfer.owner
    return next((row for row in remote.copies if (row.name, row.owner) == name_and_owner), None)


def _outlives(transfer: Transfer, row: JobListRow, remote: ClusterSnapshot) -> bool:
    since_end = remote.taken_at - transfer.updated_at
    return not row.state.is_deleting and since_end > _grace(row, transfer)


def _grace(row: JobListRow, transfer: Transfer) -> timedelta:
    if row.state.is_waiting or transfer.claimed == HOME:  # the remote job has no process
        return NO_GRACE
    return RESTARTED_GRACE if row.state.is_restarted else EPILOG_GRACE


def _orphaned(row: JobListRow, is_open: bool, now: datetime) -> str:
    if is_open:
        return "the transfer has recorded another job"
    is_old = row.since is not None and now - row.since > ORPHAN_AGE
    return "no transfer with the job's name is open" if is_old else ""


def _our_name(row: JobListRow, home: str) -> TransferAttemptId | None:
    if not row.name.startswith(f"{PREFIX}.{home}."):
        return None
    try:
        return parse_transfer_name(row.name)
    except ParseError:
        return None


FOLLOWING = (StarterPhase.HELD, StarterPhase.RELEASED)  # phases with a known remote job


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspensionMismatch:
    """A home job's state, running or suspended, that its remote job does not follow."""

    desired: str  # state of the home job: running or suspended
    at: tuple[datetime, ...]  # snapshot times: home cluster, then remote cluster
    why: str

    def is_like(self, earlier: "SuspensionMismatch") -> bool:
        """Say whether an earlier mismatch has the same state, shown by the same clusters."""
        return self.desired == earlier.desired and len(self.at) == len(earlier.at)

    def follows(self, earlier: "SuspensionMismatch") -> bool:
        """Say whether an earlier mismatch has the same state, shown by earlier snapshots."""
        return self.is_like(earlier) and all(map(datetime.__gt__, self.at, earlier.at))


def find_suspension_mismatch(
    transfer: Transfer, situation: TransferDecisionInputs, shows: Container[str]
) -> SuspensionMismatch | None:
    """Return a transfer's suspension mismatch in the newest snapshots; None if none.

    `shows` are the clusters whose job lists show a suspension by the service.
    """
    home = situation.snapshots.get(situation.home)
    if not _may_follow(transfer, situation) or not home or not transfer.is_older_than(home.taken_at):
        return None
    is_now = _at_home(transfer.local_state)
    if not is_now:
        return None
    intended = transfer.desired or DesiredLocalJobState.RUNNING
    if is_now != intended:
        why = f"qstat here shows it {is_now}, but its last method said {intended}"
        return SuspensionMismatch(desired=is_now, at=(home.taken_at,), why=why)
    if transfer.remote in shows and transfer.seen_at and _is_otherwise(transfer, is_now):
        why = f"it is {is_now} here and {transfer.remote_state.text} at {transfer.remote}"
        return SuspensionMismatch(desired=is_now, at=(home.taken_at, transfer.seen_at), why=why)
    return None


def _may_follow(transfer: Transfer, situation: TransferDecisionInputs) -> bool:
    """Say whether a transfer's starter sleeps and has no deletion or end to handle."""
    is_free = not transfer.is_over and transfer.verdict is None and transfer.desired != DesiredLocalJobState.DEAD
    return is_free and transfer.phase in FOLLOWING and transfer.wake in situation.asleep


def _at_home(state: JobState) -> str:
    """Return a home job's state, running or suspended; '' for a job without a host."""
    if not state.is_running or _is_ending(state):
        return ""
    return DesiredLocalJobState.SUSPENDED if state.is_suspended else DesiredLocalJobState.RUNNING


def _is_otherwise(transfer: Transfer, is_now: str) -> bool:
    """Say whether a remote job runs while its home job is suspended, or the reverse.

    A remote job that is suspended without our hold was suspended by a remote administrator.
    """
    is_fresh = transfer.seen_at is not None and transfer.is_older_than(transfer.seen_at) and not transfer.missed_polls
    state = transfer.remote_state
    if not is_fresh or not state.is_listed or _is_ending(state):
        return False
    if is_now == DesiredLocalJobState.SUSPENDED:
        return state.is_running and not state.is_suspended
    return state.is_held and state.is_by_hand  # the service's own suspension sets both facts


def _is_ending(state: JobState) -> bool:
    return state.is_waiting or state.is_deleting or state.is_error


UNDELIVERED_REASON = "rescheduled at home: the qmaster did not hear the job's end"
RESTARTED_ANSWER = "yes"  # value of key `restarted` in a rescheduled task's query


def may_home_have_missed_task_end(ended: Transfer) -> bool:
    """Say whether a starter reported the job's end and left the task's guard in place."""
    if ended.verdict is None or ended.desired == DesiredLocalJobState.DEAD:
        return False
    is_exit = ended.verdict.outcome == TransferOutcome.EXIT
    wants_more = is_exit and int(ended.verdict.exit_status) in (REQUEUE, ERROR)
    return not wants_more and (is_exit or ended.verdict.outcome == TransferOutcome.SIGNAL)


def does_ended_task_wait_at_home(ended: Transfer, local: ClusterSnapshot) -> bool:
    """Say whether the task of an ended transfer waits at home again."""
    row = find_home_task_of_transfer(ended, local)
    return is_home_answer_after_task_end(ended, local) and row is not None and row.state.is_put_back


def ended_transfer_of_requeued_job(attempts: Iterable[Transfer], message: TransferMessage) -> Transfer | None:
    """Return the ended transfer whose end a rescheduled task may have missed."""
    last = max(attempts, key=lambda transfer: parse_transfer_name(transfer.name).attempt, default=None)
    is_known = last is not None and last.is_over and may_home_have_missed_task_end(last)
    return last if is_known and message.restarted == RESTARTED_ANSWER else None


def is_ended_task_gone_from_home(ended: Transfer, local: ClusterSnapshot) -> bool:
    """Say whether home no longer lists an ended transfer's task, so home has the end."""
    return is_home_answer_after_task_end(ended, local) and find_home_task_of_transfer(ended, local) is None


def is_home_answer_after_task_end(ended: Transfer, local: ClusterSnapshot) -> bool:
    """Say whether a home snapshot was queried after a transfer's end."""
    return ended.is_over and ended.is_older_than(local.taken_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRelevantRequest:
    """The parts of a home job's current request that show its guard."""

    owner: str
    is_deferred: bool  # whether the service has set the job's start time
    deferred_job: int = 0  # number of the job whose start time the service set
    hard: Pairs
    queues: str  # the owner's queue list, even while the service restricts the job's queues


def transfers_lacking_home_hold(transfers: Iterable[Transfer], local: ClusterSnapshot) -> frozenset[str]:
    """Return the names of transfers whose running local tasks lack the guarding hold."""
    guarded = (transfer for transfer in transfers if transfer.guard == HomeStartGuard.HOLD)
    running = ((transfer.name, _running(transfer, local)) for transfer in guarded)
    return frozenset(name for name, row in running if row and not row.state.is_held)


def jobs_with_guard_besides_hold(transfers: Iterable[Transfer], local: ClusterSnapshot) -> tuple[int, ...]:
    """Return the local jobs whose guard is no hold and so is missing in qstat's states."""
    hidden = (transfer for transfer in transfers if transfer.guard != HomeStartGuard.HOLD and _running(transfer, local))
    return tuple(sorted({parse_transfer_name(transfer.name).job for transfer in hidden}))


def guard_to_restore(transfer: Transfer, request: GuardRelevantRequest, transfer_queues: Collection[str]) -> str:
    """Return the kind of guard that a local task lacks and needs again; '' for none."""
    if request.owner != transfer.owner or (transfer.guard == HomeStartGuard.START and request.is_deferred):
        return ""
    is_array = bool(parse_transfer_name(transfer.name).task)
    guard_wanted = claim_and_guard.choose_home_start_guard(request.hard, request.queues, transfer_queues, is_array)
    if transfer.guard == HomeStartGuard.START:
        return HomeStartGuard.START
    return "" if guard_wanted == HomeStartGuard.NONE else guard_wanted


def qresub_jobs_with_copied_guard(
    waiting: Mapping[int, GuardRelevantRequest], jobs_away: Container[int]
) -> tuple[int, ...]:
    """Return the waiting jobs that qresub has copied together with another job's guard.

    A job with a transfer of its own is no copy, whatever its owner writes into its context.
    """
    bearers = (job for job, request in waiting.items() if request.deferred_job not in (0, job))
    return tuple(job for job in bearers if job not in jobs_away)


def may_restored_guard_be_stale(closed: Transfer) -> bool:
    """Say whether a closed transfer's guard may have been set after the task's release."""
    return closed.reguarded and closed.is_over and not may_home_have_missed_task_end(closed)


def _running(transfer: Transfer, local: ClusterSnapshot) -> JobListRow | None:
    """Return the home list row of a running task whose remote job is to go on; else None."""
    row = find_home_task_of_transfer(transfer, local)
    is_ending = transfer.verdict or transfer.pinned or transfer.desired == DesiredLocalJobState.DEAD
    is_known = transfer.is_older_than(local.taken_at)
    return row if row and row.state.is_running and is_known and not is_ending else None
