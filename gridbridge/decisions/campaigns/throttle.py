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


def plan(seen: ListedAttempt) -> CancellationPlan:
    """Decide about all tasks that are listed; those that were marked before are seen through."""
    going = tuple(part for part in seen.parts if not part.is_cancelled)
    new = tuple(part for part in going if part.marked is None)
    waiting = [part for part in new if part.is_waiting and not part.is_test]
    late = [part for part in waiting if _is_late(part, seen)]
    left = [part for part in waiting if not _is_late(part, seen)]
    unwanted = tuple(part for part in going if part.marked is WipedFor.UNWANTED)
    moved = tuple(part for part in going if _is_moved(part))
    marked = tuple(part for part in going if _is_followed(part))
    return CancellationPlan(
        wipes=_together(
            *(_wipe(part, WipedFor.OVERRAN) for part in new if _overran(part, seen)),
            *(_wipe(part, WipedFor.WAITED) for part in late),
            *_overflow(left, seen),
        ),
        repeated=_together(*(_wipe(part, part.marked) for part in marked if not _is_spared(part))),
        spared=_together(*(_wipe(part, part.marked) for part in marked if _is_spared(part))),
        moved=_together(*(_wipe(part, part.marked) for part in moved)),
        cancelled=_together(
            *(_wipe(part, WipedFor.CANCELLED) for part in seen.parts if part.is_cancelled),
            *(_wipe(part, WipedFor.UNWANTED) for part in unwanted),
        ),
        ways=blocked_requests.ways(seen.contests),
    )


def _together(*wipes: ArrayCancellation) -> tuple[ArrayCancellation, ...]:
    """Wipe tasks of one array for one reason by one call: some clusters list each for itself."""
    found = defaultdict[tuple[int, int, WipedFor], list[ArrayCancellation]](list)
    for one in wipes:
        found[one.campaign, one.array, one.wiped_for].append(one)
    return tuple(
        replace(some[-1], places=tuple(place for one in some for place in one.places))
        for some in found.values()
    )


def sentences(plan: CancellationPlan) -> list[str]:
    """Tell what is wiped, a sentence for each array and reason."""
    told = [
        f"wiped: {_told(one)}, which {SAID[one.wiped_for]}"
        for one in (*plan.cancelled, *plan.wipes)
    ]
    told += map(blocked_requests.told, plan.ways)
    told += [f"moved: {_told(one)}, which {SAID[one.wiped_for]}" for one in plan.moved]
    told += [f"wiped again: {_told(one)}" for one in plan.repeated]
    return told + [
        f"left alone: {_told(one)}, which {'runs' if one.tasks == 1 else 'run'} now"
        for one in plan.spared
    ]


def _told(one: ArrayCancellation) -> str:
    return f"{one.tasks} of campaign {one.campaign} at {one.cluster}"


def _overran(part: ListedArray, seen: ListedAttempt) -> bool:
    limit_s = part.walltime_s + seen.patience.over_walltime_s
    return not part.is_waiting and _age_s(part, seen) > limit_s


def _is_late(part: ListedArray, seen: ListedAttempt) -> bool:
    return _age_s(part, seen) > seen.patience.waiting_s


def _is_moved(part: ListedArray) -> bool:
    return part.marked in OF_MOVES and part.is_waiting


def _is_followed(part: ListedArray) -> bool:
    """Say whether a part was marked for what nikita judges: it is deleted once more, or spared."""
    is_judged = part.marked is not None and part.marked is not WipedFor.UNWANTED
    return is_judged and not _is_moved(part)


def _age_s(part: ListedArray, seen: ListedAttempt) -> float:
    return (seen.now - part.since).total_seconds()


def _is_spared(part: ListedArray) -> bool:
    """Say whether a task began to run before it could be deleted for its waiting."""
    return part.marked not in (WipedFor.OVERRAN, WipedFor.MADE_WAY) and not part.is_waiting


def _overflow(waiting: Iterable[ListedArray], seen: ListedAttempt) -> Iterator[ArrayCancellation]:
    """Wipe the newest of the tasks that wait beyond the grace, down to those that may wait."""
    old = [part for part in waiting if _age_s(part, seen) > seen.patience.grace_s]
    for cluster in sorted({part.cluster for part in old}):
        there = [part for part in old if part.cluster == cluster]
        if cluster in seen.to_wide:
            there = _but_one_that_is_wide(there)
        beyond = sum(_count(part) for part in there) - seen.allowed[cluster]
        for part in sorted(there, key=_newest_first):
            places = _last(part.places, beyond)
            if places:
                beyond -= sum(map(len, places))
                yield _wipe(part, WipedFor.OVERFLOW, places)


def _but_one_that_is_wide(there: list[ListedArray]) -> list[ListedArray]:
    """Leave the oldest task out that may wait though more do than may (jobratio.wide_may_wait)."""
    wide = [part for part in there if part.slots > 1]
    if not wide:
        return there
    oldest = max(wide, key=_newest_first)
    spared = replace(oldest, places=_last(oldest.places, _count(oldest) - 1))
    return [spared if part is oldest else part for part in there]


def _newest_first(part: ListedArray) -> tuple[float, int, int]:
    return -part.since.timestamp(), -part.campaign, -part.array


def _count(part: ListedArray) -> int:
    return sum(map(len, part.places))


def _last(places: tuple[range, ...], count: int) -> tuple[range, ...]:
    """Return the last of some places, at most so many."""
    found: list[range] = []
    for some in sorted(places, key=lambda each: -each.start):
        taken = some[max(0, len(some) - count) :] if count > 0 else some[:0]
        if taken:
            count -= len(taken)
            found.append(taken)
    return tuple(reversed(found))


def _wipe(
    part: ListedArray, wiped_for: WipedFor | None, places: tuple[range, ...] = ()
) -> ArrayCancellation:
    assert wiped_for  # a part that is not marked has another reason
    return ArrayCancellation(
        campaign=part.campaign,
        array=part.array,
        cluster=part.cluster,
        wiped_for=wiped_for,
        places=places or part.places,
    )
