"""Interpret a wrapper's end: job.sh of a transfer, or task.sh of a campaign."""

from gridbridge.model.jobs_and_accounting import JobEnd
from gridbridge.model.transfer_message import ERROR, REQUEUE, TransferFailureCause

CANNOT_START_STATUS = 200  # the cluster could not start the job; the end has a reason
JOB_STATUS_BY_WRAPPER_STATUS = {199: REQUEUE, 200: ERROR}  # job.sh exits so for 99 and 100
STATUS_BY_SIGNAL = {63: 199, 64: 200}  # exit status for each signal that ends the wrapper
PREEMPTION_SIGNALS = (55, 56)  # signals that end a preempted best-effort task
# Wrappers kill themselves by the signals below if no reason of a failed job start can be sent.
START_FAILURE_SIGNALS = {
    57: (TransferFailureCause.JOB, "can not change to its working directory"),
    58: (TransferFailureCause.HOST, "can not write to its TMPDIR"),
    59: (TransferFailureCause.JOB, "can not append to standard output"),
    60: (TransferFailureCause.JOB, "can not append to standard error"),
    61: (TransferFailureCause.JOB, "can not read standard input"),
    62: (TransferFailureCause.JOB, "can not find its shell or program"),
}


def why_job_not_started(end: JobEnd) -> tuple[str, str] | None:
    """Return the cause and reason of a failed job start from a wrapper's end; else None."""
    if end.signal in START_FAILURE_SIGNALS:
        cause, reason = START_FAILURE_SIGNALS[end.signal]
        return cause, f"{reason} on {end.host}"
    return (TransferFailureCause.HOST, end.reason) if end.exit_status == CANNOT_START_STATUS and end.reason else None


def was_job_preempted(end: JobEnd) -> bool:
    """Say whether the accounting or the wrapper shows that a cluster preempted a job."""
    return end.is_preempted or end.signal in PREEMPTION_SIGNALS


def wrapper_exit_status(end: JobEnd) -> int | None:
    """Return a job's exit status from its wrapper's end; None without an exit status.

    A wrapper killed while ending may leave any end except the statuses that run a job again.
    """
    if end.signal is not None:
        return STATUS_BY_SIGNAL.get(end.signal)
    return JOB_STATUS_BY_WRAPPER_STATUS.get(end.exit_status, end.exit_status) if end.exit_status is not None else None
