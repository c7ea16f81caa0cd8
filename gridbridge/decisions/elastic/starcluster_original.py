"""StarCluster's own numbers, with what is wrong in them, for who compares.

They are wrong where a time is longer than a day, a division leaves a rest, a host is dead or
closed, several queues have jobs, hosts have several slot counts, or one name contains another. Read
in the SGE balancer of StarCluster 0.95.6.
"""

from datetime import datetime, timedelta

from gridbridge.decisions.elastic.starcluster_counts import nodes_of
from gridbridge.model.amounts import DAY_S
from gridbridge.model.elastic.balance_plan import BalanceSituation, Figures
from gridbridge.model.elastic.cell import QueueInstance, WaitingJobs


def figures(seen: BalanceSituation, queue: str) -> Figures:
    """Count as StarCluster does."""
    own = [one for one in seen.cell.instances if one.queue == queue]
    waiting = [one for one in seen.cell.waiting if one.state.can_start]
    slots = sum(one.total for one in own)
    used = sum(sum(one.running) for one in seen.cell.instances)
    nodes = nodes_of(seen)
    return Figures(
        nodes=len(nodes),
        running=sum(not one.state.is_coming for one in nodes),
        leaving=sum(one.state.is_leaving for one in nodes),
        jobs=sum(len(one.jobs) for one in waiting),
        wanted=sum(one.slots for one in waiting),
        free=slots - used,
        slots=slots,
        slots_per_node=_slots_per_host(own, len(seen.cell.hosts)),
        waited_s=_first_waited_s(waiting, seen.now),
        unchanged_s=None if seen.last_change is None else _seconds(seen.now - seen.last_change),
    )


def _slots_per_host(own: list[QueueInstance], hosts: int) -> int | None:
    slots = sum(one.total for one in own)
    each = own[0].total if own else 0
    if not slots:
        return 0
    return each if each * hosts == slots else None


def _first_waited_s(waiting: list[WaitingJobs], now: datetime) -> float:
    since = waiting[0].first_since if waiting else None
    return _seconds(now - since) if since else 0.0


def _seconds(time: timedelta) -> float:
    """Return a time without its days, which is what StarCluster reads of it."""
    return time.total_seconds() // 1 % DAY_S
