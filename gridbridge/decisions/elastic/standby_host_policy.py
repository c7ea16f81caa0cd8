"""Decide which of the site's own hosts are powered off or woken, by the rule of Ganeti's hsqueeze."""

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from math import floor, inf

from gridbridge.decisions.elastic.balancer_node_and_job_counts import nodes_by_name_without_standby
from gridbridge.decisions.elastic.demand import task_packing, task_requirements
from gridbridge.decisions.elastic.demand.free_capacity import collect_cell_placement_rules, free_capacity_by_host
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalancePlanReason,
    BalanceSituation,
    NodeAddOrRemoveRefusalCause,
)
from gridbridge.model.elastic.balancer_config_sections import BalanceSection, SqueezeSection, StandbyNodeSelection
from gridbridge.model.elastic.elastic_nodes import ElasticNode, ElasticNodeState, NodesByHostName, is_same_host
from gridbridge.model.elastic.grid_engine_cell import TaskResourceRequests
from gridbridge.model.elastic.standby_and_wake_plan import (
    STANDBY,
    HostTagsAndMovableTasks,
    StandbyOrWakePlan,
    StandbyOrWakePlanCause,
    TaskMovedBeforePowerOff,
    tags_of_host,
)

NO_TAGS = HostTagsAndMovableTasks()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAcceptingTasks:
    name: str
    free: int  # free slots
    amounts: tuple[tuple[str, float], ...]
    tasks: tuple[int, ...]  # slots of each running task
    movable: tuple[TaskResourceRequests, ...]
    room: task_packing.FreeHostCapacity
    is_promised: bool


class StartableStandardRequestCount:
    """The number of standard requests (sample jobs of a squeeze) that could start on some hosts."""

    def __init__(self, squeeze: SqueezeSection, hosts: Iterable[HostAcceptingTasks] = ()) -> None:
        self.hosts = self.requests = 0
        self._squeeze = squeeze
        self._each: dict[int, int] = {}  # {number of standard requests that could start on a host: number of hosts}
        for host in hosts:
            self.add_hosts(count_startable_standard_requests(host.free, host.amounts, squeeze))

    def add_hosts(self, requests: int, hosts: int = 1) -> None:
        """Add `hosts` hosts, each with room for `requests` standard requests; -1 removes one host."""
        self.hosts += hosts
        self.requests += requests * hosts
        self._each[requests] = self._each.get(requests, 0) + hosts

    def remove_host_if_spared(self, host: HostAcceptingTasks, factor: float) -> bool:
        """Remove a host if all other hosts can start enough standard requests; return whether it was removed."""
        requests = count_startable_standard_requests(host.free, host.amounts, self._squeeze)
        self.add_hosts(requests, -1)
        is_spared = self.hosts > 0 and self.is_enough(factor)
        if not is_spared:
            self.add_hosts(requests)
        return is_spared

    def is_enough(self, factor: float) -> bool:
        """Say whether `factor` standard requests per host could start: on average, or with `on_each` on each host."""
        if self._squeeze.on_each:
            return not any(count for requests, count in self._each.items() if requests < floor(factor))
        return self.requests >= floor(factor * self.hosts)


