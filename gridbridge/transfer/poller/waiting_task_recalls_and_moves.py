"""Bring waiting tasks home from remote clusters, into free slots or on the way to another cluster.

If the task has a claim, home takes it; otherwise a published request asks the task's starter.
"""

import logging
import math
import operator
import sys
from collections.abc import Set
from concurrent.futures import Future
from dataclasses import InitVar, dataclass, replace
from datetime import UTC, datetime, timedelta

from gridbridge.batch.batch_adapter_table import ADAPTERS
from gridbridge.decisions.transfer import recall_policy
from gridbridge.decisions.transfer.recall_policy import TaskRecall, does_claim_allow_recall
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferSituation
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer import transfers_and_actions
from gridbridge.model.transfer.claim_and_guard import HOME
from gridbridge.model.transfer.transfers_and_actions import (
    TaskMoveStage,
    Transfer,
    TransferActKind,
    TransferKey,
    WaitingTaskMove,
)
from gridbridge.model.transfer_messages_in_spool import TransferFailureCause, TransferMessage, TransferOutcome
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.program.threads_and_backoff import BackoffBySubject, OwnerThreadPools
from gridbridge.shell.clock import Clock
from gridbridge.state.decision_journal import DecisionJournal
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.local_task_acts import LocalTaskActs, ReloadablePollerComponent
from gridbridge.transfer.poller import poller_decision_journal
from gridbridge.transfer.poller.answers_to_starters import VerdictFilesAndStarterFifos
from gridbridge.transfer.poller.remote_job_claims import RemoteJobClaimService
from gridbridge.transfer.poller.transfer_ledger import TransferLedger
from gridbridge.transfer.transfer_history_rows import TaskMoveRows

_log = logging.getLogger(__name__)

