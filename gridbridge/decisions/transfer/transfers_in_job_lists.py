"""Hold the inputs of decisions about transfers, and prove owners by the home job list.

Anybody may send a message about any job, so a transfer without this proof is only a statement.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeVar

from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot
from gridbridge.model.jobs_and_accounting import RemoteJobRunAccounting
from gridbridge.model.published_status_and_reports import FIRST_EVENTS, LAST_EVENTS
from gridbridge.model.transfer.transfers_and_actions import OwnerSeenInHomeJobList, Transfer, TransferKey
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState
from gridbridge.model.transfer_name import parse_transfer_name

BEGINNING_OF_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSituation:
    """The inputs of decisions about transfers: each cluster's last complete job list, and the time."""

    home: str
    now: datetime
    snapshots: Mapping[str, ClusterSnapshot]
    asleep: frozenset[str]  # names of the FIFOs on which starters wait
    requeued_jobs: frozenset[int] = frozenset()  # local jobs with a rescheduled task
    dropped: frozenset[str] = frozenset()  # names of clusters removed from gridbridge.toml
    queues: frozenset[str] = frozenset()  # names of the home cluster's transfer queues
    with_new_starter: frozenset[TransferKey] = frozenset()
    since: datetime = BEGINNING_OF_TIME  # when the service began to query the clusters
    deleted_at_home: Mapping[str, datetime] = field(default_factory=dict)  # deletion time by transfer name
    reused_ids: frozenset[TransferKey] = frozenset()  # transfers whose remote job id now belongs to another job

    def find_home_task_row(self, transfer: Transfer) -> ClusterJobListRow | None:
        local = self.snapshots.get(self.home)
        return find_home_task_of_transfer(transfer, local) if local else None

    def remote_job_row(self, transfer: Transfer) -> ClusterJobListRow | None:
        """Return a remote job's row by id, or by name if the id is unknown; None unless the owners match."""
        remote = self.snapshots.get(transfer.remote)
        if remote is None or transfer.transfer_key in self.reused_ids:
            return None
        if transfer.remote_id:
            return _row_if_transfer_owner_matches(remote.find_job_list_row(transfer.remote_id), transfer)
        rows = (row for rows in remote.jobs.values() for row in rows)
        return next(
            (row for row in rows if row.name == transfer.name and _row_if_transfer_owner_matches(row, transfer)), None
        )


def find_home_task_of_transfer(transfer: Transfer, local: ClusterSnapshot) -> ClusterJobListRow | None:
    """Return the row of a transfer's task in the home job list, if the owners match; else None."""
    name = parse_transfer_name(transfer.name)
    return _row_if_transfer_owner_matches(local.find_job_list_row(name.job, name.task), transfer)


def _row_if_transfer_owner_matches(row: ClusterJobListRow | None, transfer: Transfer) -> ClusterJobListRow | None:
    return row if row and row.owner == transfer.owner else None


def keep_rows_deciding_transfers(transfers: Collection[Transfer], situation: TransferSituation) -> TransferSituation:
    """Reduce decision inputs to the rows that concern the transfers; job and slot counts stay."""
    local_ids = {parse_transfer_name(transfer.name).job for transfer in transfers}
    names = {transfer.name for transfer in transfers}
    return replace(
        situation,
        snapshots={
            name: _keep_snapshot_rows_of_transfers(snapshot, transfers, local_ids if name == situation.home else set())
            for name, snapshot in situation.snapshots.items()
            if name == situation.home or any(transfer.remote == name for transfer in transfers)
        },
        asleep=situation.asleep & {transfer.wake for transfer in transfers},
        requeued_jobs=situation.requeued_jobs & local_ids,
        dropped=situation.dropped & {transfer.remote for transfer in transfers},
        with_new_starter=situation.with_new_starter & {transfer.transfer_key for transfer in transfers},
        deleted_at_home={name: since for name, since in situation.deleted_at_home.items() if name in names},
    )


def _keep_snapshot_rows_of_transfers(
    snapshot: ClusterSnapshot, transfers: Collection[Transfer], ids: set[int]
) -> ClusterSnapshot:
    at_cluster = [transfer for transfer in transfers if transfer.remote == snapshot.cluster]
    ids = ids | {transfer.remote_id for transfer in at_cluster}
    names = {transfer.name for transfer in at_cluster}
    jobs = {job: rows for job, rows in snapshot.jobs.items() if job in ids or any(row.name in names for row in rows)}
    queues = {row.queue for rows in jobs.values() for row in rows}
    kept = tuple(queue for queue in snapshot.queues if queue.name in queues)
    return replace(snapshot, jobs=jobs, queues=kept, copies=())


