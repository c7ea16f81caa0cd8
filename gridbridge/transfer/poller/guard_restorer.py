"""Restore guards at the home cluster that people removed from jobs that are away.

Every snapshot shows holds. A query once a minute returns start times and queue lists of at most a
hundred jobs.
"""

from collections.abc import Callable

from gridbridge.decisions.transfer import local_guards
from gridbridge.decisions.transfer.local_guards import HomeJobRequest
from gridbridge.model.ids import parse_transfer
from gridbridge.model.policy import Policy
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.model.transfer.guard import Guard
from gridbridge.model.transfer.transfer_plan import TransferAct, TransferAction
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.program.watch.cluster_observer import ClusterQueryResult
from gridbridge.program.work.background_query import AT_ONCE, BackgroundQuery
from gridbridge.program.work.workers import OwnerThreadPools
from gridbridge.transfer.acts.local_tasks import LocalTasks
from gridbridge.transfer.poller.transfer_ledger import TransferLedger

LOOK_S = 60.0
WHY = "its guard was removed by hand"


class GuardRestorer:
    """Finds missing guards in the home cluster's snapshots and restores the guards."""

    def __init__(
        self,
        policy: Policy,
        ledger: TransferLedger,
        tasks: LocalTasks,
        workers: OwnerThreadPools,
        act: Callable[[TransferAction], None],
        clock: Callable[[], float],
    ) -> None:
        self._policy = policy
        self._ledger = ledger
        self._act = act
        self._unheld: frozenset[str] = frozenset()  # transfers without a hold in home's last answer
        self._after = 0  # the last local job that was checked
        home = policy.site.cluster
        self._look = BackgroundQuery(
            workers, home, "look_at_guards", tasks.requests, clock, LOOK_S, LOOK_S
        )
        self._missing: list[Transfer] = []

    def follow(self, policy: Policy) -> None:
        """Apply a changed configuration."""
        self._policy = policy

    def take_answers(self, came: tuple[ClusterQueryResult, ...], home: str) -> None:
        """Check the guards if the home cluster has answered."""
        for answer in came:
            if answer.cluster == home and answer.snapshot:
                self._check_holds(answer.snapshot)

    def _check_holds(self, local: ClusterSnapshot) -> None:
        """Restore holds missing in two snapshots: one gap may be a starter's release."""
        unheld = local_guards.transfers_without_hold(self._ledger.all(), local)
        for transfer in tuple(self._ledger.all()):
            if transfer.name in unheld & self._unheld:
                self._put_back(transfer, Guard.HOLD)
        self._unheld = unheld
        if reply := self._look.answer():
            self._take(reply[1])
        if self._look.may_ask():
            self._ask(local_guards.jobs_with_hidden_guard(self._ledger.all(), local))

    def _ask(self, jobs: tuple[int, ...]) -> None:
        """Query the guards of all local jobs, or of the next hundred local jobs."""
        next_ones = [job for job in jobs if job > self._after]
        due = next_ones if next_ones and len(jobs) > AT_ONCE else list(jobs)
        if batch := tuple(due[:AT_ONCE]):
            self._after = batch[-1]
            self._look.ask(batch)

    def _take(self, requests: dict[int, HomeJobRequest]) -> None:
        """Restore the guards that are missing in the answer to a query of local jobs."""
        for transfer in tuple(self._ledger.all()):
            request = requests.get(parse_transfer(transfer.name).job)
            guard = (
                local_guards.guard_to_restore(transfer, request, self._policy.queues)
                if request
                else ""
            )
            if guard and not transfer.verdict:
                self._put_back(transfer, guard)

    def _put_back(self, transfer: Transfer, guard: str) -> None:
        """Record that a task gets its guard again; `send` restores the guard."""
        transfer = transfer.but(guard=guard, reguarded=True)
        self._ledger.keep(transfer)
        self._missing.append(transfer)

    def send(self) -> None:
        """Restore the guards that the state file has recorded."""
        missing, self._missing = self._missing, []
        for transfer in missing:
            self._act(TransferAction(act=TransferAct.GUARD_LOCAL, transfer=transfer, why=WHY))
