"""Nikita: which tasks of campaigns are wiped, so that no cluster is flooded and none is stuck.

At each cluster, of the tasks that wait longer than the grace, the newest beyond those that may
wait; any task that waits longer than its timeout; any that runs long after its walltime (CiGri
scheduler specification, note on step 9; CiGri v3); and what its owner cancelled, a task or a whole
campaign (user frags of the same); best-effort tasks that hold what a local request lacks
(making_way); and what rebalancing moves, which is deleted only while it waits. Tests are left
waiting, for a cluster gets one task of them, ever. Ages are differences of aware times: a day has
no end.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gridbridge.decisions.campaigns.preemption import blocked_requests
from gridbridge.model.campaigns.cancellation import (
    OF_MOVES,
    ArrayCancellation,
    CancellationPlan,
    ListedArray,
    ListedAttempt,
    WipedFor,
)

SAID = {
    WipedFor.OVERFLOW: "wait beyond the flood rate",
    WipedFor.WAITED: "waited too long",
    WipedFor.OVERRAN: "run long after their walltime",
    WipedFor.CANCELLED: "their owner cancelled",
    WipedFor.MADE_WAY: "hold what a local job lacks",
    WipedFor.UNWANTED: "their owner cancelled",
    WipedFor.MOVED: "are to start elsewhere",
    WipedFor.UNNEEDED: "are prologues that no task needs any more",
    WipedFor.LEFT: "are deleted, and listed again",
    WipedFor.NEVER_BEGAN: "are deleted, and listed again",
}


def plan(listing: ListedAttempt) -> CancellationPlan:
    """Decide about all tasks that are listed; those that were marked before are seen through."""
    going = tuple(part for part in listing.parts if not part.is_cancelled)
    new = tuple(part for part in going if part.marked is None)
    waiting = [part for part in new if part.is_waiting and not part.is_test]
    late = [part for part in waiting if _is_late(part, listing)]
    in_time = [part for part in waiting if not _is_late(part, listing)]
    unwanted = tuple(part for part in going if part.marked is WipedFor.UNWANTED)
    moved = tuple(part for part in going if _is_moved(part))
    marked = tuple(part for part in going if _is_followed(part))
    return CancellationPlan(
        wipes=_together(
            *(_wipe(part, WipedFor.OVERRAN) for part in new if _overran(part, listing)),
            *(_wipe(part, WipedFor.WAITED) for part in late),
            *_overflow(in_time, listing),
        ),
        repeated=_together(*(_wipe(part, part.marked) for part in marked if not _is_spared(part))),
        spared=_together(*(_wipe(part, part.marked) for part in marked if _is_spared(part))),
        moved=_together(*(_wipe(part, part.marked) for part in moved)),
        cancelled=_together(
            *(_wipe(part, WipedFor.CANCELLED) for part in listing.parts if part.is_cancelled),
            *(_wipe(part, WipedFor.UNWANTED) for part in unwanted),
        ),
        ways=blocked_requests.ways(listing.contests),
    )


def _together(*wipes: ArrayCancellation) -> tuple[ArrayCancellation, ...]:
    """Wipe tasks of one array for one reason by one call: some clusters list each for itself."""
    by_array = defaultdict[tuple[int, int, WipedFor], list[ArrayCancellation]](list)
    for cancellation in wipes:
        by_array[cancellation.campaign, cancellation.array, cancellation.wiped_for].append(
            cancellation
        )
    return tuple(
        replace(
            group[-1], places=tuple(span for cancellation in group for span in cancellation.places)
        )
        for group in by_array.values()
    )


def sentences(plan: CancellationPlan) -> list[str]:
    """Tell what is wiped, a sentence for each array and reason."""
    lines = [
        f"wiped: {_described(cancellation)}, which {SAID[cancellation.wiped_for]}"
        for cancellation in (*plan.cancelled, *plan.wipes)
    ]
    lines += map(blocked_requests.sentence, plan.ways)
    lines += [
        f"moved: {_described(cancellation)}, which {SAID[cancellation.wiped_for]}"
        for cancellation in plan.moved
    ]
    lines += [f"wiped again: {_described(cancellation)}" for cancellation in plan.repeated]
    return lines + [
        f"left alone: {_described(cancellation)}, which"
        f" {'runs' if cancellation.tasks == 1 else 'run'} now"
        for cancellation in plan.spared
    ]


def _described(cancellation: ArrayCancellation) -> str:
    return f"{cancellation.tasks} of campaign {cancellation.campaign} at {cancellation.cluster}"


def _overran(part: ListedArray, listing: ListedAttempt) -> bool:
    limit_s = part.walltime_s + listing.patience.over_walltime_s
    return not part.is_waiting and _age_s(part, listing) > limit_s


def _is_late(part: ListedArray, listing: ListedAttempt) -> bool:
    return _age_s(part, listing) > listing.patience.waiting_s


def _is_moved(part: ListedArray) -> bool:
    return part.marked in OF_MOVES and part.is_waiting


def _is_followed(part: ListedArray) -> bool:
    """Say whether a part was marked for what nikita judges: it is deleted once more, or spared."""
    is_judged = part.marked is not None and part.marked is not WipedFor.UNWANTED
    return is_judged and not _is_moved(part)


def _age_s(part: ListedArray, listing: ListedAttempt) -> float:
    return (listing.now - part.since).total_seconds()


def _is_spared(part: ListedArray) -> bool:
    """Say whether a task began to run before it could be deleted for its waiting."""
    return part.marked not in (WipedFor.OVERRAN, WipedFor.MADE_WAY) and not part.is_waiting


def _overflow(
    waiting: Iterable[ListedArray], listing: ListedAttempt
) -> Iterator[ArrayCancellation]:
    """Wipe the newest of the tasks that wait beyond the grace, down to those that may wait."""
    old = [part for part in waiting if _age_s(part, listing) > listing.patience.grace_s]
    for cluster in sorted({part.cluster for part in old}):
        at_cluster = [part for part in old if part.cluster == cluster]
        if cluster in listing.to_wide:
            at_cluster = _but_one_that_is_wide(at_cluster)
        beyond = sum(_count(part) for part in at_cluster) - listing.allowed[cluster]
        for part in sorted(at_cluster, key=_newest_first):
            indices = _last(part.places, beyond)
            if indices:
                beyond -= sum(map(len, indices))
                yield _wipe(part, WipedFor.OVERFLOW, indices)


def _but_one_that_is_wide(arrays: list[ListedArray]) -> list[ListedArray]:
    """Leave the oldest task out that may wait though more do than may (jobratio.wide_may_wait)."""
    wide = [part for part in arrays if part.slots > 1]
    if not wide:
        return arrays
    oldest = max(wide, key=_newest_first)
    spared = replace(oldest, places=_last(oldest.places, _count(oldest) - 1))
    return [spared if part is oldest else part for part in arrays]


def _newest_first(part: ListedArray) -> tuple[float, int, int]:
    return -part.since.timestamp(), -part.campaign, -part.array


def _count(part: ListedArray) -> int:
    return sum(map(len, part.places))


def _last(indices: tuple[range, ...], count: int) -> tuple[range, ...]:
    """Return the last of some places, at most so many."""
    spans: list[range] = []
    for span in sorted(indices, key=lambda span: -span.start):
        chosen_span = span[max(0, len(span) - count) :] if count > 0 else span[:0]
        if chosen_span:
            count -= len(chosen_span)
            spans.append(chosen_span)
    return tuple(reversed(spans))


def _wipe(
    part: ListedArray, wiped_for: WipedFor | None, indices: tuple[range, ...] = ()
) -> ArrayCancellation:
    assert wiped_for  # a part that is not marked has another reason
    return ArrayCancellation(
        campaign=part.campaign,
        array=part.array,
        cluster=part.cluster,
        wiped_for=wiped_for,
        places=indices or part.places,
    )
