"""Which nodes StarCluster's rules give back: idle ones, late in an hour that is paid for."""

from collections.abc import Iterator
from dataclasses import replace

from gridbridge.decisions.elastic.demand.free_capacity import has_running_or_reserved_slots
from gridbridge.decisions.elastic.starcluster_counts import (
    cluster_nodes_by_name,
    elapsed_s,
    hosts_with_known_tasks,
    is_stabilization_over,
)
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalanceRefusal,
    BalanceRefusalCause,
    BalanceSituation,
    BalanceVerdict,
)
from gridbridge.model.elastic.balance_sections import BalanceSection
from gridbridge.model.elastic.cell import QueueInstance
from gridbridge.model.elastic.node import (
    ElasticNode,
    ElasticNodeState,
    is_same_host,
    short_host_name,
)

HOUR_MIN = 60


def plan_starcluster_removal(
    situation: BalanceSituation, rules: BalanceSection, plan: BalancePlan, *, is_faithful: bool
) -> BalancePlan:
    """Return the plan with the nodes to remove, in the order of their names.

    Only nodes of the balancer's own are; who asks has seen that no job waits.
    """
    if not is_stabilization_over(plan.figures, rules):
        return replace(plan, verdict=BalanceVerdict.NOT_STABLE)
    spare = plan.figures.staying - rules.min_nodes
    if spare <= 0:
        return replace(plan, verdict=BalanceVerdict.AT_MINIMUM)
    own, hosts = {node.name for node in situation.nodes}, _Hosts(situation)
    refused, idle = list[BalanceRefusal](), list[str]()
    for node in (node for node in cluster_nodes_by_name(situation) if node.name in own):
        if hindrance := next(
            _starcluster_removal_hindrances(node, situation, rules, hosts, is_faithful=is_faithful),
            None,
        ):
            refused.append(hindrance)
        elif len(idle) == spare:
            refused.append(BalanceRefusal(host=node.name, cause=BalanceRefusalCause.AT_MINIMUM))
        else:
            idle.append(node.name)
    return replace(
        plan,
        verdict=BalanceVerdict.IDLE if idle else BalanceVerdict.NONE_IDLE,
        remove=tuple(idle),
        refused=(*plan.refused, *refused),
    )


def _starcluster_removal_hindrances(
    node: ElasticNode,
    situation: BalanceSituation,
    rules: BalanceSection,
    hosts: "_Hosts",
    *,
    is_faithful: bool,
) -> Iterator[BalanceRefusal]:
    """Give what keeps a node from being removed."""
    yield from permanent_removal_hindrances(node, situation)
    if node.state is not ElasticNodeState.READY:
        yield BalanceRefusal(
            host=node.name, cause=BalanceRefusalCause.NOT_READY, has=node.state.value
        )
    if not (is_faithful or hosts.tells_of(node.name)):
        yield BalanceRefusal(host=node.name, cause=BalanceRefusalCause.NOT_LISTED)
    if hosts.seems_busy(node.name) if is_faithful else hosts.is_busy(node.name):
        yield BalanceRefusal(host=node.name, cause=BalanceRefusalCause.BUSY)
    if node.up_since is None:
        yield BalanceRefusal(host=node.name, cause=BalanceRefusalCause.UPTIME_UNKNOWN)
        return
    minute = int(elapsed_s(node.up_since, situation.now) // 60) % HOUR_MIN
    if minute < rules.kill_after_min:
        yield BalanceRefusal(host=node.name, cause=BalanceRefusalCause.HOUR_IS_PAID, minute=minute)


def permanent_removal_hindrances(
    node: ElasticNode, situation: BalanceSituation
) -> Iterator[BalanceRefusal]:
    """Give what keeps a node whatever it does."""
    if is_same_host(node.name, situation.master):
        yield BalanceRefusal(host=node.name, cause=BalanceRefusalCause.MASTER)
    if node.is_kept:
        yield BalanceRefusal(host=node.name, cause=BalanceRefusalCause.KEPT)
    if node.is_unreachable:
        yield BalanceRefusal(host=node.name, cause=BalanceRefusalCause.UNREACHABLE)


class _Hosts:
    """What a cell tells of hosts, found by their names."""

    def __init__(self, situation: BalanceSituation) -> None:
        self._names, self._instances = dict[str, list[str]](), dict[str, list[QueueInstance]]()
        for name in hosts_with_known_tasks(situation):
            self._names.setdefault(short_host_name(name), []).append(name)
        for instance in situation.cell.instances:
            self._instances.setdefault(short_host_name(instance.host), []).append(instance)
        self._in_use = [
            f"{instance.queue}@{instance.host}"
            for instance in situation.cell.instances
            if instance.running
        ]

    def tells_of(self, name: str) -> bool:
        """Say whether the cell tells what runs on a host."""
        return any(is_same_host(name, host) for host in self._names.get(short_host_name(name), ()))

    def is_busy(self, name: str) -> bool:
        """Say whether a job runs or starts on a host, or has slots reserved there."""
        instances = self._instances.get(short_host_name(name), ())
        return has_running_or_reserved_slots(
            instance for instance in instances if is_same_host(name, instance.host)
        )

    def seems_busy(self, name: str) -> bool:
        """Say the same as StarCluster, which takes a name for a part of others."""
        return any(name in instance for instance in self._in_use)
