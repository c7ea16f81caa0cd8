"""How a cluster's free slots are shared among those who want them: max-min over what each has had.

The slot goes to whoever has had the least (CiGri scheduler specification, fairsharing). The first
tasks of a campaign come before that, so that everybody soon has some results (footnote 4 there).
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import heapify, heappop, heappush

from gridbridge.model.campaigns.campaign import Attempt, Outcome
from gridbridge.model.campaigns.sharing import Usage

HORIZON_S = 900.0  # a slot that is given counts as used for so long; what is used is counted later


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a campaign would send to a cluster."""

    campaign: int
    claimant: str  # who shares: a user, a project or a group
    tasks: int
    slots: int  # of each task
    first: int = 0  # of these tasks, so many come before what anybody has had


def shared(free_slots: int, wishes: Sequence[Wish], used_s: Mapping[str, float]) -> dict[int, int]:
    """Return how many tasks each campaign gets; `used_s` are decayed slot-seconds by claimant.

    Of one claimant's campaigns those that stand first in `wishes` go first. Below 0 slots are free
    where tasks wait for more than there are: nobody gets any then.
    """
    given, left = _first_tasks(free_slots, wishes)
    queues = {name: deque[Wish]() for name in (one.claimant for one in wishes)}
    levels = {name: used_s.get(name, 0.0) for name in queues}
    for one in wishes:
        queues[one.claimant].append(one)
        levels[one.claimant] += given[one.campaign] * one.slots * HORIZON_S
    turns = [(level, name) for name, level in levels.items()]
    heapify(turns)
    while turns:
        level, claimant = heappop(turns)
        if wish := _next(queues[claimant], given, left):
            given[wish.campaign] += 1
            left -= wish.slots
            heappush(turns, (level + wish.slots * HORIZON_S, claimant))
    return given


def decayed(usage: Usage, now: datetime, half_life_s: float) -> Usage:
    """Return what use counts now: half of it after each half-life."""
    share = math.pow(0.5, max(0.0, (now - usage.at).total_seconds()) / half_life_s)
    return replace(
        usage,
        at=now,
        used_s=usage.used_s * share,
        success_s=usage.success_s * share,
        successes=usage.successes * share,
    )


def used(usage: Usage, ended: Iterable[Attempt], slots: int) -> Usage:
    """Add tasks that ended; what is not known to have run used nothing."""
    tasks = tuple(ended)
    good = [one for one in tasks if one.outcome is Outcome.SUCCESS and one.wallclock_s is not None]
    return replace(
        usage,
        used_s=usage.used_s + slots * sum(one.wallclock_s or 0 for one in tasks),
        success_s=usage.success_s + sum(one.wallclock_s or 0 for one in good),
        successes=usage.successes + len(good),
    )


def _first_tasks(free_slots: int, wishes: Sequence[Wish]) -> tuple[dict[int, int], int]:
    """Give what comes before all shares; return it, and the slots that are left."""
    given: dict[int, int] = {}
    left = max(0, free_slots)
    for one in wishes:
        given[one.campaign] = tasks = min(one.first, one.tasks, left // one.slots)
        left -= tasks * one.slots
    return given, left


def _next(queue: deque[Wish], given: Mapping[int, int], left: int) -> Wish | None:
    """Return whose task is next; what is served, or does not fit any more, leaves the queue."""
    while queue and (given[queue[0].campaign] >= queue[0].tasks or queue[0].slots > left):
        queue.popleft()
    return queue[0] if queue else None
