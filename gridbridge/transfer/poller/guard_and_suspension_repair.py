"""Restore guards that people removed; remove stale guards and copied guards.

A guard is a hold or a far start time that keeps an away job from starting at home.

Every snapshot shows holds. A query once a minute returns start times and queue lists of at most a hundred jobs.

The service publishes the local job's state in the verdict's file until the starter reports that the remote job
follows. Only the starter acts on the remote job. A verdict or recall has priority.
"""

import logging
from collections import Counter
from collections.abc import Callable, Container
from datetime import datetime

from gridbridge.batch.batch_adapter_table import ADAPTERS
from gridbridge.decisions.transfer import home_and_remote_mismatches
from gridbridge.decisions.transfer.home_and_remote_mismatches import (
    GuardRelevantRequest,
    SuspensionMismatch,
    find_suspension_mismatch,
    is_ended_task_gone_from_home,
    is_home_answer_after_task_end,
)
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferDecisionInputs
from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.claim_and_guard import HomeStartGuard
from gridbridge.model.transfer.transfers_and_actions import Transfer, TransferAction, TransferActKind, TransferKey
from gridbridge.model.transfer_message import TransferMessage, TransferOutcome
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.program.cluster_observer import ClusterQueryResult
from gridbridge.program.threads_and_backoff import (
    AT_ONCE,
    BackoffBySubject,
    OwnerThreadPools,
    RepeatedBackgroundQuery,
)
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.local_task_acts import LocalTaskActs
from gridbridge.transfer.poller.answers_to_starters import VerdictFilesAndStarterFifos
from gridbridge.transfer.poller.transfer_acts import TransferActDispatcher
from gridbridge.transfer.poller.transfer_ledger import TransferLedger
from gridbridge.transfer.transfer_rows import TransferRows

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
        unheld = home_and_remote_mismatches.transfers_lacking_home_hold(self._ledger.all(), local)
        for transfer in tuple(self._ledger.all()):
            if transfer.name in unheld & self._unheld:
                self._put_back(transfer, HomeStartGuard.HOLD)
        self._unheld = unheld
        if reply := self._look.answer():
            self._take(reply[1])
        if self._look.may_ask():
            self._ask(home_and_remote_mismatches.jobs_with_guard_besides_hold(self._ledger.all(), local))

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
                home_and_remote_mismatches.guard_to_restore(transfer, request, self._policy.queues) if request else ""
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
        if home_and_remote_mismatches.may_restored_guard_be_stale(closed):
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
        copies = home_and_remote_mismatches.qresub_jobs_with_copied_guard(requests, remote_jobs)
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


AGAIN_S = 60.0  # first pause between requests to a starter
SELDOM_S = 3600.0  # longest pause between requests to a starter that does nothing
FEW = 3  # number of requests after which the history says that the starter does nothing
WHAT_FOLLOWS = (
    "its starter does not act on suspension requests, which now come less often, at last hourly;"
    " qdel of the local job still deletes the remote job, after half a minute"
)


class SuspensionReconciler:
    """Finds suspension mismatches in snapshots, and requests starters' corrections."""

    def __init__(
        self, policy: Policy, ledger: TransferLedger, verdicts: VerdictFilesAndStarterFifos, clock: Callable[[], float]
    ) -> None:
        self._policy = policy
        self._ledger = ledger
        self._verdicts = verdicts
        self._seen: dict[TransferKey, SuspensionMismatch] = {}
        self._out: dict[TransferKey, SuspensionMismatch] = {}
        self._backoff = BackoffBySubject(clock, AGAIN_S, SELDOM_S)
        self._times: Counter[TransferKey] = Counter()

    def follow(self, policy: Policy) -> None:
        """Apply a changed configuration."""
        self._policy = policy

    def forget(self) -> None:
        """Forget the suspension mismatches in earlier snapshots after a clock change."""
        self._seen.clear()

    def decide(self, situation: TransferDecisionInputs, busy: Container[TransferKey]) -> None:
        """Request corrections after two snapshots with a mismatch; withdraw old requests.

        Transfers in `busy` are being recalled, and their recall requests use the same files.
        """
        shows = frozenset(
            name for name, cluster in self._policy.clusters.items() if ADAPTERS[cluster.kind].shows_suspension
        )
        mismatches = {
            transfer.key: shown
            for transfer in self._ledger.all()
            if transfer.key not in busy and (shown := find_suspension_mismatch(transfer, situation, shows))
        }
        for key in self._out.keys() - mismatches.keys():
            self._take_back(key, busy)
        before, self._seen = self._seen, mismatches
        for key, shown in mismatches.items():
            if key in before and shown.follows(before[key]):
                self._publish_mismatch(key, shown)
            elif key in before and shown.is_like(before[key]):
                self._seen[key] = before[key]  # only one of the two clusters has answered since

    def _publish_mismatch(self, key: TransferKey, shown: SuspensionMismatch) -> None:
        """Publish a suspension request to the starter, again after growing pauses."""
        last = self._out.get(key)
        if last and last.desired != shown.desired:
            self._forget(key)
        if not self._backoff.may_try(key):
            return
        transfer = self._ledger.open[key]
        self._out[key] = shown
        self._times[key] += 1
        if self._times[key] <= FEW:
            self._ledger.note(transfer, f"suspension request to its starter: {shown.why}")
        elif self._times[key] == FEW + 1:
            self._ledger.note(transfer, WHAT_FOLLOWS)
        self._verdicts.publish(
            TransferAction(
                act=TransferActKind.PUBLISH, transfer=transfer, why=shown.why, verdict=_agreement(transfer, shown)
            )
        )

    def _take_back(self, key: TransferKey, busy: Container[TransferKey]) -> None:
        """Withdraw a suspension request, unless a verdict or recall replaced the request."""
        del self._out[key]
        self._forget(key)
        transfer = self._ledger.open.get(key)
        if transfer and not transfer.verdict and key not in busy:
            self._verdicts.retract(transfer.name, transfer.uid)

    def _forget(self, key: TransferKey) -> None:
        """Forget the pauses and the number of a transfer's requests."""
        self._backoff.forget(key)
        self._times.pop(key, None)


def _agreement(transfer: Transfer, shown: SuspensionMismatch) -> TransferMessage:
    at = f"{shown.at[0].timestamp():.3f}"
    return TransferMessage(
        transfer=transfer.name, outcome=TransferOutcome.AGREE, desired=shown.desired, at=at, reason=shown.why
    )