UNHEEDED_RECALL_S = 60.0  # a request that no starter carries out is withdrawn after this time
AGAIN_S = 60.0  # first pause before a task that could not run at home is tried again
NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(eq=False)
class WaitingTaskRecallService(ReloadablePollerComponent):
    """Brings waiting tasks home into free slots of the home cluster."""

    policy: Policy
    _ledger: TransferLedger
    _tasks: LocalTaskActs
    _verdicts: VerdictFilesAndStarterFifos
    _workers: OwnerThreadPools
    _claims: RemoteJobClaimService
    _clock: Clock
    _journal: DecisionJournal

    def __post_init__(self) -> None:
        self._backoff = BackoffBySubject(self._clock.steady_s, AGAIN_S, 16 * AGAIN_S)
        self._checking: dict[TransferKey, tuple[TaskRecall, Future[None]]] = {}
        self._out: dict[TransferKey, TaskRecall] = {}
        self._wished_at_s: dict[TransferKey, float] = {}  # time of each request to a starter
        self._free = (0, 0)  # free slots of the home cluster in its last two job lists
        self._free_at: dict[str, datetime] = self._clock.make_clock_shifted_dictionary(operator.add)

    def withdraw_old_recall_requests(self) -> None:
        """Withdraw the requests that an earlier poller process made to starters."""
        for transfer in self._ledger.open_transfers():
            if not transfer.verdict:
                self._verdicts.remove_verdict_file(transfer.name, transfer.uid)

    def transfers_being_recalled(self) -> Set[TransferKey]:
        return self._out.keys()

    def recall_due_tasks(self, situation: TransferSituation, troubles: dict[str, str]) -> None:
        """Withdraw requests that no starter carried out in time, and begin to bring home the tasks that are due."""
        home = situation.snapshots.get(situation.home)
        if home and home.taken_at > self._free_at.get(home.cluster, NEVER):
            self._free = self._free[1], home.free_slots
            self._free_at[home.cluster] = home.taken_at
        for key in tuple(self._out):
            self._forget_or_withdraw_task_recall(key, situation)
        self._recall_tasks_with_finished_queue_check(situation)
        busy = self._out | {key: recall for key, (recall, _) in self._checking.items()}
        idle = (transfer for transfer in self._ledger.open_transfers() if transfer.transfer_key not in busy)
        candidates = tuple(transfer for transfer in idle if self.may_recall_task(transfer))
        free = min(self._free) - sum(recall.slots for recall in busy.values())
        self._begin_recalls_into_home_slots(candidates, situation, troubles, free)

    def _begin_recalls_into_home_slots(
        self, candidates: tuple[Transfer, ...], situation: TransferSituation, troubles: dict[str, str], free: int
    ) -> None:
        queues = self.policy.queues
        due = tuple(recall_policy.plan_recalls_into_home_slots(candidates, situation, queues, troubles, free))
        begun = [recall for recall in due if self._backoff.may_try(recall.transfer.transfer_key)]
        for recall in begun:
            check = self._workers.run_call_in_thread(
                recall.transfer.owner, self._tasks.require_home_queue, recall.transfer
            )
            self._checking[recall.transfer.transfer_key] = recall, check
        if begun:
            all_due = recall_policy.plan_recalls_into_home_slots(candidates, situation, queues, troubles, sys.maxsize)
            considered = [recall.transfer for recall in all_due]
            entry = poller_decision_journal.recall_journal_entry(considered, due, situation, queues, troubles, free)
            self._journal.store_decision(entry)

    def recall_moved_task(self, transfer: Transfer, why: str) -> bool:
        """Bring a task home for the reason `why`; return whether its return has begun."""
        if transfer.transfer_key not in self._out and transfer.transfer_key not in self._checking:
            self._recall_task_by_claim_or_request(TaskRecall(transfer=transfer, slots=0, why=why), transfer)
        return transfer.transfer_key in self._out

    def may_recall_task(self, transfer: Transfer) -> bool:
        """Say whether a waiting task of a proved owner may come home; False after too many recalls."""
        queue = self.policy.queues.get(transfer.queue)
        cluster = self.policy.clusters.get(transfer.remote)
        is_proved = transfer.listed == transfers_and_actions.OwnerSeenInHomeJobList.YES
        if not queue or not queue.recall_wait_s or not cluster or not is_proved:
            return False
        tells = ADAPTERS[cluster.kind].recalls is not None
        waits = transfer.remote_state.is_waiting and tells and not transfer.claim
        if not waits and not does_claim_allow_recall(transfer):
            return False
        before = self._ledger.attempts_of_task(transfer.name, transfer.uid)
        return sum(attempt.cause == TransferFailureCause.RECALLED for attempt in before) < queue.recall_limit

    def _recall_tasks_with_finished_queue_check(self, situation: TransferSituation) -> None:
        for key in [key for key, (_, check) in self._checking.items() if check.done()]:
            recall, check = self._checking.pop(key)
            transfer = self._ledger.open.get(key)
            if error := check.exception():
                _log.info("event=no_recall name=%s why=%r", key[0], str(error))
            elif transfer and not transfer.verdict and not _does_remote_job_run(transfer, situation):
                self._recall_task_by_claim_or_request(recall, transfer)

    def _recall_task_by_claim_or_request(self, recall: TaskRecall, transfer: Transfer) -> None:
        if not transfer.claim:
            self._publish_recall_request(recall, transfer)
        elif self._claims.recall_task_by_claim(transfer, recall.why):
            self._out[transfer.transfer_key] = recall

    def _publish_recall_request(self, recall: TaskRecall, transfer: Transfer) -> None:
        self._out[transfer.transfer_key] = recall
        self._wished_at_s[transfer.transfer_key] = self._clock.steady_s()
        self._ledger.add_history_line(transfer, f"recall: {recall.why}")
        outcome, cause, act = TransferOutcome.RECALL, TransferFailureCause.RECALLED, TransferActKind.PUBLISH
        message = TransferMessage(transfer=transfer.name, outcome=outcome, cause=cause, reason=recall.why)
        action = transfers_and_actions.TransferAction(act=act, transfer=transfer, why=recall.why, verdict=message)
        self._verdicts.publish_verdict_and_wake(action)

    def _forget_or_withdraw_task_recall(self, key: TransferKey, situation: TransferSituation) -> None:
        """Forget a finished recall; withdraw a recall if the remote job runs or the starter does not act."""
        transfer = self._ledger.open.get(key)
        if transfer is None or (transfer.verdict and transfer.claimed != HOME):
            self._forget_task_recall(key)
        elif not transfer.verdict and _does_remote_job_run(transfer, situation):
            self._withdraw_task_recall(transfer, f"recall: too late, running at {transfer.remote}")
        elif not transfer.verdict and self._clock.steady_s() - self._wished_at_s.get(key, math.inf) > UNHEEDED_RECALL_S:
            self._withdraw_task_recall(transfer, "recall: withdrawn, because the starter did not carry it out")

    def _withdraw_task_recall(self, transfer: Transfer, why: str) -> None:
        self._forget_task_recall(transfer.transfer_key)
        self._verdicts.remove_verdict_file(transfer.name, transfer.uid)
        self._ledger.add_history_line(transfer, why)

    def _forget_task_recall(self, key: TransferKey) -> None:
        self._out.pop(key, None)
        self._wished_at_s.pop(key, None)


