"""Compute the free capacity of present hosts, of nodes that boot or join, and of a typical new node."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from gridbridge.decisions.elastic.demand.task_packing import (
    BUILT_IN,
    CellPlacementRules,
    FreeHostCapacity,
    HostBlock,
    HostBlocks,
    QueueFreeSlotsOnHost,
    merge_hosts_of_equal_capacity,
    parse_consumable_amounts,
)
from gridbridge.decisions.elastic.demand.task_requirements import (
    drop_domains_from_expression,
    request_expression_matches,
)
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.elastic_nodes import (
    ElasticNode,
    ElasticNodeState,
    NodesByHostName,
    is_same_host,
    short_host_name,
)
from gridbridge.model.elastic.grid_engine_cell import (
    ARCH,
    CellConfiguration,
    CellExecutionHost,
    GridEngineCellSnapshot,
    QueueInstance,
    TaskResourceRequests,
)
from gridbridge.model.job_request import HOSTNAME, resource_long_name
from gridbridge.model.states import QueueStartBlocker

BY_HAND = frozenset((QueueStartBlocker.DISABLED, QueueStartBlocker.BY_HAND))
BY_CALENDAR = frozenset((QueueStartBlocker.OFF_HOURS,))
AT, ASKED = "@", f"{HOSTNAME}="


def collect_cell_placement_rules(situation: BalanceSituation, queue: str) -> CellPlacementRules:
    """Collect the facts about the whole cell that decide on which hosts a task may run."""
    hosts = [host for host in situation.cell.hosts if host.left or host.values]
    like_new = _like_new(hosts, situation)
    texts_by_name = defaultdict[str, set[str]](set)
    for host in like_new:
        for name, text in host.values:
            texts_by_name[name].add(text)
    in_queues = (queue.offered for queue in situation.layout.queues.values())
    offered = _names(hosts).union(*in_queues) - BUILT_IN if hosts else frozenset[str]()
    is_reported = any(map(_reports, hosts))
    return CellPlacementRules(
        layout=situation.layout,
        queue=queue,
        told={name: frozenset(texts) for name, texts in texts_by_name.items()},
        common=_names(like_new),
        offered=offered,
        is_told=bool(hosts),
        is_reported=is_reported,
        is_new_silent=is_reported and not any(map(_reports, _like_new(situation.cell.hosts, situation))),
        in_cell=frozenset(name for name, _ in situation.cell.left),
        closed=queues_closed_everywhere(situation),
    )


def _reports(host: CellExecutionHost) -> bool:
    return any(name == ARCH for name, _ in host.values)


def _like_new(hosts: Sequence[CellExecutionHost], situation: BalanceSituation) -> Sequence[CellExecutionHost]:
    """Return the hosts that a new node will resemble: the balancer's nodes, else all hosts except the master."""
    ours = NodesByHostName(situation.nodes)
    nodes = [host for host in hosts if ours.of_host(host.name)]
    return nodes or [host for host in hosts if not is_same_host(host.name, situation.master)] or hosts


def _names(hosts: Iterable[CellExecutionHost]) -> frozenset[str]:
    return frozenset(name for host in hosts for name, _ in (*host.left, *host.values))


def requested_host_patterns(shapes: Iterable[TaskResourceRequests]) -> frozenset[str]:
    """Return the host patterns that tasks request by -q QUEUE@HOST or -l hostname."""
    all_shapes = tuple(shapes)
    queues = (queue.partition(AT)[2] for shape in all_shapes for queue in shape.queues if AT in queue)
    requests = (pair for shape in all_shapes for pair in shape.requests)
    hosts = (f"{ASKED}{text}" for name, text in requests if resource_long_name(name) == HOSTNAME)
    return frozenset((*queues, *hosts))


def ordinary_queues_by_host(situation: BalanceSituation) -> dict[str, list[QueueInstance]]:
    """Return each host's queue instances, without best-effort and transfer queues."""
    by_host = {host.name: list[QueueInstance]() for host in situation.cell.hosts}
    for instance in situation.cell.instances:
        if not is_best_effort_or_transfer_queue(instance.queue, situation, instance.host):
            by_host.setdefault(instance.host, []).append(instance)
    return by_host


