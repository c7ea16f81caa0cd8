"""Which of a site's own nodes may rest, and which have to work again (HSqueeze, for batch jobs).

As many standard requests as the minimal reserve says for each working host have to be free, or
hosts on standby are woken; hosts rest only while the higher target reserve would remain.
"""

from collections.abc import Iterable, Set
from dataclasses import replace
from math import inf

from gridbridge.decisions.elastic.demand.capacity import (
    QueueLayout,
    amounts_of,
    pieces_in,
    with_pieces,
)
from gridbridge.decisions.elastic.demand.free_capacity import (
    ground_of,
    instances_of,
    patterns_of,
    rooms_of,
    widest,
)
from gridbridge.decisions.elastic.demand.requirements import Requirement, need_of
from gridbridge.decisions.elastic.squeeze.reserve import ActiveHost, Reserve
from gridbridge.decisions.elastic.starcluster_counts import nodes_of
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalanceSituation,
    DemandVerdict,
    RefusalKind,
)
from gridbridge.model.elastic.balance_sections import Balance, Restriction, Squeeze
from gridbridge.model.elastic.cell import TaskShape
from gridbridge.model.elastic.node import Node, Nodes, NodeState, is_same_host
from gridbridge.model.elastic.standby_hosts import (
    STANDBY,
    RescheduledTasks,
    RestCause,
    RestFacts,
    StandbyPlan,
    tags_of,
)

MAY_SHRINK = (  # where a budget is spent, nodes that cost something go first: hosts cost nothing
    DemandVerdict.NO_NEED,
    DemandVerdict.ALL_FIT,
    DemandVerdict.SPARE,
    DemandVerdict.ABOVE_MAXIMUM,
    DemandVerdict.IDLE,
    DemandVerdict.NONE_IDLE,
)
BRIEF = (RefusalKind.IDLE_BRIEFLY, RefusalKind.HOUR_IS_PAID)  # idle, and not given back yet
LAST = "auto"  # of hosts on standby these are woken last: nobody gave them an order


def rest(
    situation: BalanceSituation,
    plan: BalancePlan,
    rules: Balance,
    squeeze: Squeeze,
    facts: RestFacts | None = None,
) -> StandbyPlan:
    """Return what a squeeze makes of a round's plan: the policy decides whether, this which.

    It holds that not both of off and on have hosts, that the target reserve remains of the hosts
    that go on working, and that min_nodes <= nodes <= max_nodes
    (by the schedule, where the policy goes by one).
    """
    hosts = working(situation, rules, facts or RestFacts())
    given_back = _given_back(situation, plan, hosts)
    stay = tuple(host for host in hosts if host.name not in given_back)
    standby_plan = _plan_standby(situation, plan, rules, squeeze, facts or RestFacts(), hosts, stay)
    is_last = bool(given_back) and len(stay) == len(standby_plan.off)
    return replace(standby_plan, last=tuple(given_back.values())[-1] if is_last else "")


def _given_back(
    situation: BalanceSituation, plan: BalancePlan, hosts: Iterable[ActiveHost]
) -> dict[str, str]:
    """Return the working hosts that the plan gives back, with their nodes, in its order.

    For a squeeze, nodes that are not the site's own are marked as kept.
    """
    own = Nodes(situation.nodes)
    nodes = {node.name: host.name for host in hosts if (node := own.of_host(host.name))}
    kept_names = {node.name for node in situation.nodes if node.is_kept}
    return {nodes[name]: name for name in plan.remove if name in nodes and name in kept_names}


def _plan_standby(
    situation: BalanceSituation,
    plan: BalancePlan,
    rules: Balance,
    squeeze: Squeeze,
    facts: RestFacts,
    hosts: tuple[ActiveHost, ...],
    stay: tuple[ActiveHost, ...],
) -> StandbyPlan:
    """Decide which hosts rest, without counting the nodes that are given back."""
    reserve = Reserve(squeeze, hosts)
    unchanged = StandbyPlan(
        cause=RestCause.BETWEEN,
        working=reserve.hosts,
        reserve=reserve.requests,
        least=squeeze.minimal_reserve,
        target=squeeze.target_reserve,
    )
    if plan.verdict is DemandVerdict.UNREADY:
        return _with(unchanged, RestCause.UNREADY)
    if plan.verdict is DemandVerdict.NO_MAXIMUM or not rules.max_nodes:
        return _with(unchanged, RestCause.NO_MAXIMUM)
    if plan.add or plan.wake or not reserve.is_enough(squeeze.minimal_reserve):
        return _woken(unchanged, situation, plan, rules, squeeze, facts, hosts)
    if plan.verdict not in MAY_SHRINK:
        return unchanged
    return _rested(unchanged, situation, plan, rules, squeeze, stay)