MOST_ATTEMPTS = 20  # limit of published attempts per task
MOST_UNPROVED = 1000  # limit per person of transfers without a proven owner

T = TypeVar("T")


def prove_transfer_owner_by_home(transfer: Transfer, local: ClusterSnapshot) -> str:
    """Return whether home lists a transfer's task with the transfer's owner: YES, NO, or '' if unknown.

    A home job list from before the transfer's start does not prove NO.
    """
    if is_task_listed_as_owners(transfer.name, transfer.owner, local):
        return OwnerSeenInHomeJobList.YES
    may_have_left = transfer.verdict or transfer.is_over or transfer.desired == DesiredLocalJobState.DEAD
    is_asked = local.taken_at > transfer.created_at and not may_have_left
    return transfer.listed or (OwnerSeenInHomeJobList.NO if is_asked else "")


def prove_ended_transfer_owner(ended_transfer: Transfer, local: ClusterSnapshot) -> str:
    """Return whether the home job list proves an ended transfer's owner; for an unlisted job, the earlier result."""
    if is_task_listed_as_owners(ended_transfer.name, ended_transfer.owner, local):
        return OwnerSeenInHomeJobList.YES
    rows = local.jobs.get(parse_transfer_name(ended_transfer.name).job, ())
    is_anothers = bool(rows) and all(row.owner != ended_transfer.owner for row in rows)
    return OwnerSeenInHomeJobList.NO if is_anothers else ended_transfer.listed


def is_task_listed_as_owners(transfer: str, owner: str, local: ClusterSnapshot) -> bool:
    name = parse_transfer_name(transfer)
    row = local.find_job_list_row(name.job, name.task)
    return row is not None and row.owner == owner and bool(row.tasks) == bool(name.task)


def proved_owner_uids(transfers: Iterable[Transfer]) -> frozenset[int]:
    return frozenset(transfer.uid for transfer in transfers if transfer.listed == OwnerSeenInHomeJobList.YES)


def uids_claiming_unproved_task(transfers: Sequence[Transfer]) -> frozenset[int]:
    """Return the uids that sent messages about a task; none once the home job list proves the owner."""
    if proved_owner_uids(transfers):
        return frozenset()
    return frozenset(transfer.uid for transfer in transfers if transfer.listed != OwnerSeenInHomeJobList.NO)


def may_everybody_see_transfer(transfer: Transfer, young: datetime) -> bool:
    """Say whether all users may see a transfer: the owner is proved, or the transfer began after `young`."""
    return transfer.listed == OwnerSeenInHomeJobList.YES or (not transfer.listed and transfer.created_at > young)


def usage_records_of_proved_owner(
    records: Sequence[RemoteJobRunAccounting], transfers: Iterable[Transfer]
) -> Sequence[RemoteJobRunAccounting]:
    """Return the proved owners' records, or all if no owner is proved, because users may share an account."""
    by_name = {transfer.name: transfer for transfer in transfers if transfer.listed == OwnerSeenInHomeJobList.YES}
    if not by_name:
        return records
    people = {transfer.owner for transfer in by_name.values()}
    jobs = {name: transfer.remote_id for name, transfer in by_name.items() if transfer.remote_id}
    return [
        record
        for record in records
        if record.owner in people and jobs.get(record.transfer, record.job_id) == record.job_id
    ]


def drop_oldest_attempts(attempts: Sequence[T], most: int = MOST_ATTEMPTS) -> tuple[Sequence[T], int]:
    return attempts[-most:], max(0, len(attempts) - most)


def drop_middle_events(events: Sequence[T]) -> tuple[Sequence[T], int]:
    left_out = max(0, len(events) - FIRST_EVENTS - LAST_EVENTS)
    return ((*events[:FIRST_EVENTS], *events[-LAST_EVENTS:]), left_out) if left_out else (events, 0)


def transfers_with_listed_remote_job(
    transfers: Iterable[Transfer], cluster: str, situation: TransferSituation
) -> Iterator[tuple[Transfer, ClusterJobListRow]]:
    for transfer in transfers:
        row = situation.remote_job_row(transfer) if transfer.remote == cluster and transfer.remote_id else None
        if row:
            yield transfer, row


def may_remote_id_be_reused(
    transfer: Transfer, now: ClusterJobListRow, listed_before: Mapping[TransferKey, ClusterJobListRow]
) -> bool:
    """Say whether a remote id may belong to a new job, because its row changed otherwise than by the job's start."""
    if not transfer.remote_state.is_listed:
        return False
    before = listed_before.get(transfer.transfer_key)
    if before is None or before.job_id != now.job_id or transfer.missed_polls:
        return True
    has_started = before.state.is_waiting and not now.state.is_waiting
    return before.since != now.since and not has_started
