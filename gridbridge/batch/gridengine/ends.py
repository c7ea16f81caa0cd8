"""Finds how a job ended for good in the accounting records that bear its number.

8.1.9 writes a line feed in a job's request into its record as it is, so anybody who may submit
there can forge whole records of another's job. A record is evidence, never proof.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from gridbridge.batch.gridengine.accounting import end_of
from gridbridge.model.accounting import RESCHEDULED, AccountingRecord, RemoteRecord
from gridbridge.model.job import JobEnd

CLOCKS_DIFFER = timedelta(minutes=5)  # at most, between two clusters


def settled(
    records: Sequence[AccountingRecord | RemoteRecord], now: datetime
) -> tuple[JobEnd | None, bool]:
    """Return the end that a job's records tell, and whether they tell several.

    If they tell several ends, none is believed. No end is a run that was put back, one that ends in
    the future, or a part of a parallel job; a run whose end nobody saw contradicts no other.
    """
    ends = [end_of(one) for one in records if _is_final(one, now)]
    seen = [one for one in ends if not one.is_unseen] or ends
    if len({(one.exit_status, one.signal) for one in seen}) > 1:
        return None, True
    return (seen[-1] if seen else None), False


def _is_final(one: AccountingRecord | RemoteRecord, now: datetime) -> bool:
    is_possible = one.ended_at is None or one.ended_at <= now + CLOCKS_DIFFER
    return is_possible and one.failed not in RESCHEDULED and not one.pe_task
