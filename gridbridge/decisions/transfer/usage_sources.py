"""What remote jobs used, and which of two sources of it counts."""

from collections.abc import Iterable
from math import isfinite

from gridbridge.model.accounting import RemoteRecord, UsageSource
from gridbridge.model.message import MessageKind, TransferOutcome
from gridbridge.model.transfer.transfer_row import Transfer

SIGNALLED = 128  # an exit status above it stands for a signal
MOST = 1e15  # the largest number that is counted here
SHEPHERDS = {  # figures, by names of the shepherd's `usage` file
    "ru_wallclock": "wallclock_s",
    "ru_utime": "user_s",
    "ru_stime": "system_s",
    "ru_maxrss": "max_rss_kb",
}


def told_by_verdict(transfer: Transfer) -> RemoteRecord | None:
    """Return the record; None without a verdict, or when nobody saw the job's end.

    A verdict that is no wrapper's message comes from the cluster's accounting.
    """
    verdict = transfer.verdict
    if verdict is None or verdict.outcome not in (TransferOutcome.EXIT, TransferOutcome.SIGNAL):
        return None
    is_message = verdict.kind == MessageKind.ENDED
    ended_by = int(verdict.signal or 0)
    status = SIGNALLED + ended_by if ended_by else int(verdict.exit_status or 0)
    return RemoteRecord(
        transfer=transfer.name,
        cluster=transfer.remote,
        source=UsageSource.MESSAGE if is_message else UsageSource.ACCOUNTING,
        mark=str(transfer.uid),
        job_id=transfer.remote_id,
        owner=transfer.owner,
        host=verdict.host,
        submitted_at=transfer.created_at,
        ended_at=transfer.updated_at,
        exit_status=status,
        wallclock_s=_amount(verdict.wallclock_s),
        user_s=_amount(verdict.user_s),
        system_s=_amount(verdict.system_s),
        max_rss_kb=_amount(verdict.max_rss_kb),
    )


def _amount(text: str) -> float | None:
    """Read a number, or `1m2.5s` as times of a shell prints it; people's processes write it."""
    minutes, is_times, seconds = text.rpartition("m")
    try:
        amount = float(minutes or 0) * 60 + float(seconds.removesuffix("s") if is_times else text)
    except ValueError:
        return None
    return amount if isfinite(amount) and 0 <= amount < MOST else None


def for_shepherd(record: RemoteRecord) -> dict[str, str]:
    """Return the known figures in the shepherd's form, plain decimals."""
    amounts = {name: getattr(record, key) for name, key in SHEPHERDS.items()}
    return {name: _decimal(amount) for name, amount in amounts.items() if amount is not None}


def _decimal(amount: float) -> str:
    return f"{amount:.6f}".rstrip("0").rstrip(".")


def best_told(records: Iterable[RemoteRecord]) -> tuple[RemoteRecord, ...]:
    """Leave out a verdict's usage where the cluster's accounting has the job."""
    all_of_them = tuple(records)
    accounted = {
        (record.transfer, record.job_id) for record in all_of_them if record.failed is not None
    }
    return tuple(
        record
        for record in all_of_them
        if record.failed is not None or (record.transfer, record.job_id) not in accounted
    )
