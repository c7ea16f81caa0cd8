"""Begin a transfer in the starter: write the first note, and keep the local task from starting again at home."""

from gridbridge.model.job_request import OWN_HOLD, OWN_START
from gridbridge.model.transfer import claim_and_guard
from gridbridge.model.transfer.claim_and_guard import HomeStartGuard
from gridbridge.model.transfer_messages_in_spool import StarterPhase, TransferMessage, TransferMessageKind
from gridbridge.state import published_file_formats, spool
from gridbridge.transfer.starter import remote_job_submission_step
from gridbridge.transfer.starter.local_task import GUARDED

TYPE_CHECKING = False  # importing typing costs as much time as importing json
if TYPE_CHECKING:
    from gridbridge.transfer.starter.starter_step_context import StarterStepContext


def choose_local_task_guard(step: "StarterStepContext") -> str:
    """Return what keeps a local task from starting again: a hold, a far start time, or nothing."""
    if not step.home.HAS_START_TIMES:
        return HomeStartGuard.HOLD
    request, task = step.request, step.task
    transfer_queues = published_file_formats.list_queues_with_routes(task.published)
    return claim_and_guard.choose_home_start_guard(
        request.hard, request.owner_requested_queues, transfer_queues, bool(task.task)
    )


def guard_running_local_task(step: "StarterStepContext") -> None:
    """Set, once for all steps, the hold or start time that keeps the task from starting again."""
    task, how = step.task, step.record.guard or HomeStartGuard.HOLD
    if task.is_step_noted_done(GUARDED):
        return
    if how == HomeStartGuard.HOLD:
        step.home.hold_job(step.route.home_cluster_access, task.local_task_id)
    elif how == HomeStartGuard.START:
        step.home.defer_job_restart(step.route.home_cluster_access, str(task.job), step.request)
    task.note_step_done(GUARDED)


def remove_task_guard(step: "StarterStepContext") -> None:
    """Remove the hold or start time of a task without a remote job, so that the task may start."""
    how = step.record.guard or HomeStartGuard.HOLD
    if how == HomeStartGuard.NONE:  # the service may have set a hold or start time since the submission
        context = dict(step.request.context)
        how = HomeStartGuard.HOLD if OWN_HOLD in context else HomeStartGuard.NONE
        how = HomeStartGuard.START if OWN_START in context else how
    if how == HomeStartGuard.HOLD:
        step.home.release_job(step.route.home_cluster_access, step.task.local_task_id)
    elif how == HomeStartGuard.START:
        step.home.restore_start_time(step.route.home_cluster_access, str(step.task.job))


def write_first_transfer_note(step: "StarterStepContext") -> bool:
    """Write a transfer's first note; return False while a task that was sent before waits for an answer."""
    wake = step.record.wake or spool.create_starter_wake_fifo(step.task.our_spool)
    step.record = TransferMessage(remote=step.route.remote, queue=step.task.queue, wake=wake)
    if step.task.was_sent_before() and not _ask_service_for_last_transfer(step):
        return False
    if step.route.remote_claim and not step.record.phase:
        from gridbridge.batch import remote_job_claim_script

        step.record = step.record.with_changes(
            claim=remote_job_claim_script.new_remote_job_claim(step.route.remote_claim)
        )
    phase = step.record.phase or StarterPhase.SUBMITTING
    if step.record.remote_id and step.away.login:
        remote_job_submission_step.make_remote_staging_folder(step, step.request, step.task.read_execd_config())
    name = step.record.transfer or str(step.task.transfer_name(step.route, attempt=1))
    fields = {"transfer": name, "guard": choose_local_task_guard(step), "submitted": step.request.submitted}
    step.save_and_send_record(kind=TransferMessageKind.RECORD, phase=phase, **fields)
    return True


def _ask_service_for_last_transfer(step: "StarterStepContext") -> bool:
    """Ask the service which transfer the task continues, if any; return False until the service answers."""
    reply = published_file_formats.read_verdict_or_reply(step.task.verdict_path(step.record.wake))
    if reply is None:
        put_back = "yes" if step.task.restarted else ""
        name = str(step.task.transfer_name(step.route, attempt=0))
        submitted = step.request.submitted
        step.save_and_send_record(kind=TransferMessageKind.ASK, transfer=name, restarted=put_back, submitted=submitted)
        return False
    if reply.phase:
        step.use_route(step.task.read_route(reply.queue))
        step.require_same_cluster(reply)
        step.may_be_there = True
    step.record = step.record.with_changes(**{key: value for key, value in vars(reply).items() if value})
    return True
