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


def still(situation: BalanceSituation, stuck_after_s: float) -> Mapping[int, Watched]:
    """Return the rows that were stuck and stay so, whatever room there is for them now."""
    tasks = _tasks(situation)
    return {
        job: replace(history, at=situation.now)
        for job, history in situation.watched.items()
        if history.tasks == tasks[job] and _is_stuck(history, situation.now, stuck_after_s)
    }


def _is_stuck(history: Watched, now: datetime, stuck_after_s: float) -> bool:
    if history.stuck_since is None or elapsed_s(history.at, now) > GAP_S:
        return False
    return elapsed_s(history.stuck_since, now) < AGAIN * stuck_after_s


def _tasks(situation: BalanceSituation) -> Counter[int]:
    """Return how many tasks of each row wait; a job put back to run again may be in two rows."""
    waiting = Counter[int]()
    for row in _able(situation):
        waiting[row.first] += row.tasks
    return waiting


def _able(situation: BalanceSituation) -> Iterator[WaitingJobs]:
    return (
        row for row in situation.cell.waiting if why_unable(row) is None and row.state.is_waiting
    )


def watched(
    claims: Iterable[PendingShape],
    situation: BalanceSituation,
    blocks: Blocks,
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
    rows, tasks = defaultdict[int, list[PendingShape]](list), _tasks(situation)
    for claim in claims:
        rows[claim.first].append(claim)
    histories = {
        job: history
        for job, history in situation.watched.items()
        if job in rows and _stood(history, tasks[job], situation)
    }
    remaining = blocks
    for claim in (claim for job, row in rows.items() if job not in histories for claim in row):
        remaining = place_any(claim.needs, claim.tasks, remaining, ground)[1]
    return {
        job: _seen_now(
            Watched(at=situation.now, tasks=tasks[job]),
            histories.get(job),
            stuck_after_s,
            has_room=_has_room(row, remaining if job in histories else blocks, ground),
        )
        for job, row in rows.items()
    }


def _has_room(row: Iterable[PendingShape], rooms: Blocks, ground: QueueLayout) -> bool:
    return any(place_any(claim.needs, 1, rooms, ground)[0] for claim in row)


def _seen_now(
    now: Watched, before: Watched | None, stuck_after_s: float, *, has_room: bool
) -> Watched:
    if not has_room:
        return now
    since = before.room_since if before and before.room_since else now.at
    is_stuck = elapsed_s(since, now.at) >= stuck_after_s
    return replace(now, room_since=since, stuck_since=now.at if is_stuck else None)


def _stood(history: Watched, tasks: int, situation: BalanceSituation) -> bool:
    """Say whether a row was demand in the round before, and none of its tasks started since."""
    is_recent = elapsed_s(history.at, situation.now) <= GAP_S
    return is_recent and history.stuck_since is None and history.tasks <= tasks


def refusals(situation: BalanceSituation, rows: Mapping[int, Watched]) -> Iterator[UnservedDemand]:
    """Give the jobs of the rows that are stuck, with the minutes for which there was room."""
    for row in _able(situation):
        history = rows.get(row.first)
        if history and history.stuck_since and history.room_since:
            has = f"{elapsed_s(history.room_since, history.stuck_since) / MINUTE_S:.0f}"
            yield from (
                UnservedDemand(job=job, cause=RefusalKind.STUCK, has=has) for job in row.jobs
            )


def without(
    claims: Iterable[PendingShape], rows: Mapping[int, Watched]
) -> tuple[PendingShape, ...]:
    """Return what is demand still."""
    return tuple(
        claim for claim in claims if (row := rows.get(claim.first)) is None or not row.stuck_since
    )