def is_best_effort_or_transfer_queue(queue: str, situation: BalanceSituation, host: str = "") -> bool:
    """Say whether a queue is a best-effort or transfer queue, in general or on one host.

    Tasks in these queues do not make a host busy.
    """
    if queue in situation.best_effort:
        return True
    cell_queue = situation.layout.queue_on(queue, host)
    return cell_queue is not None and cell_queue.is_left_out


def queues_closed_by_hand(situation: BalanceSituation) -> frozenset[str]:
    """Return the queues that a person disabled on all of at least two reporting hosts.

    A queue that is disabled on its only host may be open on new hosts.
    """
    return frozenset(name for name, hosts in _closed(situation, BY_HAND).items() if hosts > 1)


def queues_closed_everywhere(situation: BalanceSituation) -> frozenset[str]:
    """Return the queues that are closed on all hosts, by hand or by the queue's calendar.

    A calendar applies to the whole queue, and therefore also to new nodes.
    """
    closed = _closed(situation, BY_HAND | BY_CALENDAR)
    by_calendar = _closed(situation, BY_CALENDAR)
    return frozenset(name for name, hosts in closed.items() if hosts > 1 or name in by_calendar)


def _closed(situation: BalanceSituation, facts: frozenset[str]) -> Counter[str]:
    """Count the reporting hosts of each queue that is closed on all hosts.

    Nodes that join, leave or are powered off are ignored, because the balancer itself closes their queues.
    """
    ours = NodesByHostName(node for node in situation.nodes if node.state is not ElasticNodeState.READY)
    closed, open_ = Counter[str](), set[str]()
    for instance in situation.cell.instances:
        if ours.of_host(instance.host):
            continue
        if instance.state.facts.isdisjoint(facts):
            open_.add(instance.queue)
        elif QueueStartBlocker.UNREACHABLE not in instance.state.facts:
            closed[instance.queue] += 1
    return Counter({name: hosts for name, hosts in closed.items() if name not in open_})


def has_running_or_reserved_slots(instances: Iterable[QueueInstance]) -> bool:
    """Say whether the queue instances have running tasks, starting tasks or reserved slots."""
    return any(instance.is_wanted for instance in instances)


def free_capacity_of_open_hosts(
    situation: BalanceSituation, placement: CellPlacementRules, patterns: frozenset[str], keep: Sequence[str]
) -> HostBlocks:
    """Return the free capacity of hosts that accept tasks, busy hosts first.

    Then come idle hosts that the balancer does not own. The balancer's idle nodes come last, in the order of
    `keep`.
    """
    own, ranks = NodesByHostName(situation.nodes), {name: rank for rank, name in enumerate(keep)}
    hosts = {host.name: host for host in situation.cell.hosts}
    ranked = list[tuple[int, HostBlock]]()
    for name, instances in ordinary_queues_by_host(situation).items():
        node = own.of_host(name)
        if node is not None and (node.state.is_leaving or node.state.is_coming):
            continue
        room = _capacity_of_host(hosts.get(name, CellExecutionHost(name=name)), instances, placement, patterns)
        if room.parts:
            room = replace(room, group=node.group if node else "")
            order = 0 if not room.is_empty else ranks[node.name] + 2 if node and node.name in ranks else 1
            ranked.append((order, (room, (node.name if node else name,))))
    ranked.sort(key=lambda ranked_block: ranked_block[0])
    return merge_hosts_of_equal_capacity(block for _, block in ranked)


def free_capacity_by_host(
    situation: BalanceSituation, placement: CellPlacementRules, patterns: frozenset[str]
) -> dict[str, FreeHostCapacity]:
    """Return the free capacity of each host, in the cell's order."""
    hosts = {host.name: host for host in situation.cell.hosts}
    return {
        name: _capacity_of_host(hosts.get(name, CellExecutionHost(name=name)), instances, placement, patterns)
        for name, instances in ordinary_queues_by_host(situation).items()
    }


