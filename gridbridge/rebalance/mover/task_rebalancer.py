"""Rebalances waiting tasks between clusters: gathers facts, decides, records and requests moves.

A campaign's task gets a deletion mark, from which nikita and the runner continue after a kill.
The poller recalls a transferred task.
"""

from datetime import timedelta

from gridbridge.campaigns.store.campaign_task_rows import TaskDeletionMarkRows
from gridbridge.decisions.rebalance import waiting_task_and_transfer_moves
from gridbridge.model.campaigns.task_deletions_and_preemptions import ArrayTaskDeletion, NikitaDeletionReason
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    CampaignTaskAtCluster,
    RebalanceMove,
    TasksObservedAtClusters,
    ValidAndDroppedMoves,
)
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfers_and_actions import WaitingTaskMove
from gridbridge.rebalance.mover import rebalance_decision_journal
from gridbridge.rebalance.mover.rebalance_plan_by_target import (
    RebalancePlanWithInputs,
    RebalanceTarget,
    RebalanceTargetKind,
    check_target_and_plan_moves,
    why_not_rebalanced_now,
)
from gridbridge.rebalance.mover.rebalance_task_observer import RebalanceTaskObserver
from gridbridge.rebalance.replica_act_and_move_tables import HOST, JOB, MoveAndVerificationTimeRows
from gridbridge.shell.clock import Clock
from gridbridge.state.decision_journal import DecisionJournal, DecisionJournalEntry
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.transfer_history_rows import TaskMoveRows

KEPT = timedelta(days=7)  # records of moves are kept this long, or as long as a longer configured pause
WHERE = "tasks at clusters"
QUIESCED = "nothing is moved until `gridbridge rebalance quiesce --off`"


TaskRebalanceInputs = tuple[TasksObservedAtClusters, bool]  # the observed tasks, and whether moves are paused


class WaitingTaskRebalancer:
    def __init__(self, policy: Policy, clock: Clock, question: RebalanceTarget, *, is_dry: bool = False) -> None:
        """Open the state file; raise StateError if opening fails."""
        self.database = StateFile.open(policy.site.state, is_unchanged=is_dry)
        self.journal = DecisionJournal(self.database)
        self._rules = policy.rebalance
        self._asked = question
        self._clock = clock
        self._observer = RebalanceTaskObserver(policy, self.database, clock)
        self._notes = MoveAndVerificationTimeRows(self.database)
        self._marks = TaskDeletionMarkRows(self.database)
        self._moves = TaskMoveRows(self.database)
        self.checked = ValidAndDroppedMoves()

    def gather(self) -> TaskRebalanceInputs:
        return self._observer.observe_tasks(), self._notes.moves_paused_since() is not None

    def decide(self, situation: TaskRebalanceInputs) -> RebalancePlanWithInputs:
        """Plan the moves of tasks, but none while moves are paused; raise ConfigError for an unknown host or job."""
        observed, is_quiesced = situation
        snapshot = waiting_task_and_transfer_moves.tasks_as_rebalance_snapshot(observed)
        why = QUIESCED if is_quiesced else why_not_rebalanced_now(snapshot, self._asked)
        return check_target_and_plan_moves(WHERE, snapshot, self._rules, self._asked, why_none=why)

    def journal_entry(
        self, situation: TaskRebalanceInputs, plan: RebalancePlanWithInputs
    ) -> DecisionJournalEntry | None:
        del situation
        return rebalance_decision_journal.rebalance_journal_entry(plan, self._asked, self._clock.now())

    def apply(self, situation: TaskRebalanceInputs, plan: RebalancePlanWithInputs) -> None:
        """Query the clusters again, and request the moves that are still valid."""
        del situation
        if not plan.advice.moves:
            return
        now = self._observer.observe_tasks()
        is_asked = self._asked.what in (RebalanceTargetKind.JOB, RebalanceTargetKind.FAIL)
        seen_now = waiting_task_and_transfer_moves.tasks_as_rebalance_snapshot(now)
        checked = waiting_task_and_transfer_moves.recheck_waiting_task_moves(
            plan.advice.moves, seen_now, self._rules, is_asked=is_asked
        )
        at = waiting_task_and_transfer_moves.unique_tasks_by_key(now.tasks)
        sent = waiting_task_and_transfer_moves.unique_tasks_by_key(now.away)
        with self.database.transaction():
            if self._notes.moves_paused_since() is not None:
                checked = waiting_task_and_transfer_moves.drop_all_planned_moves(plan.advice.moves, QUIESCED)
            self.checked = checked
            for move in checked.moves:
                if transferred := sent.get((move.job, move.number)):
                    self._moves.insert_or_update_task_move(
                        WaitingTaskMove(
                            name=transferred.transfer,
                            uid=transferred.uid,
                            source=transferred.cluster,
                            target=move.target,
                            asked_at=self._clock.now(),
                            slots=transferred.slots,
                        )
                    )
                else:
                    self._mark_task_for_move(at[move.job, move.number])
            if checked.moves:
                self._record_recent_moves(checked.moves)

    def _mark_task_for_move(self, task: CampaignTaskAtCluster) -> None:
        """Mark a campaign's task: nikita deletes the marked task, and the runner submits the task elsewhere."""
        deletion = ArrayTaskDeletion(
            campaign=task.campaign,
            array=task.array,
            cluster=task.cluster,
            wiped_for=NikitaDeletionReason.MOVED,
            places=(range(task.place, task.place + 1),),
        )
        self._marks.mark_tasks_for_deletion(deletion)
        self._notes.record_tasks_marked_for_move([(task.campaign, task.array, task.place)], self._clock.now())

    def _record_recent_moves(self, moves: tuple[RebalanceMove, ...]) -> None:
        now = self._clock.now()
        self._notes.record_note_times(HOST, sorted({move.target for move in moves}), now)
        if self._asked.what in (RebalanceTargetKind.JOB, RebalanceTargetKind.NONE):
            self._notes.record_note_times(JOB, sorted({move.job for move in moves}), now)
        longest_s = max(self._rules.host_rest_s, self._rules.job_rest_s, self._rules.verify_every_s)
        self._notes.delete_old_rebalance_notes(now - max(KEPT, timedelta(seconds=longest_s)))
