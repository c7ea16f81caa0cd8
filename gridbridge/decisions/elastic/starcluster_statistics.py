"""The numbers of a round that StarCluster's load balancer writes down, counted right."""

from datetime import timedelta

from gridbridge.decisions.elastic import starcluster_counts
from gridbridge.decisions.elastic.demand.free_capacity import is_best_effort_or_transfer_queue
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.published_balance import (
    BalanceRoundStatistics,
    RecentlyEndedTasks,
    TasksEndedInMinute,
    minute_since_epoch,
)

LOOKBACK = timedelta(minutes=180)


def count_round_statistics(
    situation: BalanceSituation,
    ends: RecentlyEndedTasks,
    queue: str,
    lookback: timedelta = LOOKBACK,
) -> BalanceRoundStatistics:
    """Count a situation; the means are those of the tasks that ended within the lookback.

    Best-effort tasks and those that run at another cluster are not counted as running. A parallel
    task counts on each of its hosts, as qstat lists it. Slots are those of a queue's hosts that
    work. Of a host that does not tell its load nothing is taken into the mean.
    """
    lately = tasks_ended_in_lookback(ends, situation, lookback)
    tasks = sum(minute.tasks for minute in lately)
    loads = [host.load for host in situation.cell.hosts if host.load is not None]
    return BalanceRoundStatistics(
        at=situation.now,
        hosts=len(situation.cell.hosts),
        running=sum(
            len(instance.running)
            for instance in situation.cell.instances
            if not is_best_effort_or_transfer_queue(instance.queue, situation, instance.host)
        ),
        queued=sum(
            row.tasks for row in starcluster_counts.startable_waiting_jobs(situation.cell.waiting)
        ),
        slots=starcluster_counts.count_starcluster_figures(situation, queue).slots,
        duration_s=_mean_s(sum(minute.run_s for minute in lately), tasks),
        wait_s=_mean_s(sum(minute.wait_s for minute in lately), tasks),
        load=sum(loads) / len(loads) if loads else 0.0,
    )


def tasks_ended_in_lookback(
    ends: RecentlyEndedTasks, situation: BalanceSituation, lookback: timedelta = LOOKBACK
) -> tuple[TasksEndedInMinute, ...]:
    """Return what ended in whole minutes of the lookback, and in the one that is not over."""
    since = minute_since_epoch(situation.now - lookback)
    return tuple(
        ended for ended in ends.minutes if since < ended.minute <= minute_since_epoch(situation.now)
    )


def _mean_s(total_s: float, tasks: int) -> int:
    """Return a mean in whole seconds: the number of days in it is never left out."""
    return round(total_s / tasks) if tasks else 0
