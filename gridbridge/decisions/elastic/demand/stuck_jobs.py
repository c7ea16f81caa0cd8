"""Which jobs are no demand any more: there was room for them for long, and they did not start.

Resource quotas, patterns in access lists, calendars and reservations may keep a job waiting, and
nobody asks for them. A row of jobs is known from round to round by its lowest job number.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from gridbridge.decisions.elastic.demand.capacity import CellPlacementRules, HostBlocks
from gridbridge.decisions.elastic.demand.first_fit import pack_tasks_with_alternatives
from gridbridge.decisions.elastic.demand.pending_demand import PendingTaskShape
from gridbridge.decisions.elastic.starcluster_counts import elapsed_s, why_jobs_cannot_start
from gridbridge.model.amounts import MINUTE_S
from gridbridge.model.elastic.balance_plan import (
    BalanceRefusal,
    BalanceRefusalCause,
    BalanceSituation,
    WatchedWaitingJobs,
)
from gridbridge.model.elastic.cell import WaitingJobs

GAP_S = 3600.0  # after a longer one between two rounds the time begins anew: nobody looked
AGAIN = 10  # times stuck_after_s: so long a row is no demand


def jobs_still_stuck(
    situation: BalanceSituation, stuck_after_s: float
) -> Mapping[int, WatchedWaitingJobs]:
    """Return the rows that were stuck and stay so, whatever room there is for them now."""
    tasks = _waiting_tasks_by_row(situation)
    return {
        job: replace(history, at=situation.now)
        for job, history in situation.watched.items()
        if history.tasks == tasks[job] and _is_stuck(history, situation.now, stuck_after_s)
    }


def _is_stuck(history: WatchedWaitingJobs, now: datetime, stuck_after_s: float) -> bool:
    if history.stuck_since is None or elapsed_s(history.at, now) > GAP_S:
        return False
    return elapsed_s(history.stuck_since, now) < AGAIN * stuck_after_s


def _waiting_tasks_by_row(situation: BalanceSituation) -> Counter[int]:
    """Return how many tasks of each row wait; a job put back to run again may be in two rows."""
    waiting = Counter[int]()
    for row in _startable_rows(situation):
        waiting[row.first] += row.tasks
    return waiting


def _startable_rows(situation: BalanceSituation) -> Iterator[WaitingJobs]:
    return (
        row
        for row in situation.cell.waiting
        if why_jobs_cannot_start(row) is None and row.state.is_waiting
    )


def track_unstarted_jobs_with_room(
    claims: Iterable[PendingTaskShape],
    situation: BalanceSituation,
    blocks: HostBlocks,
    ground: CellPlacementRules,
    stuck_after_s: float,
) -> Mapping[int, WatchedWaitingJobs]:
    """Return what the next round has to know of rows that are demand, those now stuck marked.

    `there` are the hosts that take work. Rows that are new, or of which tasks started, have their
    places first: what they are about to fill is no room for others. Each of the others is looked
    at alone, for together they may want more than there is, and none of them starts.
    """
    if not stuck_after_s:
        return {}
    rows, tasks = defaultdict[int, list[PendingTaskShape]](list), _waiting_tasks_by_row(situation)
    for claim in claims:
        rows[claim.first].append(claim)
    histories = {
        job: history
        for job, history in situation.watched.items()
        if job in rows and _is_unchanged_since_last_round(history, tasks[job], situation)
    }
    remaining = blocks
    for claim in (claim for job, row in rows.items() if job not in histories for claim in row):
        remaining = pack_tasks_with_alternatives(claim.needs, claim.tasks, remaining, ground)[1]
    return {
        job: _update_watched_jobs(
            WatchedWaitingJobs(at=situation.now, tasks=tasks[job]),
            histories.get(job),
            stuck_after_s,
            has_room=_has_room(row, remaining if job in histories else blocks, ground),
        )
        for job, row in rows.items()
    }


def _has_room(
    row: Iterable[PendingTaskShape], rooms: HostBlocks, ground: CellPlacementRules
) -> bool:
    return any(pack_tasks_with_alternatives(claim.needs, 1, rooms, ground)[0] for claim in row)


def _update_watched_jobs(
    now: WatchedWaitingJobs,
    before: WatchedWaitingJobs | None,
    stuck_after_s: float,
    *,
    has_room: bool,
) -> WatchedWaitingJobs:
    if not has_room:
        return now
    since = before.room_since if before and before.room_since else now.at
    is_stuck = elapsed_s(since, now.at) >= stuck_after_s
    return replace(now, room_since=since, stuck_since=now.at if is_stuck else None)


def _is_unchanged_since_last_round(
    history: WatchedWaitingJobs, tasks: int, situation: BalanceSituation
) -> bool:
    """Say whether a row was demand in the round before, and none of its tasks started since."""
    is_recent = elapsed_s(history.at, situation.now) <= GAP_S
    return is_recent and history.stuck_since is None and history.tasks <= tasks


def stuck_job_refusals(
    situation: BalanceSituation, rows: Mapping[int, WatchedWaitingJobs]
) -> Iterator[BalanceRefusal]:
    """Give the jobs of the rows that are stuck, with the minutes for which there was room."""
    for row in _startable_rows(situation):
        history = rows.get(row.first)
        if history and history.stuck_since and history.room_since:
            has = f"{elapsed_s(history.room_since, history.stuck_since) / MINUTE_S:.0f}"
            yield from (
                BalanceRefusal(job=job, cause=BalanceRefusalCause.STUCK, has=has)
                for job in row.jobs
            )


def demand_without_stuck_jobs(
    claims: Iterable[PendingTaskShape], rows: Mapping[int, WatchedWaitingJobs]
) -> tuple[PendingTaskShape, ...]:
    """Return what is demand still."""
    return tuple(
        claim for claim in claims if (row := rows.get(claim.first)) is None or not row.stuck_since
    )
