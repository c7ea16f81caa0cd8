"""Guards a local task, by a hold or start time, from running beside its remote job."""

from gridbridge.model.job_request import OWN_HOLD, OWN_START
from gridbridge.model.transfer import guard
from gridbridge.model.transfer.guard import HomeStartGuard
from gridbridge.state import published_file_formats
from gridbridge.transfer.starter.local_task import GUARDED

TYPE_CHECKING = False  # importing typing costs as much time as importing json
if TYPE_CHECKING:
    from gridbridge.transfer.starter.starter_step_context import StarterStepContext


def choose_local_task_guard(step: "StarterStepContext") -> str:
    """Return the kind of guard for a local task: a hold at a cluster without start times."""
    if not step.home.HAS_START_TIMES:
        return HomeStartGuard.HOLD
    request, task = step.request, step.task
    transfer_queues = published_file_formats.list_queues_with_routes(task.published)
    return guard.choose_home_start_guard(request.hard, request.own_queues, transfer_queues, bool(task.task))


def guard_running_local_task(step: "StarterStepContext") -> None:
    """Guard the running local task, unless an earlier step of the starter set the guard."""
    task, how = step.task, step.record.guard or HomeStartGuard.HOLD
    if task.is_done(GUARDED):
        return
    if how == HomeStartGuard.HOLD:
        step.home.hold_job(step.route.home, task.local)
    elif how == HomeStartGuard.START:
        step.home.defer_restart(step.route.home, str(task.job), step.request)
    task.note_done(GUARDED)


def remove_task_guard(step: "StarterStepContext") -> None:
    """Remove the guard of a local task without a remote job, so that the task may start."""
    how = step.record.guard or HomeStartGuard.HOLD
    if how == HomeStartGuard.NONE:
        how = _put_by_the_service(step)
    if how == HomeStartGuard.HOLD:
        step.home.release_job(step.route.home, step.task.local)
    elif how == HomeStartGuard.START:
        step.home.restore_start_time(step.route.home, str(step.task.job))


def _put_by_the_service(step: "StarterStepContext") -> str:
    """Return the kind of guard that the service set after a change of the request."""
    context = dict(step.request.context)
    if OWN_START in context:
        return HomeStartGuard.START
    return HomeStartGuard.HOLD if OWN_HOLD in context else HomeStartGuard.NONE
