"""Plan speculative attempts: extra attempts of tasks that run long near the end of a campaign.

CiGri's finalize scheduling (scheduler specification) starts more extra attempts, but most last tasks need none.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import ceil, inf

from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import count_starved_tasks_by_cluster
from gridbridge.decisions.campaigns.file_server_task_limits import RemainingTasksByLimit
from gridbridge.decisions.campaigns.remaining_cluster_capacity import (
    RemainingClusterCapacity,
    max_tasks_per_array,
    remaining_capacity_of_clusters,
)
from gridbridge.decisions.campaigns.task_retries_and_deciding_attempts import AttemptsByTask
from gridbridge.model.campaigns.campaign import Campaign, CampaignCluster, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_configuration_sections import LateSpeculationSection
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation, PlannedCampaignTaskSend, TaskRetry
from gridbridge.model.campaigns.speculative_attempts import (
    RunningTaskAttempt,
    SpeculativeAttemptsAtCluster,
    TasksRunningNearCampaignEnd,
)

MIN_ENDED_TASKS = 3  # a percentile of run times is computed from at least this many ended tasks
RUN_TIME_QUANTILE = 0.95  # a task runs long if it has run longer than this share of the ended tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignNearEnd:
    campaign: int
    left: int  # number of unfinished tasks
    unsent: int  # number of tasks that were sent to no cluster
    sent_s: float  # seconds since the campaign's last task was sent
    free: Mapping[str, int]  # {cluster: number of tasks that fit into its free slots}, the best cluster first
    durations_s: Sequence[float]  # run times of ended tasks
    live: Sequence[RunningTaskAttempt]  # the live attempts of some tasks; a task is listed with all its live attempts
    made: Mapping[int, int]  # {task: number of its speculative attempts so far}
    limits: LateSpeculationSection
    failed_at: Mapping[int, Sequence[str]] = field(default_factory=dict)  # {task: clusters where it failed}


def choose_speculative_attempts(end: CampaignNearEnd) -> tuple[SpeculativeAttemptsAtCluster, ...]:
    """Choose speculative attempts and their clusters; the task that runs longest goes first.

    A task gets a further attempt only if its last attempt runs long too, and only at a cluster where the task neither
    runs nor failed.
    """
    beyond_s, free = run_time_percentile_95_s(end.durations_s), dict(end.free)
    is_end = is_campaign_near_end(end.left, end.unsent, sum(free.values()), end.sent_s, end.limits)
    if beyond_s is None or not is_end:
        return ()
    beyond_s = max(beyond_s, end.limits.least_s)
    chosen: dict[str, list[int]] = {}
    for task, clusters in _late_tasks_with_excluded_clusters(end, beyond_s):
        if cluster := next((name for name, room in free.items() if room > 0 and name not in clusters), ""):
            free[cluster] -= 1
            chosen.setdefault(cluster, []).append(task)
    return tuple(
        SpeculativeAttemptsAtCluster(campaign=end.campaign, cluster=name, tasks=tuple(tasks), beyond_s=round(beyond_s))
        for name, tasks in chosen.items()
    )


def is_campaign_near_end(
    unfinished: int, unsent: int, free: int, sent_s: float, limits: LateSpeculationSection
) -> bool:
    """Say whether fewer tasks are unfinished than slots are free, or all tasks were sent long ago."""
    return unfinished < free or (not unsent and sent_s >= limits.limit_s)


def run_time_percentile_95_s(durations_s: Sequence[float]) -> float | None:
    """Return the run time that 95 % of the ended tasks did not exceed; None if too few tasks have ended."""
    if len(durations_s) < MIN_ENDED_TASKS:
        return None
    return sorted(durations_s)[ceil(RUN_TIME_QUANTILE * len(durations_s)) - 1]


def _late_tasks_with_excluded_clusters(end: CampaignNearEnd, beyond_s: float) -> Iterable[tuple[int, Set[str]]]:
    of_task = defaultdict[int, list[RunningTaskAttempt]](list)
    for attempt in end.live:
        of_task[attempt.task].append(attempt)
    youngest = {task: min(attempt.elapsed_s for attempt in attempts) for task, attempts in of_task.items()}
    for task in sorted(youngest, key=lambda task: (-youngest[task], task)):
        if youngest[task] > beyond_s and end.made.get(task, 0) < end.limits.copies:
            yield task, {attempt.cluster for attempt in of_task[task]}.union(end.failed_at.get(task, ()))


class _TaskCountsForSpeculation:
    def __init__(
        self,
        situation: CampaignCycleSituation,
        sends: Iterable[PlannedCampaignTaskSend],
        retries: Iterable[TaskRetry],
        rivals: AttemptsByTask,
    ) -> None:
        self.unsent = Counter(situation.waiting) + Counter(situation.awaiting)
        self.ended = defaultdict[int, list[TaskAttempt]](list)
        self.made = defaultdict[int, dict[int, int]](dict)  # {campaign: {task: number of its speculative attempts}}
        self.there = Counter(
            {view.campaign_and_cluster: view.listed for view in situation.there}
        )  # number of tasks that are listed or sent
        self.in_vain = count_starved_tasks_by_cluster(situation)
        for send in sends:
            self.unsent[send.campaign] -= send.tasks
            self.there[send.campaign, send.cluster] += send.jobs
        self.unsent.update(retry.campaign for retry in retries)
        for attempt in situation.ended:
            self.ended[attempt.campaign].append(attempt)
        for (campaign, task), of_task in rivals.items():
            self.made[campaign][task] = sum(rival.is_copy for rival in of_task)


def plan_speculative_attempts(
    situation: CampaignCycleSituation,
    sends: tuple[PlannedCampaignTaskSend, ...],
    over: Mapping[int, int],
    retries: Iterable[TaskRetry],
    rivals: AttemptsByTask,
    barred: Set[CampaignCluster],
    limits: RemainingTasksByLimit,
) -> Iterator[SpeculativeAttemptsAtCluster]:
    """Yield a cycle's speculative attempts; `over` counts each campaign's tasks that ended for good.

    Clusters in `barred` get no attempt: closed or probed clusters, and clusters whose prologue must run first. The
    tasks of `sends` are already taken from `limits`.
    """
    if not situation.tails:
        return
    campaigns = {campaign.number: campaign for campaign in situation.campaigns}
    remaining = remaining_capacity_of_clusters(situation, limits)
    counted = _TaskCountsForSpeculation(situation, sends, retries, rivals)
    for send in sends:
        remaining.free.take_slots(send.cluster, campaigns[send.campaign].jdl.clusters[send.cluster], send.jobs)
        remaining.arrays.take_accepted_arrays(
            send.campaign, send.cluster, -(-send.jobs // max_tasks_per_array(situation, send.cluster))
        )
    for tail in situation.tails:
        campaign = campaigns[tail.campaign]
        if not campaign.jdl.allows_speculative_attempts:
            continue
        free = _count_fitting_tasks_by_cluster(campaign, situation, barred, remaining, counted)
        end = _make_campaign_near_end(campaign, tail, counted, free, over, situation.finalize)
        for copy in choose_speculative_attempts(end):
            remaining.tasks.take_tasks(copy.campaign, copy.cluster, len(copy.tasks))
            remaining.free.take_slots(copy.cluster, campaign.jdl.clusters[copy.cluster], len(copy.tasks))
            remaining.arrays.take_accepted_arrays(copy.campaign, copy.cluster, 1)
            yield copy


def _make_campaign_near_end(
    campaign: Campaign,
    tail: TasksRunningNearCampaignEnd,
    counted: _TaskCountsForSpeculation,
    free: Mapping[str, int],
    over: Mapping[int, int],
    limits: LateSpeculationSection,
) -> CampaignNearEnd:
    number = campaign.number
    ended = {(attempt.task, attempt.attempt) for attempt in counted.ended[number]}
    won = {attempt.task for attempt in counted.ended[number] if attempt.outcome is TaskAttemptOutcome.SUCCESS}
    return CampaignNearEnd(
        campaign=number,
        left=campaign.tasks - campaign.ended - over.get(number, 0),
        unsent=counted.unsent[number],
        sent_s=tail.sent_s,
        free=free,
        durations_s=tail.durations_s,
        live=tuple(
            attempt for attempt in tail.live if (attempt.task, attempt.attempt) not in ended and attempt.task not in won
        ),
        made=counted.made[number],
        limits=limits,
        failed_at=tail.failed_at,
    )


def _count_fitting_tasks_by_cluster(
    campaign: Campaign,
    situation: CampaignCycleSituation,
    barred: Set[CampaignCluster],
    remaining: RemainingClusterCapacity,
    counted: _TaskCountsForSpeculation,
) -> Mapping[str, int]:
    """Return how many tasks fit at each cluster: fastest first, and last where tasks waited in vain."""
    number, mean_s = campaign.number, situation.sharing.mean_s.get(campaign.number, {})
    room = dict[str, int]()
    for name, request in campaign.jdl.clusters.items():
        if name in situation.room and (number, name) not in barred and remaining.arrays.remaining_arrays(number, name):
            most = min(max_tasks_per_array(situation, name), remaining.tasks.remaining_tasks(campaign, name))
            if request.max_jobs:
                most = min(most, request.max_jobs - counted.there[number, name])
            room[name] = min(remaining.free.free_slots_for_request(name, request) // request.slots, most)

    def cluster_sort_key(name: str) -> tuple[int, float, int, str]:
        return counted.in_vain.get((number, name), 0), mean_s.get(name, inf), -room[name], name

    return {name: room[name] for name in sorted(room, key=cluster_sort_key) if room[name] > 0}
