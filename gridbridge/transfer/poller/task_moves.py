"""Move waiting tasks off a remote cluster by recalls, as rebalancing requests.

Before the recall, the job's queue list is changed to exclude the queues to the cluster that the
task leaves. The job gets its queue list back once the task has started. After a kill, each move
goes on by its stage in the state file and its transfer's state. Every step may be repeated.
"""

import logging
from concurrent.futures import Future
from dataclasses import replace
from datetime import timedelta

from gridbridge.decisions.transfer import recall_policy
from gridbridge.decisions.transfer.transfer_decision_inputs import TransferDecisionInputs
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer_row import TaskMoveStage, Transfer, TransferKey, WaitingTaskMove
from gridbridge.model.transfer_message import TransferFailureCause
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.program.work.thread_pools import OwnerThreadPools
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile
from gridbridge.transfer.acts.local_tasks import LocalTaskActs
from gridbridge.transfer.poller.recalls import WaitingTaskRecallService
from gridbridge.transfer.poller.transfer_ledger import TransferLedger
from gridbridge.transfer.store.transfer_rows import TaskMoveRows as Kept

KEPT = timedelta(days=7)
NOBODY = "moves"  # name of the thread for moves whose job owner is unknown

_move_log = logging.getLogger(__name__)


class WaitingTaskMoveService:
    """Moves waiting tasks off clusters by recalls; the state file has each move's stage."""

    def __init__(
        self,
        policy: Policy,
        database: StateFile,
        ledger: TransferLedger,
        tasks: LocalTaskActs,
        recalls: WaitingTaskRecallService,
        workers: OwnerThreadPools,
        clock: Clock,
    ) -> None:
        self._policy = policy
        self._kept = Kept(database)
        self._ledger = ledger
        self._tasks = tasks
        self._recalls = recalls
        self._workers = workers
        self._clock = clock
        self._keeping: dict[TransferKey, Future[None]] = {}  # changes of queue lists in progress
        self._wished: set[TransferKey] = set()
        self._ending: dict[
            TransferKey, tuple[WaitingTaskMove, Future[None]]
        ] = {}  # restorations of queue lists in progress

    def follow(self, policy: Policy) -> None:
        """Apply a changed configuration."""
        self._policy = policy

    def jobs(self) -> set[int]:
        """Return the local job ids that the home cluster's next snapshot must keep."""
        return {parse_transfer_name(move.name).job for move in self._kept.in_flight()}

    def decide(self, situation: TransferDecisionInputs) -> None:
        """Advance each task move by its next step."""
        self._take_ends(situation)
        moves = [move for move in self._kept.in_flight() if move.key not in self._ending]
        for move in moves:
            transfer = self._ledger.find(move.key)
            if transfer is None:
                self._give_back(move, NOBODY, TaskMoveStage.DROPPED, "its transfer is unknown")
            elif move.stage is TaskMoveStage.HOME:
                self._follow(move, transfer, situation)
            else:
                self._bring(move, transfer, situation)
        if moves:
            self._kept.forget(self._clock.now() - KEPT)

    def _bring(self, move: WaitingTaskMove, transfer: Transfer, situation: TransferDecisionInputs) -> None:
        """Recall a moved task, or give up the move if a recall is not possible."""
        keeping = self._keeping.get(transfer.key)
        if keeping and not keeping.done():
            return  # the change of the queue list must precede its restoration
        if transfer.is_over and transfer.cause == TransferFailureCause.RECALLED:
            self._kept.put(replace(move, stage=TaskMoveStage.HOME))
            return
        if transfer.verdict and transfer.verdict.cause == TransferFailureCause.RECALLED:
            return  # the task is about to be requeued at home
        if why := recall_policy.why_task_move_is_impossible(transfer, situation):
            self._give_up(move, transfer, situation, why)
        elif transfer.key in self._recalls.out():
            return
        elif transfer.key in self._wished:
            self._give_up(move, transfer, situation, "its starter did not carry out the recall")
        elif keeping is None:
            self._keep_off(move, transfer, situation)
        else:
            self._begin_recall(move, transfer, situation)

    def _keep_off(self, move: WaitingTaskMove, transfer: Transfer, situation: TransferDecisionInputs) -> None:
        if not self._recalls.may(transfer):
            self._give_up(move, transfer, situation, "its queue's recall limit is reached")
        elif situation.now - move.asked_at > recall_policy.MOVE_DEADLINE:
            self._give_up(move, transfer, situation, "the move could not begin in time")
        elif recall_policy.is_waiting_task_recallable(transfer, situation):
            keep = self._workers.do(transfer.owner, self._tasks.keep_off, transfer)
            self._keeping[transfer.key] = keep

    def _begin_recall(self, move: WaitingTaskMove, transfer: Transfer, situation: TransferDecisionInputs) -> None:
        if error := self._keeping.pop(transfer.key).exception():
            self._give_up(move, transfer, situation, str(error))
            return
        why = f"recalled from {move.source}: rebalanced, {move.target} had room"
        self._wished.add(transfer.key)
        if not self._recalls.bring(transfer, why):
            self._give_up(move, transfer, situation, "its recall can't begin now")

    def _follow(self, move: WaitingTaskMove, transfer: Transfer, situation: TransferDecisionInputs) -> None:
        """Restore a job's queue list once its task has started, ended or found no queue."""
        newest = self._ledger.attempts(move.name, move.uid)[-1]
        if newest.name != move.name:
            self._ledger.note(newest, f"moved: it waited at {move.source} before")
            self._give_back(move, transfer.owner, TaskMoveStage.DONE, f"it went to {newest.remote}")
        elif ended := recall_policy.describe_move_end_at_home(transfer, situation):
            self._give_back(move, transfer.owner, TaskMoveStage.DONE, ended)

    def _give_up(self, move: WaitingTaskMove, transfer: Transfer, situation: TransferDecisionInputs, why: str) -> None:
        """Drop a move; restore the queue list that an earlier process may have changed.

        The queue list of a requeued job that awaits adoption does not belong to the move.
        """
        if parse_transfer_name(move.name).job in situation.requeued_jobs:
            self._end(move, TaskMoveStage.DROPPED, why)
        else:
            self._give_back(move, transfer.owner, TaskMoveStage.DROPPED, why)
        self._ledger.note(transfer, f"not moved: {why}")

    def _give_back(self, move: WaitingTaskMove, owner: str, stage: TaskMoveStage, why: str) -> None:
        job = parse_transfer_name(move.name).job
        ended = replace(move, stage=stage, reason=why)
        other_moves = (other_move for other_move in self._kept.in_flight() if other_move.key != move.key)
        if any(parse_transfer_name(other_move.name).job == job for other_move in other_moves):
            self._end(move, stage, why)  # only a job's last move restores the job's queue list
            return
        giving = self._workers.do(owner, self._tasks.give_queues_back, move.name)
        self._ending[move.key] = ended, giving

    def _take_ends(self, situation: TransferDecisionInputs) -> None:
        """End task moves whose job has its queue list back or is gone."""
        for key in [key for key, (_, giving) in self._ending.items() if giving.done()]:
            move, giving = self._ending.pop(key)
            error, transfer = giving.exception(), self._ledger.find(key)
            if error and transfer and recall_policy.is_task_listed_at_home(transfer, situation):
                _move_log.warning("event=queues_kept name=%s why=%r", move.name, str(error))
                self._give_back(move, transfer.owner, move.stage, move.reason)
            else:
                self._end(move, move.stage, move.reason)

    def _end(self, move: WaitingTaskMove, stage: TaskMoveStage, why: str) -> None:
        self._keeping.pop(move.key, None)
        self._wished.discard(move.key)
        self._kept.put(replace(move, stage=stage, reason=why))
        _move_log.info("event=moved name=%s stage=%s why=%r", move.name, stage.value, why)
