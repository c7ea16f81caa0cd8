"""Decide whether a task runs again, and which clusters it avoids.

Each cause of failure has its own limited number of retries. Without a limit, CiGri killed and
resubmitted the same task for ever (scheduler 3.2, walltime). A task goes to clusters where it has
not failed, while the campaign has such clusters.
"""

from collections.abc import Iterable, Mapping, Sequence, Set

from gridbridge.model.campaigns.campaign import AttemptOutcomeAtCluster, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_sections import CampaignFailuresSection
from gridbridge.model.campaigns.cycle_plan import TaskRetry

NEVER_STARTED_OUTCOMES = (TaskAttemptOutcome.WIPED, TaskAttemptOutcome.MOVED)
AVOIDED_OUTCOMES = frozenset(
    {TaskAttemptOutcome.SETUP_ERROR, TaskAttemptOutcome.WALLTIME, TaskAttemptOutcome.SITE_FAULT}
)


def may_retry_task(
    now: AttemptOutcomeAtCluster,
    earlier: Iterable[AttemptOutcomeAtCluster],
    clusters: Set[str],
    policy: CampaignFailuresSection,
) -> bool:
    """Say whether a task runs again after this attempt; `earlier` are its other attempts.

    A task that overran its walltime is retried only at clusters where it has not overrun it yet.
    """
    attempts = [now, *earlier]
    if now.outcome in NEVER_STARTED_OUTCOMES:
        return True
    if now.outcome is TaskAttemptOutcome.WALLTIME and clusters <= _clusters_overrun(attempts):
        return False
    times = sum(attempt.outcome is now.outcome for attempt in attempts)
    return times <= _budget(now.outcome, clusters, policy)


def _budget(outcome: TaskAttemptOutcome, clusters: Set[str], policy: CampaignFailuresSection) -> int:
    budgets = {
        TaskAttemptOutcome.RESUBMIT: policy.asked,
        TaskAttemptOutcome.RESUBMIT_LAST: policy.asked,
        TaskAttemptOutcome.PREEMPTED: policy.preempted,
        TaskAttemptOutcome.SITE_FAULT: policy.site_fault,
        TaskAttemptOutcome.WALLTIME: policy.walltime,
        TaskAttemptOutcome.SETUP_ERROR: policy.setup_error
        + len(clusters)
        - 1,  # retries at further clusters: one for each
    }
    return budgets.get(outcome, 0)


def choose_clusters_retry_avoids(
    now: AttemptOutcomeAtCluster, earlier: Iterable[AttemptOutcomeAtCluster], clusters: Set[str]
) -> tuple[str, ...]:
    """Return the clusters that a task's next attempt avoids while other clusters are open.

    If the task failed at every cluster, only the last cluster is avoided; after a preemption, none.
    """
    if now.outcome is TaskAttemptOutcome.MOVED:
        return (now.cluster,) if clusters - {now.cluster} else ()
    failed = _clusters_with_outcome([now, *earlier], AVOIDED_OUTCOMES) & clusters
    if clusters <= failed:
        failed = clusters & _clusters_with_outcome([now], AVOIDED_OUTCOMES)
    return tuple(sorted(failed)) if clusters - failed else ()


def list_walltime_overrun_clusters(attempts: Iterable[AttemptOutcomeAtCluster], clusters: Set[str]) -> tuple[str, ...]:
    """Return the clusters where a task overran its walltime.

    The task would overrun its walltime there again. Empty if the result excluded all clusters.
    """
    overran = _clusters_overrun(attempts) & clusters
    return () if clusters <= overran else tuple(sorted(overran))


def map_tasks_to_failed_clusters(tried: Iterable[AttemptOutcomeAtCluster]) -> dict[int, tuple[str, ...]]:
    """Map tasks to the clusters where they failed, which get no copies."""
    by_task: dict[int, set[str]] = {}
    for attempt in tried:
        if attempt.outcome in AVOIDED_OUTCOMES or attempt.is_overrun:
            by_task.setdefault(attempt.task, set()).add(attempt.cluster)
    return {task: tuple(sorted(names)) for task, names in by_task.items()}


def plan_task_retries(
    ended: Sequence[AttemptOutcomeAtCluster],
    earlier: Iterable[AttemptOutcomeAtCluster],
    clusters: Mapping[int, Set[str]],
    policy: CampaignFailuresSection,
) -> tuple[TaskRetry, ...]:
    """Return the retries of ended attempts, for campaigns with clusters."""
    by_task: dict[tuple[int, int], list[AttemptOutcomeAtCluster]] = {}
    for attempt in (*earlier, *ended):
        by_task.setdefault((attempt.campaign, attempt.task), []).append(attempt)
    with_others = (
        (
            attempt,
            [previous for previous in by_task[attempt.campaign, attempt.task] if previous.attempt != attempt.attempt],
        )
        for attempt in ended
    )
    return tuple(
        TaskRetry(
            campaign=attempt.campaign,
            task=attempt.task,
            attempt=attempt.attempt,
            outcome=attempt.outcome,
            avoid=choose_clusters_retry_avoids(attempt, previous_attempts, clusters[attempt.campaign]),
            never=list_walltime_overrun_clusters((attempt, *previous_attempts), clusters[attempt.campaign]),
        )
        for attempt, previous_attempts in with_others
        if attempt.campaign in clusters
        and may_retry_task(attempt, previous_attempts, clusters[attempt.campaign], policy)
    )


def _clusters_with_outcome(tried: Iterable[AttemptOutcomeAtCluster], outcomes: Set[TaskAttemptOutcome]) -> Set[str]:
    return {attempt.cluster for attempt in tried if attempt.outcome in outcomes}


def _clusters_overrun(tried: Iterable[AttemptOutcomeAtCluster]) -> set[str]:
    return {
        attempt.cluster for attempt in tried if attempt.outcome is TaskAttemptOutcome.WALLTIME or attempt.is_overrun
    }