def _with(unchanged: StandbyPlan, cause: RestCause, **more: tuple[str, ...]) -> StandbyPlan:
    return StandbyPlan(
        cause=cause,
        working=unchanged.working,
        reserve=unchanged.reserve,
        least=unchanged.least,
        target=unchanged.target,
        off=more.get("off", ()),
        on=more.get("on", ()),
        untagged=more.get("untagged", ()),
    )


def working(
    situation: BalanceSituation, rules: Balance, facts: RestFacts
) -> tuple[ActiveHost, ...]:
    """Return the hosts that take tasks, in the cell's order; a master without slots takes none."""
    amounts = {host.name: host.left for host in situation.cell.hosts}
    shapes = [shape for movable in facts.movable.values() for shape in movable]
    rooms = rooms_of(situation, ground_of(situation, rules.queue), patterns_of(shapes))
    leaving = Nodes(node for node in situation.nodes if node.state is not NodeState.READY)
    hosts = []
    for name, instances in instances_of(situation).items():
        own = [
            instance
            for instance in instances
            if instance.queue == rules.queue and instance.is_usable
        ]
        if not any(instance.total for instance in own) or leaving.of_host(name):
            continue
        tasks = tuple(slots for instance in instances for slots in instance.running)
        hosts.append(
            ActiveHost(
                name=name,
                free=sum(instance.free for instance in own),
                amounts=amounts_of(amounts.get(name, ())),
                tasks=tasks,
                movable=facts.movable.get(name, ()),
                room=rooms[name],
                is_promised=any(instance.reserved or instance.promised for instance in instances),
            )
        )
    return tuple(hosts)


def _woken(
    unchanged: StandbyPlan,
    situation: BalanceSituation,
    plan: BalancePlan,
    rules: Balance,
    squeeze: Squeeze,
    facts: RestFacts,
    hosts: tuple[ActiveHost, ...],
) -> StandbyPlan:
    """Wake those that waiting tasks want, and then in the order of their tags.

    As few as the reserve wants, or as the policy adds where it does not say which.
    """
    asleep = standby(situation.nodes, facts)
    names = [node.name for node in asleep if plan.wake is None or node.name in plan.wake]
    count = plan.add if plan.wake is None else len(names)
    asleep = tuple(sorted(asleep, key=lambda node: node.name not in names))
    if not asleep:
        off = (
            node
            for node in situation.nodes
            if node.state is NodeState.STANDBY and not node.is_drained
        )
        return _with(unchanged, RestCause.NO_STANDBY, untagged=tuple(node.name for node in off))
    most = rules.max_nodes if plan.figures.most is None else plan.figures.most
    room = most - len(nodes_of(situation))
    if room <= 0:
        return _with(unchanged, RestCause.FULL)
    usual = max((host.free + sum(host.tasks) for host in hosts), default=squeeze.standard_slots)
    reserve, on, fresh = Reserve(squeeze, hosts), list[str](), _fresh(usual)
    for _ in (node for node in situation.nodes if node.state.is_coming):
        reserve.add(fresh)
    for node in asleep[:room]:
        if len(on) >= count and reserve.is_enough(squeeze.minimal_reserve):
            break
        on.append(node.name)
        reserve.add(fresh)
    if not on:
        return unchanged
    return _with(unchanged, RestCause.ASKED if count else RestCause.LACKING, on=tuple(on))


def _fresh(slots: int) -> ActiveHost:
    return ActiveHost(name="", free=slots, amounts=(), tasks=())


def standby(nodes: Iterable[Node], facts: RestFacts) -> tuple[Node, ...]:
    """Return the nodes that may be switched on: only those with a tag, in the tags' order.

    What people wrote after the prefix gives the order, numbers as numbers; `auto` comes last.
    """
    asleep = [
        (order, at, node)
        for at, node in enumerate(nodes)
        if node.state is NodeState.STANDBY
        and not node.is_drained
        and (order := _order(tags_of(node.name, facts.tags)))
    ]
    return tuple(node for _, _, node in sorted(asleep, key=lambda ordered_node: ordered_node[:2]))


def _order(tags: tuple[str, ...]) -> tuple[bool, float, str] | None:
    """Return where a host with these tags is woken; None: it has no standby tag."""
    suffixes = [tag.removeprefix(STANDBY) for tag in tags if tag.startswith(STANDBY)]
    ranks = [
        (False, float(suffix) if suffix.isdecimal() else inf, suffix)
        for suffix in suffixes
        if suffix != LAST
    ]
    return min(ranks) if ranks else (True, inf, "") if suffixes else None


