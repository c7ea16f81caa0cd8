"""Finds how a job ended for good in the accounting records that bear its number.

8.1.9 writes a line feed in a job's request into its record as it is, so anybody who may submit
there can forge whole records of another's job. A record is evidence, never proof.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from gridbridge.batch.gridengine.qacct import end_of
from gridbridge.model.accounting import RESCHEDULED, AccountingRecord, RemoteRecord
from gridbridge.model.job import FutureJobEnd, JobEnd

CLOCKS_DIFFER = timedelta(minutes=5)  # at most, between two clusters

Records = Sequence[AccountingRecord | RemoteRecord]


def settled(records: Records, now: datetime) -> tuple[JobEnd | None, bool]:
    """Return the end that a job's records tell, and whether they tell several.

    If they tell several ends, none is believed. No end is a run that was put back, one that ends in
    the future, or a part of a parallel job; a run whose end nobody saw contradicts no other.
    """
    end, is_disputed = settled_or_future(records, now)
    return (None if isinstance(end, FutureJobEnd) else end), is_disputed


def settled_or_future(records: Records, now: datetime) -> tuple[JobEnd | FutureJobEnd | None, bool]:
    """Return the same, but for an end in the future what it will be.

    That leaves what ended by itself before now as it is. A run that failed before it may have been
    put back, and settles nothing: execd's clock, which the end is by, may be ahead.
    """
    final = [record for record in records if _is_final(record)]
    future = [
        record for record in final if record.ended_at and record.ended_at > now + CLOCKS_DIFFER
    ]
    past = [record for record in final if record not in future]
    if future and not any(end_of(record).exit_status is not None for record in past):
        return _future(final, future[-1]), False
    return _agreed([end_of(record) for record in past])


def _future(final: Records, last: AccountingRecord | RemoteRecord) -> FutureJobEnd:
    ends = [end_of(record) for record in final]
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
