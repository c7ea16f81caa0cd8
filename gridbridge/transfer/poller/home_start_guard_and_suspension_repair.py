"""Keep home from starting a task that is away, and make remote jobs follow a suspension at home.

A guard is a hold or a far start time. The service restores missing guards, and removes old and copied guards.
"""

import logging
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import replace
from datetime import datetime

from gridbridge.batch.batch_adapter_table import ADAPTERS
from gridbridge.decisions.transfer import home_and_remote_mismatches
from gridbridge.decisions.transfer.home_and_remote_mismatches import (
    SuspensionMismatch,
    find_suspension_mismatch,
    is_ended_task_gone_from_home,
    is_home_answer_after_task_end,
)
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferSituation
from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.job_request import JobRequest
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.claim_and_guard import HomeStartGuard
from gridbridge.model.transfer.transfers_and_actions import Transfer, TransferAction, TransferActKind, TransferKey
from gridbridge.model.transfer_messages_in_spool import TransferMessage, TransferOutcome
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.program.cluster_observer import ClusterQueryResult
from gridbridge.program.threads_and_backoff import AT_ONCE, BackoffBySubject, OwnerThreadPools, RepeatedBackgroundQuery
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.local_task_acts import LocalTaskActs, ReloadablePollerComponent
from gridbridge.transfer.poller.answers_to_starters import VerdictFilesAndStarterFifos
from gridbridge.transfer.poller.transfer_acts import TransferActDispatcher
from gridbridge.transfer.poller.transfer_ledger import TransferLedger
from gridbridge.transfer.transfer_history_rows import TransferRows

RESTORE_AFTER_S = 60.0
RESTORE_REASON = "the guard was removed by hand"
RELEASE_REASON = "the guard may have been restored after the task's release"
COPIED_GUARD_QUERY_INTERVAL_S = 60.0
_log = logging.getLogger(__name__)