def _rested(
    unchanged: StandbyPlan,
    situation: BalanceSituation,
    plan: BalancePlan,
    rules: Balance,
    squeeze: Squeeze,
    hosts: tuple[ActiveHost, ...],
) -> StandbyPlan:
    """Put hosts to rest, those with the fewest tasks first, as long as the target remains."""
    least = rules.min_nodes if plan.figures.least is None else plan.figures.least
    spare = (
        sum(not (node.is_left_over or node.state.is_leaving) for node in nodes_of(situation))
        - least
    )
    ground, wide = ground_of(situation, rules.queue), widest(situation.cell, ())
    off, moved, bound = list[str](), tuple[RescheduledTasks, ...](), list[str]()
    reserve = Reserve(squeeze, hosts)
    for host in reversed(_candidates(situation, plan, squeeze, hosts)):
        if len(off) >= spare:
            break
        if not (moved or host.movable):  # no task is placed anew
            off += [host.name] if reserve.spares(host, squeeze.target_reserve) else []
            continue
        tried = _simulated({host.name, *off}, hosts, ground, wide, squeeze)
        if tried is None:
            bound.append(host.name)
        elif tried[1].hosts and tried[1].is_enough(squeeze.target_reserve):
            off.append(host.name)
            moved, reserve = tried
    off.reverse()
    return StandbyPlan(
        cause=RestCause.PLENTY if off else RestCause.BETWEEN,
        off=tuple(off),
        moved=moved,
        bound=tuple(bound),
        working=unchanged.working,
        reserve=unchanged.reserve,
        least=unchanged.least,
        target=unchanged.target,
    )


def _candidates(
    situation: BalanceSituation, plan: BalancePlan, squeeze: Squeeze, hosts: tuple[ActiveHost, ...]
) -> list[ActiveHost]:
    """Return the hosts that may rest, those with the most tasks first.

    The master, kept nodes and those with slots of reservations never are. Idle ones are those that
    the policy gives back; while one has only just become idle no host with tasks is freed in its
    place.
    """
    has_new_idle = any(refusal.cause in BRIEF for refusal in plan.refused)
    own, remove = Nodes(situation.nodes), frozenset(plan.remove)
    fit = [
        host
        for host in hosts
        if (node := own.of_host(host.name))
        and node.state is NodeState.READY
        and not (node.is_kept or node.is_unreachable or host.is_promised)
        and not is_same_host(host.name, situation.master)
        and (node.name in remove or (host.tasks and not has_new_idle))
        and _may_leave(host, squeeze)
    ]
    return sorted(fit, key=lambda host: -len(host.tasks))


def _may_leave(host: ActiveHost, squeeze: Squeeze) -> bool:
    if squeeze.restriction is Restriction.ALL:
        return True
    if squeeze.restriction is Restriction.RERUNNABLE:
        return sorted(host.tasks) == sorted(shape.slots for shape in host.movable)
    return not host.tasks


def _simulated(
    off: Set[str], hosts: tuple[ActiveHost, ...], ground: QueueLayout, wide: int, squeeze: Squeeze
) -> tuple[tuple[RescheduledTasks, ...], Reserve] | None:
    """Put the tasks of hosts that rest on the first other host with room, the largest first.

    Return where each goes, and what hosts that work on have then; None where one has no room.
    Tasks that can't move end where they are.
    """
    staying = {host.name: host for host in hosts if host.name not in off}
    moved = []
    for host in (host for host in hosts if host.name in off):
        for shape in sorted(host.movable, key=lambda shape: -shape.slots):
            need = need_of(shape, ground.layout, wide)
            fit = (
                candidate
                for candidate in staying.values()
                if _takes(candidate, shape, need, ground)
            )
            target = next(fit, None)
            if target is None:
                return None
            staying[target.name] = _with_task(target, need, ground)
            moved.append(RescheduledTasks(source=host.name, target=target.name, slots=shape.slots))
    return tuple(moved), Reserve(squeeze, staying.values())


def _takes(host: ActiveHost, shape: TaskShape, need: Requirement, ground: QueueLayout) -> bool:
    """Say whether a host is known to have room for a task, by all that it asks for."""
    is_known = all(name in ground.layout.resources for name, _ in shape.requests)
    known_names = {name for name, _ in host.amounts} | ground.in_cell
    is_told = all(name in known_names for name, amount in need.amounts if amount > 0)
    fits = need.pieces == 1 and pieces_in(need, host.room, ground) > 0
    return is_known and is_told and fits


def _with_task(host: ActiveHost, need: Requirement, ground: QueueLayout) -> ActiveHost:
    room = with_pieces(need, host.room, 1, ground)
    free = sum(part.free for part in room.parts if part.queue == ground.queue)
    return replace(host, free=free, amounts=room.amounts, room=room)
