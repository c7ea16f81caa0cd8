"""Share a cluster's free slots among claimants: max-min fairness over past usage.

A claimant is a user, project or group. The next slot goes to the claimant with the least usage
(CiGri scheduler specification, fairsharing). A few first tasks of each claimant come before all
shares, so that everybody soon has results. The specification counts first tasks by campaign. Here
they are counted by claimant, so that splitting work into many campaigns gains nothing.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import heapify, heappop, heappush

from gridbridge.model.campaigns.campaign import TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.cycle_plan import DecayedCampaignUsage

COMMITTED_USE_S = 900.0  # use that a newly granted slot counts as

NO_FIRST_TASKS: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShareRequest:
    """The tasks that a campaign would send to a cluster, with its claimant."""

    campaign: int
    claimant: str  # a user, a project or a group
    tasks: int
    slots: int  # slots of each task
    first: int = 0  # number of first tasks among the tasks


def fair_share_tasks_by_campaign(
    free_slots: int,
    requests: Sequence[FairShareRequest],
    used_s: Mapping[str, float],
    ahead: Mapping[str, int] = NO_FIRST_TASKS,
) -> dict[int, int]:
    """Return how many tasks each campaign gets of a cluster's free slots.

    `used_s` has the decayed slot-seconds by claimant. `ahead` has the number of first tasks by
    claimant, which go before all shares; among first tasks, too, the least usage goes first.
    Campaigns of one claimant are served in the order of `requests`, after the first tasks of each
    campaign. Negative `free_slots` give no tasks.
    """
    granted = dict.fromkeys((request.campaign for request in requests), 0)
    levels = {request.claimant: used_s.get(request.claimant, 0.0) for request in requests}
    firsts = [replace(request, tasks=min(request.first, request.tasks)) for request in requests]
    remaining = _serve(max(0, free_slots), firsts, levels, granted, ahead)
    _serve(remaining, (*firsts, *requests), levels, granted, dict.fromkeys(levels, remaining))
    return granted


def _serve(
    remaining: int,
    requests: Iterable[FairShareRequest],
    levels: dict[str, float],
    granted: dict[int, int],
    most: Mapping[str, int],
) -> int:
    """Give each slot to the claimant of least usage; return the number of remaining slots.

    `most` limits the tasks by claimant. `levels` and `granted` are updated.
    """
    queues = {name: deque[FairShareRequest]() for name in levels}
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
            levels[name] = level + chosen.slots * COMMITTED_USE_S
            if served[name] < most[name]:
                heappush(turns, (levels[name], name))
    return remaining


def decay_usage(usage: DecayedCampaignUsage, now: datetime, half_life_s: float) -> DecayedCampaignUsage:
    """Return usage decayed to `now`; each half-life halves the usage."""
    share = math.pow(0.5, max(0.0, (now - usage.at).total_seconds()) / half_life_s)
    return replace(
        usage, at=now, used_s=usage.used_s * share, success_s=usage.success_s * share, successes=usage.successes * share
    )


def add_ended_tasks_to_usage(
    usage: DecayedCampaignUsage, ended: Iterable[TaskAttempt], slots: int
) -> DecayedCampaignUsage:
    """Add ended tasks to usage; tasks with an unknown run time add nothing."""
    tasks = tuple(ended)
    good = [
        attempt
        for attempt in tasks
        if attempt.outcome is TaskAttemptOutcome.SUCCESS and attempt.wallclock_s is not None
    ]
    return replace(
        usage,
        used_s=usage.used_s + slots * sum(attempt.wallclock_s or 0 for attempt in tasks),
        success_s=usage.success_s + sum(attempt.wallclock_s or 0 for attempt in good),
        successes=usage.successes + len(good),
    )


def _next(queue: deque[FairShareRequest], granted: Mapping[int, int], free_slots: int) -> FairShareRequest | None:
    """Return the next request; drop requests that are fully served or do not fit."""
    while queue and (granted[queue[0].campaign] >= queue[0].tasks or queue[0].slots > free_slots):
        queue.popleft()
    return queue[0] if queue else None
