"""What the service does to local jobs, whichever system runs them: release, adopt, give back."""

from collections.abc import Iterator, Mapping

from gridbridge.apply.adapters import tasks_of
from gridbridge.apply.clusters import home
from gridbridge.decisions.transfer.guards import RequestAtHome
from gridbridge.decisions.transfer.requests import refusals, rerun
from gridbridge.errors import ConfigError
from gridbridge.model.ids import TransferId, parse_transfer
from gridbridge.model.policy import Policy
from gridbridge.model.request import Request, Way
from gridbridge.model.transfer.guard import Guard
from gridbridge.model.transfer.plan import Action
from gridbridge.model.transfer.transfer import Transfer


class LocalTasks:
    """The tasks of the cluster that has the transfer queues.

    Every act may be repeated, and raises CommandFailed when it is not done, or ConfigError where
    the site can have no transfer queues.
    """

    def __init__(self, policy: Policy) -> None:
        if policy.why_no_queues:
            raise ConfigError((policy.why_no_queues,))
        self._where = home(policy, policy.site.cluster)
        self._tasks = tasks_of(self._where)
        self._transfer_queues = tuple(policy.queues)

    def release(self, action: Action) -> None:
        """Let a task start again that has this guard."""
        self._tasks.release(self._where, _task(action.transfer), action.transfer.guard)

    def adopt(self, action: Action) -> None:
        """Let a task start again in the queue where its remote copy is known, and there only."""
        one = action.transfer
        self._tasks.adopt(self._where, _task(one), one.queue, one.guard)

    def guard(self, action: Action) -> None:
        """Keep a task from starting again in this way."""
        self._tasks.guard(self._where, _task(action.transfer), action.transfer.guard)

    def unpin(self, action: Action) -> None:
        """Let a job start in all the queues that it asked for."""
        self._tasks.unpin(self._where, _task(action.transfer))

    def requests(self, jobs: tuple[int, ...]) -> dict[int, RequestAtHome]:
        """Return what these jobs ask for now; a job that is gone is left out."""
        requests = self._tasks.requests_of(self._where, jobs)
        return {job: _request(request) for job, request in requests.items()}

    def deferred(self) -> frozenset[int]:
        """Return the jobs that wait for their start time, of whatever owner."""
        return self._tasks.deferred(self._where)

    def free_copy(self, copy: TransferId) -> None:
        """Remove our start time and list of queues from a copy of a job that is away."""
        self._tasks.unpin(self._where, copy)
        self._tasks.release(self._where, copy, Guard.START)

    def check(self, transfer: Transfer) -> None:
        """Raise GridbridgeError when no queue of its own could run a transfer's job."""
        self._tasks.check(self._where, _task(transfer), self._ways)

    def rerun(self, transfer: Transfer) -> str:
        """Say `yes` or `no`: whether a job without `-r` runs again after its host was lost."""
        return self._tasks.rerun(self._where, _task(transfer), self._transfer_queues, _of_queues)

    def _ways(self, own: Request) -> Iterator[Way]:
        for mark in refusals.marks(own.hard, own.queues, self._transfer_queues):
            yield mark.hard, mark.queues


def _task(transfer: Transfer) -> TransferId:
    return parse_transfer(transfer.name)


def _request(request: Request) -> RequestAtHome:
    return RequestAtHome(
        owner=request.owner,
        is_deferred=request.is_deferred,
        deferred_job=request.deferred_job,
        hard=request.hard,
        queues=request.own_queues,
    )


def _of_queues(request: Request, own: Mapping[str, str]) -> str:
    return rerun.of_queues(request.hard, request.own_queues, own)
