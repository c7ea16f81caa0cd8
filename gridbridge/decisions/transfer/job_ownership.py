"""Says who owns a local task: the person whose transfer of it home's own list has proved.

Anybody may claim a transfer of any job. Without a proof by home's list it is shown as that person's
claim alone, and no longer once the job is proved to be another's.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from gridbridge.decisions.transfer.transfer_situation import TransferSituation
from gridbridge.model.accounting import RemoteRecord
from gridbridge.model.ids import parse_transfer
from gridbridge.model.message import DesiredJobState
from gridbridge.model.snapshot import ClusterSnapshot, JobStatus
from gridbridge.model.status_report import FIRST_EVENTS, LAST_EVENTS
from gridbridge.model.transfer.transfer_row import OwnershipProof, Transfer, TransferKey

MOST_ATTEMPTS = 20  # attempts of a task that are shown
MOST_UNPROVED = 1000  # transfers of a person that home's list has not proved

T = TypeVar("T")


def prove_ownership(transfer: Transfer, local: ClusterSnapshot) -> str:
    """Return whether home's list has had the task; once it had, that stays.

    Only an answer that was asked for after the transfer began can say that the list has not had it,
    and no answer can when the task may just have ended.
    """
    if is_owner_listed_at_home(transfer.name, transfer.owner, local):
        return OwnershipProof.YES
    may_have_left = transfer.verdict or transfer.is_over or transfer.desired == DesiredJobState.DEAD
    is_asked = local.taken_at > transfer.created_at and not may_have_left
    return transfer.listed or (OwnershipProof.NO if is_asked else "")


def prove_ownership_after_end(ended: Transfer, local: ClusterSnapshot) -> str:
    """Return the same for a transfer that is over: its task may be gone, but not another's."""
    if is_owner_listed_at_home(ended.name, ended.owner, local):
        return OwnershipProof.YES
    rows = local.jobs.get(parse_transfer(ended.name).job, ())
    is_anothers = bool(rows) and all(row.owner != ended.owner for row in rows)
    return OwnershipProof.NO if is_anothers else ended.listed


def is_owner_listed_at_home(transfer: str, owner: str, local: ClusterSnapshot) -> bool:
    """Say whether home lists the task as its owner's; only arrays have numbered tasks."""
    name = parse_transfer(transfer)
    row = local.find(name.job, name.task)
    return row is not None and row.owner == owner and bool(row.tasks) == bool(name.task)


def proved_owner_uids(transfers: Iterable[Transfer]) -> frozenset[int]:
    """Return the uids whose task home's list has proved it to be."""
    return frozenset(
        transfer.uid for transfer in transfers if transfer.listed == OwnershipProof.YES
    )


def unproved_owner_uids(transfers: Sequence[Transfer]) -> frozenset[int]:
    """Return the uids that claim the task while nothing is proved."""
    if proved_owner_uids(transfers):
        return frozenset()
    return frozenset(transfer.uid for transfer in transfers if transfer.listed != OwnershipProof.NO)


def may_transfer_be_public(transfer: Transfer, young: datetime) -> bool:
    """Say whether all may see an open transfer: home lists its task, or may list it soon."""
    return transfer.listed == OwnershipProof.YES or (
        not transfer.listed and transfer.created_at > young
    )


def records_of_proved_owner(
    records: Sequence[RemoteRecord], transfers: Iterable[Transfer]
) -> Sequence[RemoteRecord]:
    """Return the records of the task's owner and jobs; all while no owner is proved.

    Anybody may give jobs there a transfer's account.
    """
    by_name = {
        transfer.name: transfer for transfer in transfers if transfer.listed == OwnershipProof.YES
    }
    if not by_name:
        return records
    people = {transfer.owner for transfer in by_name.values()}
    jobs = {name: transfer.remote_id for name, transfer in by_name.items() if transfer.remote_id}
    return [
        record
        for record in records
        if record.owner in people and jobs.get(record.transfer, record.job_id) == record.job_id
    ]


def newest_attempts(attempts: Sequence[T], most: int = MOST_ATTEMPTS) -> tuple[Sequence[T], int]:
    """Return the last of these, and how many are left out."""
    return attempts[-most:], max(0, len(attempts) - most)


def first_and_last_events(events: Sequence[T]) -> tuple[Sequence[T], int]:
    """Return the first and last events, and how many are left out between them."""
    left_out = max(0, len(events) - FIRST_EVENTS - LAST_EVENTS)
    if not left_out:
        return events, 0
    return (*events[:FIRST_EVENTS], *events[-LAST_EVENTS:]), left_out


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRemoteJob:
    """A remote job as it was listed while it was this transfer's."""

    job_id: int
    since: datetime | None  # of its submission, or of its start
    is_pending: bool


def listed_remote_jobs(
    transfers: Iterable[Transfer], cluster: str, situation: TransferSituation
) -> Iterator[tuple[Transfer, ListedRemoteJob]]:
    """Yield these transfers with the jobs that a cluster lists under their ids."""
    for transfer in transfers:
        row = situation.row(transfer) if transfer.remote == cluster and transfer.remote_id else None
        if row:
            yield transfer, listed_job_from_row(row)


def listed_job_from_row(row: JobStatus) -> ListedRemoteJob:
    """Return what identifies a job among others with the same id."""
    return ListedRemoteJob(job_id=row.job_id, since=row.since, is_pending=row.state.is_waiting)


def may_remote_id_be_reused(
    transfer: Transfer, now: ListedRemoteJob, listed_before: Mapping[TransferKey, ListedRemoteJob]
) -> bool:
    """Say whether its cluster has to be asked: it was listed otherwise before.

    A job that was never listed before has just been submitted; one that waited may have started.
    """
    if not transfer.remote_state.is_listed:
        return False
    before = listed_before.get(transfer.key)
    if before is None or before.job_id != now.job_id or transfer.missed_polls:
        return True
    has_started = before.is_pending and not now.is_pending
    return before.since != now.since and not has_started
