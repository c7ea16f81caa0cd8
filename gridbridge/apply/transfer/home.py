"""What the service does to local jobs, whichever system runs them: release, adopt, give back."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Protocol, cast

from gridbridge.apply.clusters import home
from gridbridge.batch.embedded import home as embedded
from gridbridge.batch.embedded import submit as embedded_submit
from gridbridge.batch.gridengine import home as gridengine
from gridbridge.batch.gridengine import objects, submit
from gridbridge.batch.gridengine.commands import STAYS
from gridbridge.decisions.transfer.guards import RequestAtHome
from gridbridge.decisions.transfer.requests import refusals, rerun
from gridbridge.errors import ConfigError, GridbridgeError
from gridbridge.model import route
from gridbridge.model.cluster import Kind
from gridbridge.model.ids import TransferId
from gridbridge.model.message import short
from gridbridge.model.policy import Policy
from gridbridge.model.request import OWN_HOLD, OWN_QUEUES, OWN_START, Request
from gridbridge.model.route import Cell, Folder
from gridbridge.model.transfer.guard import Guard

ANY_QUEUE = "*"

_log = logging.getLogger(__name__)


class Home(Protocol):
    """The local cluster; every act may be repeated and raises CommandFailed when it is not done."""

    def release(self, local: TransferId, guard: str) -> None:
        """Let a task start again that has this guard (model.guard)."""
        ...

    def adopt(self, local: TransferId, queue: str, guard: str) -> None:
        """Let a task start again in the queue where its remote copy is known, and there only."""
        ...

    def guard(self, local: TransferId, guard: str) -> None:
        """Keep a task from starting again in this way."""
        ...

    def kept(self, jobs: tuple[int, ...]) -> dict[int, RequestAtHome]:
        """Return what jobs ask for now, without those that are gone."""
        ...

    def deferred(self) -> frozenset[int]:
        """Return the jobs that wait for their start time, of whatever owner."""
        ...

    def unpin(self, local: TransferId) -> None:
        """Let a job start in all the queues that it asked for."""
        ...

    def check(self, local: TransferId) -> None:
        """Raise GridbridgeError when no queue of its own could run a job."""
        ...

    def rerun(self, local: TransferId) -> str:
        """Say `yes` or `no`: whether a job without `-r` runs again after its host was lost."""
        ...


class CellHome:
    """A Grid Engine cell."""

    def __init__(self, cell: Cell, transfer_queues: Collection[str]) -> None:
        self._cell = cell
        self._transfer_queues = transfer_queues

    def release(self, local: TransferId, guard: str) -> None:
        """Remove the guard."""
        if guard == Guard.START:
            odd = submit.undefer(self._cell, str(local.job))
            _tell_odd(local, OWN_START, odd, "no time: it may start at once")
        elif guard == Guard.HOLD:
            submit.release(self._cell, local.local)

    def adopt(self, local: TransferId, queue: str, guard: str) -> None:
        """Pin the job to the queue, then let it go there.

        Its own list of queues is kept in its context, which lives as long as the job.
        """
        job = str(local.job)
        request = submit.request_of(self._cell, job)
        own = request.own_queues or ANY_QUEUE
        hard = refusals.without_remote(request.hard) if refusals.stays(request.hard) else None
        submit.pin(self._cell, job, queue, remember=own, hard=hard)
        self.release(local, guard)

    def guard(self, local: TransferId, guard: str) -> None:
        """Hold a task or defer its job; the job's context tells its starter of a hold."""
        job = str(local.job)
        if guard == Guard.START:
            submit.defer(self._cell, job, submit.request_of(self._cell, job))
        elif guard == Guard.HOLD:
            submit.alter(self._cell, job, ("-ac", f"{OWN_HOLD}=1"))
            submit.hold(self._cell, local.local)

    def kept(self, jobs: tuple[int, ...]) -> dict[int, RequestAtHome]:
        """Ask for all of them in one question."""
        requests = submit.requests_of(self._cell, jobs)
        return {job: _kept(request) for job, request in requests.items()}

    def deferred(self) -> frozenset[int]:
        """Ask in one question; each job's context tells whether the time is ours."""
        return submit.deferred(self._cell)

    def unpin(self, local: TransferId) -> None:
        """Give a job its own list of queues back."""
        job = str(local.job)
        request = submit.request_of(self._cell, job)
        context = dict(request.context)
        hard = refusals.at_home(request.hard) if STAYS in context else None
        if own := context.get(OWN_QUEUES, ""):
            odd = submit.unpin(self._cell, job, own, hard)
            _tell_odd(local, OWN_QUEUES, odd, "no queues here: it may start in any")

    def check(self, local: TransferId) -> None:
        """Verify the request without this site's transfer queues."""
        own = submit.request_of(self._cell, str(local.job))
        ways = refusals.marks(own.hard, own.queues, self._transfer_queues)
        asked = (gridengine.instead(own, way.hard, way.queues) for way in ways)
        if not any(gridengine.could_run(self._cell, each) for each in asked):
            raise GridbridgeError("no queue at home could run it")

    def rerun(self, local: TransferId) -> str:
        """Say what its request says now, or else the queues here in which it could have run."""
        request = submit.request_of(self._cell, str(local.job))
        if request.rerun:
            return request.rerun
        own = objects.reruns(self._cell, self._transfer_queues)
        return rerun.of_queues(request.hard, request.own_queues, own)


