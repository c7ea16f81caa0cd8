"""Run the suspend, resume and terminate methods of a transfer queue, and its epilog (queue_conf(5)).

Grid Engine waits without a limit for a method, so each method ends soon. Methods may run at the same time, twice or not
at all: the last note counts, and a deletion is final.
"""

import os
import select
import sys

from gridbridge.errors import GridbridgeError
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState, TransferOutcome
from gridbridge.shell import safe_files
from gridbridge.shell.program_runs import SIGKILL
from gridbridge.state import published_file_formats
from gridbridge.transfer.starter import task_notes
from gridbridge.transfer.starter.local_task import BACK, LocalTask
from gridbridge.transfer.starter.remote_job_state_match import delete_remote_job
from gridbridge.transfer.starter.starter_step_context import log_step_error

PATIENCE_S = 8.0  # the method kills a starter that has not ended after this time
EPILOG_S = 3.0  # timeout of each of the epilog's two commands


def main() -> None:
    """Run the method that the first argument names; log errors and exit with 0."""
    task = LocalTask(dict(os.environ))
    try:
        task.open_notes_folder()
        task.open_log_file()
    except GridbridgeError as error:
        log_step_error(error)  # ignored, because the starter meets the same error and ends the job
    try:
        METHODS[sys.argv[1]](task)
    except (GridbridgeError, OSError) as error:
        log_step_error(error)


def note_local_job_suspended(task: LocalTask) -> None:
    """Note that the local job was suspended by hand, with its queue, or by a threshold."""
    note_intent_and_wake_starter(task, DesiredLocalJobState.SUSPENDED)


def note_local_job_resumed(task: LocalTask) -> None:
    note_intent_and_wake_starter(task, DesiredLocalJobState.RUNNING)


def terminate_local_job(task: LocalTask) -> None:
    """End the local job, unless only its time limit at home has passed and its remote job continues."""
    doubt = ""
    try:
        task.open_notes_folder()
        doubt = task_notes.note_termination_check(task.private)
    except (GridbridgeError, OSError) as error:
        log_step_error(error)
    if not _is_job_deleted_or_unknown(task) and not task.was_local_job_deleted():
        safe_files.remove_file(doubt)
        task.report_passed_time_limit()
        return
    starter = StarterProcess(task)
    try:
        note_intent_and_wake_starter(task, DesiredLocalJobState.DEAD)
    except (GridbridgeError, OSError) as error:
        log_step_error(error)
    if task.is_step_noted_done(BACK):
        starter.kill_step_after(PATIENCE_S)
    starter.kill_starter_after(PATIENCE_S)


def _is_job_deleted_or_unknown(task: LocalTask) -> bool:
    from gridbridge.transfer.starter import time_limit_or_deletion  # few jobs need this import

    try:
        return time_limit_or_deletion.is_local_job_deleted(task, task.read_route().home_cluster_access)
    except (GridbridgeError, OSError) as error:
        log_step_error(error)
        return True


def delete_job_of_killed_starter(task: LocalTask) -> None:
    """Delete the remote job of a killed starter; do nothing if the starter ended regularly.

    If the deletion fails, the service deletes the job. The service also takes over an ended job with a remote folder,
    because the outputs may not be home yet.
    """
    record = task.read_transfer_note()
    if not record or task.read_closing_note() or task.was_local_job_deleted():
        return
    if record.stage:
        message = published_file_formats.read_verdict_or_reply(task.verdict_path(record.transfer))
        if message and message.outcome not in TransferOutcome.WISHES:
            return
    try:
        task.note_intent(DesiredLocalJobState.DEAD)
    finally:
        delete_remote_job(task.remote_cluster_access(task.read_route(record.queue)).with_time_limit(EPILOG_S), record)


def note_intent_and_wake_starter(task: LocalTask, desired: str) -> None:
    task.open_notes_folder()
    task.note_intent(desired)
    task.wake_starter()


class StarterProcess:
    """A starter's first process; a pidfd holds it, because the system may reuse the pid."""

    def __init__(self, task: LocalTask) -> None:
        try:
            with open(f"{task.spool_dir}/job_pid", encoding="ascii") as file:
                self.pid = int(file.read())
            self.end = os.pidfd_open(self.pid)
        except (OSError, ValueError):
            self.pid = 0

    def kill_starter_after(self, patience_s: float) -> None:
        """Kill the starter's process group after `patience_s`, unless the starter has ended by itself."""
        if self.pid and not self._does_starter_end_within(patience_s):
            os.killpg(self.pid, SIGKILL)

    def kill_step_after(self, patience_s: float) -> None:
        """Kill the starter's running step after `patience_s`, unless the starter has ended by itself."""
        if not self.pid or self._does_starter_end_within(patience_s):
            return
        with open(f"/proc/{self.pid}/task/{self.pid}/children", encoding="ascii") as file:
            for child in file.read().split():
                os.kill(int(child), SIGKILL)

    def _does_starter_end_within(self, patience_s: float) -> bool:
        poll = select.poll()
        poll.register(self.end, select.POLLIN)
        return bool(poll.poll(patience_s * 1000))


METHODS = {
    "suspend": note_local_job_suspended,
    "resume": note_local_job_resumed,
    "terminate": terminate_local_job,
    "epilog": delete_job_of_killed_starter,
}
