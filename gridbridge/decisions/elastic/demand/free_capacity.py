"""The rooms of a cell: of hosts that are there, and of nodes that are on their way."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from gridbridge.decisions.elastic.demand.capacity import (
    BUILT_IN,
    Block,
    Blocks,
    HostRoom,
    QueueLayout,
    QueueOnHost,
    amounts_of,
    merged,
)
from gridbridge.decisions.elastic.expressions import for_host, matches
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.cell import CellSeen, Host, QueueInstance, TaskShape
from gridbridge.model.elastic.cell_layout import ARCH, CellLayout
from gridbridge.model.elastic.node import Node, Nodes, NodeState, is_same_host, short_name
from gridbridge.model.request import HOSTNAME, long_name
from gridbridge.model.states import QueueFact

BY_HAND = frozenset((QueueFact.DISABLED, QueueFact.BY_HAND))
BY_CALENDAR = frozenset((QueueFact.OFF_HOURS,))
AT, ASKED = "@", f"{HOSTNAME}="


def ground_of(seen: BalanceSituation, queue: str) -> QueueLayout:
    """Return what tasks are placed by."""
    hosts = [host for host in seen.cell.hosts if host.left or host.values]
    like_new = _like_new(hosts, seen)
    told = defaultdict[str, set[str]](set)
    for host in like_new:
        for name, text in host.values:
            told[name].add(text)
    in_queues = (queue.offered for queue in seen.layout.queues.values())
    offered = _names(hosts).union(*in_queues) - BUILT_IN if hosts else frozenset[str]()
    is_reported = any(map(_reports, hosts))
    return QueueLayout(
        layout=seen.layout,
        queue=queue,
        told={name: frozenset(texts) for name, texts in told.items()},
        common=_names(like_new),
        offered=offered,
        is_told=bool(hosts),
        is_reported=is_reported,
        is_new_silent=is_reported and not any(map(_reports, _like_new(seen.cell.hosts, seen))),
        in_cell=frozenset(name for name, _ in seen.cell.left),
        closed=closed_everywhere(seen),
    )


def _reports(host: Host) -> bool:
    return any(name == ARCH for name, _ in host.values)


def _like_new(hosts: Sequence[Host], seen: BalanceSituation) -> Sequence[Host]:
    """Return the hosts that new nodes resemble: the balancer's nodes, else all but the master."""
    ours = Nodes(seen.nodes)
    nodes = [host for host in hosts if ours.of_host(host.name)]
    return nodes or [one for one in hosts if not is_same_host(one.name, seen.master)] or hosts


def _names(hosts: Iterable[Host]) -> frozenset[str]:
    return frozenset(name for host in hosts for name, _ in (*host.left, *host.values))


def patterns_of(shapes: Iterable[TaskShape]) -> frozenset[str]:
    """Return the host parts of the queues that are asked for, and the hosts that are."""
    every = tuple(shapes)
    queues = (one.partition(AT)[2] for shape in every for one in shape.queues if AT in one)
    asked = (pair for shape in every for pair in shape.requests)
    hosts = (f"{ASKED}{text}" for name, text in asked if long_name(name) == HOSTNAME)
    return frozenset((*queues, *hosts))


def instances_of(seen: BalanceSituation) -> dict[str, list[QueueInstance]]:
    """Return the queues of each host that take what is neither best-effort nor sent away."""
    found = {host.name: list[QueueInstance]() for host in seen.cell.hosts}
    for one in seen.cell.instances:
        if not is_left_out(one.queue, seen, one.host):
            found.setdefault(one.host, []).append(one)
    return found


def is_left_out(queue: str, situation: BalanceSituation, host: str = "") -> bool:
    """Say whether a queue's tasks are no occupation: a best-effort or a transfer queue.

    The queue may differ on one host.
    """
    if queue in situation.best_effort:
        return True
    found = situation.layout.queue_on(queue, host)
    return found is not None and found.is_left_out


def closed_by_hand(seen: BalanceSituation) -> frozenset[str]:
    """Return the queues that somebody closed: on two hosts or more that report, and on all.

    One that is disabled or suspended on its only host may be open on others.
    """
    return frozenset(name for name, hosts in _closed(seen, BY_HAND).items() if hosts > 1)


def closed_everywhere(seen: BalanceSituation) -> frozenset[str]:
    """Return these queues, and those that their calendars close, on a single host too.

    A calendar is the whole queue's, and so a new node's as well.
    """
    some = _closed(seen, BY_HAND | BY_CALENDAR)
    by_calendar = _closed(seen, BY_CALENDAR)
    return frozenset(name for name, hosts in some.items() if hosts > 1 or name in by_calendar)


