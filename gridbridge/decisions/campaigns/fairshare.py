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
    requests: Sequence[ShareRequest],
    used_s: Mapping[str, float],
    ahead: Mapping[str, int] = NONE,
) -> dict[int, int]:
    """Return how many tasks each campaign gets; `used_s` are decayed slot-seconds by claimant.

    So many tasks of a claimant as `ahead` has go before all shares, if they are among the first of
    their campaigns; who has had less is served first there, too. Of one claimant's campaigns those
    that stand first in `wishes` go first, after the first tasks of each. Below 0 slots are free
    where tasks wait for more than there are: nobody gets any then.
    """
    granted = dict.fromkeys((request.campaign for request in requests), 0)
    levels = {request.claimant: used_s.get(request.claimant, 0.0) for request in requests}
    firsts = [replace(request, tasks=min(request.first, request.tasks)) for request in requests]
    remaining = _serve(max(0, free_slots), firsts, levels, granted, ahead)
    _serve(remaining, (*firsts, *requests), levels, granted, dict.fromkeys(levels, remaining))
    return granted


def _serve(
    remaining: int,
    requests: Iterable[ShareRequest],
    levels: dict[str, float],
    granted: dict[int, int],
    most: Mapping[str, int],
) -> int:
    """Give slots one by one to whoever has had the least, `most` tasks each; return what is left.

    What each has had, and what campaigns were given, grows by it.
    """
    queues = {name: deque[ShareRequest]() for name in levels}
    for request in requests:
        queues[request.claimant].append(request)
    served = dict.fromkeys(levels, 0)
    turns = [(level, name) for name, level in levels.items() if most.get(name, 0) > 0]
    heapify(turns)
    while turns:
        level, name = heappop(turns)
        if chosen := _next(queues[name], granted, remaining):
            granted[chosen.campaign] += 1
            remaining -= chosen.slots
            served[name] += 1
            levels[name] = level + chosen.slots * HORIZON_S
            if served[name] < most[name]:
                heappush(turns, (levels[name], name))
    return remaining


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
        attempt
        for attempt in tasks
        if attempt.outcome is TaskOutcome.SUCCESS and attempt.wallclock_s is not None
    ]
    return replace(
        usage,
        used_s=usage.used_s + slots * sum(attempt.wallclock_s or 0 for attempt in tasks),
        success_s=usage.success_s + sum(attempt.wallclock_s or 0 for attempt in good),
        successes=usage.successes + len(good),
    )


def _next(
    queue: deque[ShareRequest], granted: Mapping[int, int], free_slots: int
) -> ShareRequest | None:
    """Return whose task is next; what is served, or does not fit any more, leaves the queue."""
    while queue and (granted[queue[0].campaign] >= queue[0].tasks or queue[0].slots > free_slots):
        queue.popleft()
    return queue[0] if queue else None