def _tell_odd(local: TransferId, name: str, value: str, why: str) -> None:
    """Log a wrong value that somebody wrote in the place of a job's own."""
    if value:
        _log.warning("event=bad_context job=%s %s=%a why=%r", local.local, name, short(value), why)


def _kept(request: Request) -> RequestAtHome:
    return RequestAtHome(
        owner=request.owner,
        is_deferred=request.is_deferred,
        deferred_job=request.deferred_job,
        hard=request.hard,
        queues=request.own_queues,
    )


class FolderHome:
    """An embedded cluster."""

    def __init__(self, folder: Folder, transfer_queues: Collection[str]) -> None:
        del transfer_queues
        self._folder = folder

    def release(self, local: TransferId, guard: str) -> None:
        """Take the hold back, the only guard here."""
        del guard
        embedded_submit.release(self._folder, local.local)

    def adopt(self, local: TransferId, queue: str, guard: str) -> None:
        """Pin the job to the queue, then let it go there."""
        del guard
        embedded.pin(self._folder, local.local, queue)
        embedded_submit.release(self._folder, local.local)

    def guard(self, local: TransferId, guard: str) -> None:
        """Hold a task: there is no other guard here."""
        del guard
        embedded_submit.hold(self._folder, local.local)

    def kept(self, jobs: tuple[int, ...]) -> dict[int, RequestAtHome]:
        """Tell nothing: every guard shows here."""
        del jobs
        return {}

    def deferred(self) -> frozenset[int]:
        """Tell of none: no job here has a start time."""
        return frozenset()

    def unpin(self, local: TransferId) -> None:
        """Take the pin back."""
        embedded.pin(self._folder, local.local, "")

    def check(self, local: TransferId) -> None:
        """Refuse: no task is recalled to an embedded cluster (services.recalls)."""
        raise GridbridgeError(f"job {local.job} is not recalled to an embedded cluster")

    def rerun(self, local: TransferId) -> str:
        """Say no: an embedded cluster runs no job again."""
        del local
        return rerun.NO


HOMES = cast(
    "Mapping[str, Callable[[route.Home, Collection[str]], Home]]",  # each takes its own kind
    {Kind.GRIDENGINE: CellHome, Kind.EMBEDDED: FolderHome},
)


def home_of(policy: Policy) -> Home:
    """Return the local cluster; ConfigError where none could have transfer queues."""
    if policy.why_no_queues:
        raise ConfigError((policy.why_no_queues,))
    where = home(policy, policy.site.cluster)
    return HOMES[where.kind](where, tuple(policy.queues))
