"""Decide whether a campaign task runs again, which clusters it avoids, and which attempt counts.

Unlike in CiGri (scheduler 3.2, walltime), each kind of failure has its own limit of retries.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    AttemptOutcomeAtCluster,
    CampaignArray,
    TaskAttempt,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignFailuresSection
from gridbridge.model.campaigns.campaign_cycle_plan import TaskRetry
from gridbridge.model.campaigns.speculative_attempts import CompetingAttempt, SupersededAttempts
from gridbridge.model.campaigns.task_index_and_attempt_texts import group_into_ranges

CampaignTask = tuple[int, int]  # campaign number, task number
AttemptsByTask = Mapping[CampaignTask, Sequence[CompetingAttempt]]
NEVER_STARTED_OUTCOMES = (TaskAttemptOutcome.WIPED, TaskAttemptOutcome.MOVED, TaskAttemptOutcome.UNBEGUN)
LEAST_CHECKPOINT_WAIT_S, MOST_CHECKPOINT_WAIT_S = 600, 7 * 86_400
MOST_FAILURES_AT_CHECKPOINT = 2  # after so many failures without a newer checkpoint a task may run at other clusters
AVOIDED_OUTCOMES = frozenset(
    {TaskAttemptOutcome.SETUP_ERROR, TaskAttemptOutcome.WALLTIME, TaskAttemptOutcome.SITE_FAULT}
)


def may_retry_task(
    now: AttemptOutcomeAtCluster,
    earlier: Iterable[AttemptOutcomeAtCluster],
    clusters: Set[str],
    policy: CampaignFailuresSection,
) -> bool:
    """Say whether a task runs again after attempt `now`; `earlier` has the task's other attempts."""
    attempts = [now, *earlier]
    if now.outcome in NEVER_STARTED_OUTCOMES:
        return True
    if now.outcome is TaskAttemptOutcome.WALLTIME and clusters <= _clusters_with_overrun_walltime(attempts):
        return False
    budgets = {
        TaskAttemptOutcome.RESUBMIT: policy.asked,
        TaskAttemptOutcome.RESUBMIT_LAST: policy.asked,
        TaskAttemptOutcome.PREEMPTED: policy.preempted,
        TaskAttemptOutcome.SITE_FAULT: policy.site_fault,
        TaskAttemptOutcome.WALLTIME: policy.walltime,
        TaskAttemptOutcome.INPUT_MISSING: policy.setup_error,
        TaskAttemptOutcome.SETUP_ERROR: policy.setup_error + len(clusters) - 1,  # each additional cluster gives a retry
    }
    used = sum(attempt.outcome is now.outcome and not attempt.has_progressed for attempt in attempts)
    return now.has_progressed or used <= budgets.get(now.outcome, 0)


def choose_clusters_retry_avoids(
    now: AttemptOutcomeAtCluster, earlier: Iterable[AttemptOutcomeAtCluster], clusters: Set[str]
) -> tuple[str, ...]:
    """Return the clusters that a task's next attempt avoids while another cluster is open.

    A task avoids the clusters where it failed; after failures at every cluster, only the cluster of the last failure.
    A preemption is no failure. A task with a checkpoint avoids all clusters without this checkpoint.
    """
    if now.outcome is TaskAttemptOutcome.MOVED:
        return (now.cluster,) if clusters - {now.cluster} else ()
    if holders := clusters & {*clusters_with_checkpoint([now, *earlier])}:
        return tuple(sorted(clusters - holders))
    failed = _clusters_of_attempts_with_outcome([now, *earlier], AVOIDED_OUTCOMES) & clusters
    if clusters <= failed:
        failed = clusters & _clusters_of_attempts_with_outcome([now], AVOIDED_OUTCOMES)
    return tuple(sorted(failed)) if clusters - failed else ()


def clusters_with_checkpoint(attempts: Iterable[AttemptOutcomeAtCluster]) -> tuple[str, ...]:
    """Return the clusters with a task's last checkpoint, that of its attempt first.

    Empty without a checkpoint, or if the task has failed with it twice.
    """
    failures = 0
    for attempt in sorted(attempts, key=lambda attempt: attempt.attempt, reverse=True):
        if attempt.has_progressed:
            return (attempt.cluster, *attempt.carried_to) if failures < MOST_FAILURES_AT_CHECKPOINT else ()
        failures += attempt.outcome in AVOIDED_OUTCOMES
    return ()


