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
    situation: BalanceSituation, rules: Balance, plan: BalancePlan, *, is_faithful: bool
) -> BalancePlan:
    """Return the plan with the nodes to remove, in the order of their names.

    Only nodes of the balancer's own are; who asks has seen that no job waits.
    """
    if not is_stable(plan.figures, rules):
        return replace(plan, verdict=DemandVerdict.NOT_STABLE)
    spare = plan.figures.staying - rules.min_nodes
    if spare <= 0:
        return replace(plan, verdict=DemandVerdict.AT_MINIMUM)
    own, hosts = {node.name for node in situation.nodes}, _Hosts(situation)
    refused, idle = list[UnservedDemand](), list[str]()
    for node in (node for node in nodes_of(situation) if node.name in own):
        if hindrance := next(
            _hindrances(node, situation, rules, hosts, is_faithful=is_faithful), None
        ):
            refused.append(hindrance)
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
    node: Node, situation: BalanceSituation, rules: Balance, hosts: "_Hosts", *, is_faithful: bool
) -> Iterator[UnservedDemand]:
    """Give what keeps a node from being removed."""
    yield from lasting(node, situation)
    if node.state is not NodeState.READY:
        yield UnservedDemand(host=node.name, cause=RefusalKind.NOT_READY, has=node.state.value)
    if not (is_faithful or hosts.tells_of(node.name)):
        yield UnservedDemand(host=node.name, cause=RefusalKind.NOT_LISTED)
    if hosts.seems_busy(node.name) if is_faithful else hosts.is_busy(node.name):
        yield UnservedDemand(host=node.name, cause=RefusalKind.BUSY)
    if node.up_since is None:
        yield UnservedDemand(host=node.name, cause=RefusalKind.UPTIME_UNKNOWN)
        return
    minute = int(elapsed_s(node.up_since, situation.now) // 60) % HOUR_MIN
    if minute < rules.kill_after_min:
        yield UnservedDemand(host=node.name, cause=RefusalKind.HOUR_IS_PAID, minute=minute)


def lasting(node: Node, situation: BalanceSituation) -> Iterator[UnservedDemand]:
    """Give what keeps a node whatever it does."""
    if is_same_host(node.name, situation.master):
        yield UnservedDemand(host=node.name, cause=RefusalKind.MASTER)
    if node.is_kept:
        yield UnservedDemand(host=node.name, cause=RefusalKind.KEPT)
    if node.is_unreachable:
        yield UnservedDemand(host=node.name, cause=RefusalKind.UNREACHABLE)


class _Hosts:
    """What a cell tells of hosts, found by their names."""

    def __init__(self, situation: BalanceSituation) -> None:
        self._names, self._instances = dict[str, list[str]](), dict[str, list[QueueInstance]]()
        for name in told_hosts(situation):
            self._names.setdefault(short_name(name), []).append(name)
        for instance in situation.cell.instances:
            self._instances.setdefault(short_name(instance.host), []).append(instance)
        self._in_use = [
            f"{instance.queue}@{instance.host}"
            for instance in situation.cell.instances
            if instance.running
        ]

    def tells_of(self, name: str) -> bool:
        """Say whether the cell tells what runs on a host."""
        return any(is_same_host(name, host) for host in self._names.get(short_name(name), ()))

    def is_busy(self, name: str) -> bool:
        """Say whether a job runs or starts on a host, or has slots reserved there."""
        instances = self._instances.get(short_name(name), ())
        return is_busy(instance for instance in instances if is_same_host(name, instance.host))

    def seems_busy(self, name: str) -> bool:
        """Say the same as StarCluster, which takes a name for a part of others."""
        return any(name in instance for instance in self._in_use)
