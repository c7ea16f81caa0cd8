"""Derive from a remote job's accounting records its usage, and the result that the starter reports."""

from collections.abc import Iterable
from math import isfinite

from gridbridge.decisions.transfer.refused_job_stay_home_request import YES
from gridbridge.decisions.wrapper_end_interpretation import why_job_not_started, wrapper_exit_status
from gridbridge.model.jobs_and_accounting import JobEnd, RemoteJobRunAccounting, RemoteUsageSource
from gridbridge.model.transfer.claim_and_guard import FENCED, JOB, does_claim_need_home_grant
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.model.transfer_messages_in_spool import (
    TransferFailureCause,
    TransferMessage,
    TransferMessageKind,
    TransferOutcome,
)

FENCED_STATUS = 199  # exit status of a remote job that got no permission from home to run


def home_verdict_from_accounting(transfer: Transfer, end: JobEnd) -> TransferMessage:
    """Return the result for the home job, derived from the remote job's accounting record.

    The wrapper encodes exit statuses 99 and 100 as 199 and 200, or as signals 63 and 64. Without a recorded end,
    the job runs again only if the transfer allows a rerun.
    """
    verdict = TransferMessage(
        transfer=transfer.name,
        remote_id=str(transfer.remote_id),
        host=end.host,
        user_s=_format_usage_amount(end.user_s),
        system_s=_format_usage_amount(end.system_s),
        wallclock_s=_format_usage_amount(end.wallclock_s),
        max_rss_kb="" if end.max_rss_kb is None else f"{end.max_rss_kb:.0f}",
    )
    has_no_grant = does_claim_need_home_grant(transfer.claim) and transfer.claimed != JOB
    if end.exit_status == FENCED_STATUS and has_no_grant:
        reason = f"fenced at {transfer.remote}: the job got no grant"
        outcome, cause = TransferOutcome.REQUEUE, TransferFailureCause.UNGRANTED
        return verdict.with_changes(outcome=outcome, claim=FENCED, cause=cause, reason=reason)
    if why := why_job_not_started(end):
        return verdict.with_changes(outcome=TransferOutcome.ERROR, cause=why[0], reason=why[1])
    if (status := wrapper_exit_status(end)) is not None:
        return verdict.with_changes(outcome=TransferOutcome.EXIT, exit_status=str(status))
    reason = f"{transfer.remote} says {end.reason}"
    if end.signal is not None:
        return verdict.with_changes(outcome=TransferOutcome.SIGNAL, signal=str(end.signal), reason=reason)
    return _verdict_of_lost_job(verdict, transfer, end, reason)


def _verdict_of_lost_job(verdict: TransferMessage, transfer: Transfer, end: JobEnd, reason: str) -> TransferMessage:
    cause, killed = TransferFailureCause.LOST, "killed with the job's host: "
    if end.is_preempted:
        cause, killed = TransferFailureCause.PREEMPTED, "killed: "
        reason = f"{transfer.remote} needed the job's slots: {end.reason}"
    if transfer.rerun == YES:
        return verdict.with_changes(outcome=TransferOutcome.REQUEUE, cause=cause, reason=reason)
    if end.is_unstarted:
        return verdict.with_changes(outcome=TransferOutcome.ERROR, cause=cause, reason=f"never launched: {reason}")
    return verdict.with_changes(outcome=TransferOutcome.SIGNAL, signal="9", cause=cause, reason=f"{killed}{reason}")


def _format_usage_amount(amount: float | None) -> str:
    """Format an amount; an unknown amount is an empty text, never 0."""
    return "" if amount is None else f"{amount:g}"


SIGNAL_STATUS_OFFSET = 128  # an exit status above 128 stands for a signal
LARGEST_USAGE_AMOUNT = 1e15
USAGE_FIELDS_BY_SHEPHERD_NAME = {  # fields of a usage record, by name in the shepherd's `usage` file
    "ru_wallclock": "wallclock_s",
    "ru_utime": "user_s",
    "ru_stime": "system_s",
    "ru_maxrss": "max_rss_kb",
}


def usage_from_verdict(transfer: Transfer) -> RemoteJobRunAccounting | None:
    """Return a remote job's usage from its end message or accounting; None if its end is unknown."""
    verdict = transfer.verdict
    if verdict is None or verdict.outcome not in (TransferOutcome.EXIT, TransferOutcome.SIGNAL):
        return None
    is_message = verdict.kind == TransferMessageKind.ENDED
    ended_by = int(verdict.signal or 0)
    status = SIGNAL_STATUS_OFFSET + ended_by if ended_by else int(verdict.exit_status or 0)
    return RemoteJobRunAccounting(
        transfer=transfer.name,
        cluster=transfer.remote,
        source=RemoteUsageSource.MESSAGE if is_message else RemoteUsageSource.ACCOUNTING,
        mark=str(transfer.uid),
        job_id=transfer.remote_id,
        owner=transfer.owner,
        host=verdict.host,
        submitted_at=transfer.created_at,
        ended_at=transfer.updated_at,
        exit_status=status,
        wallclock_s=_parse_usage_amount(verdict.wallclock_s),
        user_s=_parse_usage_amount(verdict.user_s),
        system_s=_parse_usage_amount(verdict.system_s),
        max_rss_kb=_parse_usage_amount(verdict.max_rss_kb),
    )


def _parse_usage_amount(text: str) -> float | None:
    """Parse a usage amount such as 62.5 or the shell's `1m2.5s`; None if invalid."""
    minutes, is_times, seconds = text.rpartition("m")
    try:
        amount = float(minutes or 0) * 60 + float(seconds.removesuffix("s") if is_times else text)
    except ValueError:
        return None
    return amount if isfinite(amount) and 0 <= amount < LARGEST_USAGE_AMOUNT else None


def format_shepherd_usage(record: RemoteJobRunAccounting) -> dict[str, str]:
    """Return the known amounts of a usage record by the shepherd's names, as plain decimal numbers."""
    amounts = {name: getattr(record, key) for name, key in USAGE_FIELDS_BY_SHEPHERD_NAME.items()}
    return {name: f"{amount:.6f}".rstrip("0").rstrip(".") for name, amount in amounts.items() if amount is not None}


def prefer_accounted_usage(records: Iterable[RemoteJobRunAccounting]) -> tuple[RemoteJobRunAccounting, ...]:
    """Drop the usage in a job's end message, if the remote accounting has a record of the job."""
    known = tuple(records)
    accounted = {(record.transfer, record.job_id) for record in known if record.failed is not None}
    return tuple(
        record for record in known if record.failed is not None or (record.transfer, record.job_id) not in accounted
    )
