"""Hold the facts of a starter's step, and form the step's answers to the starter's shell."""

import os

from gridbridge import errors
from gridbridge.batch import load_home_job_control, load_submit_adapter
from gridbridge.model import transfer_messages_in_spool
from gridbridge.model.fixed_paths import CONFIG
from gridbridge.model.job_request import JobRequest
from gridbridge.model.transfer_messages_in_spool import (
    TransferFailureCause,
    TransferMessage,
    TransferMessageKind,
    TransferOutcome,
)
from gridbridge.model.transfer_route import TransferRoute
from gridbridge.state import published_file_formats, spool
from gridbridge.transfer.starter.local_task import GUARDED, LocalTask, message_timestamp


class StarterStepContext:
    """The facts of a starter's step: the notes of earlier steps, the clusters and the job's request."""

    def __init__(self, task: LocalTask, intent: str, arguments: tuple[str, ...]) -> None:
        self.task, self.noted, self.arguments = task, intent, arguments
        self.left_out = ""  # omitted soft requests, with reasons
        self.is_sure = False  # whether this step has checked the remote job's owner and account
        self._request: JobRequest | None = None
        self.record = task.read_transfer_note() or TransferMessage()
        # a killed step may have submitted the remote job
        self.may_be_there = self.record.kind == TransferMessageKind.RECORD
        self.use_route(task.read_route(self.record.queue))
        self.require_same_cluster(self.record)
        self.home = load_home_job_control(self.route.home_cluster_access)

    def use_route(self, route: TransferRoute) -> None:
        self.route = route
        self.away = self.task.remote_cluster_access(route)
        self.far = load_submit_adapter(self.away)
        if self.away.login:  # all commands of this step use one connection
            from gridbridge.shell import ssh, ssh_session

            ssh.set_ssh_request_carrier(ssh_session.SshSessionsOfProgram())

    def require_same_cluster(self, record: TransferMessage) -> None:
        """Raise GridbridgeError if the transfer's queue now leads to another cluster."""
        if record.remote and self.route.remote != record.remote:
            leads = f"queue {record.queue} now leads to {self.route.remote}"
            raise errors.GridbridgeError(f"{leads}; expected {record.remote}")

    @property
    def request(self) -> JobRequest:
        """The local job's request, which a step queries at home at most once."""
        if self._request is None:
            self._request = self.home.query_job_request(self.route.home_cluster_access, str(self.task.job))
        return self._request

    def save_and_send_record(self, **values: str) -> None:
        """Note a change of the transfer and tell the service, before the starter's next act."""
        self.record = self.record.with_changes(at=message_timestamp(), cause="", reason=self.left_out, **values)
        self.task.report_transfer_to_service_and_save(self.record)


RETRY_S = 5  # pause before the first retry of a step; each retry doubles the pause
RETRY_MAX_S = 60
MISSING_ROUTE_NOTE = "early"  # note with the time when the service first had no cluster for the job's queue
EARLY_S = 60  # the service loads a changed gridbridge.toml within this time
ROOM_S = 20  # an unsent job waits at most this time for space in TMPDIR
ROOM_AGAIN_S = 10  # pause between two tries to write notes
MOST_CLIENT_PROGRAM_FAILURES = 3  # number of tries if a client program dies at its start
LIBRARY_NOT_LOADED = b"error while loading shared libraries"  # the dynamic linker prints this text if memory is short


def end_or_retry_after_error(task: LocalTask, error: errors.GridbridgeError) -> str:
    """End a job that has no remote cluster or too low resource limits; otherwise retry the step."""
    log_step_error(error)
    if isinstance(error, errors.UnconfiguredTransferQueue):
        return end_job_without_route(task, error)
    if isinstance(error, errors.CommandFailed) and not task.is_step_noted_done(GUARDED):
        is_unable = (error.status or 0) < 0 or LIBRARY_NOT_LOADED in error.stderr
        if is_unable and task.count_starter_act_try("unable") >= MOST_CLIENT_PROGRAM_FAILURES:
            reason = f"{error.program_and_failure}: the job's h_vmem, h_data or h_cpu may be too small"
            return put_job_in_error_state(task, reason)
    return retry_step_later(task, task.report_retry_reason(str(error), failure_cause_of_step_error(error)))


