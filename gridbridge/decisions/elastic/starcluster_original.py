"""StarCluster's own numbers, with what is wrong in them, for who compares.

They are wrong where a time is longer than a day, a division leaves a rest, a host is dead or
closed, several queues have jobs, hosts have several slot counts, or one name contains another. Read
in the SGE balancer of StarCluster 0.95.6.
"""

from datetime import datetime, timedelta

from gridbridge.decisions.elastic.starcluster_counts import cluster_nodes_by_name
from gridbridge.model.amounts import DAY_S
from gridbridge.model.elastic.balance_plan import BalanceFigures, BalanceSituation
from gridbridge.model.elastic.cell import QueueInstance, WaitingJobs


def count_figures_as_starcluster(situation: BalanceSituation, queue: str) -> BalanceFigures:
    """Count as StarCluster does."""
    own = [instance for instance in situation.cell.instances if instance.queue == queue]
    waiting = [row for row in situation.cell.waiting if row.state.can_start]
    slots = sum(instance.total for instance in own)
    used = sum(sum(instance.running) for instance in situation.cell.instances)
    nodes = cluster_nodes_by_name(situation)
    return BalanceFigures(
        nodes=len(nodes),
        running=sum(not node.state.is_coming for node in nodes),
        leaving=sum(node.state.is_leaving for node in nodes),
        jobs=sum(len(row.jobs) for row in waiting),
        wanted=sum(row.slots for row in waiting),
        free=slots - used,
        slots=slots,
        slots_per_node=_slots_per_host(own, len(situation.cell.hosts)),
        waited_s=_first_waited_s(waiting, situation.now),
        unchanged_s=None
        if situation.last_change is None
        else _seconds_without_days(situation.now - situation.last_change),
    )


def _slots_per_host(own: list[QueueInstance], hosts: int) -> int | None:
    slots = sum(instance.total for instance in own)
    first_slots = own[0].total if own else 0
    if not slots:
        return 0
    return first_slots if first_slots * hosts == slots else None


def _first_waited_s(waiting: list[WaitingJobs], now: datetime) -> float:
    since = waiting[0].first_since if waiting else None
    return _seconds_without_days(now - since) if since else 0.0


def _seconds_without_days(time: timedelta) -> float:
    """Return a time without its days, which is what StarCluster reads of it."""
    return time.total_seconds() // 1 % DAY_S
