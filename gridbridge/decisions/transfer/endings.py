"""What a remote job's end stands for at home, where the other cluster's accounting tells it."""

from gridbridge.decisions.transfer.requests.rerun import YES
from gridbridge.model.job import JobEnd
from gridbridge.model.message import ERROR, REQUEUE, Cause, Message, Outcome
from gridbridge.model.transfer.claim import FENCED, JOB, is_grant
from gridbridge.model.transfer.transfer import Transfer

FENCED_STATUS = 199  # grant.sh ends with it; if the job had a grant it means exit 99
UNABLE = 200  # with a reason: an adapter's sign that its cluster could not start the job
UNMAPPED = {199: REQUEUE, 200: ERROR}  # what job.sh ends with instead
CARRIED = {63: 199, 64: 200}  # signals by which it ends for those
UNSTARTED_BY = {  # signals by which it ends where it can't send why it could not start the job
    57: (Cause.JOB, "can not change to its working directory"),
    58: (Cause.HOST, "can not write to its TMPDIR"),
    59: (Cause.JOB, "can not append to standard output"),
    60: (Cause.JOB, "can not append to standard error"),
    61: (Cause.JOB, "can not read standard input"),
    62: (Cause.JOB, "can not find its shell or program"),
}


def verdict_of(transfer: Transfer, end: JobEnd) -> Message:
    """Return the verdict that the other cluster's accounting stands for.

    The wrapper's own end carries 99 and 100 as 199 and 200, and those as signals. A job whose end
    nobody saw runs again at home if the transfer allows that. Else it ends as killed, or, when it
    was never launched, goes into error state, from which its owner can have it run.
    """
    told = Message(
        transfer=transfer.name,
        remote_id=str(transfer.remote_id),
        host=end.host,
        user_s=_told(end.user_s),
        system_s=_told(end.system_s),
        wallclock_s=_told(end.wallclock_s),
        max_rss_kb="" if end.max_rss_kb is None else f"{end.max_rss_kb:.0f}",
    )
    if end.exit_status == FENCED_STATUS and is_ungranted(transfer):
        reason = f"fenced at {transfer.remote}: it got no grant"
        return told.but(outcome=Outcome.REQUEUE, claim=FENCED, cause=Cause.UNGRANTED, reason=reason)
    if why := why_unstarted(end):
        return told.but(outcome=Outcome.ERROR, cause=why[0], reason=why[1])
    if (status := true_status(end)) is not None:
        return told.but(outcome=Outcome.EXIT, exit_status=str(status))
    reason = f"{transfer.remote} says {end.reason}"
    if end.signal is not None:
        return told.but(outcome=Outcome.SIGNAL, signal=str(end.signal), reason=reason)
    return _unseen(told, transfer, end, reason)


def _unseen(told: Message, transfer: Transfer, end: JobEnd, reason: str) -> Message:
    """Return the verdict on a job whose end nobody saw."""
    cause, killed = Cause.LOST, "killed with its host: "
    if end.is_preempted:
        cause, killed = Cause.PREEMPTED, "killed: "
        reason = f"{transfer.remote} needed its place: {end.reason}"
    if transfer.rerun == YES:
        return told.but(outcome=Outcome.REQUEUE, cause=cause, reason=reason)
    if end.is_unstarted:
        return told.but(outcome=Outcome.ERROR, cause=cause, reason=f"never launched: {reason}")
    return told.but(outcome=Outcome.SIGNAL, signal="9", cause=cause, reason=f"{killed}{reason}")


def _told(amount: float | None) -> str:
    """Write an amount; an unknown one as empty text, never as 0."""
    return "" if amount is None else f"{amount:g}"


def why_unstarted(end: JobEnd) -> tuple[str, str] | None:
    """Return the cause and the reason why the job could not be started there, if its end tells."""
    if end.signal in UNSTARTED_BY:
        cause, reason = UNSTARTED_BY[end.signal]
        return cause, f"{reason} on {end.host}"
    return (Cause.HOST, end.reason) if end.exit_status == UNABLE and end.reason else None


def true_status(end: JobEnd) -> int | None:
    """Return the exit status that the wrapper's end means; None for a signal or no end.

    A wrapper that is killed while it ends may leave any other end, but none that runs a job again.
    """
    if end.signal is not None:
        return CARRIED.get(end.signal)
    return UNMAPPED.get(end.exit_status, end.exit_status) if end.exit_status is not None else None


def is_ungranted(transfer: Transfer) -> bool:
    """Say whether its job can't have run at all: it needs a grant, and got none."""
    return is_grant(transfer.claim) and transfer.claimed != JOB