def _closed(seen: BalanceSituation, facts: frozenset[str]) -> Counter[str]:
    """Return the queues that one of these facts closes on all hosts, and how many of them report.

    Nodes that come, go or rest are closed by the balancer; where it does not know its nodes, those
    that rest are silent.
    """
    ours = Nodes(one for one in seen.nodes if one.state is not NodeState.READY)
    closed, open_ = Counter[str](), set[str]()
    for one in seen.cell.instances:
        if ours.of_host(one.host):
            continue
        if one.state.facts.isdisjoint(facts):
            open_.add(one.queue)
        elif QueueFact.UNREACHABLE not in one.state.facts:
            closed[one.queue] += 1
    return Counter({name: hosts for name, hosts in closed.items() if name not in open_})


def is_busy(instances: Iterable[QueueInstance]) -> bool:
    """Say whether a task that counts runs or starts on a host, or has slots reserved there."""
    return any(one.is_wanted for one in instances)


def standing(
    seen: BalanceSituation, ground: QueueLayout, patterns: frozenset[str], keep: Sequence[str]
) -> Blocks:
    """Return what is free on the hosts that take work, the busy ones first.

    Then come idle hosts that are not the balancer's, and last its idle nodes in the order `keep`.
    """
    own, places = Nodes(seen.nodes), {name: place for place, name in enumerate(keep)}
    hosts = {one.name: one for one in seen.cell.hosts}
    found = list[tuple[int, Block]]()
    for name, instances in instances_of(seen).items():
        node = own.of_host(name)
        if node is not None and (node.state.is_leaving or node.state.is_coming):
            continue
        room = _room(hosts.get(name, Host(name=name)), instances, ground, patterns)
        if room.parts:
            room = replace(room, group=node.group if node else "")
            order = (
                0
                if not room.is_empty
                else places[node.name] + 2
                if node and node.name in places
                else 1
            )
            found.append((order, (room, (node.name if node else name,))))
    found.sort(key=lambda one: one[0])
    return merged(block for _, block in found)


def rooms_of(
    seen: BalanceSituation, ground: QueueLayout, patterns: frozenset[str]
) -> dict[str, HostRoom]:
    """Return what is free on each host, in the cell's order."""
    hosts = {one.name: one for one in seen.cell.hosts}
    return {
        name: _room(hosts.get(name, Host(name=name)), instances, ground, patterns)
        for name, instances in instances_of(seen).items()
    }


def away(
    seen: BalanceSituation, ground: QueueLayout, patterns: frozenset[str]
) -> dict[str, tuple[HostRoom, ...]]:
    """Return what transfer queues that tell when they start a task have where nothing runs."""
    hosts = {one.name: one for one in seen.cell.hosts}
    found = dict[str, tuple[HostRoom, ...]]()
    for one in seen.cell.instances:
        if one.queue in seen.elsewhere:
            host, empty = hosts.get(one.host, Host(name=one.host)), replace(one, used=0, reserved=0)
            room = _room(host, [empty], ground, patterns)
            found[one.queue] = (*found.get(one.queue, ()), room)
    return found


def _room(
    host: Host,
    instances: Sequence[QueueInstance],
    ground: QueueLayout,
    patterns: frozenset[str],
    *,
    is_whole: bool = False,
) -> HostRoom:
    groups = (
        ground.layout.groups_of(host.name) if _asks_groups(ground.layout, patterns) else frozenset()
    )
    is_taken = not is_whole and any(instance.is_taken for instance in instances)
    free = {one.queue: one.total if is_whole else one.free for one in instances}
    return HostRoom(
        parts=tuple(
            part_of(
                one.queue,
                0 if is_taken else free[one.queue],
                ground.layout,
                groups,
                host.name,
            )
            for one in instances
            if free[one.queue]
        ),
        amounts=amounts_of(host.left),
        values=host.values,
        tags=tags_of(host.name, groups, patterns),
        is_empty=is_whole or not is_busy(instances),
        is_told=bool(host.left or host.values),
        is_silent=ground.is_reported and not _reports(host),
    )


def _asks_groups(layout: CellLayout, patterns: frozenset[str]) -> bool:
    return bool(patterns) or any(queue.varying for queue in layout.queues.values())


def part_of(
    queue: str, free: int, layout: CellLayout, groups: frozenset[str], host: str = ""
) -> QueueOnHost:
    """Return a queue as it is on a host of these groups; a new host has no name yet."""
    known = layout.queues.get(queue)
    if known is None:
        return QueueOnHost(queue=queue, free=free, is_told=False)
    here = known.on(host, groups)
    return QueueOnHost(
        queue=queue,
        free=free,
        environments=here.environments,
        values=here.values,
        amounts=amounts_of(layout.counted(here.values)),
        is_batch=here.is_batch,
        access=here.access,
    )


