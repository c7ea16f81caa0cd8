"""Compute the free capacity of present hosts, of nodes that boot or join, and of a typical new node."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from gridbridge.decisions.elastic.demand import task_requirements
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
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.elastic_nodes import (
    ElasticNode,
    ElasticNodeState,
    NodesByHostName,
    is_same_host,
    short_host_name,
)
from gridbridge.model.elastic.grid_engine_cell import ARCH, CellExecutionHost, CellQueueInstance, TaskResourceRequests
from gridbridge.model.job_and_queue_states import QueueStartBlocker
from gridbridge.model.job_request import HOSTNAME, resource_long_name

BY_HAND = frozenset((QueueStartBlocker.DISABLED, QueueStartBlocker.BY_HAND))
BY_CALENDAR = frozenset((QueueStartBlocker.OFF_HOURS,))
AT, ASKED = "@", f"{HOSTNAME}="


def collect_cell_placement_rules(
    situation: BalanceSituation, queue: str, shapes: Iterable[TaskResourceRequests]
) -> CellPlacementRules:
    hosts = [host for host in situation.cell.hosts if host.left or host.values]
    like_new = _hosts_that_new_nodes_resemble(hosts, situation)
    texts_by_name = defaultdict[str, set[str]](set)
    for name, text in (value for host in like_new for value in host.values):
        texts_by_name[name].add(text)
    in_queues = (queue.resource_names for queue in situation.layout.queues.values())
    is_reported = any(map(_does_host_report_load, hosts))
    return CellPlacementRules(
        situation=situation,
        queue=queue,
        patterns=_host_patterns_requested_by_tasks(tuple(shapes)),
        hosts={host.name: host for host in situation.cell.hosts},
        queues_by_host=ordinary_queues_by_host(situation),
        told={name: frozenset(texts) for name, texts in texts_by_name.items()},
        common=_resource_names_of_hosts(like_new),
        offered=_resource_names_of_hosts(hosts).union(*in_queues) - BUILT_IN if hosts else frozenset(),
        is_told=bool(hosts),
        is_reported=is_reported,
        is_new_silent=is_reported
        and not any(map(_does_host_report_load, _hosts_that_new_nodes_resemble(situation.cell.hosts, situation))),
        in_cell=frozenset(name for name, _ in situation.cell.left),
        closed=queues_closed_everywhere(situation),
        widest=max((instance.total for instance in situation.cell.instances), default=0),
    )


def _does_host_report_load(host: CellExecutionHost) -> bool:
    return any(name == ARCH for name, _ in host.values)


def _hosts_that_new_nodes_resemble(
    hosts: Sequence[CellExecutionHost], situation: BalanceSituation
) -> Sequence[CellExecutionHost]:
    """Return the hosts like new nodes: the balancer's nodes if any exist, otherwise all hosts except the master."""
    ours = NodesByHostName(situation.nodes)
    nodes = [host for host in hosts if ours.find_node_of_host(host.name)]
    return nodes or [host for host in hosts if not is_same_host(host.name, situation.master)] or hosts


def _resource_names_of_hosts(hosts: Iterable[CellExecutionHost]) -> frozenset[str]:
    return frozenset(name for host in hosts for name, _ in (*host.left, *host.values))


def _host_patterns_requested_by_tasks(shapes: Sequence[TaskResourceRequests]) -> frozenset[str]:
    """Return the host patterns that tasks request by -q QUEUE@HOST or -l hostname."""
    queues = (queue.partition(AT)[2] for shape in shapes for queue in shape.queues if AT in queue)
    requests = (pair for shape in shapes for pair in shape.requests)
    hosts = (f"{ASKED}{text}" for name, text in requests if resource_long_name(name) == HOSTNAME)
    return frozenset((*queues, *hosts))


def ordinary_queues_by_host(situation: BalanceSituation) -> dict[str, list[CellQueueInstance]]:
    """Return each host's queue instances, without best-effort and transfer queues."""
    by_host = {host.name: list[CellQueueInstance]() for host in situation.cell.hosts}
    for instance in situation.cell.instances:
        if not is_best_effort_or_transfer_queue(instance.queue, situation, instance.host):
            by_host.setdefault(instance.host, []).append(instance)
    return by_host


def is_best_effort_or_transfer_queue(queue: str, situation: BalanceSituation, host: str = "") -> bool:
    """Say whether a queue is a best-effort or transfer queue, in general or on the given host."""
    cell_queue = situation.layout.queue_on_host(queue, host)
    return queue in situation.best_effort or (cell_queue is not None and cell_queue.is_ignored_by_balancer)


def queues_closed_by_hand(situation: BalanceSituation) -> frozenset[str]:
    """Return the queues that a person disabled on all reporting hosts, if there are at least two hosts."""
    return frozenset(name for name, hosts in _count_hosts_by_closed_queue(situation, BY_HAND).items() if hosts > 1)


