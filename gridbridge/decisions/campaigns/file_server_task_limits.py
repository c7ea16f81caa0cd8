"""Decides how many tasks of campaigns may be at the clusters of a file server, so that its load stays at a target.

The limit follows a PI rule of the relative deviation e = 1 - load / target. The limit is base * (1 + gain * e); the
integral term `base` grows by the factor 1 + gain * e in each `integral_s`. Both terms are relative, so the same gain
suits every unit of load and every number of tasks.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from math import floor

from gridbridge.model.campaigns.campaign import ArraySubmissionState, Campaign, CampaignCluster, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation
from gridbridge.model.campaigns.file_server_load import FileServerLimit, FileServerRule
from gridbridge.model.published_status_and_reports import number_with_noun

LEAST_BASE = 1.0  # tasks; above 0, because the rule changes the base by a factor
LONGEST_CYCLE_S = 30.0  # a longer time between two cycles counts as 30 s
UNLIMITED_TASKS = 100_000_000  # number of tasks; more than any file server has


def decide_file_server_limits(situation: CampaignCycleSituation) -> tuple[FileServerLimit, ...]:
    """Return the limit of each file server in this cycle, before the cycle sends tasks."""
    if not situation.servers.rules:
        return ()
    counts = Counter[str]()
    for (_, cluster), tasks in count_tasks_by_campaign_and_cluster(situation).items():
        counts[cluster] += tasks
    before = {limit.storage: limit for limit in situation.servers.limits}
    return tuple(
        next_file_server_limit(
            rule,
            before.get(rule.storage),
            sum(counts[name] for name in rule.clusters),
            situation.servers.loads.get(rule.storage),
            situation.at,
        )
        for rule in situation.servers.rules
    )


def add_sent_tasks_to_limits(
    limits: Iterable[FileServerLimit], rules: Iterable[FileServerRule], sent_tasks: Counter[str]
) -> tuple[FileServerLimit, ...]:
    """Return the limits after adding the tasks that a cycle sends to each cluster."""
    clusters = {rule.storage: rule.clusters for rule in rules}
    return tuple(
        replace(limit, tasks=limit.tasks + sum(sent_tasks[name] for name in clusters[limit.storage]))
        for limit in limits
    )


def count_tasks_by_campaign_and_cluster(situation: CampaignCycleSituation) -> Counter[CampaignCluster]:
    """Count the tasks at clusters, and all tasks of arrays that are not submitted yet or are at a silent cluster."""
    counts = Counter({view.campaign_and_cluster: view.listed for view in situation.there})
    for array in situation.unfinished_arrays:
        is_listed = array.state is ArraySubmissionState.RELEASED and array.cluster in situation.room
        counts[array.campaign, array.cluster] += 0 if is_listed else array.size
    return counts


def count_tasks_awaiting_inputs(situation: CampaignCycleSituation) -> Counter[str]:
    """Count, for each cluster, the tasks whose input files may not have arrived yet."""
    carrying = {(cost.campaign, cost.cluster) for cost in situation.carry_costs}
    counts = Counter[str]()
    for array in situation.unfinished_arrays:
        if array.state is ArraySubmissionState.INTENDED and (array.campaign, array.cluster) in carrying:
            counts[array.cluster] += array.size
    return counts


def next_file_server_limit(
    rule: FileServerRule, last: FileServerLimit | None, tasks: int, load: float | None, at: datetime
) -> FileServerLimit:
    """Return a file server's next limit; `tasks` are at its clusters now, and `load` None means no report.

    0 <= limit <= max_jobs; tasks - step <= limit <= max(tasks, last tasks) + step; limit <= last limit + step. A higher
    limit would be untested, and a lower limit has no effect because running tasks are not ended. `base` follows the
    bounded limit, so that the limit leaves a bound at once when the deviation changes its sign.
    """
    most = rule.max_jobs or UNLIMITED_TASKS
    if not rule.has_load:
        return FileServerLimit(storage=rule.storage, at=at, limit=most, base=most, tasks=tasks)
    start = min(most, max(tasks, rule.step))
    last = last or FileServerLimit(
        storage=rule.storage, at=at, limit=start if load is not None else 0.0, base=start, tasks=tasks
    )
    high = min(most, last.limit + rule.step, max(tasks, last.tasks) + rule.step)
    if load is None:
        return replace(_limit_without_load(rule, last, at, high), at=at, tasks=tasks, load=None)
    deviation = max(-1.0, 1 - load / rule.target)
    cycle_s = min(LONGEST_CYCLE_S, max(0.0, (at - last.at).total_seconds()))
    factor = 1 + rule.gain * deviation
    target = last.base * (1 + rule.gain * deviation * cycle_s / rule.integral_s) * factor
    low = max(0.0, last.limit - rule.step, tasks - rule.step)
    limit = min(high, max(low, target))
    return FileServerLimit(
        storage=rule.storage,
        at=at,
        limit=limit,
        base=max(LEAST_BASE, limit / factor),
        tasks=tasks,
        load=load,
        load_at=at,
    )


def _limit_without_load(rule: FileServerRule, last: FileServerLimit, at: datetime, high: float) -> FileServerLimit:
    """Return the last limit while the last load is recent; after that, lower the limit by a step in each cycle."""
    if last.load_at is not None and 0 <= (at - last.load_at).total_seconds() <= rule.keep_s:
        return replace(last, limit=min(high, last.limit))
    limit = min(high, max(0.0, last.limit - rule.step))
    return replace(last, limit=limit, base=max(LEAST_BASE, min(last.base, limit)))


def exhausted_limits_by_cluster(
    limits: Iterable[FileServerLimit], rules: Iterable[FileServerRule]
) -> dict[str, tuple[FileServerRule, FileServerLimit]]:
    """Return, by cluster, a file server that allows no more tasks; clusters without such a server are left out."""
    by_storage = {limit.storage: limit for limit in limits if floor(limit.limit) <= limit.tasks}
    full = ((rule, by_storage[rule.storage]) for rule in rules if rule.storage in by_storage)
    return {cluster: (rule, limit) for rule, limit in full for cluster in rule.clusters}


def describe_file_server_limits(limits: Iterable[FileServerLimit]) -> list[str]:
    return [
        f"storage {limit.storage}: {'' if limit.load is None else f'load {limit.load:g}, '}"
        f"{limit.tasks} of at most {number_with_noun(floor(limit.limit), 'task')}"
        for limit in limits
        if floor(limit.limit) <= limit.tasks
    ]


def count_succeeded_tasks(situation: CampaignCycleSituation) -> Counter[int]:
    """Count the succeeded tasks of campaigns with the key first_tasks, including ends that this cycle has found."""
    limited = (campaign for campaign in situation.campaigns if campaign.jdl.first_tasks)
    succeeded = Counter({campaign.number: campaign.succeeded for campaign in limited})
    for attempt in situation.ended if succeeded else ():
        if attempt.outcome is TaskAttemptOutcome.SUCCESS and attempt.campaign in succeeded:
            succeeded[attempt.campaign] += 1
    return succeeded


def _tasks_left_by_campaign(situation: CampaignCycleSituation, succeeded: Mapping[int, int]) -> dict[int, int]:
    """Return how many more tasks max_parallel and first_tasks allow, for each campaign with such a limit."""
    remaining = dict[int, int]()
    for campaign in situation.campaigns:
        first = campaign.jdl.first_tasks - succeeded.get(campaign.number, 0)
        if limits := [most for most in (campaign.jdl.max_parallel, first) if most > 0]:
            remaining[campaign.number] = min(limits)
    for (number, _), tasks in count_tasks_by_campaign_and_cluster(situation).items() if remaining else ():
        if number in remaining:
            remaining[number] = max(0, remaining[number] - tasks)
    return remaining


class RemainingTasksByLimit:
    """The number of additional tasks that file servers, and campaigns' keys max_parallel and first_tasks, allow."""

    def __init__(self, situation: CampaignCycleSituation) -> None:
        self.of_servers = limits = decide_file_server_limits(situation)  # before the cycle sends tasks
        self._servers = {limit.storage: max(0, floor(limit.limit) - limit.tasks) for limit in limits}
        self._storages = {rule.storage: rule.clusters for rule in situation.servers.rules}
        self._campaigns = _tasks_left_by_campaign(situation, count_succeeded_tasks(situation))
        self._carrying = {(cost.campaign, cost.cluster) for cost in situation.carry_costs}
        travelling = count_tasks_awaiting_inputs(situation)
        self._carried = {
            limit.storage: (floor(limit.limit) + 1) // 2
            - sum(travelling[name] for name in self._storages[limit.storage])
            for limit in limits
        }

    def remaining_tasks(self, campaign: Campaign, cluster: str) -> int:
        of_campaign = self._campaigns.get(campaign.number, UNLIMITED_TASKS)
        return min(
            of_campaign,
            self.remaining_tasks_at_cluster(cluster),
            self._remaining_carried_tasks(campaign.number, cluster),
        )

    def is_carry_limit_reached(self, campaign: int, cluster: str) -> bool:
        return self._remaining_carried_tasks(campaign, cluster) <= 0

    def _remaining_carried_tasks(self, campaign: int, cluster: str) -> int:
        """Return how many more tasks may wait for their input files.

        Such tasks get at most half of the limit, because they don't load a file server yet, and a carry may last a day.
        """
        if (campaign, cluster) not in self._carrying:
            return UNLIMITED_TASKS
        remaining = (tasks for storage, tasks in self._carried.items() if cluster in self._storages[storage])
        return max(0, min(remaining, default=UNLIMITED_TASKS))

    def remaining_tasks_at_cluster(self, cluster: str) -> int:
        """Return how many additional tasks of all campaigns the file servers of a cluster allow."""
        remaining = (tasks for storage, tasks in self._servers.items() if cluster in self._storages[storage])
        return min(remaining, default=UNLIMITED_TASKS)

    def is_task_limit_reached(self, campaign: int) -> bool:
        return self._campaigns.get(campaign, UNLIMITED_TASKS) <= 0

    def take_tasks(self, campaign: int, cluster: str, tasks: int) -> None:
        if campaign in self._campaigns:
            self._campaigns[campaign] -= tasks
        for storage in self._servers:
            self._servers[storage] -= tasks if cluster in self._storages[storage] else 0
            if (campaign, cluster) in self._carrying and cluster in self._storages[storage]:
                self._carried[storage] -= tasks