def tags_of(host: str, groups: Iterable[str], patterns: frozenset[str]) -> frozenset[str]:
    """Return which patterns fit a host: `n1`, `n*`, `@big` for a host group, or `hostname=n1|n2`.

    Nobody knows the name of a new host, which is empty.
    """
    return frozenset(one for one in patterns if _fits(one, host, groups))


def _fits(pattern: str, host: str, groups: Iterable[str]) -> bool:
    names, named = (host, short_name(host)), for_host(pattern, host)
    if pattern.startswith(ASKED):
        return matches(named.removeprefix(ASKED), names)
    is_host = any(fnmatchcase(name.lower(), named.lower()) for name in names)
    return is_host or any(fnmatchcase(group, pattern) for group in groups)


def usual_room(
    seen: BalanceSituation, ground: QueueLayout, patterns: frozenset[str]
) -> HostRoom | None:
    """Return a new node's room where no pool says it: as most of the nodes, the larger of two.

    The master's is of its own kind, unless there is nothing else; None where no host has slots.
    """
    every = {name: some for name, some in instances_of(seen).items() if any(i.total for i in some)}
    nodes = {name: some for name, some in every.items() if not is_same_host(name, seen.master)}
    kinds = Counter(_kind(some) for some in (nodes or every).values())
    if not kinds:
        return None
    kind = max(kinds, key=lambda one: (kinds[one], sum(slots for _, slots in one), one))
    name = next(name for name, some in (nodes or every).items() if _kind(some) == kind)
    hosts = [one for one in seen.cell.hosts if one.name in every and _kind(every[one.name]) == kind]
    groups = ground.layout.groups_of(name)
    return HostRoom(
        parts=tuple(part_of(queue, slots, ground.layout, groups) for queue, slots in kind),
        amounts=tuple(amount for amount in _most(hosts) if amount[0] in ground.common),
        values=next((one.values for one in _like_new(hosts, seen) if one.values), ()),
        tags=tags_of("", groups, patterns),
        is_told=any(one.left or one.values for one in hosts),
        is_silent=ground.is_new_silent,
        is_new=True,
    )


def _kind(instances: Iterable[QueueInstance]) -> tuple[tuple[str, int], ...]:
    return tuple((one.queue, one.total) for one in instances if one.total)


def _most(hosts: Iterable[Host]) -> tuple[tuple[str, float], ...]:
    """Return the most of each consumable that is left on one of the hosts."""
    found = dict[str, float]()
    for host in hosts:
        for name, amount in amounts_of(host.left):
            found[name] = max(amount, found.get(name, 0.0))
    return tuple(sorted(found.items()))


def whole_rooms(
    seen: BalanceSituation, names: Iterable[str], ground: QueueLayout, patterns: frozenset[str]
) -> Mapping[str, HostRoom]:
    """Return the rooms of hosts that take nothing yet, as they are once they do.

    Those on which the cell lists no queue are left out.
    """
    wanted = list(names)
    if not wanted:
        return {}
    by_host = instances_of(seen)
    short = {short_name(one): one for one in by_host}
    hosts = {one.name: one for one in seen.cell.hosts}
    found = dict[str, HostRoom]()
    for name in wanted:
        host = name if name in by_host else short.get(short_name(name), "")
        if host and is_same_host(host, name):
            own = hosts.get(host, Host(name=host))
            room = _room(own, by_host[host], ground, patterns, is_whole=True)
            found[name] = replace(room, is_new=True)
    return {name: room for name, room in found.items() if room.parts}


def coming(
    seen: BalanceSituation,
    rooms: Mapping[str, HostRoom],
    own: Mapping[str, HostRoom],
    timeout_s: float,
) -> Blocks:
    """Return the rooms of nodes on their way, as those of their pools; late ones are left out.

    A host of the site's own has no pool, but a room of its own.
    """
    found = list[Block]()
    for node in seen.nodes:
        room = rooms.get(node.pool) or own.get(node.name)
        if room is not None and is_expected(node, seen, timeout_s):
            found.append((replace(room, group=node.group, is_new=True), (node.name,)))
    return merged(found)


def is_expected(node: Node, seen: BalanceSituation, timeout_s: float) -> bool:
    """Say whether a node is on its way, and not for longer than one may be."""
    late = node.since is not None and (seen.now - node.since).total_seconds() > timeout_s
    return node.state.is_coming and not late


def widest(seen: CellSeen, rooms: Iterable[HostRoom]) -> int:
    """Return the most slots that a queue has on one host, there or new."""
    new = (part.free for room in rooms for part in room.parts)
    return max((*(one.total for one in seen.instances), *new), default=0)
