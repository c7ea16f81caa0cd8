"""Compute capacities and task counts from the clusters' snapshots."""

from collections.abc import Iterable, Mapping, Set
from datetime import datetime
from itertools import groupby
from math import inf, isfinite

from gridbridge.decisions.campaigns.remaining_cluster_capacity import SLOT_KEPT_S
from gridbridge.model.campaigns.campaign import Campaign, CampaignArray, CampaignState
from gridbridge.model.campaigns.campaign_sections import ClusterCampaignsSection
from gridbridge.model.campaigns.cycle_plan import NO_LIMITS, ClusterCapacityForCampaigns, ListedCampaignTaskCounts
from gridbridge.model.cluster_snapshot import ClusterSnapshot, JobListRow
from gridbridge.model.job import ClusterArrayLimits
from gridbridge.model.policy import Policy

USUAL = ClusterCampaignsSection()
NOT_SAID: Mapping[str, ClusterCampaignsSection] = {}

Answers = Mapping[str, ClusterSnapshot]
Besides = Set[tuple[int, int, int]]


def clusters_accepting_campaign_tasks(campaigns: Iterable[Campaign], waiting: Mapping[int, int]) -> frozenset[str]:
    """Return the clusters that may get waiting tasks or speculative attempts."""
    going = (
        campaign.jdl.clusters
        for campaign in campaigns
        if campaign.state is CampaignState.IN_TREATMENT and (waiting.get(campaign.number) or campaign.jdl.may_be_copied)
    )
    return frozenset(name for clusters in going for name in clusters)


def campaign_capacity_by_cluster(
    policy: Policy,
    answers: Answers,
    stress: Mapping[str, float],
    limits: Mapping[str, ClusterArrayLimits],
    drained: Set[str] = frozenset(),
) -> dict[str, ClusterCapacityForCampaigns]:
    """Return by cluster the capacity from its snapshot, limits and campaign settings."""
    used = {name: policy.campaigns.get(name, USUAL) for name in answers}
    return {
        name: ClusterCapacityForCampaigns(
            free_slots=snapshot.free_slots,
            besteffort_slots=snapshot.besteffort_slots,
            max_slots=count_usable_slots(snapshot),
            slots=snapshot.batch_slots,
            used=snapshot.used_batch_slots,
            law=used[name].predictor,
            flood_rate=used[name].flood_rate,
            is_stressed=stress.get(name, -inf) >= used[name].stress_limit,
            stress=stress[name] if isfinite(stress.get(name, inf)) else None,
            stress_limit=used[name].stress_limit,
            affinity=used[name].affinity,
            limits=limits.get(name, NO_LIMITS),
            is_drained=name in drained,
        )
        for name, snapshot in answers.items()
    }


def count_usable_slots(snapshot: ClusterSnapshot) -> int:
    """Count the slots that accept jobs; best-effort queues offer the same slots again."""
    working = (
        queue for queue in snapshot.queues if queue.takes_work and not queue.sends_away and not queue.is_besteffort
    )
    return sum(queue.slots_total for queue in working)


def task_indices_in_snapshot(array: CampaignArray, snapshot: ClusterSnapshot) -> frozenset[int]:
    """Return the indices of an array's tasks that its cluster lists."""
    return _indices(array, snapshot.jobs.get(array.job_id, ()))


def running_task_indices(array: CampaignArray, snapshot: ClusterSnapshot) -> frozenset[int]:
    """Return the indices of an array's running tasks, without tasks being deleted."""
    rows = snapshot.jobs.get(array.job_id, ())
    return _indices(array, (row for row in rows if row.state.has_begun and not row.state.is_deleting))


def arrays_with_all_tasks_waiting(arrays: Iterable[CampaignArray], answers: Answers) -> frozenset[tuple[int, int]]:
    """Return the arrays of which all listed tasks are waiting."""
    rows = {array: answers[array.cluster].jobs.get(array.job_id, ()) for array in arrays}
    return frozenset(
        (array.campaign, array.number)
        for array, listed in rows.items()
        if listed and all(row.state.is_waiting for row in listed)
    )


def _indices(array: CampaignArray, rows: Iterable[JobListRow]) -> frozenset[int]:
    whole = range(1, array.size + 1)
    return frozenset(index for row in rows for indices in row.tasks or (whole,) for index in indices)


def count_listed_tasks_by_cluster(
    arrays: Iterable[CampaignArray],
    answers: Answers,
    now: datetime,
    used: Mapping[str, ClusterCampaignsSection] = NOT_SAID,
) -> tuple[ListedCampaignTaskCounts, ...]:
    """Count listed tasks by campaign and cluster; `used` has the clusters' settings."""
    by_pair = sorted(arrays, key=lambda array: (array.campaign, array.cluster))
    counted = (
        _count(tuple(pair_arrays), answers[cluster], now, used.get(cluster, USUAL).start_s)
        for (_, cluster), pair_arrays in groupby(by_pair, key=lambda array: (array.campaign, array.cluster))
    )
    return tuple(view for view in counted if view.listed)


def elapsed_seconds_of_running_tasks(
    arrays: Iterable[CampaignArray], answers: Answers, besides: Besides
) -> dict[tuple[int, str], tuple[float, ...]]:
    """Return the elapsed seconds of running tasks by campaign and cluster.

    Each task counts once, by its last attempt; `besides` has the positions of other attempts.
    """
    durations: dict[tuple[int, str], list[float]] = {}
    for array in arrays:
        snapshot = answers[array.cluster]
        times = durations.setdefault((array.campaign, array.cluster), [])
        times += (
            max(0.0, (snapshot.taken_at - row.since).total_seconds())
            for row in snapshot.jobs.get(array.job_id, ())
            if row.since and row.state.has_begun and (array.campaign, array.number, row.task) not in besides
        )
    return {pair: tuple(times) for pair, times in durations.items()}


def _count(
    arrays: tuple[CampaignArray, ...], snapshot: ClusterSnapshot, now: datetime, start_s: float
) -> ListedCampaignTaskCounts:
    rows = [(array, row) for array in arrays for row in snapshot.jobs.get(array.job_id, ())]
    waiting = [(array, row) for array, row in rows if row.state.is_waiting]
    able = [((now - array.intended_at).total_seconds(), row) for array, row in waiting if row.state.can_start]
    running = [row for _, row in rows if row.state.has_begun]
    return ListedCampaignTaskCounts(
        campaign=arrays[0].campaign,
        cluster=arrays[0].cluster,
        waiting=_tasks(row for _, row in waiting),
        listed=_tasks(row for _, row in rows),
        fresh=_tasks(row for age_s, row in able if age_s < start_s),
        held=_tasks(row for _, row in waiting if not row.state.can_start),
        old=_tasks(row for age_s, row in able if age_s > SLOT_KEPT_S),
        slots=sum(row.slots for row in running) / len(running) if running else 0.0,
    )


def _tasks(rows: Iterable[JobListRow]) -> int:
    return sum(row.task_count for row in rows)
