"""Find remote jobs to delete: jobs that outlive their transfer, and orphans.

A remote cluster may restart a job whose end the starter has reported. `qmod -f -rj` lists the job
without a gap as `Rq`, `Rt`, `Rr` (sge_status(5)), even with `-r n`. OAR copies a job that failed to
launch. No starter waits for the end of a second run. A killed starter, or a starter that lost the
answer to its submission, leaves a held job behind (design: exactly once).

The transfer's record proves who owns a surviving job, which is deleted as its owner. Nothing proves
the owner of an orphan, which the service deletes as an operator, and only while the job is held.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from gridbridge.decisions.transfer.transfer_decision_inputs import TransferDecisionInputs
from gridbridge.errors import ParseError
from gridbridge.model.cluster_snapshot import ClusterSnapshot, JobListRow
from gridbridge.model.transfer.claim import HOME
from gridbridge.model.transfer.transfer_round_plan import OrphanRemoteJob, TransferAction, TransferActKind
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.model.transfer_message import DesiredLocalJobState
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