def full_capacity_by_transfer_queue(
    situation: BalanceSituation, placement: CellPlacementRules, patterns: frozenset[str]
) -> dict[str, tuple[FreeHostCapacity, ...]]:
    """Return the full capacity of each transfer queue, if the queue's delay of starts is known."""
    hosts = {host.name: host for host in situation.cell.hosts}
    by_queue = dict[str, tuple[FreeHostCapacity, ...]]()
    for instance in situation.cell.instances:
        if instance.queue in situation.elsewhere:
            host, empty = (
                hosts.get(instance.host, CellExecutionHost(name=instance.host)),
                replace(instance, used=0, reserved=0),
            )
            room = _capacity_of_host(host, [empty], placement, patterns)
            by_queue[instance.queue] = (*by_queue.get(instance.queue, ()), room)
    return by_queue


def _capacity_of_host(
    host: CellExecutionHost,
    instances: Sequence[QueueInstance],
    placement: CellPlacementRules,
    patterns: frozenset[str],
    *,
    is_whole: bool = False,
) -> FreeHostCapacity:
    groups = placement.layout.groups_of(host.name) if _asks_groups(placement.layout, patterns) else frozenset()
    is_taken = not is_whole and any(instance.is_taken for instance in instances)
    free = {instance.queue: instance.total if is_whole else instance.free for instance in instances}
    return FreeHostCapacity(
        parts=tuple(
            queue_values_on_host(
                instance.queue, 0 if is_taken else free[instance.queue], placement.layout, groups, host.name
            )
            for instance in instances
            if free[instance.queue]
        ),
        amounts=parse_consumable_amounts(host.left),
        values=host.values,
        tags=matching_host_patterns(host.name, groups, patterns),
        is_empty=is_whole or not has_running_or_reserved_slots(instances),
        is_told=bool(host.left or host.values),
        is_silent=placement.is_reported and not _reports(host),
    )


def _asks_groups(layout: CellConfiguration, patterns: frozenset[str]) -> bool:
    return bool(patterns) or any(queue.varying for queue in layout.queues.values())


def queue_values_on_host(
    queue: str, free: int, layout: CellConfiguration, groups: frozenset[str], host: str = ""
) -> QueueFreeSlotsOnHost:
    """Return the free slots and values of a queue on a host that is in the given host groups."""
    cell_queue = layout.queues.get(queue)
    if cell_queue is None:
        return QueueFreeSlotsOnHost(queue=queue, free=free, is_told=False)
    on_host = cell_queue.on(host, groups)
    return QueueFreeSlotsOnHost(
        queue=queue,
        free=free,
        environments=on_host.environments,
        values=on_host.values,
        amounts=parse_consumable_amounts(layout.counted(on_host.values)),
        is_batch=on_host.is_batch,
        access=on_host.access,
    )


def matching_host_patterns(host: str, groups: Iterable[str], patterns: frozenset[str]) -> frozenset[str]:
    """Return the requested patterns that match a host's name or host groups.

    A pattern is `n1`, `n*`, `@big` or `hostname=n1|n2`. A new host has no name yet.
    """
    return frozenset(pattern for pattern in patterns if _pattern_fits_host(pattern, host, groups))


def _pattern_fits_host(pattern: str, host: str, groups: Iterable[str]) -> bool:
    names, named = (host, short_host_name(host)), drop_domains_from_expression(pattern, host)
    if pattern.startswith(ASKED):
        return request_expression_matches(named.removeprefix(ASKED), names)
    is_host = any(fnmatchcase(name.lower(), named.lower()) for name in names)
    return is_host or any(fnmatchcase(group, pattern) for group in groups)


