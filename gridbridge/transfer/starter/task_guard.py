"""A starter guards its task at home: a task that is put back must not start beside its copy."""

from gridbridge.model.request import OWN_HOLD, OWN_START
from gridbridge.model.transfer import guard
from gridbridge.model.transfer.guard import Guard
from gridbridge.state import published_values
from gridbridge.transfer.starter.local_task import GUARDED

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from gridbridge.transfer.starter.starter_step import StarterStep


def chosen(step: "StarterStep") -> str:
    """Return the guard that the task needs; a cluster without start times has only one."""
    if not step.home.HAS_START_TIMES:
        return Guard.HOLD
    request, task = step.request, step.task
    transfer_queues = published_values.queues(task.published)
    return guard.choose(request.hard, request.own_queues, transfer_queues, bool(task.task))


def put(step: "StarterStep") -> None:
    """Guard the running task: the first act, once noted."""
    task, how = step.task, step.record.guard or Guard.HOLD
    if task.is_done(GUARDED):
        return
    if how == Guard.HOLD:
        step.home.hold(step.route.home, task.local)
    elif how == Guard.START:
        step.home.defer(step.route.home, str(task.job), step.request)
    task.note_done(GUARDED)


def take_back(step: "StarterStep") -> None:
    """Let the task start again anywhere: it has no job elsewhere any more."""
    how = step.record.guard or Guard.HOLD
    if how == Guard.NONE:
        how = _put_by_the_service(step)
    if how == Guard.HOLD:
        step.home.release(step.route.home, step.task.local)
    elif how == Guard.START:
        step.home.undefer(step.route.home, str(step.task.job))


def _put_by_the_service(step: "StarterStep") -> str:
    """Return the guard of a task that needed none before its request was changed."""
    context = dict(step.request.context)
    if OWN_START in context:
        return Guard.START
    return Guard.HOLD if OWN_HOLD in context else Guard.NONE
