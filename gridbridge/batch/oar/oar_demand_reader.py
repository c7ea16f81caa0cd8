"""Reads an OAR server's nodes and waiting jobs for the balancer.

Each node gets an ordinary and a best-effort queue. Properties are SQL, which only OAR can evaluate.
"""

import socket
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, tzinfo

from gridbridge.batch.oar import oar_output_parser, oar_request_slot_parser, oar_server_query_commands
from gridbridge.batch.oar.oar_command_line_builders import WHOLE
from gridbridge.batch.oar.oar_programs import run_client
from gridbridge.batch.qstat_state_letters import render_queue_state_letters
from gridbridge.errors import ParseError
from gridbridge.model.campaigns.campaign_file_and_array_names import is_campaign_job_name
from gridbridge.model.elastic.grid_engine_cell import (
    CellConfiguration,
    CellExecutionHost,
    CellQueue,
    CellQueueInstance,
    GridEngineCellSnapshot,
    ParallelEnvironment,
    ParallelSlotDistribution,
    RequestedValueComparison,
    RunningTaskGroup,
    TaskResourceRequests,
    WaitingJobGroup,
)
from gridbridge.model.elastic.grid_engine_cell import CellResourceDefinition as Complex
from gridbridge.model.job_and_queue_states import JobState, JobStateFact, QueueInstanceState, QueueStartBlocker
from gridbridge.model.transfer_route import OarServerAccessSettings
from gridbridge.shell import local_host_facts
from gridbridge.shell.program_runs import LIST_BYTES

OUTPUT_FILE = "oar.txt"  # output of oarnodes -J and oarstat -f -J
OUTPUT_FILES: tuple[str, ...] = (OUTPUT_FILE,)
OPTIONAL_FILES: tuple[str, ...] = ()
NODE_PORT = 6667  # port of OAR's sshd on each node, in all packages of OAR
PROBE_S = 1.0
AT_ONCE = 32  # number of nodes probed at the same time
WHOLE_NODES = "exclusively_used_node_count"  # invented resource that stands for a whole node
ENOUGH = 1 << 30  # number of slots that stands for no limit

# state of held jobs, and of jobs that wait for the end of other jobs
HELD_STATE = JobState({JobStateFact.WAITING, JobStateFact.HELD}, "hqw")


def query_demand_outputs(server: OarServerAccessSettings) -> tuple[dict[str, bytes], str]:
    """Return the outputs of oarnodes and oarstat, the reachable halted nodes, and this server's name."""
    answer = (
        run_client(server, oar_server_query_commands.oar_demand_query_argv(server), most_bytes=LIST_BYTES)
        .require_success()
        .stdout
    )
    resources = oar_output_parser.parse_oar_resources(oar_output_parser.split_combined_oar_answer(answer)[0])
    halted = sorted({resource.host for resource in resources if resource.is_halted})
    outputs = {OUTPUT_FILE: answer + encode_reachable_hosts(_reachable_halted_nodes(halted))}
    return outputs, local_host_facts.this_host_name()


def encode_reachable_hosts(hosts: Iterable[str]) -> bytes:
    return "".join(f"{host}\n" for host in hosts).encode()


def _reachable_halted_nodes(hosts: Sequence[str]) -> list[str]:
    """Return the halted nodes that accept connections, because OAR itself does not probe halted nodes."""
    with ThreadPoolExecutor(AT_ONCE, "node") as threads:
        answers = threads.map(_does_node_accept_connections, hosts)
        return [host for host, is_up in zip(hosts, answers, strict=True) if is_up]


def _does_node_accept_connections(host: str) -> bool:
    with suppress(OSError), socket.create_connection((host, NODE_PORT), PROBE_S):
        return True
    return False


def parse_demand_outputs(
    outputs: Mapping[str, bytes], _zone: tzinfo, queue: str
) -> tuple[GridEngineCellSnapshot, CellConfiguration]:
    return parse_oar_cell(outputs[OUTPUT_FILE], queue)


def parse_oar_cell(document: bytes, queue: str) -> tuple[GridEngineCellSnapshot, CellConfiguration]:
    """Parse OAR's outputs, with `queue` as the ordinary jobs' queue; raise ParseError if incomplete."""
    answer, whole, up = document.rpartition(WHOLE)
    nodes, shown, *more = oar_output_parser.split_combined_oar_answer(answer + whole)
    resources, jobs = oar_output_parser.parse_oar_resources(nodes), oar_output_parser.parse_oarstat_jobs(shown)
    lines = [line for part in more for line in oar_output_parser.parse_oarstat_lines(part)]
    slots = [resource for resource in resources if resource.is_slot]
    if not slots:
        raise ParseError("oarnodes: no resources printed")
    of_host = _living_resources_by_host(slots)
    reachable = frozenset(up.decode("ascii", "replace").split())
    facts = {host: _start_blockers_of_node(host_slots, host in reachable) for host, host_slots in of_host.items()}
    waiting = _waiting_job_groups(jobs, lines, _node_slot_counts(of_host, facts, jobs))
    cell = GridEngineCellSnapshot(
        hosts=tuple(
            CellExecutionHost(name=host, load=None if QueueStartBlocker.UNREACHABLE in facts[host] else 0.0)
            for host in of_host
        ),
        instances=tuple(_queue_instances_of_nodes(of_host, jobs, facts, queue)),
        waiting=waiting,
    )
    shapes = [shape for row in waiting for shape in (row.shape, *row.shape.others)]
    parts = [part for shape in shapes for part in (shape, *shape.groups)]
    return cell, _configuration_of_oar_queues(queue, {part.pe for part in parts if part.pe})


