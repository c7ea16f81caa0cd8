"""Determines a job's final end from the accounting records that bear its id.

8.1.9 writes line feeds of a job's request into its record unchanged, so any user of the cell can
forge whole records of another's job. A record is evidence, never proof.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from gridbridge.batch.gridengine.qacct import job_end_of_record
from gridbridge.model.accounting import RESCHEDULED, AccountingRecord, RemoteRecord
from gridbridge.model.job import FutureJobEnd, JobEnd

CLOCKS_DIFFER = timedelta(minutes=5)  # at most, between two clusters

Records = Sequence[AccountingRecord | RemoteRecord]


def settle_job_end(records: Records, now: datetime) -> tuple[JobEnd | None, bool]:
    """Return the end that a job's records tell, and whether they contradict each other.

    Contradicting ends are not believed. Runs that were requeued, ends in the future, and parts of a
    parallel job are ignored; a run whose end nobody saw contradicts no other.
    """
    end, is_disputed = settle_job_end_or_future(records, now)
    return (None if isinstance(end, FutureJobEnd) else end), is_disputed


def settle_job_end_or_future(
    records: Records, now: datetime
) -> tuple[JobEnd | FutureJobEnd | None, bool]:
    """Return a job's end, or the end that its records place in the future.

    A job that ended by itself before now keeps that end. A failed run before now may have been
    requeued and settles nothing: the time of an end is execd's, whose clock may be ahead.
    """
    final = [record for record in records if _is_final(record)]
    future = [
        record for record in final if record.ended_at and record.ended_at > now + CLOCKS_DIFFER
    ]
    past = [record for record in final if record not in future]
    if future and not any(job_end_of_record(record).exit_status is not None for record in past):
        return _future(final, future[-1]), False
    return _agreed([job_end_of_record(record) for record in past])


def _future(final: Records, last: AccountingRecord | RemoteRecord) -> FutureJobEnd:
    ends = [job_end_of_record(record) for record in final]
    is_one = len(_kinds(ends)) == 1
    at = last.ended_at
    assert at  # it lies in the future
    return FutureJobEnd(ended_at=at, host=last.host, end=ends[-1] if is_one else None)


def _agreed(ends: Sequence[JobEnd]) -> tuple[JobEnd | None, bool]:
    observed = [end for end in ends if not end.is_unseen] or ends
    if len(_kinds(observed)) > 1:
        return None, True
    return (max(reversed(observed), key=_run_s) if observed else None), False


def _run_s(end: JobEnd) -> float:
    """Return for how long a job ran; of several that end alike the longest counts.

    Nobody has used less, or looks as if he had done nothing, by what somebody else wrote.
    """
    return end.wallclock_s or 0.0


def _kinds(ends: Sequence[JobEnd]) -> set[tuple[int | None, int | None]]:
    return {(end.exit_status, end.signal) for end in ends}


def _is_final(record: AccountingRecord | RemoteRecord) -> bool:
    return record.failed not in RESCHEDULED and not record.pe_task
