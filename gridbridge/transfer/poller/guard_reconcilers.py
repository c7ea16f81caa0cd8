"""Restore guards that people removed; remove stale guards and copied guards.

A guard is a hold or a far start time that keeps an away job from starting at home.

Every snapshot shows holds. A query once a minute returns start times and queue lists of at most a
hundred jobs.
"""

import logging
from collections.abc import Callable
from datetime import datetime

from gridbridge.decisions.transfer import undelivered_ends_and_guards
from gridbridge.decisions.transfer.undelivered_ends_and_guards import (
    GuardRelevantRequest,
    is_ended_task_gone_from_home,
    is_home_answer_after_task_end,
)
from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.guard import HomeStartGuard
from gridbridge.model.transfer.transfer_round_plan import TransferAction, TransferActKind
from gridbridge.model.transfer.transfer_row import Transfer, TransferKey
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.program.watch.cluster_observer import ClusterQueryResult
from gridbridge.program.work.thread_pools import AT_ONCE, OwnerThreadPools, RepeatedBackgroundQuery
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile
from gridbridge.transfer.acts.local_tasks import LocalTaskActs
from gridbridge.transfer.poller.transfer_act_dispatcher import TransferActDispatcher
from gridbridge.transfer.poller.transfer_ledger import TransferLedger
from gridbridge.transfer.store.transfer_rows import TransferRows

RESTORE_AFTER_S = 60.0
RESTORED_WHY = "its guard was removed by hand"
WHY = "its guard may have been restored after its release"
LOOK_S = 60.0
_log = logging.getLogger(__name__)


class MissingGuardRestorer:
    """Finds missing guards in the home cluster's snapshots and restores the guards."""

    def __init__(
        self,
        policy: Policy,
        ledger: TransferLedger,
        tasks: LocalTaskActs,
        workers: OwnerThreadPools,
        act: Callable[[TransferAction], None],
        clock: Callable[[], float],
    ) -> None:
        self._policy = policy
        self._ledger = ledger
        self._act = act
        self._unheld: frozenset[str] = frozenset()  # transfers without a listed hold
        self._after = 0  # id of the local job that was checked last
        home = policy.site.cluster
        self._look = RepeatedBackgroundQuery(
            workers, home, "look_at_guards", tasks.requests, clock, RESTORE_AFTER_S, RESTORE_AFTER_S
        )
        self._missing: list[Transfer] = []

    def follow(self, policy: Policy) -> None:
        """Apply a changed configuration."""
        self._policy = policy

    def take_answers(self, came: tuple[ClusterQueryResult, ...], home: str) -> None:
        """Check guards against the home cluster's new answer, if any."""
        for answer in came:
            if answer.cluster == home and answer.snapshot:
                self._check_holds(answer.snapshot)

    def _check_holds(self, local: ClusterSnapshot) -> None:
        """Restore holds missing in two snapshots: one gap may be a starter's release."""
        unheld = undelivered_ends_and_guards.transfers_lacking_home_hold(self._ledger.all(), local)
        for transfer in tuple(self._ledger.all()):
            if transfer.name in unheld & self._unheld:
                self._put_back(transfer, HomeStartGuard.HOLD)
        self._unheld = unheld
        if reply := self._look.answer():
            self._take(reply[1])
        if self._look.may_ask():
            self._ask(undelivered_ends_and_guards.jobs_with_guard_besides_hold(self._ledger.all(), local))

    def _ask(self, jobs: tuple[int, ...]) -> None:
        """Query the guards of at most a hundred local jobs, which take turns."""
        next_ones = [job for job in jobs if job > self._after]
        due = next_ones if next_ones and len(jobs) > AT_ONCE else list(jobs)
        if batch := tuple(due[:AT_ONCE]):
            self._after = batch[-1]
            self._look.ask(batch)

    def _take(self, requests: dict[int, GuardRelevantRequest]) -> None:
        """Restore the guards that are missing in the answer to a query of local jobs."""
        for transfer in tuple(self._ledger.all()):
            request = requests.get(parse_transfer_name(transfer.name).job)
            guard = (
                undelivered_ends_and_guards.guard_to_restore(transfer, request, self._policy.queues) if request else ""
            )
            if guard and not transfer.verdict:
                self._put_back(transfer, guard)

    def _put_back(self, transfer: Transfer, guard: str) -> None:
        """Record that a local task gets its guard again; `send` restores the guard."""
        transfer = transfer.but(guard=guard, reguarded=True)
        self._ledger.keep(transfer)
        self._missing.append(transfer)

    def send(self) -> None:
        """Restore the guards that the state file has recorded."""
        missing, self._missing = self._missing, []
        for transfer in missing:
            self._act(TransferAction(act=TransferActKind.GUARD_LOCAL, transfer=transfer, why=RESTORED_WHY))


