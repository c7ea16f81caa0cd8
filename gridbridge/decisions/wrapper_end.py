"""What the end of a wrapper stands for: of job.sh for a transfer, of task.sh for a campaign."""

from gridbridge.model.job import JobEnd
from gridbridge.model.message import ERROR, REQUEUE, FailureCause

CANNOT_START_STATUS = (
    200  # with a reason: an adapter's sign that its cluster could not start the job
)
JOB_STATUS_BY_WRAPPER_STATUS = {199: REQUEUE, 200: ERROR}  # what job.sh ends with instead
STATUS_BY_SIGNAL = {63: 199, 64: 200}  # signals by which it ends for those
PREEMPTION_SIGNALS = (55, 56)  # signals by which a best-effort task ends whose place was needed
# The wrapper kills itself with these signals when it can't send why the job did not start.
START_FAILURE_SIGNALS = {
    57: (FailureCause.JOB, "can not change to its working directory"),
    58: (FailureCause.HOST, "can not write to its TMPDIR"),
    59: (FailureCause.JOB, "can not append to standard output"),
    60: (FailureCause.JOB, "can not append to standard error"),
    61: (FailureCause.JOB, "can not read standard input"),
    62: (FailureCause.JOB, "can not find its shell or program"),
}


def why_job_not_started(end: JobEnd) -> tuple[str, str] | None:
    """Return the cause and the reason why the job could not be started there, if its end tells."""
    if end.signal in START_FAILURE_SIGNALS:
        cause, reason = START_FAILURE_SIGNALS[end.signal]
        return cause, f"{reason} on {end.host}"
    return (
        (FailureCause.HOST, end.reason)
        if end.exit_status == CANNOT_START_STATUS and end.reason
        else None
    )


def was_preempted(end: JobEnd) -> bool:
    """Say whether its cluster needed the job's place, as it or the wrapper tells."""
    return end.is_preempted or end.signal in PREEMPTION_SIGNALS


def job_exit_status(end: JobEnd) -> int | None:
    """Return the exit status that the wrapper's end means; None for a signal or no end.

    A wrapper that is killed while it ends may leave any other end, but none that runs a job again.
    """
    if end.signal is not None:
        return STATUS_BY_SIGNAL.get(end.signal)
    return (
        JOB_STATUS_BY_WRAPPER_STATUS.get(end.exit_status, end.exit_status)
        if end.exit_status is not None
        else None
    )
