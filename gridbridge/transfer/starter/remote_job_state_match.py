"""Release, suspend, resume or delete a transfer's remote job, as its local job requires.

Each remote job is checked first, because a step may have died before it noted the job's id, or a reset cluster may have
reused the id.
"""

import time

from gridbridge.batch import load_submit_adapter
from gridbridge.errors import RemoteJobNotOurs
from gridbridge.model.transfer_messages_in_spool import (
    DesiredLocalJobState,
    StarterPhase,
    TransferMessage,
    TransferMessageKind,
)
from gridbridge.model.transfer_route import AnyClusterAccessSettings
from gridbridge.transfer.starter import task_notes
from gridbridge.transfer.starter.local_task import WARNED, own_login_name

TYPE_CHECKING = False  # importing typing takes as much time as importing json
if TYPE_CHECKING:
    from gridbridge.transfer.starter.starter_step_context import StarterStepContext


def match_remote_job_state(step: "StarterStepContext", message: TransferMessage | None) -> bool:
    """Give the remote job the desired state of the local job; safe to repeat.

    `message` has the job's state in the service's last job list. While a possible deletion is checked, returns False,
    so that the step is retried.
    """
    now = task_notes.boot_clock_sort_key()
    if step.noted:
        from gridbridge.transfer.starter import time_limit_or_deletion  # few jobs need this import

        if not time_limit_or_deletion.is_notify_signal_genuine(step.task, step.route.home_cluster_access, step.noted):
            step.noted = ""
    if step.noted == DesiredLocalJobState.DEAD:  # a -notify signal comes before the deletion itself
        step.task.note_step_done(WARNED)
        delete_remote_job(step.away, step.record)
        return True
    _note_known_states_of_local_job(step, message, now)
    if step.record.phase == StarterPhase.HELD and not _copy_inputs_and_release_remote_job(step):
        return False
    if step.record.phase == StarterPhase.RELEASED:
        _suspend_or_resume_remote_job(step, step.task.read_desired_state())
    return True


def _note_known_states_of_local_job(
    step: "StarterStepContext", message: TransferMessage | None, now: task_notes.NoteSortKey
) -> None:
    """Note the states of the local job that this step and the service know, in order of time."""
    desired = step.task.read_desired_state()
    # The transfer was suspended, and its task now runs again after a rescheduling.
    if not desired and step.record.desired == DesiredLocalJobState.SUSPENDED:
        step.task.note_observed_state(DesiredLocalJobState.RUNNING, now)
    if step.noted and step.noted != desired:
        step.task.note_observed_state(step.noted, now)
    if message:
        step.task.note_observed_state(message.desired, task_notes.boot_clock_sort_key(time.time() - float(message.at)))


def _copy_inputs_and_release_remote_job(step: "StarterStepContext") -> bool:
    """Copy the inputs, and release the remote job if the local job shall still run.

    While a process checks whether the local job must end, returns False, so that the step is retried.
    """
    if not _is_local_job_to_run(step):
        return True
    _check_remote_job_owner_once(step)
    is_carried = _copy_declared_inputs(step)
    if task_notes.is_termination_check_running(step.task.private):  # the check notes a deletion before the check ends
        return False
    if is_carried and _is_local_job_to_run(step):
        step.far.rename_and_release(step.away, step.record.remote_id, step.task.env["JOB_NAME"])
        step.save_and_send_record(phase=StarterPhase.RELEASED)
    return True


def _is_local_job_to_run(step: "StarterStepContext") -> bool:
    return step.task.read_desired_state() in ("", DesiredLocalJobState.RUNNING)


def _copy_declared_inputs(step: "StarterStepContext") -> bool:
    """Copy the declared inputs to the remote cluster; return False if the job was deleted."""
    if not step.record.stage:
        return True
    from gridbridge.transfer.starter import file_staging

    return file_staging.copy_inputs_to_remote_folder(step)


def _suspend_or_resume_remote_job(step: "StarterStepContext", desired: str) -> None:
    if desired not in (DesiredLocalJobState.SUSPENDED, DesiredLocalJobState.RUNNING):
        return
    _check_remote_job_owner_once(step)
    if desired == DesiredLocalJobState.SUSPENDED:
        step.far.suspend_or_hold_job(step.away, step.record.remote_id)
    elif not step.task.was_local_job_deleted():
        step.far.resume_or_release_job(step.away, step.record.remote_id)


def _check_remote_job_owner_once(step: "StarterStepContext") -> None:
    """Check the remote job's owner and account (qsub -A) once in a step; raise RemoteJobNotOurs."""
    if not step.is_sure:
        is_remote_job_known(step.away, step.record)
        step.is_sure = True


def find_held_remote_job(remote: AnyClusterAccessSettings, record: TransferMessage) -> str:
    """Return the id of the held remote job with a transfer's name; empty without such a job."""
    return load_submit_adapter(remote).find_held_job(remote, record.transfer, _remote_account(remote))


def delete_remote_job(remote: AnyClusterAccessSettings, record: TransferMessage) -> None:
    """Delete a transfer's remote job, if a query finds the job."""
    if record.kind != TransferMessageKind.RECORD:
        return
    if not record.remote_id:
        remote_id = find_held_remote_job(remote, record)  # finds only jobs of the owner
    else:
        remote_id = record.remote_id if is_remote_job_known(remote, record) else ""
    if remote_id:
        load_submit_adapter(remote).delete_job(remote, remote_id)


def is_remote_job_known(remote: AnyClusterAccessSettings, record: TransferMessage) -> bool:
    """Say whether a cluster lists a transfer's remote job; raise RemoteJobNotOurs for another job's id."""
    owner_account = load_submit_adapter(remote).query_owner_and_account(remote, record.remote_id)
    if owner_account[0] and owner_account != (_remote_account(remote), record.transfer):
        raise RemoteJobNotOurs(
            f"job {record.remote_id} of {record.remote}: owned by {owner_account[0]}, account {owner_account[1]!r};"
            f" expected {_remote_account(remote)}, account {record.transfer!r}"
        )
    return bool(owner_account[0])


def _remote_account(remote: AnyClusterAccessSettings) -> str:
    return remote.login.user if remote.login else own_login_name()
