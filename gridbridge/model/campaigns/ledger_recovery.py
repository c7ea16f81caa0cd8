"""What the state file keeps of a campaign, and what it takes over from root's ledger."""

from dataclasses import dataclass

from gridbridge.model.campaigns.campaign import Array, Attempt, WaitingTasks
from gridbridge.model.campaigns.cycle_plan import AttemptOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCampaign:
    """What waits, the arrays, the attempts whose ends are not known, and those before them."""

    waiting: tuple[WaitingTasks, ...]
    arrays: tuple[Array, ...]
    attempts: tuple[Attempt, ...]  # by array and place
    earlier: tuple[AttemptOutcome, ...] = ()
    clusters: frozenset[str] = frozenset()  # of the campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryStep:
    """A portion of what the state file keeps from then on."""

    campaign: int
    undone: tuple[int, ...] = ()  # arrays that never were submitted
    arrays: tuple[Array, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    superseded: tuple[Attempt, ...] = ()  # attempts that later ones followed
    no_longer: tuple[WaitingTasks, ...] = ()  # waited
    waiting: tuple[WaitingTasks, ...] = ()  # waits in the place of that
    again: tuple[WaitingTasks, ...] = ()  # waits besides: tasks of an array that never ran