def queues_closed_everywhere(situation: BalanceSituation) -> frozenset[str]:
    """Return the queues that are closed by hand or by calendar on all hosts, and therefore on new hosts."""
    closed = _count_hosts_by_closed_queue(situation, BY_HAND | BY_CALENDAR)
    by_calendar = _count_hosts_by_closed_queue(situation, BY_CALENDAR)
    return frozenset(name for name, hosts in closed.items() if hosts > 1 or name in by_calendar)


def _count_hosts_by_closed_queue(situation: BalanceSituation, facts: frozenset[str]) -> Mapping[str, int]:
    """Count the hosts of each queue that is closed on all reporting hosts, ignoring unready nodes."""
    ours = NodesByHostName(node for node in situation.nodes if node.state is not ElasticNodeState.READY)
    closed, open_ = Counter[str](), set[str]()
    for instance in situation.cell.instances:
        if ours.find_node_of_host(instance.host):
            continue
        if instance.state.facts.isdisjoint(facts):
            open_.add(instance.queue)
        elif QueueStartBlocker.UNREACHABLE not in instance.state.facts:
            closed[instance.queue] += 1
    return {name: hosts for name, hosts in closed.items() if name not in open_}


def has_running_or_reserved_slots(instances: Iterable[CellQueueInstance]) -> bool:
    return any(instance.has_tasks_or_reserved_slots for instance in instances)


def free_capacity_of_open_hosts(cell: CellPlacementRules, keep: Sequence[str]) -> HostBlocks:
    """Return the free capacity of open hosts: busy hosts, idle hosts, and last idle nodes in the order of `keep`."""
    own, ranks = NodesByHostName(cell.situation.nodes), {name: rank for rank, name in enumerate(keep)}
    ranked = list[tuple[int, HostBlock]]()
    for name, instances in cell.queues_by_host.items():
        node = own.find_node_of_host(name)
        room = _capacity_of_host(name, instances, cell)
        if room.parts and not (node and (node.state.is_leaving or node.state.is_coming)):
            order = 0 if not room.is_empty else ranks[node.name] + 2 if node and node.name in ranks else 1
            block = (replace(room, group=node.group), (node.name,)) if node else (room, (name,))
            ranked.append((order, block))
    ranked.sort(key=lambda ranked_block: ranked_block[0])
    return merge_hosts_of_equal_capacity(block for _, block in ranked)


def free_capacity_by_host(cell: CellPlacementRules) -> dict[str, FreeHostCapacity]:
    return {name: _capacity_of_host(name, instances, cell) for name, instances in cell.queues_by_host.items()}


def full_capacity_by_transfer_queue(cell: CellPlacementRules) -> Mapping[str, list[FreeHostCapacity]]:
    """Return the full capacity of each transfer queue whose start delay is known."""
    by_queue = defaultdict[str, list[FreeHostCapacity]](list)
    for instance in cell.situation.cell.instances:
        if instance.queue in cell.situation.elsewhere:
            empty = replace(instance, used=0, reserved=0)
            by_queue[instance.queue].append(_capacity_of_host(instance.host, [empty], cell))
    return by_queue


def _capacity_of_host(
    name: str, instances: Sequence[CellQueueInstance], cell: CellPlacementRules, *, is_whole: bool = False
) -> FreeHostCapacity:
    """Return a host's free capacity in the given queues; with `is_whole`, as if no task ran."""
    host = cell.hosts.get(name, CellExecutionHost(name=name))
    asks_groups = cell.patterns or any(queue.varying for queue in cell.observed_cell_configuration.queues.values())
    groups = cell.observed_cell_configuration.groups_of_host(name) if asks_groups else frozenset[str]()
    is_taken = not is_whole and any(instance.is_taken for instance in instances)
    free = {instance.queue: instance.total if is_whole else instance.free_slots for instance in instances}
    queues = [instance.queue for instance in instances if free[instance.queue]]
    return FreeHostCapacity(
        cell=cell,
        parts=tuple(
            queue_free_slots_on_host(queue, 0 if is_taken else free[queue], cell, groups, name) for queue in queues
        ),
        amounts=parse_consumable_amounts(host.left),
        values=host.values,
        tags=matching_host_patterns(name, groups, cell.patterns),
        is_empty=is_whole or not has_running_or_reserved_slots(instances),
        is_told=bool(host.left or host.values),
        is_silent=cell.is_reported and not _does_host_report_load(host),
    )


