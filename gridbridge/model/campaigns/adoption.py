"""What the state file keeps of a campaign, and what it takes over from root's ledger."""

from dataclasses import dataclass

from gridbridge.model.campaigns.campaign import Array, Attempt, Waiting
from gridbridge.model.campaigns.plan import Tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What waits, the arrays, the attempts whose ends are not known, and those before them."""

    waiting: tuple[Waiting, ...]
    arrays: tuple[Array, ...]
    attempts: tuple[Attempt, ...]  # by array and place
    earlier: tuple[Tried, ...] = ()
    clusters: frozenset[str] = frozenset()  # of the campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """A portion of what the state file keeps from then on."""

    campaign: int
    undone: tuple[int, ...] = ()  # arrays that never were submitted
    arrays: tuple[Array, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    superseded: tuple[Attempt, ...] = ()  # attempts that later ones followed
    no_longer: tuple[Waiting, ...] = ()  # waited
    waiting: tuple[Waiting, ...] = ()  # waits in the place of that
    again: tuple[Waiting, ...] = ()  # waits besides: tasks of an array that never ran