def work_in_checkpoint_s(attempts: Iterable[AttemptOutcomeAtCluster]) -> float:
    """Return the run time that a task repeats without its last checkpoint.

    An earlier attempt counts if its checkpoint was at the cluster of a later attempt that counts.
    """
    work_s, clusters = 0, set[str]()
    for attempt in sorted(attempts, key=lambda attempt: attempt.attempt, reverse=True):
        if attempt.has_progressed and (not clusters or clusters.intersection((attempt.cluster, *attempt.carried_to))):
            clusters.add(attempt.cluster)
            work_s += attempt.wallclock_s or 0
    return float(work_s)


def limit_checkpoint_wait_s(work_s: float) -> float:
    """Return how long a task waits for a cluster with its checkpoint: as long as it has worked, within bounds.

    Waiting and beginning anew then cost together at most twice as much as the better of the two choices.
    """
    return float(min(MOST_CHECKPOINT_WAIT_S, max(LEAST_CHECKPOINT_WAIT_S, work_s)))


def list_walltime_overrun_clusters(attempts: Iterable[AttemptOutcomeAtCluster], clusters: Set[str]) -> tuple[str, ...]:
    """Return clusters that get no task again after a walltime overrun; empty if these are all clusters."""
    overran = _clusters_with_overrun_walltime(attempts) & clusters
    return () if clusters <= overran else tuple(sorted(overran))


def map_tasks_to_failed_clusters(tried: Iterable[AttemptOutcomeAtCluster]) -> dict[int, tuple[str, ...]]:
    """Return for each task the clusters where it failed, which get no speculative attempt of the task."""
    by_task = defaultdict[int, set[str]](set)
    for attempt in tried:
        if attempt.outcome in AVOIDED_OUTCOMES or attempt.is_overrun:
            by_task[attempt.task].add(attempt.cluster)
    return {task: tuple(sorted(names)) for task, names in by_task.items()}


def plan_task_retries(
    ended_attempts: Sequence[AttemptOutcomeAtCluster],
    earlier: Iterable[AttemptOutcomeAtCluster],
    clusters: Mapping[int, Set[str]],
    policy: CampaignFailuresSection,
) -> tuple[TaskRetry, ...]:
    """Return the tasks that run again; `clusters` has the clusters of each campaign that may retry tasks."""
    by_task = defaultdict[CampaignTask, list[AttemptOutcomeAtCluster]](list)
    for attempt in (*earlier, *ended_attempts):
        by_task[attempt.campaign, attempt.task].append(attempt)
    retries = []
    for attempt in (attempt for attempt in ended_attempts if attempt.campaign in clusters):
        names = clusters[attempt.campaign]
        others = [other for other in by_task[attempt.campaign, attempt.task] if other.attempt != attempt.attempt]
        if may_retry_task(attempt, others, names, policy):
            never = list_walltime_overrun_clusters((attempt, *others), names)
            holders = names & {*clusters_with_checkpoint((attempt, *others))} - {*never}
            retry = TaskRetry(
                campaign=attempt.campaign,
                task=attempt.task,
                attempt=attempt.attempt,
                outcome=attempt.outcome,
                avoid=choose_clusters_retry_avoids(attempt, others, names),
                never=never,
            )
            if holders:
                wait_s = limit_checkpoint_wait_s(work_in_checkpoint_s((attempt, *others)))
                retry = replace(retry, checkpoint_wait_s=wait_s, others=tuple(sorted(names - holders)))
            retries.append(retry)
    return tuple(retries)


def _clusters_of_attempts_with_outcome(
    tried: Iterable[AttemptOutcomeAtCluster], outcomes: Set[TaskAttemptOutcome]
) -> Set[str]:
    return {attempt.cluster for attempt in tried if attempt.outcome in outcomes}


def _clusters_with_overrun_walltime(tried: Iterable[AttemptOutcomeAtCluster]) -> set[str]:
    return {
        attempt.cluster for attempt in tried if attempt.outcome is TaskAttemptOutcome.WALLTIME or attempt.is_overrun
    }


def group_attempts_by_task(rivals: Iterable[CompetingAttempt]) -> AttemptsByTask:
    attempts: dict[CampaignTask, list[CompetingAttempt]] = defaultdict(list)
    for attempt in rivals:
        attempts[attempt.campaign, attempt.task].append(attempt)
    return attempts


