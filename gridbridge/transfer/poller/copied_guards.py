"""Remove guards that qresub copies with a job while the job is away."""

import logging
from collections.abc import Callable

from gridbridge.decisions.transfer import local_guards
from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.model.ids import parse_transfer
from gridbridge.model.policy import Policy
from gridbridge.program.watch.cluster_observer import ClusterQueryResult
from gridbridge.program.work.background_query import AT_ONCE, BackgroundQuery
from gridbridge.program.work.workers import OwnerThreadPools
from gridbridge.transfer.acts.local_tasks import LocalTasks
from gridbridge.transfer.poller.transfer_ledger import TransferLedger

LOOK_S = 60.0

_log = logging.getLogger(__name__)


class CopiedGuardRemover:
    """The deferred jobs of the home cluster, and the qresub copies among these jobs."""

    def __init__(
        self,
        policy: Policy,
        ledger: TransferLedger,
        tasks: LocalTasks,
        workers: OwnerThreadPools,
        clock: Callable[[], float],
    ) -> None:
        self._home = policy.site.cluster
        self._ledger = ledger
        self._tasks = tasks
        self._others: frozenset[int] = frozenset()  # deferred jobs that are no copies
        home = policy.site.cluster
        self._look = BackgroundQuery(
            workers, home, "look_for_copies", self._free_copies, clock, LOOK_S
        )

    def take_answers(self, came: tuple[ClusterQueryResult, ...]) -> None:
        """Look for copied guards once a minute, while the home cluster answers."""
        if any(answer.cluster == self._home and answer.snapshot for answer in came):
            if reply := self._look.answer():
                self._others = reply[1]
            if self._look.may_ask():
                self._look.ask(self._remote_jobs())

    def _remote_jobs(self) -> frozenset[int]:
        return frozenset(parse_transfer(transfer.name).job for transfer in self._ledger.all())

    def _free_copies(self, remote_jobs: frozenset[int]) -> frozenset[int]:
        """Clear the copied start time of qresub copies; return all other deferred jobs."""
        waiting = self._tasks.deferred()
        new = tuple(sorted(waiting - self._others)[:AT_ONCE])
        requests = self._tasks.requests(new) if new else {}
        copies = local_guards.qresub_copies(requests, remote_jobs)
        for job in copies:
            self._free(job, requests[job].deferred_job)
        return waiting & self._others.union(new).difference(copies)

    def _free(self, job: int, original: int) -> None:
        """Give a qresub copy its own start time; the next check retries after a failure."""
        try:
            self._tasks.free_copy(job)
        except (GridbridgeError, OSError) as error:
            _log.warning("event=failed act=free_copy job=%d why=%r", job, describe_error(error))
        else:
            why = f"qresub has copied the guard of job {original}, which is away"
            _log.info("event=freed job=%d why=%r", job, why)