def count_startable_standard_requests(free: int, amounts: Iterable[tuple[str, float]], squeeze: SqueezeSection) -> int:
    most, available = float(free // squeeze.standard_slots), dict(amounts)
    for name, text in squeeze.standard_request.items():
        amount = task_requirements.parse_amount_or_default(text)
        if amount > 0:
            most = min(most, available.get(name, inf) // amount)
    return max(0, int(most))


# reasons of a plan that allow power-offs; none is about a budget, because budgets don't count the site's own hosts
MAY_SHRINK = (
    BalancePlanReason.NO_NEED,
    BalancePlanReason.ALL_FIT,
    BalancePlanReason.SPARE,
    BalancePlanReason.ABOVE_MAXIMUM,
    BalancePlanReason.IDLE,
    BalancePlanReason.NONE_IDLE,
)
BRIEF = (
    NodeAddOrRemoveRefusalCause.IDLE_BRIEFLY,
    NodeAddOrRemoveRefusalCause.HOUR_IS_PAID,
)  # reasons that delay the removal of an idle node
LAST = "auto"  # suffix of the standby tag of hosts that are woken last


def plan_hosts_to_sleep_or_wake(
    situation: BalanceSituation,
    plan: BalancePlan,
    rules: BalanceSection,
    squeeze: SqueezeSection,
    facts: HostTagsAndMovableTasks = NO_TAGS,
) -> StandbyOrWakePlan:
    """Return the hosts to power off or to wake, given a balancer round's plan; never both in one round."""
    hosts = find_hosts_accepting_tasks(situation, rules, facts)
    given_back = _hosts_to_be_removed(situation, plan, hosts)
    stay = tuple(host for host in hosts if host.name not in given_back)
    reserve = StartableStandardRequestCount(squeeze, hosts)
    squeeze_plan = StandbyOrWakePlan(
        cause=StandbyOrWakePlanCause.BETWEEN,
        working=reserve.hosts,
        reserve=reserve.requests,
        least=squeeze.minimal_reserve,
        target=squeeze.target_reserve,
    )
    if plan.verdict is BalancePlanReason.UNREADY:
        squeeze_plan = replace(squeeze_plan, cause=StandbyOrWakePlanCause.UNREADY)
    elif plan.verdict is BalancePlanReason.NO_MAXIMUM or not rules.max_nodes:
        squeeze_plan = replace(squeeze_plan, cause=StandbyOrWakePlanCause.NO_MAXIMUM)
    elif plan.add or plan.wake or not reserve.is_enough(squeeze.minimal_reserve):
        squeeze_plan = _plan_hosts_to_wake(squeeze_plan, situation, plan, rules, squeeze, facts, hosts)
    elif plan.verdict in MAY_SHRINK:
        squeeze_plan = _plan_hosts_to_power_off(squeeze_plan, situation, plan, rules, squeeze, stay)
    is_last = bool(given_back) and len(stay) == len(squeeze_plan.off)
    return replace(squeeze_plan, last=tuple(given_back.values())[-1] if is_last else "")


def _hosts_to_be_removed(
    situation: BalanceSituation, plan: BalancePlan, hosts: Iterable[HostAcceptingTasks]
) -> dict[str, str]:
    """Return {host name: node name} for the nodes that the plan removes although an administrator keeps them."""
    own = NodesByHostName(situation.nodes)
    nodes = {node.name: host.name for host in hosts if (node := own.find_node_of_host(host.name))}
    kept_names = {node.name for node in situation.nodes if node.is_kept}
    return {nodes[name]: name for name in plan.remove if name in nodes and name in kept_names}


def find_hosts_accepting_tasks(
    situation: BalanceSituation, rules: BalanceSection, facts: HostTagsAndMovableTasks
) -> tuple[HostAcceptingTasks, ...]:
    shapes = (shape for movable in facts.movable.values() for shape in movable)
    rooms = free_capacity_by_host(collect_cell_placement_rules(situation, rules.queue, shapes))
    leaving = NodesByHostName(node for node in situation.nodes if node.state is not ElasticNodeState.READY)
    hosts = []
    for name, room in rooms.items():
        instances = room.cell.queues_by_host[name]
        own = [instance for instance in instances if instance.queue == rules.queue and instance.is_usable]
        if not any(instance.total for instance in own) or leaving.find_node_of_host(name):
            continue
        hosts.append(
            HostAcceptingTasks(
                name=name,
                free=sum(instance.free_slots for instance in own),
                amounts=room.amounts,
                tasks=tuple(slots for instance in instances for slots in instance.running),
                movable=facts.movable.get(name, ()),
                room=room,
                is_promised=any(instance.reserved or instance.promised for instance in instances),
            )
        )
    return tuple(hosts)


def _plan_hosts_to_wake(
    unchanged: StandbyOrWakePlan,
    situation: BalanceSituation,
    plan: BalancePlan,
    rules: BalanceSection,
    squeeze: SqueezeSection,
    facts: HostTagsAndMovableTasks,
    hosts: tuple[HostAcceptingTasks, ...],
) -> StandbyOrWakePlan:
    """Wake the hosts that waiting tasks need, then further hosts in the order of their tags."""
    asleep = wakeable_standby_nodes(situation.nodes, facts)
    names = [node.name for node in asleep if plan.wake is None or node.name in plan.wake]
    count = plan.add if plan.wake is None else len(names)
    asleep = tuple(sorted(asleep, key=lambda node: node.name not in names))
    if not asleep:
        off = (node for node in situation.nodes if node.state is ElasticNodeState.STANDBY and not node.is_drained)
        return replace(unchanged, cause=StandbyOrWakePlanCause.NO_STANDBY, untagged=tuple(node.name for node in off))
    most = rules.max_nodes if plan.figures.most is None else plan.figures.most
    room = most - len(nodes_by_name_without_standby(situation))
    if room <= 0:
        return replace(unchanged, cause=StandbyOrWakePlanCause.FULL)
    usual = max((host.free + sum(host.tasks) for host in hosts), default=squeeze.standard_slots)
    fresh = count_startable_standard_requests(usual, (), squeeze)
    reserve, on = StartableStandardRequestCount(squeeze, hosts), list[str]()
    for _ in (node for node in situation.nodes if node.state.is_coming):
        reserve.add_hosts(fresh)
    for node in asleep[:room]:
        if len(on) >= count and reserve.is_enough(squeeze.minimal_reserve):
            break
        on.append(node.name)
        reserve.add_hosts(fresh)
    if not on:
        return unchanged
    cause = StandbyOrWakePlanCause.ASKED if count else StandbyOrWakePlanCause.LACKING
    return replace(unchanged, cause=cause, on=tuple(on))


def wakeable_standby_nodes(nodes: Iterable[ElasticNode], facts: HostTagsAndMovableTasks) -> tuple[ElasticNode, ...]:
    """Return powered-off nodes with a standby tag, ordered by the tags: numbers, then texts, then `auto`."""
    asleep = [
        (order, at, node)
        for at, node in enumerate(nodes)
        if node.state is ElasticNodeState.STANDBY
        and not node.is_drained
        and (order := _wake_order_of_host_tags(tags_of_host(node.name, facts.tags)))
    ]
    return tuple(node for _, _, node in sorted(asleep, key=lambda ordered_node: ordered_node[:2]))


def _wake_order_of_host_tags(tags: tuple[str, ...]) -> tuple[bool, float, str] | None:
    """Return a sort key for the order of waking; None for a host without a standby tag."""
    suffixes = [tag.removeprefix(STANDBY) for tag in tags if tag.startswith(STANDBY)]
    ranks = [(False, float(suffix) if suffix.isdecimal() else inf, suffix) for suffix in suffixes if suffix != LAST]
    return min(ranks) if ranks else (True, inf, "") if suffixes else None


def _plan_hosts_to_power_off(
    unchanged: StandbyOrWakePlan,
    situation: BalanceSituation,
    plan: BalancePlan,
    rules: BalanceSection,
    squeeze: SqueezeSection,
    hosts: tuple[HostAcceptingTasks, ...],
) -> StandbyOrWakePlan:
    """Power off the hosts with the fewest tasks while enough standard requests (sample jobs) can start."""
    least = rules.min_nodes if plan.figures.least is None else plan.figures.least
    nodes = nodes_by_name_without_standby(situation)
    spare = sum(not (node.is_failed_with_machine or node.state.is_leaving) for node in nodes) - least
    off, moved, bound = list[str](), tuple[TaskMovedBeforePowerOff, ...](), list[str]()
    reserve = StartableStandardRequestCount(squeeze, hosts)
    for host in reversed(_hosts_that_may_be_powered_off(situation, plan, squeeze, hosts)):
        if len(off) >= spare:
            break
        if not (moved or host.movable):  # no task has to move
            off += [host.name] if reserve.remove_host_if_spared(host, squeeze.target_reserve) else []
            continue
        tried = _move_tasks_to_other_hosts({host.name, *off}, hosts, squeeze)
        if tried is None:
            bound.append(host.name)
        elif tried[1].hosts and tried[1].is_enough(squeeze.target_reserve):
            off.append(host.name)
            moved, reserve = tried
    off.reverse()
    cause = StandbyOrWakePlanCause.PLENTY if off else StandbyOrWakePlanCause.BETWEEN
    return replace(unchanged, cause=cause, off=tuple(off), moved=moved, bound=tuple(bound))


def _hosts_that_may_be_powered_off(
    situation: BalanceSituation, plan: BalancePlan, squeeze: SqueezeSection, hosts: tuple[HostAcceptingTasks, ...]
) -> list[HostAcceptingTasks]:
    """Return hosts that may be powered off, those with most tasks first; never the master or kept nodes."""
    has_new_idle = any(refusal.cause in BRIEF for refusal in plan.refused)
    own, remove = NodesByHostName(situation.nodes), frozenset(plan.remove)
    fit = [
        host
        for host in hosts
        if (node := own.find_node_of_host(host.name))
        and node.state is ElasticNodeState.READY
        and not (node.is_kept or node.is_unreachable or host.is_promised)
        and not is_same_host(host.name, situation.master)
        and (node.name in remove or (host.tasks and not has_new_idle))
        and _does_restriction_allow_power_off(host, squeeze)
    ]
    return sorted(fit, key=lambda host: -len(host.tasks))


def _does_restriction_allow_power_off(host: HostAcceptingTasks, squeeze: SqueezeSection) -> bool:
    if squeeze.restriction is StandbyNodeSelection.ALL:
        return True
    if squeeze.restriction is StandbyNodeSelection.RERUNNABLE:
        return sorted(host.tasks) == sorted(shape.slots for shape in host.movable)
    return not host.tasks


def _move_tasks_to_other_hosts(
    off: Set[str], hosts: tuple[HostAcceptingTasks, ...], squeeze: SqueezeSection
) -> tuple[tuple[TaskMovedBeforePowerOff, ...], StartableStandardRequestCount] | None:
    """Plan to move tasks off hosts, large tasks first; None if a task has no room elsewhere.

    Also return the number of standard requests that could still start. Tasks that can't be rescheduled stay.
    """
    staying = {host.name: host for host in hosts if host.name not in off}
    moved = []
    for host in (host for host in hosts if host.name in off):
        for shape in sorted(host.movable, key=lambda shape: -shape.slots):
            cell = host.room.cell
            need = task_requirements.requirement_of_task_requests(shape, cell.observed_cell_configuration, cell.widest)
            target = next((other for other in staying.values() if _has_room_for_task(other, shape, need)), None)
            if target is None:
                return None
            room = task_packing.host_capacity_after_placement(need, target.room, 1)
            free = sum(part.free for part in room.parts if part.queue == cell.queue)
            staying[target.name] = replace(target, free=free, amounts=room.amounts, room=room)
            moved.append(TaskMovedBeforePowerOff(source=host.name, target=target.name, slots=shape.slots))
    return tuple(moved), StartableStandardRequestCount(squeeze, staying.values())


def _has_room_for_task(
    host: HostAcceptingTasks, shape: TaskResourceRequests, need: task_requirements.DemandTaskRequirement
) -> bool:
    cell = host.room.cell
    is_known = all(name in cell.observed_cell_configuration.resources for name, _ in shape.requests)
    known_names = {name for name, _ in host.amounts} | cell.in_cell
    is_told = all(name in known_names for name, amount in need.amounts if amount > 0)
    return (
        is_known and is_told and need.pieces == 1 and task_packing.count_task_pieces_fitting_host(need, host.room) > 0
    )
