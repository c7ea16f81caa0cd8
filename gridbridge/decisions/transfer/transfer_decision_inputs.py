"""Hold the snapshots and facts of one moment that transfer decisions use."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from gridbridge.model.cluster_snapshot import ClusterSnapshot, JobListRow
from gridbridge.model.transfer.transfer_row import Transfer, TransferKey
from gridbridge.model.transfer_name import parse_transfer_name

EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferDecisionInputs:
    """Inputs of transfer decisions: each cluster's last good snapshot, and the time."""

    home: str
    now: datetime
    snapshots: Mapping[str, ClusterSnapshot]
    asleep: frozenset[str]  # names of the FIFOs on which starters sleep
    requeued_jobs: frozenset[int] = frozenset()  # ids of local jobs that await adoption
    dropped: frozenset[str] = frozenset()  # names of clusters removed from gridbridge.toml
    queues: frozenset[str] = frozenset()  # names of the home cluster's transfer queues
    with_new_starter: frozenset[TransferKey] = frozenset()  # keys of transfers to adopt
    since: datetime = EVER  # time of the service's first cluster query
    deleted_at_home: Mapping[str, datetime] = field(default_factory=dict)  # deletion times
    reused_ids: frozenset[TransferKey] = frozenset()  # transfers with a reused remote id

    def at_home(self, transfer: Transfer) -> JobListRow | None:
        """Return the home job list's row of a transfer's task; None if unlisted."""
        local = self.snapshots.get(self.home)
        return find_home_task_of_transfer(transfer, local) if local else None

    def row(self, transfer: Transfer) -> JobListRow | None:
        """Return the remote job list's row of a transfer's job; None if unlisted.

        The row is found by job id, or by transfer name while the id is unknown. The row's owner
        must be the transfer's owner, because anybody may give a job our name or claim an id.
        """
        remote = self.snapshots.get(transfer.remote)
        if remote is None or transfer.key in self.reused_ids:
            return None
        if transfer.remote_id:
            return _own(remote.find(transfer.remote_id), transfer)
        rows = (row for rows in remote.jobs.values() for row in rows)
        return next((row for row in rows if row.name == transfer.name and _own(row, transfer)), None)


def find_home_task_of_transfer(transfer: Transfer, local: ClusterSnapshot) -> JobListRow | None:
    """Return the home job list's row of a transfer's task and owner; else None."""
    name = parse_transfer_name(transfer.name)
    return _own(local.find(name.job, name.task), transfer)


def _own(row: JobListRow | None, transfer: Transfer) -> JobListRow | None:
    return row if row and row.owner == transfer.owner else None


def keep_rows_deciding_transfers(
    transfers: Collection[Transfer], situation: TransferDecisionInputs
) -> TransferDecisionInputs:
    """Reduce decision inputs to the job list rows that decide about the given transfers.

    Each snapshot keeps its counts of waiting jobs and free slots.
    """
    local_ids = {parse_transfer_name(transfer.name).job for transfer in transfers}
    names = {transfer.name for transfer in transfers}
    return replace(
        situation,
        snapshots={
            name: _rows(snapshot, transfers, local_ids if name == situation.home else set())
            for name, snapshot in situation.snapshots.items()
            if name == situation.home or any(transfer.remote == name for transfer in transfers)
        },
        asleep=situation.asleep & {transfer.wake for transfer in transfers},
        requeued_jobs=situation.requeued_jobs & local_ids,
        dropped=situation.dropped & {transfer.remote for transfer in transfers},
        with_new_starter=situation.with_new_starter & {transfer.key for transfer in transfers},
        deleted_at_home={name: since for name, since in situation.deleted_at_home.items() if name in names},
    )


def _rows(snapshot: ClusterSnapshot, transfers: Collection[Transfer], ids: set[int]) -> ClusterSnapshot:
    """Keep only a snapshot's rows with the id or name of a transfer, or an id in `ids`."""
    at_cluster = [transfer for transfer in transfers if transfer.remote == snapshot.cluster]
    ids = ids | {transfer.remote_id for transfer in at_cluster}
    names = {transfer.name for transfer in at_cluster}
    jobs = {job: rows for job, rows in snapshot.jobs.items() if job in ids or any(row.name in names for row in rows)}
    queues = {row.queue for rows in jobs.values() for row in rows}
    return replace(
        snapshot, jobs=jobs, queues=tuple(queue for queue in snapshot.queues if queue.name in queues), copies=()
    )