def _living_resources_by_host(
    slots: Iterable[oar_output_parser.OarResource],
) -> dict[str, list[oar_output_parser.OarResource]]:
    """Return the living resources of each node; if all resources of a node are dead, return all of them."""
    all_resources = defaultdict[str, list[oar_output_parser.OarResource]](list)
    for slot in slots:
        all_resources[slot.host].append(slot)
    living = {host: [slot for slot in host_slots if slot.is_alive] for host, host_slots in all_resources.items()}
    return {host: living[host] or host_slots for host, host_slots in all_resources.items()}


def _node_slot_counts(
    of_host: Mapping[str, Sequence[oar_output_parser.OarResource]],
    facts: Mapping[str, frozenset[str]],
    jobs: Iterable[oar_output_parser.OarJob],
) -> oar_request_slot_parser.OarNodeSlotCounts:
    named = {
        level for job in jobs if not job.has_ended for level in oar_request_slot_parser.requested_oar_levels(job.wanted)
    }
    cell_resources = [resource for resources in of_host.values() for resource in resources]
    slots_inside = {
        level: _slots_of_smallest_unit(level, cell_resources)
        for level in named - {*oar_request_slot_parser.NODES, *oar_request_slot_parser.SLOTS}
    }
    return oar_request_slot_parser.OarNodeSlotCounts(
        inside={level: slots for level, slots in slots_inside.items() if slots},
        slots_by_node=[len(resources) for resources in of_host.values()],
        usable=[len(resources) for host, resources in of_host.items() if not facts[host]],
    )


def _slots_of_smallest_unit(level: str, resources: Iterable[oar_output_parser.OarResource]) -> int:
    """Return the slots of the smallest unit of a level such as /cpu; 0 if a unit spans several nodes."""
    hosts, slots = dict[object, set[str]](), Counter[object]()
    for resource in resources:
        unit = resource.properties.get(level)
        if unit is not None:
            hosts.setdefault(unit, set()).add(resource.host)
            slots[unit] += 1
    return min(slots.values(), default=0) if all(len(unit_hosts) == 1 for unit_hosts in hosts.values()) else 0


def _start_blockers_of_node(resources: Iterable[oar_output_parser.OarResource], is_reachable: bool) -> frozenset[str]:
    facts = set[str]()
    for resource in resources:
        if resource.is_drained or resource.is_halted:
            facts.add(QueueStartBlocker.DISABLED)
        if not resource.is_alive and not (resource.is_halted and is_reachable):
            facts.add(QueueStartBlocker.UNREACHABLE)
    return frozenset(facts)


def _queue_instances_of_nodes(
    of_host: Mapping[str, Sequence[oar_output_parser.OarResource]],
    jobs: Iterable[oar_output_parser.OarJob],
    facts: Mapping[str, frozenset[str]],
    queue: str,
) -> Iterator[CellQueueInstance]:
    """Yield two queue instances of each node: one for ordinary jobs, and one for best-effort jobs.

    Accepted reservations count as used slots, so that nodes wake in time. A resource that jobs share counts once.
    """
    where = {resource.id: host for host, resources in of_host.items() for resource in resources}
    running = defaultdict[tuple[str, str], list[RunningTaskGroup]](list)
    reserved, shared = Counter[str](), defaultdict[str, set[str]](set)
    for job in jobs:
        kind = oar_output_parser.BEST_EFFORT if job.is_besteffort else queue
        slots_on = Counter(where[resource_id] for resource_id in job.resources - shared[kind] if resource_id in where)
        if job.has_or_gets_resources:
            shared[kind] |= job.resources
            for host, slots in slots_on.items():
                since = datetime.fromtimestamp(job.started_at, UTC) if job.started_at else None
                running[kind, host].append(RunningTaskGroup(owner=job.owner, name=job.name, slots=slots, since=since))
        else:
            reserved.update(where[resource_id] for resource_id in job.reserved | job.resources if resource_id in where)
    for host, resources in of_host.items():
        state = QueueInstanceState(facts[host], render_queue_state_letters(facts[host]))
        for kind in (queue, oar_output_parser.BEST_EFFORT):
            begun = tuple(running[kind, host])
            tasks = tuple(start.slots for start in begun)
            yield CellQueueInstance(
                queue=kind,
                host=host,
                used=sum(tasks),
                reserved=reserved[host] if kind == queue else 0,
                total=len(resources),
                state=state,
                running=tasks,
                begun=begun,
            )


