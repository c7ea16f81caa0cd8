"""Rebalancing of what there is: look, decide, keep, and have tasks moved that wait still.

A campaign's task is moved by a mark. Nikita holds a marked task, looks again, and deletes it if it
waits; the runner sends it to another cluster once it has ended: one program
deletes tasks, one alone submits them, and after a kill either goes on by the mark. A task that a
transfer queue has sent away is recalled by the poller.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from gridbridge.campaigns.store.cancellation_marks import CancellationMarks
from gridbridge.decisions.rebalance import waiting_tasks
from gridbridge.decisions.rebalance.move_recheck import none_of, still
from gridbridge.model.campaigns.cancellation import ArrayCancellation, WipedFor
from gridbridge.model.policy import Policy
from gridbridge.model.rebalance.moves import PlacementMove, RecheckedMoves
from gridbridge.model.rebalance.observed_tasks import ListedTask, ObservedTasks, TransferredTask
from gridbridge.model.rebalance.rebalance_section import Rebalance
from gridbridge.model.transfer.task_move import TaskMoveState
from gridbridge.program.journal import DecisionJournal, JournalEntry
from gridbridge.rebalance.mover import rebalance_journal
from gridbridge.rebalance.mover.rule_choice import (
    RebalancePlan,
    RebalanceQuestion,
    RebalanceRequest,
    later,
    planned,
)
from gridbridge.rebalance.mover.task_observer import TaskObserver
from gridbridge.rebalance.store.round_notes import HOST, JOB, RebalanceNotes
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile
from gridbridge.transfer.store.task_move_rows import MoveRows

KEPT = timedelta(days=7)  # what was done of late, or longer where a rest is
WHERE = "tasks at clusters"
QUIESCED = "nothing is moved until `gridbridge rebalance quiesce --off`"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSituation:
    """What a decision looks at."""

    gathered: ObservedTasks
    is_quiesced: bool


class Rebalancer:
    """The verbs of one rebalancing."""

    def __init__(
        self, policy: Policy, clock: Clock, question: RebalanceQuestion, *, is_dry: bool = False
    ) -> None:
        """Open the state file; StateError when that can't be done."""
        self.database = StateFile.open(policy.site.state, is_unchanged=is_dry)
        self.journal = DecisionJournal(self.database)
        self._rules = policy.rebalance
        self._asked = question
        self._clock = clock
        self._looking = TaskObserver(policy, self.database, clock)
        self._notes = RebalanceNotes(self.database)
        self._marks = CancellationMarks(self.database)
        self._moves = MoveRows(self.database)
        self.checked = RecheckedMoves()  # of what was applied

    def gather(self) -> RebalanceSituation:
        """Ask the clusters."""
        return RebalanceSituation(
            gathered=self._looking.look(), is_quiesced=self._notes.quiesced() is not None
        )

    def decide(self, situation: RebalanceSituation) -> RebalancePlan:
        """Decide by the rules, unless somebody wants nothing to be moved.

        ConfigError for a host or a job that is not there.
        """
        snapshot = waiting_tasks.snapshot(situation.gathered)
        why = QUIESCED if situation.is_quiesced else later(snapshot, self._asked)
        return planned(WHERE, snapshot, self._rules, self._asked, why_none=why)

    def entry(self, situation: RebalanceSituation, plan: RebalancePlan) -> JournalEntry | None:
        """Tell what is done; nothing when that is nothing."""
        del situation
        return rebalance_journal.entry(plan, self._asked, self._clock.now())

    def apply(self, situation: RebalanceSituation, plan: RebalancePlan) -> None:
        """Look at each move again, and note those that hold."""
        del situation
        if not plan.advice.moves:
            return
        now = self._looking.look()
        is_asked = self._asked.what in (RebalanceRequest.JOB, RebalanceRequest.FAIL)
        seen_now = waiting_tasks.snapshot(now)
        checked = still(plan.advice.moves, seen_now, self._rules, is_asked=is_asked)
        at, sent = waiting_tasks.places(now.tasks), waiting_tasks.sent(now.away)
        with self.database.transaction():
            if self._notes.quiesced() is not None:
                checked = none_of(plan.advice.moves, QUIESCED)
            self.checked, moves = checked, checked.moves
            for move in moves:
                if transferred := sent.get((move.job, move.number)):
                    self._moves.put(_moving(transferred, move, self._clock.now()))
                else:
                    self._mark(at[move.job, move.number])
            self._note(moves)

    def _mark(self, task: ListedTask) -> None:
        """Have nikita move a task."""
        self._marks.put(_wipe(task))
        self._notes.note_moved([(task.campaign, task.array, task.place)], self._clock.now())

    def _note(self, moves: tuple[PlacementMove, ...]) -> None:
        if not moves:
            return
        now = self._clock.now()
        self._notes.note(HOST, sorted({move.target for move in moves}), now)
        if self._asked.what in (RebalanceRequest.JOB, RebalanceRequest.NONE):
            self._notes.note(JOB, sorted({move.job for move in moves}), now)
        self._notes.forget(now - retention(self._rules))

    def quiesce(self, *, is_quiesced: bool) -> None:
        """Let nothing be moved from now on, or again."""
        self._notes.quiesce(self._clock.now() if is_quiesced else None)


def retention(rules: Rebalance) -> timedelta:
    """Return for how long what was done is known: as long as it keeps anything from being done."""
    longest_s = max(rules.host_rest_s, rules.job_rest_s, rules.verify_every_s)
    return max(KEPT, timedelta(seconds=longest_s))


def _wipe(task: ListedTask) -> ArrayCancellation:
    return ArrayCancellation(
        campaign=task.campaign,
        array=task.array,
        cluster=task.cluster,
        wiped_for=WipedFor.MOVED,
        places=(range(task.place, task.place + 1),),
    )


def _moving(task: TransferredTask, move: PlacementMove, now: datetime) -> TaskMoveState:
    return TaskMoveState(
        name=task.transfer,
        uid=task.uid,
        source=task.cluster,
        target=move.target,
        asked_at=now,
        slots=task.slots,
    )