def queue_free_slots_on_host(
    queue: str, free: int, cell: CellPlacementRules, groups: frozenset[str], host: str = ""
) -> QueueFreeSlotsOnHost:
    cell_queue = cell.observed_cell_configuration.queues.get(queue)
    if cell_queue is None:
        return QueueFreeSlotsOnHost(queue=queue, free=free, is_told=False)
    on_host = cell_queue.with_values_of_host(host, groups)
    return QueueFreeSlotsOnHost(
        queue=queue,
        free=free,
        environments=on_host.environments,
        values=on_host.values,
        amounts=parse_consumable_amounts(cell.observed_cell_configuration.countable_consumables(on_host.values)),
        is_batch=on_host.is_batch,
        access=on_host.access,
    )


def matching_host_patterns(host: str, groups: Iterable[str], patterns: frozenset[str]) -> frozenset[str]:
    """Return the patterns (`n1`, `n*`, `@big`, `hostname=n1|n2`) that match a host's name or groups."""
    return frozenset(pattern for pattern in patterns if _pattern_fits_host(pattern, host, groups))


def _pattern_fits_host(pattern: str, host: str, groups: Iterable[str]) -> bool:
    names, named = (host, short_host_name(host)), task_requirements.drop_domains_from_expression(pattern, host)
    if pattern.startswith(ASKED):
        return task_requirements.request_expression_matches(named.removeprefix(ASKED), names)
    is_host = any(fnmatchcase(name.lower(), named.lower()) for name in names)
    return is_host or any(fnmatchcase(group, pattern) for group in groups)


def capacity_of_typical_node(cell: CellPlacementRules) -> FreeHostCapacity | None:
    """Return the most frequent capacity of the hosts other than the master; None without slots.

    Of equally frequent capacities the largest counts.
    """
    sizes_by_host = {
        name: tuple((instance.queue, instance.total) for instance in instances if instance.total)
        for name, instances in cell.queues_by_host.items()
    }
    kinds_by_host = {name: sizes for name, sizes in sizes_by_host.items() if sizes}
    nodes = {name: kind for name, kind in kinds_by_host.items() if not is_same_host(name, cell.situation.master)}
    kinds = Counter((nodes or kinds_by_host).values())
    if not kinds:
        return None
    kind = max(kinds, key=lambda candidate: (kinds[candidate], sum(slots for _, slots in candidate), candidate))
    name = next(name for name, of_host in (nodes or kinds_by_host).items() if of_host == kind)
    hosts = [host for host in cell.situation.cell.hosts if kinds_by_host.get(host.name) == kind]
    largest = dict[str, float]()
    for resource, amount in (pair for host in hosts for pair in parse_consumable_amounts(host.left)):
        largest[resource] = max(amount, largest.get(resource, 0.0))
    groups = cell.observed_cell_configuration.groups_of_host(name)
    return FreeHostCapacity(
        cell=cell,
        parts=tuple(queue_free_slots_on_host(queue, slots, cell, groups) for queue, slots in kind),
        amounts=tuple(amount for amount in sorted(largest.items()) if amount[0] in cell.common),
        values=next((host.values for host in _hosts_that_new_nodes_resemble(hosts, cell.situation) if host.values), ()),
        tags=matching_host_patterns("", groups, cell.patterns),
        is_told=any(host.left or host.values for host in hosts),
        is_silent=cell.is_new_silent,
        is_new=True,
    )


def full_capacity_of_unopened_hosts(names: Iterable[str], cell: CellPlacementRules) -> Mapping[str, FreeHostCapacity]:
    """Return the full capacity of hosts that do not accept tasks yet; hosts without a queue are left out."""
    short = {short_host_name(host): host for host in cell.queues_by_host}
    rooms = dict[str, FreeHostCapacity]()
    for name in names:
        host = name if name in cell.queues_by_host else short.get(short_host_name(name), "")
        if host and is_same_host(host, name):
            room = _capacity_of_host(host, cell.queues_by_host[host], cell, is_whole=True)
            rooms[name] = replace(room, is_new=True)
    return {name: room for name, room in rooms.items() if room.parts}


def capacity_of_arriving_nodes(
    rooms: Mapping[str, FreeHostCapacity],
    own: Mapping[str, FreeHostCapacity],
    situation: BalanceSituation,
    timeout_s: float,
) -> HostBlocks:
    """Return the capacity of nodes that boot or join, from the capacity per pool and per site host."""
    blocks = list[HostBlock]()
    for node in situation.nodes:
        room = rooms.get(node.pool) or own.get(node.name)
        if room is not None and is_node_arriving_in_time(node, situation, timeout_s):
            blocks.append((replace(room, group=node.group, is_new=True), (node.name,)))
    return merge_hosts_of_equal_capacity(blocks)


def is_node_arriving_in_time(node: ElasticNode, situation: BalanceSituation, timeout_s: float) -> bool:
    late = node.since is not None and (situation.now - node.since).total_seconds() > timeout_s
    return node.state.is_coming and not late
