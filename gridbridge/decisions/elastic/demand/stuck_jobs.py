"""Which jobs are no demand any more: there was room for them for long, and they did not start.

Resource quotas, patterns in access lists, calendars and reservations may keep a job waiting, and
nobody asks for them. A row of jobs is known from round to round by its lowest job number.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from gridbridge.decisions.elastic.demand.capacity import Blocks, QueueLayout
from gridbridge.decisions.elastic.demand.first_fit import place_any
from gridbridge.decisions.elastic.demand.pending_demand import PendingShape
from gridbridge.decisions.elastic.starcluster_counts import elapsed_s, why_unable
from gridbridge.model.amounts import MINUTE_S
from gridbridge.model.elastic.balance_plan import (
    BalanceSituation,
    RefusalKind,
    UnservedDemand,
    Watched,
)
from gridbridge.model.elastic.cell import WaitingJobs

GAP_S = 3600.0  # after a longer one between two rounds the time begins anew: nobody looked
AGAIN = 10  # times stuck_after_s: so long a row is no demand


def still(seen: BalanceSituation, stuck_after_s: float) -> Mapping[int, Watched]:
    """Return the rows that were stuck and stay so, whatever room there is for them now."""
    tasks = _tasks(seen)
    return {
        job: replace(one, at=seen.now)
        for job, one in seen.watched.items()
        if one.tasks == tasks[job] and _is_stuck(one, seen.now, stuck_after_s)
    }


def _is_stuck(one: Watched, now: datetime, stuck_after_s: float) -> bool:
    if one.stuck_since is None or elapsed_s(one.at, now) > GAP_S:
        return False
    return elapsed_s(one.stuck_since, now) < AGAIN * stuck_after_s


def _tasks(seen: BalanceSituation) -> Counter[int]:
    """Return how many tasks of each row wait; a job put back to run again may be in two rows."""
    found = Counter[int]()
    for row in _able(seen):
        found[row.first] += row.tasks
    return found


def _able(seen: BalanceSituation) -> Iterator[WaitingJobs]:
    return (one for one in seen.cell.waiting if why_unable(one) is None and one.state.is_waiting)


def watched(
    wanted: Iterable[PendingShape],
    seen: BalanceSituation,
    there: Blocks,
    ground: QueueLayout,
    stuck_after_s: float,
) -> Mapping[int, Watched]:
    """Return what the next round has to know of rows that are demand, those now stuck marked.

    `there` are the hosts that take work. Rows that are new, or of which tasks started, have their
    places first: what they are about to fill is no room for others. Each of the others is looked
    at alone, for together they may want more than there is, and none of them starts.
    """
    if not stuck_after_s:
        return {}
    rows, tasks = defaultdict[int, list[PendingShape]](list), _tasks(seen)
    for claim in wanted:
        rows[claim.first].append(claim)
    known = {
        job: one
        for job, one in seen.watched.items()
        if job in rows and _stood(one, tasks[job], seen)
    }
    rest = there
    for claim in (one for job, row in rows.items() if job not in known for one in row):
        rest = place_any(claim.needs, claim.tasks, rest, ground)[1]
    return {
        job: _seen_now(
            Watched(at=seen.now, tasks=tasks[job]),
            known.get(job),
            stuck_after_s,
            has_room=_has_room(row, rest if job in known else there, ground),
        )
        for job, row in rows.items()
    }


def _has_room(row: Iterable[PendingShape], rooms: Blocks, ground: QueueLayout) -> bool:
    return any(place_any(one.needs, 1, rooms, ground)[0] for one in row)


def _seen_now(
    now: Watched, before: Watched | None, stuck_after_s: float, *, has_room: bool
) -> Watched:
    if not has_room:
        return now
    since = before.room_since if before and before.room_since else now.at
    is_stuck = elapsed_s(since, now.at) >= stuck_after_s
    return replace(now, room_since=since, stuck_since=now.at if is_stuck else None)


def _stood(one: Watched, tasks: int, seen: BalanceSituation) -> bool:
    """Say whether a row was demand in the round before, and none of its tasks started since."""
    is_recent = elapsed_s(one.at, seen.now) <= GAP_S
    return is_recent and one.stuck_since is None and one.tasks <= tasks


def refusals(seen: BalanceSituation, rows: Mapping[int, Watched]) -> Iterator[UnservedDemand]:
    """Give the jobs of the rows that are stuck, with the minutes for which there was room."""
    for row in _able(seen):
        one = rows.get(row.first)
        if one and one.stuck_since and one.room_since:
            has = f"{elapsed_s(one.room_since, one.stuck_since) / MINUTE_S:.0f}"
            yield from (
                UnservedDemand(job=job, cause=RefusalKind.STUCK, has=has) for job in row.jobs
            )


def without(
    wanted: Iterable[PendingShape], rows: Mapping[int, Watched]
) -> tuple[PendingShape, ...]:
    """Return what is demand still."""
    return tuple(
        one for one in wanted if (row := rows.get(one.first)) is None or not row.stuck_since
    )
