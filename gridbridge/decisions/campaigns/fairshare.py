"""How a cluster's free slots are shared among those who want them: max-min over what each has had.

The slot goes to whoever has had the least (CiGri scheduler specification, fairsharing). A few first
tasks of each who shares come before that, so that everybody soon has some results (footnote 4
there, where they are each campaign's: who splits work into many would pass by the rule).
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import heapify, heappop, heappush

from gridbridge.model.campaigns.campaign import Attempt, TaskOutcome
from gridbridge.model.campaigns.usage_sharing import DecayedUsage

HORIZON_S = 900.0  # a slot that is given counts as used for so long; what is used is counted later

NONE: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRequest:
    """What a campaign would send to a cluster."""

    campaign: int
    claimant: str  # who shares: a user, a project or a group
    tasks: int
    slots: int  # of each task
    first: int = 0  # of these tasks, so many are among the first of the campaign


def shared(
    free_slots: int,
    wishes: Sequence[ShareRequest],
    used_s: Mapping[str, float],
    ahead: Mapping[str, int] = NONE,
) -> dict[int, int]:
    """Return how many tasks each campaign gets; `used_s` are decayed slot-seconds by claimant.

    So many tasks of a claimant as `ahead` has go before all shares, if they are among the first of
    their campaigns; who has had less is served first there, too. Of one claimant's campaigns those
    that stand first in `wishes` go first, after the first tasks of each. Below 0 slots are free
    where tasks wait for more than there are: nobody gets any then.
    """
    given = dict.fromkeys((one.campaign for one in wishes), 0)
    levels = {one.claimant: used_s.get(one.claimant, 0.0) for one in wishes}
    firsts = [replace(one, tasks=min(one.first, one.tasks)) for one in wishes]
    left = _serve(max(0, free_slots), firsts, levels, given, ahead)
    _serve(left, (*firsts, *wishes), levels, given, dict.fromkeys(levels, left))
    return given


def _serve(
    left: int,
    wishes: Iterable[ShareRequest],
    levels: dict[str, float],
    given: dict[int, int],
    most: Mapping[str, int],
) -> int:
    """Give slots one by one to whoever has had the least, `most` tasks each; return what is left.

    What each has had, and what campaigns were given, grows by it.
    """
    queues = {name: deque[ShareRequest]() for name in levels}
    for one in wishes:
        queues[one.claimant].append(one)
    served = dict.fromkeys(levels, 0)
    turns = [(level, name) for name, level in levels.items() if most.get(name, 0) > 0]
    heapify(turns)
    while turns:
        level, name = heappop(turns)
        if wish := _next(queues[name], given, left):
            given[wish.campaign] += 1
            left -= wish.slots
            served[name] += 1
            levels[name] = level + wish.slots * HORIZON_S
            if served[name] < most[name]:
                heappush(turns, (levels[name], name))
    return left


def decayed(usage: DecayedUsage, now: datetime, half_life_s: float) -> DecayedUsage:
    """Return what use counts now: half of it after each half-life."""
    share = math.pow(0.5, max(0.0, (now - usage.at).total_seconds()) / half_life_s)
    return replace(
        usage,
        at=now,
        used_s=usage.used_s * share,
        success_s=usage.success_s * share,
        successes=usage.successes * share,
    )


def used(usage: DecayedUsage, ended: Iterable[Attempt], slots: int) -> DecayedUsage:
    """Add tasks that ended; what is not known to have run used nothing."""
    tasks = tuple(ended)
    good = [
        one for one in tasks if one.outcome is TaskOutcome.SUCCESS and one.wallclock_s is not None
    ]
    return replace(
        usage,
        used_s=usage.used_s + slots * sum(one.wallclock_s or 0 for one in tasks),
        success_s=usage.success_s + sum(one.wallclock_s or 0 for one in good),
        successes=usage.successes + len(good),
    )


def _next(queue: deque[ShareRequest], given: Mapping[int, int], left: int) -> ShareRequest | None:
    """Return whose task is next; what is served, or does not fit any more, leaves the queue."""
    while queue and (given[queue[0].campaign] >= queue[0].tasks or queue[0].slots > left):
        queue.popleft()
    return queue[0] if queue else None