def capacity_of_typical_node(
    situation: BalanceSituation, placement: CellPlacementRules, patterns: frozenset[str]
) -> FreeHostCapacity | None:
    """Return the most frequent capacity of present nodes, for new nodes without a pool; None if no host has slots.

    Of two equally frequent capacities, the larger is returned. The master is left out if the cell has another
    host.
    """
    occupied = {
        name: instances
        for name, instances in ordinary_queues_by_host(situation).items()
        if any(i.total for i in instances)
    }
    nodes = {name: instances for name, instances in occupied.items() if not is_same_host(name, situation.master)}
    kinds = Counter(_kind(instances) for instances in (nodes or occupied).values())
    if not kinds:
        return None
    kind = max(kinds, key=lambda candidate: (kinds[candidate], sum(slots for _, slots in candidate), candidate))
    name = next(name for name, instances in (nodes or occupied).items() if _kind(instances) == kind)
    hosts = [host for host in situation.cell.hosts if host.name in occupied and _kind(occupied[host.name]) == kind]
    groups = placement.layout.groups_of(name)
    return FreeHostCapacity(
        parts=tuple(queue_values_on_host(queue, slots, placement.layout, groups) for queue, slots in kind),
        amounts=tuple(amount for amount in _largest_amounts(hosts) if amount[0] in placement.common),
        values=next((host.values for host in _like_new(hosts, situation) if host.values), ()),
        tags=matching_host_patterns("", groups, patterns),
        is_told=any(host.left or host.values for host in hosts),
        is_silent=placement.is_new_silent,
        is_new=True,
    )


def _kind(instances: Iterable[QueueInstance]) -> tuple[tuple[str, int], ...]:
    return tuple((instance.queue, instance.total) for instance in instances if instance.total)


def _largest_amounts(hosts: Iterable[CellExecutionHost]) -> tuple[tuple[str, float], ...]:
    largest = dict[str, float]()
    for host in hosts:
        for name, amount in parse_consumable_amounts(host.left):
            largest[name] = max(amount, largest.get(name, 0.0))
    return tuple(sorted(largest.items()))


def full_capacity_of_unopened_hosts(
    situation: BalanceSituation, names: Iterable[str], placement: CellPlacementRules, patterns: frozenset[str]
) -> Mapping[str, FreeHostCapacity]:
    """Return the full capacity of hosts that do not accept tasks yet.

    Hosts without a queue in the cell are left out.
    """
    hosts_wanted = list(names)
    if not hosts_wanted:
        return {}
    by_host = ordinary_queues_by_host(situation)
    short = {short_host_name(host): host for host in by_host}
    hosts = {host.name: host for host in situation.cell.hosts}
    rooms = dict[str, FreeHostCapacity]()
    for name in hosts_wanted:
        host = name if name in by_host else short.get(short_host_name(name), "")
        if host and is_same_host(host, name):
            own = hosts.get(host, CellExecutionHost(name=host))
            room = _capacity_of_host(own, by_host[host], placement, patterns, is_whole=True)
            rooms[name] = replace(room, is_new=True)
    return {name: room for name, room in rooms.items() if room.parts}


def capacity_of_arriving_nodes(
    situation: BalanceSituation,
    rooms: Mapping[str, FreeHostCapacity],
    own: Mapping[str, FreeHostCapacity],
    timeout_s: float,
) -> HostBlocks:
    """Return the capacity of nodes that boot or join, without nodes that are late.

    A node has the capacity of its pool; one of the site's own hosts has its own capacity.
    """
    blocks = list[HostBlock]()
    for node in situation.nodes:
        room = rooms.get(node.pool) or own.get(node.name)
        if room is not None and is_node_arriving_in_time(node, situation, timeout_s):
            blocks.append((replace(room, group=node.group, is_new=True), (node.name,)))
    return merge_hosts_of_equal_capacity(blocks)


def is_node_arriving_in_time(node: ElasticNode, situation: BalanceSituation, timeout_s: float) -> bool:
    """Say whether a node boots or joins the cell, and has not exceeded the timeout."""
    late = node.since is not None and (situation.now - node.since).total_seconds() > timeout_s
    return node.state.is_coming and not late


def most_slots_on_one_host(cell: GridEngineCellSnapshot, rooms: Iterable[FreeHostCapacity]) -> int:
    """Return the largest number of slots of a queue on one present or new host."""
    new = (part.free for room in rooms for part in room.parts)
    return max((*(instance.total for instance in cell.instances), *new), default=0)