def _does_remote_job_run(transfer: Transfer, situation: TransferSituation) -> bool:
    row = situation.remote_job_row(transfer)
    return row is not None and row.state.is_running


ENDED_MOVE_AGE = timedelta(days=7)
UNKNOWN_OWNER_THREAD = "moves"


@dataclass(eq=False)
class WaitingTaskMoveService(ReloadablePollerComponent):
    """Moves waiting tasks from a remote cluster to another remote cluster, with a stop at home.

    The job is kept out of its old cluster's queues until its task starts. Every step may be repeated.
    """

    policy: Policy
    database: InitVar[StateFile]
    _ledger: TransferLedger
    _tasks: LocalTaskActs
    _recalls: WaitingTaskRecallService
    _workers: OwnerThreadPools
    _clock: Clock

    def __post_init__(self, database: StateFile) -> None:
        self._move_rows = TaskMoveRows(database)
        self._keeping: dict[TransferKey, Future[None]] = {}  # changes of jobs' queue lists, made by threads
        self._wished: set[TransferKey] = set()
        # moves that end as soon as a thread has restored the job's queue list
        self._ending: dict[TransferKey, tuple[WaitingTaskMove, Future[None]]] = {}

    def watched_local_jobs(self) -> set[int]:
        """Return the ids of the local jobs that the next home job list must show."""
        return {parse_transfer_name(move.name).job for move in self._move_rows.unfinished_task_moves()}

    def continue_task_moves(self, situation: TransferSituation) -> None:
        self._record_moves_with_restored_queue_list(situation)
        moves = [move for move in self._move_rows.unfinished_task_moves() if move.transfer_key not in self._ending]
        for move in moves:
            transfer = self._ledger.find_transfer(move.transfer_key)
            if transfer is None:
                self._restore_queue_list(move, UNKNOWN_OWNER_THREAD, TaskMoveStage.DROPPED, "the transfer is unknown")
            elif move.stage is TaskMoveStage.HOME:
                self._end_move_at_home(move, transfer, situation)
            else:
                self._bring_moved_task_home(move, transfer, situation)
        if moves:
            self._move_rows.delete_ended_task_moves(self._clock.now() - ENDED_MOVE_AGE)

    def _bring_moved_task_home(self, move: WaitingTaskMove, transfer: Transfer, situation: TransferSituation) -> None:
        """Bring home a task that is to move to another cluster; give up the move if this fails."""
        keeping = self._keeping.get(transfer.transfer_key)
        if keeping and not keeping.done():
            return  # a queue list that is still being changed can't be restored yet
        if transfer.is_over and transfer.cause == TransferFailureCause.RECALLED:
            self._move_rows.insert_or_update_task_move(replace(move, stage=TaskMoveStage.HOME))
            return
        if transfer.verdict and transfer.verdict.cause == TransferFailureCause.RECALLED:
            return  # the task will soon wait at home
        if why := recall_policy.why_task_move_is_impossible(transfer, situation):
            self._give_up_task_move(move, transfer, situation, why)
        elif transfer.transfer_key in self._recalls.transfers_being_recalled():
            return
        elif transfer.transfer_key in self._wished:
            self._give_up_task_move(move, transfer, situation, "the starter did not carry out the recall")
        elif keeping is None:
            self._begin_excluding_old_cluster_queues(move, transfer, situation)
        else:
            self._recall_moved_task(move, transfer, situation)

    def _begin_excluding_old_cluster_queues(
        self, move: WaitingTaskMove, transfer: Transfer, situation: TransferSituation
    ) -> None:
        if not self._recalls.may_recall_task(transfer):
            self._give_up_task_move(move, transfer, situation, "the recall limit of the task's queue is reached")
        elif situation.now - move.asked_at > recall_policy.MOVE_DEADLINE:
            self._give_up_task_move(move, transfer, situation, "the move could not begin in time")
        elif recall_policy.is_waiting_task_recallable(transfer, situation):
            exclude = self._tasks.exclude_old_cluster_queues
            self._keeping[transfer.transfer_key] = self._workers.run_call_in_thread(transfer.owner, exclude, transfer)

    def _recall_moved_task(self, move: WaitingTaskMove, transfer: Transfer, situation: TransferSituation) -> None:
        if error := self._keeping.pop(transfer.transfer_key).exception():
            self._give_up_task_move(move, transfer, situation, str(error))
            return
        why = f"recalled from {move.source}: rebalanced, {move.target} had room"
        self._wished.add(transfer.transfer_key)
        if not self._recalls.recall_moved_task(transfer, why):
            self._give_up_task_move(move, transfer, situation, "the recall can't begin now")

    def _end_move_at_home(self, move: WaitingTaskMove, transfer: Transfer, situation: TransferSituation) -> None:
        """Restore a job's queue list once its task has started, ended or waited too long."""
        newest = self._ledger.attempts_of_task(move.name, move.uid)[-1]
        if newest.name != move.name:
            self._ledger.add_history_line(newest, f"moved: the task waited at {move.source} before")
            self._restore_queue_list(move, transfer.owner, TaskMoveStage.DONE, f"the task went to {newest.remote}")
        elif ended := recall_policy.describe_move_end_at_home(transfer, situation):
            self._restore_queue_list(move, transfer.owner, TaskMoveStage.DONE, ended)

    def _give_up_task_move(
        self, move: WaitingTaskMove, transfer: Transfer, situation: TransferSituation, why: str
    ) -> None:
        """Give up a move; restore the job's queue list unless a rescheduled task waits for a new starter."""
        if parse_transfer_name(move.name).job in situation.requeued_jobs:
            self._record_task_move_end(move, TaskMoveStage.DROPPED, why)
        else:
            self._restore_queue_list(move, transfer.owner, TaskMoveStage.DROPPED, why)
        self._ledger.add_history_line(transfer, f"not moved: {why}")

    def _restore_queue_list(self, move: WaitingTaskMove, owner: str, stage: TaskMoveStage, why: str) -> None:
        job = parse_transfer_name(move.name).job
        ended = replace(move, stage=stage, reason=why)
        other_moves = (
            other_move
            for other_move in self._move_rows.unfinished_task_moves()
            if other_move.transfer_key != move.transfer_key
        )
        if any(parse_transfer_name(other_move.name).job == job for other_move in other_moves):
            self._record_task_move_end(move, stage, why)  # another move of the job restores the queue list later
            return
        giving = self._workers.run_call_in_thread(owner, self._tasks.restore_requested_queues_of_transfer, move.name)
        self._ending[move.transfer_key] = ended, giving

    def _record_moves_with_restored_queue_list(self, situation: TransferSituation) -> None:
        for key in [key for key, (_, giving) in self._ending.items() if giving.done()]:
            move, giving = self._ending.pop(key)
            error, transfer = giving.exception(), self._ledger.find_transfer(key)
            if error and transfer and situation.find_home_task_row(transfer):
                _log.warning("event=queues_kept name=%s why=%r", move.name, str(error))
                self._restore_queue_list(move, transfer.owner, move.stage, move.reason)
            else:
                self._record_task_move_end(move, move.stage, move.reason)

    def _record_task_move_end(self, move: WaitingTaskMove, stage: TaskMoveStage, why: str) -> None:
        self._keeping.pop(move.transfer_key, None)
        self._wished.discard(move.transfer_key)
        self._move_rows.insert_or_update_task_move(replace(move, stage=stage, reason=why))
        _log.info("event=moved name=%s stage=%s why=%r", move.name, stage.value, why)