class MissingGuardRestorer(ReloadablePollerComponent):
    """Restores holds and start times that people removed although the task's remote job may run."""

    def __init__(
        self,
        policy: Policy,
        ledger: TransferLedger,
        tasks: LocalTaskActs,
        workers: OwnerThreadPools,
        act: Callable[[TransferAction], None],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(policy)
        self._ledger, self._act = ledger, act
        self._unheld: frozenset[str] = frozenset()  # transfers whose task lacked its hold in the last home job list
        self._after = 0  # id of the last checked local job
        home = policy.site.cluster
        self._look = RepeatedBackgroundQuery(
            workers, home, "look_at_guards", tasks.query_local_job_requests, clock, RESTORE_AFTER_S, RESTORE_AFTER_S
        )
        self._missing: list[Transfer] = []

    def find_missing_guards(self, came: tuple[ClusterQueryResult, ...], home: str) -> None:
        """Check which tasks have lost their hold or start time; do nothing if the home cluster is silent."""
        for answer in came:
            if answer.cluster == home and answer.snapshot:
                self._check_holds_and_start_times(answer.snapshot)

    def _check_holds_and_start_times(self, local: ClusterSnapshot) -> None:
        """Query start times, and restore each hold that two successive job lists lack.

        One list is not enough, because a starter may just have released the hold.
        """
        unheld = home_and_remote_mismatches.transfers_lacking_home_hold(self._ledger.open_transfers(), local)
        for transfer in tuple(self._ledger.open_transfers()):
            if transfer.name in unheld & self._unheld:
                self._record_missing_guard(transfer, HomeStartGuard.HOLD)
        self._unheld = unheld
        if reply := self._look.take_query_result():
            self._mark_transfers_lacking_guard(reply[1])
        if self._look.is_query_due():
            transfers = self._ledger.open_transfers()
            self._query_start_times_of_jobs(home_and_remote_mismatches.jobs_needing_start_time_query(transfers, local))

    def _query_start_times_of_jobs(self, jobs: tuple[int, ...]) -> None:
        """Query the start times of at most a hundred local jobs; the other jobs follow in later queries."""
        next_ones = [job for job in jobs if job > self._after]
        due = next_ones if next_ones and len(jobs) > AT_ONCE else list(jobs)
        if batch := tuple(due[:AT_ONCE]):
            self._after = batch[-1]
            self._look.start_query(batch)

    def _mark_transfers_lacking_guard(self, requests: dict[int, JobRequest]) -> None:
        queues = self.policy.queues
        for transfer in tuple(self._ledger.open_transfers()):
            request = requests.get(parse_transfer_name(transfer.name).job)
            guard = request and home_and_remote_mismatches.missing_home_start_guard(transfer, request, queues)
            if guard and not transfer.verdict:
                self._record_missing_guard(transfer, guard)

    def _record_missing_guard(self, transfer: Transfer, guard: str) -> None:
        transfer = transfer.with_changes(guard=guard, reguarded=True)
        self._ledger.store_transfer(transfer)
        self._missing.append(transfer)

    def restore_missing_guards(self) -> None:
        """Set the holds and start times that the state file has recorded."""
        missing, self._missing = self._missing, []
        for transfer in missing:
            self._act(TransferAction(act=TransferActKind.GUARD_LOCAL, transfer=transfer, why=RESTORE_REASON))


class ClosedTransferHomeTaskReleaser:
    """Removes holds and start times that keep tasks of closed transfers from starting at home."""

    def __init__(
        self, database: StateFile, ledger: TransferLedger, dispatcher: TransferActDispatcher, clock: Clock
    ) -> None:
        self._transfers, self._ledger, self._dispatcher = TransferRows(database), ledger, dispatcher
        self._left: dict[TransferKey, Transfer] = clock.make_clock_shifted_dictionary(Transfer.shift_times)

    def load_guarded_transfers(self, now: datetime) -> None:
        """Watch the closed transfers whose tasks may have a hold or start time from an earlier process."""
        for transfer in self._transfers.closed_transfers_with_guard():
            self.watch_guard_of_closed_transfer(transfer.limit_times(now))

    def watch_guard_of_closed_transfer(self, closed: Transfer) -> None:
        """Watch a closed transfer if a hold or start time may still keep its task from starting."""
        if home_and_remote_mismatches.may_restored_guard_be_stale(closed):
            self._left[closed.transfer_key] = closed

    def watched_local_jobs(self) -> set[int]:
        """Return the ids of the local jobs that the next home job list must show."""
        return {parse_transfer_name(transfer.name).job for transfer in self._left.values()}

    def release_home_tasks_of_closed_transfers(self, local: ClusterSnapshot) -> None:
        """Let listed tasks of closed transfers start at home, except tasks that were sent again."""
        for transfer in tuple(self._left.values()):
            newest = self._ledger.attempts_of_task(transfer.name, transfer.uid)[-1]
            if is_ended_task_gone_from_home(transfer, local) or newest.name != transfer.name:
                self.forget_guard_of_transfer(transfer)
            elif is_home_answer_after_task_end(transfer, local):
                action = TransferAction(act=TransferActKind.RELEASE_LOCAL, transfer=transfer, why=RELEASE_REASON)
                guarding = replace(action, act=TransferActKind.GUARD_LOCAL)
                # a thread may be about to set the task's hold or start time
                if self._dispatcher.may_begin_act(action) and self._dispatcher.may_begin_act(guarding):
                    self._dispatcher.begin_act(action)

    def forget_guard_of_transfer(self, transfer: Transfer) -> None:
        """Record that the task of a closed transfer may start at home, or is gone."""
        if self._left.pop(transfer.transfer_key, None):
            self._ledger.record_guard_removal(transfer)


class ResubmittedJobGuardRemover:
    """Removes far start times that qresub has copied from jobs that are away."""

    def __init__(
        self,
        policy: Policy,
        ledger: TransferLedger,
        tasks: LocalTaskActs,
        workers: OwnerThreadPools,
        clock: Callable[[], float],
    ) -> None:
        self._home, self._ledger, self._tasks = policy.site.cluster, ledger, tasks
        self._others: frozenset[int] = frozenset()  # deferred jobs whose start time was not copied by qresub
        self._look = RepeatedBackgroundQuery(
            workers, self._home, "look_for_copies", self._remove_copied_guards, clock, COPIED_GUARD_QUERY_INTERVAL_S
        )

    def remove_copied_guards_if_due(self, came: tuple[ClusterQueryResult, ...]) -> None:
        """Query once a minute for start times that qresub copied, while the home cluster answers."""
        if any(answer.cluster == self._home and answer.snapshot for answer in came):
            if reply := self._look.take_query_result():
                self._others = reply[1]
            if self._look.is_query_due():
                names = (transfer.name for transfer in self._ledger.open_transfers())
                self._look.start_query(frozenset(parse_transfer_name(name).job for name in names))

    def _remove_copied_guards(self, remote_jobs: frozenset[int]) -> frozenset[int]:
        """Remove each copied start time; return the other jobs that wait for a start time."""
        waiting = self._tasks.query_deferred_jobs()
        new = tuple(sorted(waiting - self._others)[:AT_ONCE])
        requests = self._tasks.query_local_job_requests(new) if new else {}
        copies = home_and_remote_mismatches.qresub_jobs_with_copied_guard(requests, remote_jobs)
        for job in copies:
            try:
                self._tasks.remove_guard_copied_by_qresub(job)
            except (GridbridgeError, OSError) as error:  # the next check tries again
                _log.warning("event=failed act=free_copy job=%d why=%r", job, describe_error(error))
            else:
                why = f"qresub has copied the guard of transferred job {requests[job].job_number_if_deferred}"
                _log.info("event=freed job=%d why=%r", job, why)
        return waiting & self._others.union(new).difference(copies)


FIRST_SUSPENSION_REQUEST_PAUSE_S = 60.0
LONGEST_SUSPENSION_REQUEST_PAUSE_S = 3600.0
REQUESTS_BEFORE_WARNING = 3  # after this many requests the transfer's history says that the starter does not act
UNHEEDED_SUSPENSION_WARNING = (
    "the starter does not act on suspension requests; later requests come less often, at most hourly;"
    " qdel of the local job still deletes the remote job, after half a minute"
)


class SuspensionReconciler(ReloadablePollerComponent):
    """Asks starters to suspend or resume remote jobs after their local jobs were suspended or resumed."""

    def __init__(
        self, policy: Policy, ledger: TransferLedger, verdicts: VerdictFilesAndStarterFifos, clock: Callable[[], float]
    ) -> None:
        super().__init__(policy)
        self._ledger, self._verdicts = ledger, verdicts
        self._seen: dict[TransferKey, SuspensionMismatch] = {}
        self._out: dict[TransferKey, SuspensionMismatch] = {}
        self._backoff = BackoffBySubject(clock, FIRST_SUSPENSION_REQUEST_PAUSE_S, LONGEST_SUSPENSION_REQUEST_PAUSE_S)
        self._times: Counter[TransferKey] = Counter()

    def forget_suspension_mismatches(self) -> None:
        """Forget all differences between local and remote jobs, because the clock was set."""
        self._seen.clear()

    def request_suspension_changes(self, situation: TransferSituation, busy: Container[TransferKey]) -> None:
        """Ask starters not in `busy` to follow suspensions that two job lists show; withdraw outdated requests."""
        clusters = self.policy.clusters.items()
        shows = frozenset(name for name, cluster in clusters if ADAPTERS[cluster.kind].shows_suspension)
        mismatches = {
            transfer.transfer_key: shown
            for transfer in self._ledger.open_transfers()
            if transfer.transfer_key not in busy and (shown := find_suspension_mismatch(transfer, situation, shows))
        }
        for key in self._out.keys() - mismatches.keys():
            self._withdraw_suspension_request(key, busy)
        before, self._seen = self._seen, mismatches
        for key, shown in mismatches.items():
            if key in before and shown.confirms_mismatch(before[key]):
                self._publish_suspension_request(key, shown)
            elif key in before and shown.is_same_mismatch(before[key]):
                self._seen[key] = before[key]  # one of the two clusters has not sent a new job list

    def _publish_suspension_request(self, key: TransferKey, mismatch: SuspensionMismatch) -> None:
        """Ask a starter to suspend or resume its remote job, and repeat the request after growing pauses."""
        last = self._out.get(key)
        if last and last.desired != mismatch.desired:
            self._forget_suspension_request_pauses(key)
        if not self._backoff.may_try(key):
            return
        transfer = self._ledger.open[key]
        self._out[key] = mismatch
        self._times[key] += 1
        if self._times[key] <= REQUESTS_BEFORE_WARNING:
            self._ledger.add_history_line(transfer, f"suspension request to the starter: {mismatch.why}")
        elif self._times[key] == REQUESTS_BEFORE_WARNING + 1:
            self._ledger.add_history_line(transfer, UNHEEDED_SUSPENSION_WARNING)
        message = TransferMessage(
            transfer=transfer.name,
            outcome=TransferOutcome.AGREE,
            desired=mismatch.desired,
            at=f"{mismatch.at[0].timestamp():.3f}",
            reason=mismatch.why,
        )
        action = TransferAction(act=TransferActKind.PUBLISH, transfer=transfer, why=mismatch.why, verdict=message)
        self._verdicts.publish_verdict_and_wake(action)

    def _withdraw_suspension_request(self, key: TransferKey, busy: Container[TransferKey]) -> None:
        """Withdraw a request to a starter, unless the remote job's result has replaced the request."""
        del self._out[key]
        self._forget_suspension_request_pauses(key)
        transfer = self._ledger.open.get(key)
        if transfer and not transfer.verdict and key not in busy:
            self._verdicts.remove_verdict_file(transfer.name, transfer.uid)

    def _forget_suspension_request_pauses(self, key: TransferKey) -> None:
        self._backoff.forget_failed_tries(key)
        del self._times[key]
