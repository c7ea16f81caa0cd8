"""Interpret how a job's wrapper ended: job.sh of a transfer, or task.sh of a campaign."""

from gridbridge.model.jobs_and_accounting import JobEnd
from gridbridge.model.transfer_messages_in_spool import ERROR, REQUEUE, TransferFailureCause

CANNOT_START_STATUS = 200  # the cluster could not start the job; the end message has the reason
JOB_STATUS_BY_WRAPPER_STATUS = {199: REQUEUE, 200: ERROR}  # a wrapper reports status 99 as 199, 100 as 200
STATUS_BY_SIGNAL = {63: 199, 64: 200}  # exit status, by the signal that ended the wrapper
PREEMPTION_SIGNALS = (55, 56)  # signals that end the wrapper of a preempted task
MISSING_INPUT_SIGNAL = 54  # signal that ends the wrapper of a task without one of its input files
# A wrapper that can't start its job and can't write the reason kills itself with one of these signals.
START_FAILURE_SIGNALS = {
    57: (TransferFailureCause.JOB, "can not change to its working directory"),
    58: (TransferFailureCause.HOST, "can not write to its TMPDIR"),
    59: (TransferFailureCause.JOB, "can not append to standard output"),
    60: (TransferFailureCause.JOB, "can not append to standard error"),
    61: (TransferFailureCause.JOB, "can not read standard input"),
    62: (TransferFailureCause.JOB, "can not find its shell or program"),
}


def why_job_not_started(end: JobEnd) -> tuple[str, str] | None:
    """Return the cause and reason for which a wrapper could not start its job; None if the job started."""
    if end.signal in START_FAILURE_SIGNALS:
        cause, reason = START_FAILURE_SIGNALS[end.signal]
        return cause, f"{reason} on {end.host}"
    return (TransferFailureCause.HOST, end.reason) if end.exit_status == CANNOT_START_STATUS and end.reason else None


def was_job_preempted(end: JobEnd) -> bool:
    """Say whether a cluster preempted a job, by the accounting or by the signal that ended the wrapper."""
    return end.is_preempted or end.signal in PREEMPTION_SIGNALS


def wrapper_exit_status(end: JobEnd) -> int | None:
    """Return a job's exit status from the end of the job's wrapper; None without an exit status.

    A wrapper killed at its end may leave any exit status, except one that runs the job again.
    """
    if end.signal is not None:
        return STATUS_BY_SIGNAL.get(end.signal)
    return JOB_STATUS_BY_WRAPPER_STATUS.get(end.exit_status, end.exit_status) if end.exit_status is not None else None
