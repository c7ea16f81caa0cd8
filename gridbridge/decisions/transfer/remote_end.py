"""What a remote job's end stands for at home, where the other cluster's accounting tells it."""

from gridbridge.decisions.transfer.requests.rerun import YES
from gridbridge.decisions.wrapper_end import true_status, why_unstarted
from gridbridge.model.job import JobEnd
from gridbridge.model.message import FailureCause, StarterMessage, TransferOutcome
from gridbridge.model.transfer.claim import FENCED, JOB, is_grant
from gridbridge.model.transfer.transfer_row import Transfer

FENCED_STATUS = 199  # grant.sh ends with it; if the job had a grant it means exit 99


def verdict_of(transfer: Transfer, end: JobEnd) -> StarterMessage:
    """Return the verdict that the other cluster's accounting stands for.

    The wrapper's own end carries 99 and 100 as 199 and 200, and those as signals. A job whose end
    nobody saw runs again at home if the transfer allows that. Else it ends as killed, or, when it
    was never launched, goes into error state, from which its owner can have it run.
    """
    verdict = StarterMessage(
        transfer=transfer.name,
        remote_id=str(transfer.remote_id),
        host=end.host,
        user_s=_amount_text(end.user_s),
        system_s=_amount_text(end.system_s),
        wallclock_s=_amount_text(end.wallclock_s),
        max_rss_kb="" if end.max_rss_kb is None else f"{end.max_rss_kb:.0f}",
    )
    if end.exit_status == FENCED_STATUS and is_ungranted(transfer):
        reason = f"fenced at {transfer.remote}: it got no grant"
        return verdict.but(
            outcome=TransferOutcome.REQUEUE,
            claim=FENCED,
            cause=FailureCause.UNGRANTED,
            reason=reason,
        )
    if why := why_unstarted(end):
        return verdict.but(outcome=TransferOutcome.ERROR, cause=why[0], reason=why[1])
    if (status := true_status(end)) is not None:
        return verdict.but(outcome=TransferOutcome.EXIT, exit_status=str(status))
    reason = f"{transfer.remote} says {end.reason}"
    if end.signal is not None:
        return verdict.but(outcome=TransferOutcome.SIGNAL, signal=str(end.signal), reason=reason)
    return _verdict_unseen(verdict, transfer, end, reason)


def _verdict_unseen(
    verdict: StarterMessage, transfer: Transfer, end: JobEnd, reason: str
) -> StarterMessage:
    """Return the verdict on a job whose end nobody saw."""
    cause, killed = FailureCause.LOST, "killed with its host: "
    if end.is_preempted:
        cause, killed = FailureCause.PREEMPTED, "killed: "
        reason = f"{transfer.remote} needed its place: {end.reason}"
    if transfer.rerun == YES:
        return verdict.but(outcome=TransferOutcome.REQUEUE, cause=cause, reason=reason)
    if end.is_unstarted:
        return verdict.but(
            outcome=TransferOutcome.ERROR, cause=cause, reason=f"never launched: {reason}"
        )
    return verdict.but(
        outcome=TransferOutcome.SIGNAL, signal="9", cause=cause, reason=f"{killed}{reason}"
    )


def _amount_text(amount: float | None) -> str:
    """Write an amount; an unknown one as empty text, never as 0."""
    return "" if amount is None else f"{amount:g}"


def is_ungranted(transfer: Transfer) -> bool:
    """Say whether its job can't have run at all: it needs a grant, and got none."""
    return is_grant(transfer.claim) and transfer.claimed != JOB
