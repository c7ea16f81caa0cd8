"""Whether a remote id may belong to another job by now, so that its cluster has to be asked.

A cluster's numbers begin anew when its qmaster's spool is lost or an older one is put back. No list
shows a job's account, but the start time of a job that goes on stays the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from gridbridge.decisions.transfer.situation import TransferSituation
from gridbridge.model.snapshot import JobStatus
from gridbridge.model.transfer.transfer_row import Key, Transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob:
    """A remote job as it was listed while it was this transfer's."""

    job_id: int
    since: datetime | None  # of its submission, or of its start
    is_pending: bool


def listed_jobs(
    transfers: Iterable[Transfer], cluster: str, situation: TransferSituation
) -> Iterator[tuple[Transfer, ListedJob]]:
    """Yield these transfers with the jobs that a cluster lists under their ids."""
    for transfer in transfers:
        row = situation.row(transfer) if transfer.remote == cluster and transfer.remote_id else None
        if row:
            yield transfer, listed_job(row)


def listed_job(row: JobStatus) -> ListedJob:
    """Return what identifies a job among others with the same id."""
    return ListedJob(job_id=row.job_id, since=row.since, is_pending=row.state.is_waiting)


def is_doubtful(transfer: Transfer, now: ListedJob, listed_before: Mapping[Key, ListedJob]) -> bool:
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
