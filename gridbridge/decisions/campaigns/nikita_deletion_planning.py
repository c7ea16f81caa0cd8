"""Plan which campaign tasks nikita deletes (CiGri v3; scheduler specification, step 9)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gridbridge.decisions.campaigns import preemption_for_local_jobs
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    REASONS_OF_MOVES,
    ArrayTaskDeletion,
    ArrayTasksWithSameStateAndAge,
    NikitaDeletionPlan,
    NikitaDeletionReason,
    NikitaSituation,
)
from gridbridge.model.published_status_and_reports import number_with_noun

REASON_WORDS = {
    NikitaDeletionReason.OVERFLOW: "wait above the flood rate",
    NikitaDeletionReason.WAITED: "waited too long",
    NikitaDeletionReason.OVERRAN: "run long after their walltime",
    NikitaDeletionReason.CANCELLED: "their owner cancelled",
    NikitaDeletionReason.MADE_WAY: "hold resources that a local job lacks",
    NikitaDeletionReason.UNWANTED: "their owner cancelled",
    NikitaDeletionReason.MOVED: "are to start at another cluster",
    NikitaDeletionReason.UNNEEDED: "are prologues that no task needs any more",
    NikitaDeletionReason.LEFT: "were deleted, but are still listed",
    NikitaDeletionReason.NEVER_BEGAN: "were deleted, but are still listed",
}


def plan_nikita_deletions(listing: NikitaSituation) -> NikitaDeletionPlan:
    """Plan from job lists and stored deletion marks which tasks of campaigns nikita deletes now.

    Waiting tasks of test campaigns are not deleted. Waiting nightly tasks are deleted if they can't start now. If too
    many tasks wait, the newest are deleted after a grace period.
    """
    going = [part for part in listing.parts if not part.is_cancelled]
    new = [part for part in going if part.marked is None]
    waiting = [part for part in new if part.is_waiting and not part.is_test]
    late = [part for part in waiting if _have_tasks_waited_too_long(part, listing)]
    in_time = [part for part in waiting if not _have_tasks_waited_too_long(part, listing)]
    marked = [part for part in going if part.marked not in (None, NikitaDeletionReason.UNWANTED)]
    moved = [part for part in marked if part.marked in REASONS_OF_MOVES and part.is_waiting]
    followed = [part for part in marked if part.marked not in REASONS_OF_MOVES or not part.is_waiting]
    overrunning = (part for part in new if _have_tasks_overrun_walltime(part, listing))
    return NikitaDeletionPlan(
        wipes=_merge_deletions_by_array(
            *_deletions_of_array_tasks(overrunning, NikitaDeletionReason.OVERRAN),
            *_deletions_of_array_tasks(late, NikitaDeletionReason.WAITED),
            *_deletions_above_flood_rate(in_time, listing),
        ),
        repeated=_merge_deletions_by_array(
            *_deletions_of_array_tasks(part for part in followed if not _have_marked_tasks_started(part))
        ),
        spared=_merge_deletions_by_array(*_deletions_of_array_tasks(filter(_have_marked_tasks_started, followed))),
        moved=_merge_deletions_by_array(*_deletions_of_array_tasks(moved)),
        cancelled=_merge_deletions_by_array(
            *_deletions_of_array_tasks(
                (part for part in listing.parts if part.is_cancelled), NikitaDeletionReason.CANCELLED
            ),
            *_deletions_of_array_tasks(part for part in going if part.marked is NikitaDeletionReason.UNWANTED),
        ),
        ways=preemption_for_local_jobs.plan_preemptions(listing.contests),
    )


def _deletions_of_array_tasks(
    parts: Iterable[ArrayTasksWithSameStateAndAge], wiped_for: NikitaDeletionReason | None = None
) -> Iterator[ArrayTaskDeletion]:
    """Yield deletions of array tasks; the default reason is that of the stored deletion mark."""
    return (_make_array_task_deletion(part, wiped_for or part.marked) for part in parts)


def _merge_deletions_by_array(*wipes: ArrayTaskDeletion) -> tuple[ArrayTaskDeletion, ...]:
    by_array = defaultdict[tuple[int, int, NikitaDeletionReason], list[ArrayTaskDeletion]](list)
    for cancellation in wipes:
        by_array[cancellation.campaign, cancellation.array, cancellation.wiped_for].append(cancellation)
    return tuple(
        replace(group[-1], places=tuple(span for cancellation in group for span in cancellation.places))
        for group in by_array.values()
    )


def describe_nikita_deletions(plan: NikitaDeletionPlan) -> list[str]:
    def describe_tasks(wipe: ArrayTaskDeletion) -> str:
        return f"{number_with_noun(wipe.task_count, 'task')} of campaign {wipe.campaign} at {wipe.cluster}"

    return [
        *(
            f"wiped: {describe_tasks(wipe)}, which {REASON_WORDS[wipe.wiped_for]}"
            for wipe in (*plan.cancelled, *plan.wipes)
        ),
        *map(preemption_for_local_jobs.describe_preemption, plan.ways),
        *(f"moved: {describe_tasks(wipe)}, which {REASON_WORDS[wipe.wiped_for]}" for wipe in plan.moved),
        *(f"wiped again: {describe_tasks(wipe)}" for wipe in plan.repeated),
        *(
            f"left alone: {describe_tasks(wipe)}, which {'runs' if wipe.task_count == 1 else 'run'} now"
            for wipe in plan.spared
        ),
    ]


def _have_tasks_overrun_walltime(part: ArrayTasksWithSameStateAndAge, listing: NikitaSituation) -> bool:
    return (
        not part.is_waiting
        and _age_of_array_tasks_s(part, listing) > part.walltime_s + listing.patience.over_walltime_s
    )


def _have_tasks_waited_too_long(part: ArrayTasksWithSameStateAndAge, listing: NikitaSituation) -> bool:
    return not part.may_start or _age_of_array_tasks_s(part, listing) > listing.patience.waiting_s


def _age_of_array_tasks_s(part: ArrayTasksWithSameStateAndAge, listing: NikitaSituation) -> float:
    return (listing.now - part.since).total_seconds()


def _have_marked_tasks_started(part: ArrayTasksWithSameStateAndAge) -> bool:
    return part.marked not in (NikitaDeletionReason.OVERRAN, NikitaDeletionReason.MADE_WAY) and not part.is_waiting


def _deletions_above_flood_rate(
    waiting: Iterable[ArrayTasksWithSameStateAndAge], listing: NikitaSituation
) -> Iterator[ArrayTaskDeletion]:
    old = [part for part in waiting if _age_of_array_tasks_s(part, listing) > listing.patience.grace_s]
    for cluster in sorted({part.cluster for part in old}):
        at_cluster = [part for part in old if part.cluster == cluster]
        if cluster in listing.to_wide:
            at_cluster = _spare_oldest_multislot_task(at_cluster)
        beyond = sum(_count_tasks_of_array_part(part) for part in at_cluster) - listing.allowed[cluster]
        for part in sorted(at_cluster, key=_newest_array_first_key):
            indices = _last_array_indices(part.places, beyond)
            if indices:
                beyond -= sum(map(len, indices))
                yield _make_array_task_deletion(part, NikitaDeletionReason.OVERFLOW, indices)


def _spare_oldest_multislot_task(arrays: list[ArrayTasksWithSameStateAndAge]) -> list[ArrayTasksWithSameStateAndAge]:
    """Leave out the oldest waiting multi-slot task, because one such task may wait above the flood rate."""
    oldest = max((part for part in arrays if part.slots > 1), key=_newest_array_first_key, default=None)
    return [
        replace(part, places=_last_array_indices(part.places, _count_tasks_of_array_part(part) - 1))
        if part is oldest
        else part
        for part in arrays
    ]


def _newest_array_first_key(part: ArrayTasksWithSameStateAndAge) -> tuple[float, int, int]:
    return -part.since.timestamp(), -part.campaign, -part.array


def _count_tasks_of_array_part(part: ArrayTasksWithSameStateAndAge) -> int:
    return sum(map(len, part.places))


def _last_array_indices(indices: tuple[range, ...], count: int) -> tuple[range, ...]:
    spans: list[range] = []
    for span in sorted(indices, key=lambda span: -span.start):
        chosen_span = span[max(0, len(span) - count) :] if count > 0 else span[:0]
        if chosen_span:
            count -= len(chosen_span)
            spans.append(chosen_span)
    return tuple(reversed(spans))


def _make_array_task_deletion(
    part: ArrayTasksWithSameStateAndAge, wiped_for: NikitaDeletionReason | None, indices: tuple[range, ...] = ()
) -> ArrayTaskDeletion:
    assert wiped_for  # the caller gives a reason for tasks without a mark
    return ArrayTaskDeletion(
        campaign=part.campaign,
        array=part.array,
        cluster=part.cluster,
        wiped_for=wiped_for,
        places=indices or part.places,
    )
