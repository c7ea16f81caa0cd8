"""What the end of a wrapper stands for: of job.sh for a transfer, of task.sh for a campaign."""

from gridbridge.model.job import JobEnd
from gridbridge.model.message import ERROR, REQUEUE, FailureCause

UNABLE = 200  # with a reason: an adapter's sign that its cluster could not start the job
UNMAPPED = {199: REQUEUE, 200: ERROR}  # what job.sh ends with instead
CARRIED = {63: 199, 64: 200}  # signals by which it ends for those
MADE_WAY_BY = (55, 56)  # signals by which a best-effort task ends whose place was needed
UNSTARTED_BY = {  # signals by which it ends where it can't send why it could not start the job
    57: (FailureCause.JOB, "can not change to its working directory"),
    58: (FailureCause.HOST, "can not write to its TMPDIR"),
    59: (FailureCause.JOB, "can not append to standard output"),
    60: (FailureCause.JOB, "can not append to standard error"),
    61: (FailureCause.JOB, "can not read standard input"),
    62: (FailureCause.JOB, "can not find its shell or program"),
}


def why_unstarted(end: JobEnd) -> tuple[str, str] | None:
    """Return the cause and the reason why the job could not be started there, if its end tells."""
    if end.signal in UNSTARTED_BY:
        cause, reason = UNSTARTED_BY[end.signal]
        return cause, f"{reason} on {end.host}"
    return (FailureCause.HOST, end.reason) if end.exit_status == UNABLE and end.reason else None


def made_way(end: JobEnd) -> bool:
    """Say whether its cluster needed the job's place, as it or the wrapper tells."""
    return end.is_preempted or end.signal in MADE_WAY_BY


def true_status(end: JobEnd) -> int | None:
    """Return the exit status that the wrapper's end means; None for a signal or no end.

    A wrapper that is killed while it ends may leave any other end, but none that runs a job again.
    """
    if end.signal is not None:
        return CARRIED.get(end.signal)
    return UNMAPPED.get(end.exit_status, end.exit_status) if end.exit_status is not None else None
