"""The end of a campaign: a task that runs long gets a copy at another cluster.

CiGri's scheduler specification only planned it: finalize scheduling ("the replication of remaining
jobs") and the note "duplication of jobs at the end of a campaign if resources are free or timeout".
That a task is copied only beyond the 95th percentile of those that ended, and twice at most, is
ours: each copy takes a slot from somebody, and most of the last tasks end by themselves.
"""

from collections.abc import Iterable, Sequence
from math import ceil

from gridbridge.decisions.campaigns.schedulers.scheduler_protocol import CampaignTail
from gridbridge.model.campaigns.campaign_sections import Finalize
from gridbridge.model.campaigns.speculation import LiveAttempt, SpeculativeAttempts

LEAST_ENDED = 3  # tasks, from which it is known how long one takes
BEYOND = 0.95  # of the tasks that ended took less


def copies(end: CampaignTail) -> tuple[SpeculativeAttempts, ...]:
    """Return which tasks get a copy where, those that have run longest first.

    A task gets one in a cycle, and another one only when the first has run too long as well. No
    cluster gets a second attempt of a task while it has one, or once it has failed one.
    """
    beyond_s = usual_most_s(end.durations_s)
    free = dict(end.free)
    is_end = is_at_end(end.left, end.unsent, sum(free.values()), end.sent_s, end.limits)
    if beyond_s is None or not is_end:
        return ()
    beyond_s = max(beyond_s, end.limits.least_s)
    chosen: dict[str, list[int]] = {}
    for task, clusters in _late(end, beyond_s):
        cluster = next(
            (name for name, room in free.items() if room > 0 and name not in clusters), ""
        )
        if cluster:
            free[cluster] -= 1
            chosen.setdefault(cluster, []).append(task)
    return tuple(
        SpeculativeAttempts(
            campaign=end.campaign, cluster=name, tasks=tuple(tasks), beyond_s=round(beyond_s)
        )
        for name, tasks in chosen.items()
    )


def is_at_end(unfinished: int, unsent: int, free: int, sent_s: float, limits: Finalize) -> bool:
    """Say whether a campaign is at its end: few tasks are left, or all were sent long ago.

    Few are fewer than could start at once on slots that nobody else was given.
    """
    return unfinished < free or (not unsent and sent_s >= limits.limit_s)


def usual_most_s(durations_s: Sequence[float]) -> float | None:
    """Return how long 95 of 100 tasks take at most; None where that is not known."""
    if len(durations_s) < LEAST_ENDED:
        return None
    return sorted(durations_s)[ceil(BEYOND * len(durations_s)) - 1]


def _late(end: CampaignTail, beyond_s: float) -> Iterable[tuple[int, frozenset[str]]]:
    """Return the tasks that get a copy if there is room, with the clusters where none goes."""
    of_task: dict[int, list[LiveAttempt]] = {}
    for attempt in end.live:
        of_task.setdefault(attempt.task, []).append(attempt)
    youngest = {
        task: min(attempt.elapsed_s for attempt in attempts) for task, attempts in of_task.items()
    }
    late = (
        task
        for task, elapsed_s in youngest.items()
        if elapsed_s > beyond_s and end.made.get(task, 0) < end.limits.copies
    )
    return [
        (
            task,
            frozenset(attempt.cluster for attempt in of_task[task]).union(
                end.failed_at.get(task, ())
            ),
        )
        for task in sorted(late, key=lambda task: (-youngest[task], task))
    ]