def mark_ended_attempts_as_copies(
    ended_attempts: Sequence[TaskAttempt], rivals: AttemptsByTask
) -> tuple[TaskAttempt, ...]:
    """Give outcome COPY to each ended attempt whose task has another attempt that counts.

    COPY is neither success nor failure. Of two successes in one cycle, the smaller attempt number counts.
    """
    now: dict[CampaignTask, list[TaskAttempt]] = defaultdict(list)
    for attempt in ended_attempts:
        now[attempt.campaign, attempt.task].append(attempt)
    decides = {
        task: _attempt_that_decides_task_outcome(of_task, rivals[task])
        for task, of_task in now.items()
        if rivals.get(task)
    }
    return tuple(
        replace(attempt, outcome=TaskAttemptOutcome.COPY, is_overrun=attempt.outcome is TaskAttemptOutcome.WALLTIME)
        if decides.get((attempt.campaign, attempt.task), attempt.attempt) != attempt.attempt
        else attempt
        for attempt in ended_attempts
    )


def _attempt_that_decides_task_outcome(
    ended_attempts: Iterable[TaskAttempt], rivals: Iterable[CompetingAttempt]
) -> int:
    """Return the number of the attempt that decides a task; 0 if another attempt succeeded or may succeed."""
    outcomes = {rival.attempt: rival.outcome for rival in rivals}
    if TaskAttemptOutcome.SUCCESS in outcomes.values():
        return 0
    now = {attempt.attempt: attempt.outcome for attempt in ended_attempts}
    if good := [attempt for attempt, outcome in now.items() if outcome is TaskAttemptOutcome.SUCCESS]:
        return min(good)
    pending = {attempt for attempt, outcome in outcomes.items() if outcome is TaskAttemptOutcome.PENDING}
    return 0 if pending - now.keys() else max(now)


def select_final_task_ends(
    ended_attempts: Iterable[TaskAttempt], retries: Iterable[TaskRetry]
) -> tuple[TaskAttempt, ...]:
    """Return the ended attempts of tasks that do not run again, without attempts of outcome COPY."""
    runs = {(retry.campaign, retry.task) for retry in retries}
    return tuple(
        attempt
        for attempt in ended_attempts
        if attempt.outcome is not TaskAttemptOutcome.COPY and (attempt.campaign, attempt.task) not in runs
    )


def assign_retry_numbers_above_attempts(retries: Iterable[TaskRetry], rivals: AttemptsByTask) -> tuple[TaskRetry, ...]:
    return tuple(
        replace(retry, attempt=max(retry.attempt, *(rival.attempt for rival in of_task)))
        if (of_task := rivals.get((retry.campaign, retry.task)))
        else retry
        for retry in retries
    )


def find_superseded_attempts(
    ended_attempts: Iterable[TaskAttempt], rivals: AttemptsByTask, arrays: Iterable[CampaignArray]
) -> tuple[SupersededAttempts, ...]:
    """Return for each array the attempts that still run although their task has succeeded."""
    by_number = {array.campaign_and_array_number: array for array in arrays}
    now = {(attempt.campaign, attempt.task, attempt.attempt): attempt.outcome for attempt in ended_attempts}
    live = Counter[tuple[int, int]]()  # {(campaign, array): number of live attempts}
    lost = defaultdict[tuple[int, int], list[int]](list)
    for task, of_task in rivals.items():
        outcomes = (now.get((*task, rival.attempt), rival.outcome) for rival in of_task)
        has_won = TaskAttemptOutcome.SUCCESS in outcomes
        for rival in of_task:
            if rival.outcome is TaskAttemptOutcome.PENDING and (*task, rival.attempt) not in now:
                live[rival.campaign, rival.array] += 1
                if has_won:
                    lost[rival.campaign, rival.array].append(rival.place)
    superseded = (
        SupersededAttempts(
            array=by_number[key],
            places=group_into_ranges(indices),
            is_whole=by_number[key].is_of_copies and len(indices) == live[key],
        )
        for key, indices in sorted(lost.items())
        if key in by_number
    )
    return tuple(loser for loser in superseded if loser.is_whole or loser.array.state is ArraySubmissionState.RELEASED)


def is_unreleased_array_unwanted(loser: SupersededAttempts) -> bool:
    """Say whether an array was not released yet and may be deleted, because none of its tasks is needed."""
    return loser.is_whole and loser.array.state is not ArraySubmissionState.RELEASED
