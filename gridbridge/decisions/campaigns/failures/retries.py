"""Whether a task is tried once more, and where: a budget for each cause, and one owner of retries.

What the cluster did to a task costs its program nothing, but no budget is endless: CiGri killed and
submitted the same task for ever (scheduler 3.2, walltime). A task goes on to a cluster that has not
failed it as long as there is one.
"""

from collections.abc import Iterable, Mapping, Sequence, Set

from gridbridge.model.campaigns.campaign import TaskOutcome
from gridbridge.model.campaigns.campaign_sections import Failures
from gridbridge.model.campaigns.cycle_plan import AttemptOutcome, Retry

NEVER_BEGAN = (TaskOutcome.WIPED, TaskOutcome.MOVED)
AVOIDED = frozenset({TaskOutcome.SETUP_ERROR, TaskOutcome.WALLTIME, TaskOutcome.SITE_FAULT})


def runs_again(
    now: AttemptOutcome, earlier: Iterable[AttemptOutcome], clusters: Set[str], policy: Failures
) -> bool:
    """Say whether a task runs again after this attempt; `earlier` are its others.

    A walltime is the same everywhere, so a task that overran it is tried at other clusters alone.
    """
    attempts = [now, *earlier]
    if now.outcome in NEVER_BEGAN:
        return True
    if now.outcome is TaskOutcome.WALLTIME and clusters <= _overran(attempts):
        return False
    times = sum(attempt.outcome is now.outcome for attempt in attempts)
    return times <= _budget(now.outcome, clusters, policy)


def _budget(outcome: TaskOutcome, clusters: Set[str], policy: Failures) -> int:
    budgets = {
        TaskOutcome.RESUBMIT: policy.asked,
        TaskOutcome.RESUBMIT_LAST: policy.asked,
        TaskOutcome.PREEMPTED: policy.preempted,
        TaskOutcome.SITE_FAULT: policy.site_fault,
        TaskOutcome.WALLTIME: policy.walltime,
        TaskOutcome.SETUP_ERROR: policy.setup_error + len(clusters) - 1,  # each cluster once, too
    }
    return budgets.get(outcome, 0)


def avoided(
    now: AttemptOutcome, earlier: Iterable[AttemptOutcome], clusters: Set[str]
) -> tuple[str, ...]:
    """Return the clusters to which a task does not go next, if any other is open.

    Where each has failed it, that is the last one, and none if it only lost its place there.
    """
    if now.outcome is TaskOutcome.MOVED:
        return (now.cluster,) if clusters - {now.cluster} else ()
    failed = _where([now, *earlier], AVOIDED) & clusters
    if clusters <= failed:
        failed = clusters & _where([now], AVOIDED)
    return tuple(sorted(failed)) if clusters - failed else ()


def never(attempts: Iterable[AttemptOutcome], clusters: Set[str]) -> tuple[str, ...]:
    """Return the clusters at which a task overran its walltime: it would do so again.

    Never all of them: a task that runs again has to run somewhere.
    """
    overran = _overran(attempts) & clusters
    return () if clusters <= overran else tuple(sorted(overran))


def failed_at(tried: Iterable[AttemptOutcome]) -> dict[int, tuple[str, ...]]:
    """Return the clusters that failed tasks of a campaign: a copy would fare no better there."""
    by_task: dict[int, set[str]] = {}
    for attempt in tried:
        if attempt.outcome in AVOIDED or attempt.is_overrun:
            by_task.setdefault(attempt.task, set()).add(attempt.cluster)
    return {task: tuple(sorted(names)) for task, names in by_task.items()}


def to_run_again(
    ended: Sequence[AttemptOutcome],
    earlier: Iterable[AttemptOutcome],
    clusters: Mapping[int, Set[str]],
    policy: Failures,
) -> tuple[Retry, ...]:
    """Return which attempts are followed by another, of the campaigns that have clusters here."""
    by_task: dict[tuple[int, int], list[AttemptOutcome]] = {}
    for attempt in (*earlier, *ended):
        by_task.setdefault((attempt.campaign, attempt.task), []).append(attempt)
    with_others = (
        (
            attempt,
            [
                previous
                for previous in by_task[attempt.campaign, attempt.task]
                if previous.attempt != attempt.attempt
            ],
        )
        for attempt in ended
    )
    return tuple(
        Retry(
            campaign=attempt.campaign,
            task=attempt.task,
            attempt=attempt.attempt,
            outcome=attempt.outcome,
            avoid=avoided(attempt, previous_attempts, clusters[attempt.campaign]),
            never=never((attempt, *previous_attempts), clusters[attempt.campaign]),
        )
        for attempt, previous_attempts in with_others
        if attempt.campaign in clusters
        and runs_again(attempt, previous_attempts, clusters[attempt.campaign], policy)
    )


def _where(tried: Iterable[AttemptOutcome], outcomes: Set[TaskOutcome]) -> Set[str]:
    return {attempt.cluster for attempt in tried if attempt.outcome in outcomes}


def _overran(tried: Iterable[AttemptOutcome]) -> set[str]:
    return {
        attempt.cluster
        for attempt in tried
        if attempt.outcome is TaskOutcome.WALLTIME or attempt.is_overrun
    }
