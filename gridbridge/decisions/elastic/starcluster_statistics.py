"""The numbers of a round that StarCluster's load balancer writes down, counted right."""

from datetime import timedelta

from gridbridge.decisions.elastic import starcluster_counts
from gridbridge.decisions.elastic.demand.free_capacity import is_left_out
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.published_balance import (
    BalanceStatistics,
    EndedTask,
    RecentEnds,
    minute_of,
)

LOOKBACK = timedelta(minutes=180)


def statistics(
    situation: BalanceSituation, ends: RecentEnds, queue: str, lookback: timedelta = LOOKBACK
) -> BalanceStatistics:
    """Count a situation; the means are those of the tasks that ended within the lookback.

    Best-effort tasks and those that run at another cluster are not counted as running. A parallel
    task counts on each of its hosts, as qstat lists it. Slots are those of a queue's hosts that
    work. Of a host that does not tell its load nothing is taken into the mean.
    """
    lately = within(ends, situation, lookback)
    tasks = sum(minute.tasks for minute in lately)
    loads = [host.load for host in situation.cell.hosts if host.load is not None]
    return BalanceStatistics(
        at=situation.now,
        hosts=len(situation.cell.hosts),
        running=sum(
            len(instance.running)
            for instance in situation.cell.instances
            if not is_left_out(instance.queue, situation, instance.host)
        ),
        queued=sum(row.tasks for row in starcluster_counts.able(situation.cell.waiting)),
        slots=starcluster_counts.figures(situation, queue).slots,
        duration_s=_mean(sum(minute.run_s for minute in lately), tasks),
        wait_s=_mean(sum(minute.wait_s for minute in lately), tasks),
        load=sum(loads) / len(loads) if loads else 0.0,
    )


def within(
    ends: RecentEnds, situation: BalanceSituation, lookback: timedelta = LOOKBACK
) -> tuple[EndedTask, ...]:
    """Return what ended in whole minutes of the lookback, and in the one that is not over."""
    since = minute_of(situation.now - lookback)
    return tuple(
        ended for ended in ends.minutes if since < ended.minute <= minute_of(situation.now)
    )


def _mean(total_s: float, tasks: int) -> int:
    """Return a mean in whole seconds: the number of days in it is never left out."""
    return round(total_s / tasks) if tasks else 0