def log_step_error(error: Exception) -> None:
    """Write an error to standard error, the task's own log, unless the disk is full."""
    try:
        os.write(2, f"{message_timestamp()} {errors.describe_error(error)}\n".encode("utf-8", "replace"))
    except OSError:
        return


def end_job_without_route(task: LocalTask, error: Exception, configuration: str = CONFIG) -> str:
    """End an unsent job whose queue leads to no configured cluster; let a sent job wait.

    An unsent job waits 60 s for a new gridbridge.toml, because old load values open a re-created queue.
    """
    record = task.read_transfer_note()
    may_lead = published_file_formats.may_queue_get_route_soon(task.queue, task.published, configuration)
    if record or (may_lead and task.seconds_since_first_note(MISSING_ROUTE_NOTE) < EARLY_S):
        return retry_step_later(task, record or TransferMessage())
    return put_job_in_error_state(task, str(error))


def wait_for_tmpdir_space(task: LocalTask, error: errors.JobTmpdirFull) -> str:
    """Tell the shell to wait until TMPDIR has space; an unsent job ends after 20 s."""
    log_step_error(error)
    if task.read_transfer_note() is None and task.local_run_time_s() >= ROOM_S:
        return put_job_in_error_state(task, str(error))
    record = task.report_retry_reason(str(error), TransferFailureCause.HERE)
    return tell_starter_shell_to_sleep(task, "again", ROOM_AGAIN_S, record)


def put_job_in_error_state(task: LocalTask, reason: str) -> str:
    write_job_error_reason(task, reason)
    return f"exit {transfer_messages_in_spool.ERROR}"


def write_job_error_reason(task: LocalTask, reason: str) -> None:
    """Write the reason of the job's error for `qstat -j`, if execd's spool has space."""
    try:
        task.write_shepherd_error(reason)
    except OSError as error:
        log_step_error(error)


def failure_cause_of_step_error(error: errors.GridbridgeError) -> str:
    if isinstance(error, errors.TemporaryJobRefusal):
        return error.cause
    if isinstance(error, errors.SshAccessRejected):
        return TransferFailureCause.BARRED
    return TransferFailureCause.UNREACHED if isinstance(error, errors.HostNotReached) else TransferFailureCause.HERE


def retry_step_later(task: LocalTask, record: TransferMessage) -> str:
    """Tell the starter's shell to retry the step after a growing, partly random pause."""
    longest_s = min(RETRY_MAX_S, RETRY_S * 2 ** min(task.count_starter_act_try(), 8))
    return tell_starter_shell_to_sleep(task, "again", longest_s // 2 + os.urandom(1)[0] * longest_s // 512 + 1, record)


def tell_starter_shell_to_sleep(task: LocalTask, verb: str, how_long_s: int, record: TransferMessage) -> str:
    """Tell the starter's shell to sleep until the time is over, the FIFO is written or an answer exists."""
    if not record.wake:
        return f"{verb} {how_long_s} - -"
    verdict = task.verdict_path(record.wake if record.kind == TransferMessageKind.ASK else record.transfer)
    return f"{verb} {how_long_s} {task.our_spool}/{spool.WAKE}/{record.wake} {verdict}"


def verdict_exit_status(verdict: TransferMessage) -> int:
    fixed = {
        TransferOutcome.REQUEUE: transfer_messages_in_spool.REQUEUE,
        TransferOutcome.ERROR: transfer_messages_in_spool.ERROR,
    }
    return fixed.get(verdict.outcome) or int(verdict.exit_status or 0)
