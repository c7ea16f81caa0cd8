"""Which of a site's own nodes may rest, and which have to work again (HSqueeze, for batch jobs).

As many standard requests as the minimal reserve says for each working host have to be free, or
hosts on standby are woken; hosts rest only while the higher target reserve would remain.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import floor, inf

from gridbridge.decisions.elastic.counting import nodes_of
from gridbridge.decisions.elastic.demand.needs import Need, need_of, number
from gridbridge.decisions.elastic.demand.rooms import Ground, Room, amounts_of, pieces_in, taken
from gridbridge.decisions.elastic.demand.standing import (
    ground_of,
    instances_of,
    patterns_of,
    rooms_of,
    widest,
)
from gridbridge.model.elastic.cell import Shape
from gridbridge.model.elastic.nodes import Node, NodeState, is_same_host
from gridbridge.model.elastic.plan import Plan, Refusal, Situation, Verdict
from gridbridge.model.elastic.sections import Balance, Restriction, Squeeze
from gridbridge.model.elastic.standby import (
    STANDBY,
    Moved,
    Rest,
    RestCause,
    RestFacts,
)

BARRED = (Verdict.NO_MAXIMUM, Verdict.UNREADY)
MAY_SHRINK = (
    Verdict.NO_NEED,
    Verdict.ALL_FIT,
    Verdict.SPARE,
    Verdict.ABOVE_MAXIMUM,
    Verdict.IDLE,
    Verdict.NONE_IDLE,
)
BRIEF = (Refusal.IDLE_BRIEFLY, Refusal.HOUR_IS_PAID)  # idle, and not given back yet
NO_ROOM = Room(parts=())
LAST = "auto"  # of hosts on standby these are woken last: nobody gave them an order


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """A host that takes tasks."""

    name: str
    free: int  # slots
    amounts: tuple[tuple[str, float], ...]  # consumables that are left
    tasks: tuple[int, ...]  # slots of each
    movable: tuple[Shape, ...] = ()  # what those ask for that could run elsewhere again
    room: Room = NO_ROOM


def rest(
    seen: Situation, plan: Plan, rules: Balance, squeeze: Squeeze, facts: RestFacts | None = None
) -> Rest:
    """Return what a squeeze makes of a round's plan: the policy decides whether, this which.

    It holds that not both of off and on have hosts, that the target reserve remains of the hosts
    that go on working, and that min_nodes <= nodes <= max_nodes
    (by the schedule, where the policy goes by one).
    """
    known = facts or RestFacts()
    hosts = working(seen, rules, known)
    told = Rest(
        cause=RestCause.BETWEEN,
        working=len(hosts),
        reserve=reserve_of(hosts, squeeze),
        least=squeeze.minimal_reserve,
        target=squeeze.target_reserve,
    )
    if plan.verdict in BARRED or not rules.max_nodes:
        return _with(told, RestCause.BARRED)
    if plan.add or plan.wake or not is_enough(hosts, squeeze.minimal_reserve, squeeze):
        return _woken(told, seen, plan, rules, squeeze, known, hosts)
    if plan.verdict not in MAY_SHRINK:
        return told
    return _rested(told, seen, plan, rules, squeeze, hosts)


def _with(told: Rest, cause: RestCause, **more: tuple[str, ...]) -> Rest:
    return Rest(
        cause=cause,
        working=told.working,
        reserve=told.reserve,
        least=told.least,
        target=told.target,
        off=more.get("off", ()),
        on=more.get("on", ()),
    )


def working(seen: Situation, rules: Balance, facts: RestFacts) -> tuple[Working, ...]:
    """Return the hosts that take tasks, in the cell's order; a master without slots takes none."""
    left = {one.name: one.left for one in seen.cell.hosts}
    shapes = [one for some in facts.movable.values() for one in some]
    rooms = rooms_of(seen, ground_of(seen, rules.queue), patterns_of(shapes))
    leaving = [one.name for one in seen.nodes if one.state is not NodeState.READY]
    found = []
    for name, instances in instances_of(seen).items():
        own = [one for one in instances if one.queue == rules.queue and one.is_usable]
        if not any(one.total for one in own) or any(is_same_host(name, one) for one in leaving):
            continue
        tasks = tuple(slots for one in instances for slots in one.running)
        found.append(
            Working(
                name=name,
                free=sum(one.free for one in own),
                amounts=amounts_of(left.get(name, ())),
                tasks=tasks,
                movable=facts.movable.get(name, ()),
                room=rooms[name],
            )
        )
    return tuple(found)


