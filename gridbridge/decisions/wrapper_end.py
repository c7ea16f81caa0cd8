"""Interpret a wrapper's end: job.sh of a transfer, or task.sh of a campaign."""

from gridbridge.model.job import JobEnd
from gridbridge.model.transfer_message import ERROR, REQUEUE, TransferFailureCause

CANNOT_START_STATUS = 200  # an adapter adds a reason when its cluster could not start the job
JOB_STATUS_BY_WRAPPER_STATUS = {199: REQUEUE, 200: ERROR}  # job.sh replaces 99 and 100
STATUS_BY_SIGNAL = {63: 199, 64: 200}  # wrapper signals that stand for a status
PREEMPTION_SIGNALS = (55, 56)  # a preempted best-effort task ends by these
# The wrapper kills itself with these signals if it can't send the reason of a failed job start.
START_FAILURE_SIGNALS = {
    57: (TransferFailureCause.JOB, "can not change to its working directory"),
    58: (TransferFailureCause.HOST, "can not write to its TMPDIR"),
    59: (TransferFailureCause.JOB, "can not append to standard output"),
    60: (TransferFailureCause.JOB, "can not append to standard error"),
    61: (TransferFailureCause.JOB, "can not read standard input"),
    62: (TransferFailureCause.JOB, "can not find its shell or program"),
}


def why_job_not_started(end: JobEnd) -> tuple[str, str] | None:
    """Return cause and reason of a failed job start, if the end tells; else None."""
    if end.signal in START_FAILURE_SIGNALS:
        cause, reason = START_FAILURE_SIGNALS[end.signal]
        return cause, f"{reason} on {end.host}"
    return (
        (TransferFailureCause.HOST, end.reason)
        if end.exit_status == CANNOT_START_STATUS and end.reason
        else None
    )


def was_job_preempted(end: JobEnd) -> bool:
    """Say whether the cluster preempted the job, by its accounting or the wrapper."""
    return end.is_preempted or end.signal in PREEMPTION_SIGNALS


def wrapper_exit_status(end: JobEnd) -> int | None:
    """Return the job's exit status from a wrapper's end; None for signal or no end.

    A wrapper killed while ending may leave any end except the statuses that run a job again.
    """
    if end.signal is not None:
        return STATUS_BY_SIGNAL.get(end.signal)
    return (
        JOB_STATUS_BY_WRAPPER_STATUS.get(end.exit_status, end.exit_status)
        if end.exit_status is not None
        else None
    )
