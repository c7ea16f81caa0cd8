"""What the service does to tasks in the local cell: guard, release, adopt, give back."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from gridbridge.batch.gridengine import home_queues, objects, submit
from gridbridge.batch.gridengine.client_commands import STAYS
from gridbridge.batch.gridengine.submit import ANY_QUEUE, deferred, requests_of
from gridbridge.errors import GridbridgeError
from gridbridge.model.ids import TransferId
from gridbridge.model.message import shorten_reason
from gridbridge.model.request import OWN_HOLD, OWN_QUEUES, OWN_START, JobRequest, Variant
from gridbridge.model.route import GridEngineCell
from gridbridge.model.transfer import guard as guards
from gridbridge.model.transfer.guard import Guard

__all__ = (
    "adopt",
    "check",
    "deferred",
    "guard",
    "keep_off",
    "release",
    "requests_of",
    "rerun",
    "unpin",
)

_log = logging.getLogger(__name__)


def release(cell: GridEngineCell, local: TransferId, guard: str) -> None:
    """Remove the guard."""
    if guard == Guard.START:
        odd = submit.undefer(cell, str(local.job))
        _tell_odd(local, OWN_START, odd, "no time: it may start at once")
    elif guard == Guard.HOLD:
        submit.release(cell, local.local)


def adopt(cell: GridEngineCell, local: TransferId, queue: str, guard: str) -> None:
    """Pin the job to the queue, then let it go there.

    Its own list of queues is kept in its context, which lives as long as the job.
    """
    job = str(local.job)
    request = submit.request_of(cell, job)
    own = request.own_queues or ANY_QUEUE
    hard = guards.drop_remote_request(request.hard) if guards.asks_for_home(request.hard) else None
    submit.pin(cell, job, queue, remember=own, hard=hard)
    release(cell, local, guard)


def guard(cell: GridEngineCell, local: TransferId, guard: str) -> None:
    """Hold a task or defer its job; the job's context tells its starter of a hold."""
    job = str(local.job)
    if guard == Guard.START:
        submit.defer(cell, job, submit.request_of(cell, job))
    elif guard == Guard.HOLD:
        submit.alter(cell, job, ("-ac", f"{OWN_HOLD}=1"))
        submit.hold(cell, local.local)


def keep_off(cell: GridEngineCell, local: TransferId, other_queues: Callable[[str], str]) -> None:
    """Give a job another list of queues, and keep its own in its context; unpin gives it back."""
    job = str(local.job)
    own = submit.request_of(cell, job)
    queues = other_queues(own.own_queues)
    if not queues or not home_queues.could_run(cell, home_queues.instead(own, None, queues)):
        raise GridbridgeError("no other queue could run it")
    submit.pin(cell, job, queues, remember=own.own_queues or ANY_QUEUE)


def unpin(cell: GridEngineCell, local: TransferId) -> None:
    """Give a job its own list of queues back."""
    job = str(local.job)
    request = submit.request_of(cell, job)
    context = dict(request.context)
    hard = guards.restrict_to_home(request.hard) if STAYS in context else None
    if own := context.get(OWN_QUEUES, ""):
        odd = submit.unpin(cell, job, own, hard)
        _tell_odd(local, OWN_QUEUES, odd, "no queues here: it may start in any")


def check(
    cell: GridEngineCell, local: TransferId, variants: Callable[[JobRequest], Iterable[Variant]]
) -> None:
    """Verify each variant of the request, in which the job stays at home."""
    own = submit.request_of(cell, str(local.job))
    requests = (home_queues.instead(own, hard, queues) for hard, queues in variants(own))
    if not any(home_queues.could_run(cell, request) for request in requests):
        raise GridbridgeError("no queue at home could run it")


def rerun(
    cell: GridEngineCell,
    local: TransferId,
    transfer_queues: Collection[str],
    of_queues: Callable[[JobRequest, Mapping[str, str]], str],
) -> str:
    """Say what its request says now, or else the queues here in which it could have run."""
    request = submit.request_of(cell, str(local.job))
    return request.rerun or of_queues(request, objects.reruns(cell, transfer_queues))


def _tell_odd(local: TransferId, name: str, value: str, why: str) -> None:
    """Log a wrong value that somebody wrote in the place of a job's own."""
    if value:
        _log.warning(
            "event=bad_context job=%s %s=%a why=%r", local.local, name, shorten_reason(value), why
        )