def _waiting_job_groups(
    jobs: Sequence[oar_output_parser.OarJob],
    lines: Iterable[oar_output_parser.OarstatJobLine],
    sizes: oar_request_slot_parser.OarNodeSlotCounts,
) -> tuple[WaitingJobGroup, ...]:
    """Return groups of equal waiting jobs; in OAR, each task of an array is a job."""
    ids_by_array = defaultdict[tuple[str, bool], list[int]](list)
    for line in lines:
        ids_by_array[line.array, line.is_waiting].append(int(line.id))
    alive = {job.id for job in jobs}
    alive |= {str(number) for numbers in ids_by_array.values() for number in numbers}
    # for each group: its jobs, and for each job the ids of the array's tasks in the same state
    groups = defaultdict[tuple[str, WaitingJobGroup], list[tuple[oar_output_parser.OarJob, list[int]]]](list)
    for job in jobs:
        if job.is_waiting or job.is_held:
            is_dependent = not alive.isdisjoint(job.after)
            group = WaitingJobGroup(
                shape=_resource_requests_of_job(job, sizes),
                state=HELD_STATE if is_dependent else job.job_state,
                jobs=(),
                tasks=0,
                first_since=None,
                oldest_since=None,
                is_deferred=job.is_reservation,
                is_dependent=is_dependent,
                is_campaign=is_campaign_job_name(job.name),
                is_inner=job.is_inner,
            )
            tasks = {int(job.id), *ids_by_array.pop((job.array, job.is_waiting), ())}
            groups[job.owner, group].append((job, sorted(tasks)))
    rows = tuple(_fill_waiting_group(group, samples) for (_, group), samples in groups.items())
    held = tuple(sorted(job for (_, waits), numbers in ids_by_array.items() if not waits for job in numbers))
    if not held:
        return rows
    return (  # held jobs need no nodes, so their requests were not queried
        *rows,
        WaitingJobGroup(
            shape=TaskResourceRequests(),
            state=HELD_STATE,
            jobs=held,
            tasks=len(held),
            first_since=None,
            oldest_since=None,
        ),
    )


def _fill_waiting_group(
    group: WaitingJobGroup, samples: Sequence[tuple[oar_output_parser.OarJob, list[int]]]
) -> WaitingJobGroup:
    times = [datetime.fromtimestamp(job.submitted_at, UTC) for job, _ in samples]
    kinds = Counter[tuple[str, str]]()
    for job, tasks in samples:
        kinds[job.owner, job.name] += len(tasks)
    return replace(
        group,
        jobs=tuple(task for _, tasks in samples for task in tasks),
        tasks=kinds.total(),
        first_since=times[0],
        oldest_since=min(times),
        kinds=tuple((*kind, number) for kind, number in kinds.items()),
    )


def _resource_requests_of_job(
    job: oar_output_parser.OarJob, sizes: oar_request_slot_parser.OarNodeSlotCounts
) -> TaskResourceRequests:
    ways = dict.fromkeys(oar_request_slot_parser.oar_slot_distributions(job.wanted, sizes, job.message))
    least, *alternatives = (_requests_of_slot_distribution(job, distribution) for distribution in ways)
    return replace(least, others=tuple(alternatives))


def _requests_of_slot_distribution(
    job: oar_output_parser.OarJob, distribution: oar_request_slot_parser.OarSlotDistribution
) -> TaskResourceRequests:
    return TaskResourceRequests(
        slots=distribution.slots,
        pe=distribution.pe,
        requests=((WHOLE_NODES, "1"),) if distribution.is_whole else (),
        queues=(oar_output_parser.BEST_EFFORT,) if job.is_besteffort else (),
        is_on_all=distribution.needs_all_nodes,
        groups=tuple(_requests_of_slot_distribution(job, group) for group in distribution.groups),
    )


def _configuration_of_oar_queues(queue: str, environments: Iterable[str]) -> CellConfiguration:
    parallel_environments = {name: _parallel_environment_by_name(name) for name in sorted(environments)}
    usual = CellQueue(name=queue, environments=tuple(parallel_environments))
    besteffort = CellQueue(name=oar_output_parser.BEST_EFFORT, is_best_effort=True)
    whole = Complex(name=WHOLE_NODES, relation=RequestedValueComparison.EXCLUSIVE)
    return CellConfiguration(
        resources={WHOLE_NODES: whole},
        environments=parallel_environments,
        queues={queue: usual, oar_output_parser.BEST_EFFORT: besteffort},
    )


def _parallel_environment_by_name(name: str) -> ParallelEnvironment:
    if name in (oar_request_slot_parser.ONE, oar_request_slot_parser.ANY, oar_request_slot_parser.EVERY):
        spread = (
            ParallelSlotDistribution.ONE_HOST
            if name == oar_request_slot_parser.ONE
            else ParallelSlotDistribution.ANY_HOSTS
        )
        return ParallelEnvironment(name=name, spread=spread, slots=ENOUGH)
    fixed = ParallelSlotDistribution.FIXED
    return ParallelEnvironment(
        name=name, spread=fixed, per_host=oar_request_slot_parser.slots_per_node_in_pe_name(name), slots=ENOUGH
    )
