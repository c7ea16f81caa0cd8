"""Which nodes StarCluster's rules give back: idle ones, late in an hour that is paid for."""

from collections.abc import Iterator
from dataclasses import replace

from gridbridge.decisions.elastic.demand.free_capacity import is_busy
from gridbridge.decisions.elastic.starcluster_counts import (
    elapsed_s,
    is_stable,
    nodes_of,
    told_hosts,
)
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalanceSituation,
    DemandVerdict,
    RefusalKind,
    UnservedDemand,
)
from gridbridge.model.elastic.balance_sections import Balance
from gridbridge.model.elastic.cell import QueueInstance
from gridbridge.model.elastic.node import Node, NodeState, is_same_host, short_name

HOUR_MIN = 60


def removable(
    seen: BalanceSituation, rules: Balance, plan: BalancePlan, *, is_faithful: bool
) -> BalancePlan:
    """Return the plan with the nodes to remove, in the order of their names.

    Only nodes of the balancer's own are; who asks has seen that no job waits.
    """
    if not is_stable(plan.figures, rules):
        return replace(plan, verdict=DemandVerdict.NOT_STABLE)
    spare = plan.figures.staying - rules.min_nodes
    if spare <= 0:
        return replace(plan, verdict=DemandVerdict.AT_MINIMUM)
    own, hosts = {one.name for one in seen.nodes}, _Hosts(seen)
    refused, idle = list[UnservedDemand](), list[str]()
    for node in (one for one in nodes_of(seen) if one.name in own):
        if known := next(_hindrances(node, seen, rules, hosts, is_faithful=is_faithful), None):
            refused.append(known)
        elif len(idle) == spare:
            refused.append(UnservedDemand(host=node.name, cause=RefusalKind.AT_MINIMUM))
        else:
            idle.append(node.name)
    return replace(
        plan,
        verdict=DemandVerdict.IDLE if idle else DemandVerdict.NONE_IDLE,
        remove=tuple(idle),
        refused=(*plan.refused, *refused),
    )


def _hindrances(
    node: Node, seen: BalanceSituation, rules: Balance, hosts: "_Hosts", *, is_faithful: bool
) -> Iterator[UnservedDemand]:
    """Give what keeps a node from being removed."""
    yield from lasting(node, seen)
    if node.state is not NodeState.READY:
        yield UnservedDemand(host=node.name, cause=RefusalKind.NOT_READY, has=node.state.value)
    if not (is_faithful or hosts.tells_of(node.name)):
        yield UnservedDemand(host=node.name, cause=RefusalKind.NOT_LISTED)
    if hosts.seems_busy(node.name) if is_faithful else hosts.is_busy(node.name):
        yield UnservedDemand(host=node.name, cause=RefusalKind.BUSY)
    if node.up_since is None:
        yield UnservedDemand(host=node.name, cause=RefusalKind.UPTIME_UNKNOWN)
        return
    minute = int(elapsed_s(node.up_since, seen.now) // 60) % HOUR_MIN
    if minute < rules.kill_after_min:
        yield UnservedDemand(host=node.name, cause=RefusalKind.HOUR_IS_PAID, minute=minute)


def lasting(node: Node, seen: BalanceSituation) -> Iterator[UnservedDemand]:
    """Give what keeps a node whatever it does."""
    if is_same_host(node.name, seen.master):
        yield UnservedDemand(host=node.name, cause=RefusalKind.MASTER)
    if node.is_kept:
        yield UnservedDemand(host=node.name, cause=RefusalKind.KEPT)
    if node.is_unreachable:
        yield UnservedDemand(host=node.name, cause=RefusalKind.UNREACHABLE)


class _Hosts:
    """What a cell tells of hosts, found by their names."""

    def __init__(self, seen: BalanceSituation) -> None:
        self._told, self._there = dict[str, list[str]](), dict[str, list[QueueInstance]]()
        for name in told_hosts(seen):
            self._told.setdefault(short_name(name), []).append(name)
        for one in seen.cell.instances:
            self._there.setdefault(short_name(one.host), []).append(one)
        self._in_use = [f"{one.queue}@{one.host}" for one in seen.cell.instances if one.running]

    def tells_of(self, name: str) -> bool:
        """Say whether the cell tells what runs on a host."""
        return any(is_same_host(name, one) for one in self._told.get(short_name(name), ()))

    def is_busy(self, name: str) -> bool:
        """Say whether a job runs or starts on a host, or has slots reserved there."""
        there = self._there.get(short_name(name), ())
        return is_busy(one for one in there if is_same_host(name, one.host))

    def seems_busy(self, name: str) -> bool:
        """Say the same as StarCluster, which takes a name for a part of others."""
        return any(name in one for one in self._in_use)
