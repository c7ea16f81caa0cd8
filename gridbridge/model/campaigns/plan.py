"""What a cycle of the runner looks at, and what it decides."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridbridge.model.campaigns.campaign import Array, Attempt, Campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a cluster has for campaigns."""

    free_slots: int  # for ordinary tasks, for which best-effort ones make way
    besteffort_slots: int | None = None  # for best-effort tasks; None: they are ordinary jobs there


@dataclass(frozen=True, slots=True, kw_only=True)
class There:
    """How many tasks of a campaign a cluster lists."""

    campaign: int
    cluster: str
    waiting: int
    listed: int  # with those that wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that a decision may look at."""

    campaigns: tuple[Campaign, ...]  # that have not ended, by number
    waiting: Mapping[int, int]  # tasks that were not sent, by campaign
    arrays: tuple[Array, ...]  # of which a task may live
    room: Mapping[str, Room]  # of the clusters that answered
    max_tasks: int  # of one array
    there: tuple[There, ...] = ()
    tried: Mapping[int, frozenset[str]] = field(default_factory=dict)  # clusters, of test campaigns
    ended: tuple[Attempt, ...] = ()  # with their outcomes
    over: tuple[Array, ...] = ()  # whose tasks all have ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """So many tasks of a campaign go to a cluster."""

    campaign: int
    cluster: str
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one cycle does, in this order."""

    ended: tuple[Attempt, ...] = ()
    again: tuple[Attempt, ...] = ()  # of those: their tasks are tried once more
    over: tuple[Array, ...] = ()
    finished: tuple[int, ...] = ()  # campaigns
    deleted: tuple[Array, ...] = ()  # of cancelled campaigns
    resumed: tuple[Array, ...] = ()  # whose submission was begun and not finished
    sends: tuple[Send, ...] = ()
