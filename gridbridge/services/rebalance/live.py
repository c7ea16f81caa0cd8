"""Rebalancing of what there is: look, decide, keep, and have tasks moved that wait still.

A campaign's task is moved by a mark. Nikita holds a marked task, looks again, and deletes it if it
waits; the runner sends it to another cluster once it has ended: one program
deletes tasks, one alone submits them, and after a kill either goes on by the mark. A task that a
transfer queue has sent away is recalled by the poller.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from gridbridge.decisions.rebalance import tasks
from gridbridge.decisions.rebalance.checking import none_of, still
from gridbridge.model.campaigns.wiping import Wipe, WipedFor
from gridbridge.model.policy import Policy
from gridbridge.model.rebalance.gathered import Away, Gathered, Listed
from gridbridge.model.rebalance.moves import Checked, Move
from gridbridge.model.rebalance.sections import Rebalance
from gridbridge.model.transfer.moving import Moving
from gridbridge.services.journal import Entry, Journal
from gridbridge.services.rebalance import journalled
from gridbridge.services.rebalance.deciding import Asked, Planned, What, later, planned
from gridbridge.services.rebalance.looking import Looking
from gridbridge.shell.clock import Clock
from gridbridge.state.database import Database
from gridbridge.state.database.marks import Marks
from gridbridge.state.database.rebalance.moves import Moves
from gridbridge.state.database.rebalance.notes import HOST, JOB, Rebalanced

KEPT = timedelta(days=7)  # what was done of late, or longer where a rest is
WHERE = "tasks at clusters"
QUIESCED = "nothing is moved until `gridbridge rebalance quiesce --off`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a decision looks at."""

    gathered: Gathered
    is_quiesced: bool


class Rebalancer:
    """The verbs of one rebalancing."""

    def __init__(self, policy: Policy, clock: Clock, asked: Asked, *, is_dry: bool = False) -> None:
        """Open the state file; StateError when that can't be done."""
        self.database = Database.open(policy.site.state, is_unchanged=is_dry)
        self.journal = Journal(self.database)
        self._rules = policy.rebalance
        self._asked = asked
        self._clock = clock
        self._looking = Looking(policy, self.database, clock)
        self._notes = Rebalanced(self.database)
        self._marks = Marks(self.database)
        self._moves = Moves(self.database)
        self.checked = Checked()  # of what was applied

    def gather(self) -> Seen:
        """Ask the clusters."""
        return Seen(gathered=self._looking.look(), is_quiesced=self._notes.quiesced() is not None)

    def decide(self, seen: Seen) -> Planned:
        """Decide by the rules, unless somebody wants nothing to be moved.

        ConfigError for a host or a job that is not there.
        """
        snapshot = tasks.snapshot(seen.gathered)
        why = QUIESCED if seen.is_quiesced else later(snapshot, self._asked)
        return planned(WHERE, snapshot, self._rules, self._asked, why_none=why)

    def entry(self, seen: Seen, plan: Planned) -> Entry | None:
        """Tell what is done; nothing when that is nothing."""
        del seen
        return journalled.entry(plan, self._asked, self._clock.now())

    def apply(self, seen: Seen, plan: Planned) -> None:
        """Look at each move again, and note those that hold."""
        del seen
        if not plan.advice.moves:
            return
        now = self._looking.look()
        is_asked = self._asked.what in (What.JOB, What.FAIL)
        seen_now = tasks.snapshot(now)
        checked = still(plan.advice.moves, seen_now, self._rules, is_asked=is_asked)
        at, sent = tasks.places(now.tasks), tasks.sent(now.away)
        with self.database.transaction():
            if self._notes.quiesced() is not None:
                checked = none_of(plan.advice.moves, QUIESCED)
            self.checked, moves = checked, checked.moves
            for move in moves:
                if away := sent.get((move.job, move.number)):
                    self._moves.put(_moving(away, move, self._clock.now()))
                else:
                    self._mark(at[move.job, move.number])
            self._note(moves)

    def _mark(self, one: Listed) -> None:
        """Have nikita move a task."""
        self._marks.put(_wipe(one))
        self._notes.note_moved([(one.campaign, one.array, one.place)], self._clock.now())

    def _note(self, moves: tuple[Move, ...]) -> None:
        if not moves:
            return
        now = self._clock.now()
        self._notes.note(HOST, sorted({one.target for one in moves}), now)
        if self._asked.what in (What.JOB, What.NONE):
            self._notes.note(JOB, sorted({one.job for one in moves}), now)
        self._notes.forget(now - kept(self._rules))

    def quiesce(self, *, is_quiesced: bool) -> None:
        """Let nothing be moved from now on, or again."""
        self._notes.quiesce(self._clock.now() if is_quiesced else None)


def kept(rules: Rebalance) -> timedelta:
    """Return for how long what was done is known: as long as it keeps anything from being done."""
    longest_s = max(rules.host_rest_s, rules.job_rest_s, rules.verify_every_s)
    return max(KEPT, timedelta(seconds=longest_s))


def _wipe(one: Listed) -> Wipe:
    return Wipe(
        campaign=one.campaign,
        array=one.array,
        cluster=one.cluster,
        wiped_for=WipedFor.MOVED,
        places=(range(one.place, one.place + 1),),
    )


def _moving(one: Away, move: Move, now: datetime) -> Moving:
    return Moving(
        name=one.transfer,
        uid=one.uid,
        source=one.cluster,
        target=move.target,
        asked_at=now,
        slots=one.slots,
    )