class StaleGuardRemover:
    """Removes the guards of local tasks whose transfers are closed."""

    def __init__(
        self, database: StateFile, ledger: TransferLedger, dispatcher: TransferActDispatcher, clock: Clock
    ) -> None:
        self._transfers = TransferRows(database)
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._left: dict[TransferKey, Transfer] = clock.dated(Transfer.moved)

    def load(self, now: datetime) -> None:
        """Load the closed transfers whose tasks may still have an earlier process's guard."""
        for transfer in self._transfers.reguarded():
            self.remember(transfer.not_after(now))

    def remember(self, closed: Transfer) -> None:
        """Remember a closed transfer if its task may still be guarded."""
        if undelivered_ends_and_guards.may_restored_guard_be_stale(closed):
            self._left[closed.key] = closed

    def jobs(self) -> set[int]:
        """Return the local job ids that the home cluster's next snapshot must keep."""
        return {parse_transfer_name(transfer.name).job for transfer in self._left.values()}

    def take_answer(self, local: ClusterSnapshot) -> None:
        """Remove guards of closed transfers' tasks that home lists, except tasks sent again."""
        for transfer in tuple(self._left.values()):
            if is_ended_task_gone_from_home(transfer, local) or self._is_sent_anew(transfer):
                self.forget_released(transfer)
            elif is_home_answer_after_task_end(transfer, local):
                self._let_go(transfer)

    def forget_released(self, transfer: Transfer) -> None:
        """Record that a closed transfer's task was released or is gone."""
        if self._left.pop(transfer.key, None):
            self._ledger.release(transfer)

    def _let_go(self, transfer: Transfer) -> None:
        """Remove a local task's guard, unless a thread is about to restore this guard."""
        action = TransferAction(act=TransferActKind.RELEASE_LOCAL, transfer=transfer, why=WHY)
        guarding = TransferAction(act=TransferActKind.GUARD_LOCAL, transfer=transfer, why=WHY)
        if self._dispatcher.may_begin(action) and self._dispatcher.may_begin(guarding):
            self._dispatcher.begin(action)

    def _is_sent_anew(self, transfer: Transfer) -> bool:
        return self._ledger.attempts(transfer.name, transfer.uid)[-1].name != transfer.name


class CopiedGuardRemover:
    """Finds qresub copies of guarded jobs, and removes the copied guards."""

    def __init__(
        self,
        policy: Policy,
        ledger: TransferLedger,
        tasks: LocalTaskActs,
        workers: OwnerThreadPools,
        clock: Callable[[], float],
    ) -> None:
        self._home = policy.site.cluster
        self._ledger = ledger
        self._tasks = tasks
        self._others: frozenset[int] = frozenset()  # ids of deferred jobs that are no qresub copies
        home = policy.site.cluster
        self._look = RepeatedBackgroundQuery(workers, home, "look_for_copies", self._free_copies, clock, LOOK_S)

    def take_answers(self, came: tuple[ClusterQueryResult, ...]) -> None:
        """Look for copied guards once a minute, while the home cluster answers."""
        if any(answer.cluster == self._home and answer.snapshot for answer in came):
            if reply := self._look.answer():
                self._others = reply[1]
            if self._look.may_ask():
                self._look.ask(self._remote_jobs())

    def _remote_jobs(self) -> frozenset[int]:
        return frozenset(parse_transfer_name(transfer.name).job for transfer in self._ledger.all())

    def _free_copies(self, remote_jobs: frozenset[int]) -> frozenset[int]:
        """Clear the copied start time of qresub copies; return all other deferred jobs."""
        waiting = self._tasks.deferred()
        new = tuple(sorted(waiting - self._others)[:AT_ONCE])
        requests = self._tasks.requests(new) if new else {}
        copies = undelivered_ends_and_guards.qresub_jobs_with_copied_guard(requests, remote_jobs)
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
