"""Choose speculative attempts for the long-running tasks at the end of a campaign.

CiGri's scheduler specification plans this as finalize scheduling ("the replication of remaining
jobs"). Two limits are gridbridge's own: a task must run beyond the 95th percentile of ended tasks,
and it gets two speculative attempts at most. The reason is that each attempt takes a slot from
other users, and most of the last tasks end without help.
"""

from collections.abc import Iterable, Sequence
from math import ceil

from gridbridge.decisions.campaigns.schedulers.scheduler_protocol import CampaignNearEnd
from gridbridge.model.campaigns.campaign_sections import FinalizeSpeculationSection
from gridbridge.model.campaigns.speculation import LiveAttempt, SpeculativeAttemptsAtCluster

MIN_ENDED_TASKS = 3  # fewest ended tasks for a percentile
RUN_TIME_QUANTILE = 0.95  # share of ended tasks with shorter run times


def choose_speculative_attempts(end: CampaignNearEnd) -> tuple[SpeculativeAttemptsAtCluster, ...]:
    """Return which tasks get a speculative attempt at which cluster, longest running first.

    A task gets one speculative attempt per cycle, and a second attempt only after the first has run too long. A cluster
    gets no attempt of a task that already runs at the cluster or failed there.
    """
    beyond_s = run_time_p95_s(end.durations_s)
    free = dict(end.free)
    is_end = is_campaign_near_end(end.left, end.unsent, sum(free.values()), end.sent_s, end.limits)
    if beyond_s is None or not is_end:
        return ()
    beyond_s = max(beyond_s, end.limits.least_s)
    chosen: dict[str, list[int]] = {}
    for task, clusters in _late(end, beyond_s):
        cluster = next((name for name, room in free.items() if room > 0 and name not in clusters), "")
        if cluster:
            free[cluster] -= 1
            chosen.setdefault(cluster, []).append(task)
    return tuple(
        SpeculativeAttemptsAtCluster(campaign=end.campaign, cluster=name, tasks=tuple(tasks), beyond_s=round(beyond_s))
        for name, tasks in chosen.items()
    )


def is_campaign_near_end(
    unfinished: int, unsent: int, free: int, sent_s: float, limits: FinalizeSpeculationSection
) -> bool:
    """Say whether few tasks are left, or all tasks were sent long ago.

    Few means fewer tasks than could start at once on the slots that other campaigns leave free.
    """
    return unfinished < free or (not unsent and sent_s >= limits.limit_s)


def run_time_p95_s(durations_s: Sequence[float]) -> float | None:
    """Return the 95th percentile of run times; None if too few tasks have ended."""
    if len(durations_s) < MIN_ENDED_TASKS:
        return None
    return sorted(durations_s)[ceil(RUN_TIME_QUANTILE * len(durations_s)) - 1]


def _late(end: CampaignNearEnd, beyond_s: float) -> Iterable[tuple[int, frozenset[str]]]:
    """Return the tasks that need a speculative attempt, each with its excluded clusters."""
    of_task: dict[int, list[LiveAttempt]] = {}
    for attempt in end.live:
        of_task.setdefault(attempt.task, []).append(attempt)
    youngest = {task: min(attempt.elapsed_s for attempt in attempts) for task, attempts in of_task.items()}
    late = (
        task
        for task, elapsed_s in youngest.items()
        if elapsed_s > beyond_s and end.made.get(task, 0) < end.limits.copies
    )
    return [
        (task, frozenset(attempt.cluster for attempt in of_task[task]).union(end.failed_at.get(task, ())))
        for task in sorted(late, key=lambda task: (-youngest[task], task))
    ]