def reserve_of(hosts: Iterable[Working], squeeze: Squeeze) -> int:
    """Return how many standard requests could start on all hosts together."""
    return sum(_fit(one, squeeze) for one in hosts)


def _fit(host: Working, squeeze: Squeeze) -> int:
    most: float = host.free // squeeze.standard_slots
    told = dict(host.amounts)
    for name, text in squeeze.standard_request.items():
        amount = number(text)
        if amount > 0:
            most = min(most, told.get(name, inf) // amount)
    return max(0, int(most))


def is_enough(hosts: Sequence[Working], factor: float, squeeze: Squeeze) -> bool:
    """Say whether hosts have a reserve, rounded down as hsqueeze does.

    Tasks don't move as virtual machines do, so that it is counted on all hosts together, unless
    each is to have it.
    """
    if squeeze.on_each:
        return all(_fit(one, squeeze) >= floor(factor) for one in hosts)
    return reserve_of(hosts, squeeze) >= floor(factor * len(hosts))


def _woken(
    told: Rest,
    seen: Situation,
    plan: Plan,
    rules: Balance,
    squeeze: Squeeze,
    facts: RestFacts,
    hosts: tuple[Working, ...],
) -> Rest:
    """Wake those that waiting tasks want, and then in the order of their tags.

    As few as the reserve wants, or as the policy adds where it does not say which.
    """
    asleep = standby(seen.nodes, facts)
    wanted = [one.name for one in asleep if plan.wake is None or one.name in plan.wake]
    count = plan.add if plan.wake is None else len(wanted)
    asleep = tuple(sorted(asleep, key=lambda one: one.name not in wanted))
    if not asleep:
        return _with(told, RestCause.NO_STANDBY)
    most = rules.max_nodes if plan.figures.most is None else plan.figures.most
    room = most - len(nodes_of(seen))
    if room <= 0:
        return _with(told, RestCause.FULL)
    usual = max((one.free + sum(one.tasks) for one in hosts), default=squeeze.standard_slots)
    tried, on = list(hosts), list[str]()
    coming = sum(one.state.is_coming for one in seen.nodes)
    tried.extend(_fresh("", usual) for _ in range(coming))
    for node in asleep[:room]:
        if len(on) >= count and is_enough(tried, squeeze.minimal_reserve, squeeze):
            break
        on.append(node.name)
        tried.append(_fresh(node.name, usual))
    if not on:
        return told
    return _with(told, RestCause.ASKED if count else RestCause.LACKING, on=tuple(on))


def _fresh(name: str, slots: int) -> Working:
    return Working(name=name, free=slots, amounts=(), tasks=())


def standby(nodes: Iterable[Node], facts: RestFacts) -> tuple[Node, ...]:
    """Return the nodes that may be switched on: only those with a tag, in the tags' order.

    What people wrote after the prefix gives the order, numbers as numbers; `auto` comes last.
    """
    asleep = [
        (order, at, node)
        for at, node in enumerate(nodes)
        if node.state is NodeState.STANDBY
        and not node.is_drained
        and (order := _order(tags_of(node.name, facts)))
    ]
    return tuple(node for _, _, node in sorted(asleep, key=lambda one: one[:2]))


def tags_of(host: str, facts: RestFacts) -> tuple[str, ...]:
    """Return a host's tags, with or without its domain."""
    return next((some for name, some in facts.tags.items() if is_same_host(name, host)), ())


def _order(tags: tuple[str, ...]) -> tuple[bool, float, str] | None:
    """Return where a host with these tags is woken; None: it has no standby tag."""
    suffixes = [tag.removeprefix(STANDBY) for tag in tags if tag.startswith(STANDBY)]
    given = [
        (False, float(one) if one.isdecimal() else inf, one) for one in suffixes if one != LAST
    ]
    return min(given) if given else (True, inf, "") if suffixes else None


def _rested(
    told: Rest,
    seen: Situation,
    plan: Plan,
    rules: Balance,
    squeeze: Squeeze,
    hosts: tuple[Working, ...],
) -> Rest:
    """Put hosts to rest, those with the fewest tasks first, as long as the target remains."""
    least = rules.min_nodes if plan.figures.least is None else plan.figures.least
    spare = sum(not one.is_left_over for one in nodes_of(seen)) - least
    ground, wide = ground_of(seen, rules.queue), widest(seen.cell, ())
    off, moved, bound = tuple[str, ...](), tuple[Moved, ...](), list[str]()
    for host in reversed(_candidates(seen, plan, squeeze, hosts)):
        if len(off) >= spare:
            break
        tried = _simulated((host.name, *off), hosts, ground, wide)
        if tried is None:
            bound.append(host.name)
        elif tried[1] and is_enough(tried[1], squeeze.target_reserve, squeeze):
            off, moved = (host.name, *off), tried[0]
    return Rest(
        cause=RestCause.PLENTY if off else RestCause.BETWEEN,
        off=off,
        moved=moved,
        bound=tuple(bound),
        working=told.working,
        reserve=told.reserve,
        least=told.least,
        target=told.target,
    )


def _candidates(
    seen: Situation, plan: Plan, squeeze: Squeeze, hosts: tuple[Working, ...]
) -> list[Working]:
    """Return the hosts that may rest, those with the most tasks first.

    The master and kept nodes never are. Idle ones are those that the policy gives back; while one
    has only just become idle no host with tasks is freed in its place.
    """
    has_new_idle = any(one.cause in BRIEF for one in plan.refused)
    own = {
        host.name: node
        for node in seen.nodes
        for host in hosts
        if is_same_host(node.name, host.name)
    }
    fit = [
        host
        for host in hosts
        if (node := own.get(host.name))
        and node.state is NodeState.READY
        and not (node.is_kept or node.is_unreachable)
        and not is_same_host(host.name, seen.master)
        and (node.name in plan.remove or (host.tasks and not has_new_idle))
        and _may_leave(host, squeeze)
    ]
    return sorted(fit, key=lambda host: -len(host.tasks))


def _may_leave(host: Working, squeeze: Squeeze) -> bool:
    if squeeze.restriction is Restriction.ALL:
        return True
    if squeeze.restriction is Restriction.RERUNNABLE:
        return sorted(host.tasks) == sorted(one.slots for one in host.movable)
    return not host.tasks


def _simulated(
    off: tuple[str, ...], hosts: tuple[Working, ...], ground: Ground, wide: int
) -> tuple[tuple[Moved, ...], tuple[Working, ...]] | None:
    """Put the tasks of hosts that rest on the first other host with room, the largest first.

    Return where each goes, and the hosts that work on as they are then; None where one has no room.
    Tasks that can't move end where they are.
    """
    left = {host.name: host for host in hosts if host.name not in off}
    moved = []
    for host in (one for one in hosts if one.name in off):
        for shape in sorted(host.movable, key=lambda one: -one.slots):
            need = need_of(shape, ground.layout, wide)
            fit = (one for one in left.values() if _takes(one, shape, need, ground))
            target = next(fit, None)
            if target is None:
                return None
            left[target.name] = _with_task(target, need, ground)
            moved.append(Moved(source=host.name, target=target.name, slots=shape.slots))
    return tuple(moved), tuple(left.values())


def _takes(host: Working, shape: Shape, need: Need, ground: Ground) -> bool:
    """Say whether a host is known to have room for a task, by all that it asks for."""
    is_known = all(name in ground.layout.resources for name, _ in shape.requests)
    told = {name for name, _ in host.amounts} | ground.in_cell
    is_told = all(name in told for name, amount in need.amounts if amount > 0)
    fits = need.pieces == 1 and pieces_in(need, host.room, ground) > 0
    return is_known and is_told and fits


def _with_task(host: Working, need: Need, ground: Ground) -> Working:
    room = taken(need, host.room, 1, ground)
    free = sum(one.free for one in room.parts if one.queue == ground.queue)
    return replace(host, free=free, amounts=room.amounts, room=room)
