"""Builders of a cell with a known configuration, and of node pools."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gridbridge.decisions.elastic.demand.demand_policy import plan_balance_by_demand
from gridbridge.model.config_key_descriptions import QueueDefaultRequests
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation
from gridbridge.model.elastic.balancer_config_sections import BalanceSection, DemandPolicySection, NodePoolSection
from gridbridge.model.elastic.elastic_nodes import ElasticNode, ElasticNodeState
from gridbridge.model.elastic.grid_engine_cell import (
    ANYBODY,
    CellConfiguration,
    CellExecutionHost,
    CellQueue,
    CellQueueInstance,
    CellResourceDefinition,
    ConsumableKind,
    GridEngineCellSnapshot,
    GridEngineUserList,
    JobAccessIdentity,
    ParallelEnvironment,
    ParallelSlotDistribution,
    RequestedValueComparison,
    WaitingJobGroup,
    parse_access_lists,
    parse_cell_queue,
)
from tests.decisions.elastic.cells import MASTER, NOON, instance, node, waiting

PES = "smp fill round pairs"
EVERY = ("all.q", "htc.q", "hpc.q", "far")
LAYOUT = CellConfiguration(
    resources={
        one.name: one
        for one in (
            CellResourceDefinition(name="mfree", counted=ConsumableKind.BY_SLOT),
            CellResourceDefinition(name="scratch", counted=ConsumableKind.BY_JOB),
            CellResourceDefinition(name="licence", counted=ConsumableKind.BY_JOB),
            CellResourceDefinition(name="gpu", counted=ConsumableKind.BY_SLOT),
            CellResourceDefinition(
                name="exclusive", relation=RequestedValueComparison.EXCLUSIVE, counted=ConsumableKind.BY_SLOT
            ),
            CellResourceDefinition(name="arch", relation=RequestedValueComparison.EQUAL),
            CellResourceDefinition(name="h_rt"),
            CellResourceDefinition(name="hostname", relation=RequestedValueComparison.EQUAL),
            CellResourceDefinition(name="remote", relation=RequestedValueComparison.EQUAL),
        )
    },
    environments={
        one.name: one
        for one in (
            ParallelEnvironment(name="smp", spread=ParallelSlotDistribution.ONE_HOST, slots=999),
            ParallelEnvironment(name="fill", spread=ParallelSlotDistribution.ANY_HOSTS, slots=999),
            ParallelEnvironment(name="round", spread=ParallelSlotDistribution.ANY_HOSTS, slots=24),
            ParallelEnvironment(name="pairs", spread=ParallelSlotDistribution.FIXED, per_host=2, slots=999),
        )
    },
    groups={"@allhosts": frozenset(("n1", "n2")), "@big": frozenset(("n2",)), "@htc": frozenset(), "@hpc": frozenset()},
    queues={
        "all.q": CellQueue(
            name="all.q", hosts=("@allhosts",), environments=tuple(PES.split()), values=(("h_rt", "24:0:0"),)
        ),
        "htc.q": CellQueue(name="htc.q", hosts=("@htc",)),
        "hpc.q": CellQueue(name="hpc.q", hosts=("@hpc",), environments=tuple(PES.split())),
        "be.q": CellQueue(name="be.q", hosts=("@allhosts",), is_best_effort=True),
        "far": CellQueue(name="far", hosts=("@allhosts",), values=(("remote", "TRUE"),), is_away=True),
    },
)
LISTS = {
    "staff": GridEngineUserList(entries=("alice", "bob")),
    "guests": GridEngineUserList(entries=("carol",)),
    "department": GridEngineUserList(entries=("alice",), is_access=False),
    "hers": GridEngineUserList(entries=("@her",)),
    "group": GridEngineUserList(entries=("@users",)),
    "pattern": GridEngineUserList(entries=("al*",)),
    "nobody": GridEngineUserList(),
}
FAR = instance("t1", queue="far", slots=99)
HTC = NodePoolSection(slots=4, resources=QueueDefaultRequests(mfree="8G"), hostgroups="@htc", limit=10)
HPC = NodePoolSection(
    slots=4, resources=QueueDefaultRequests(mfree="8G"), hostgroups="@hpc", limit=100, span=5, spans=3
)
F4 = {"htc": HTC, "hpc": HPC}
PLAIN = {"plain": NodePoolSection(slots=4, resources=QueueDefaultRequests(mfree="8G", arch="lx-amd64"))}
RULES = BalanceSection(max_nodes=200)


def cell(
    *instances: CellQueueInstance,
    wait: Iterable[WaitingJobGroup] = (),
    nodes: Iterable[ElasticNode] = (),
    left: Mapping[str, str] | None = None,
    licences: Mapping[str, str] | None = None,
    **more: Any,
) -> BalanceSituation:
    """Return a cell in which each host has the same free consumables."""
    names = dict.fromkeys(one.host for one in instances)
    values = (("arch", "lx-amd64"),)
    hosts = (CellExecutionHost(name=one, left=tuple((left or {}).items()), values=values) for one in names)
    seen = GridEngineCellSnapshot(
        hosts=tuple(hosts), instances=instances, waiting=tuple(wait), left=tuple((licences or {}).items())
    )
    parts = {"layout": LAYOUT} | more
    return BalanceSituation(now=NOON, cell=seen, master=MASTER, nodes=tuple(nodes), **parts)


def three_hosts(told: dict[str, str], identity: JobAccessIdentity = ANYBODY, **job: Any) -> BalanceSituation:
    """Return three idle hosts and 99 tasks for a queue with these attributes; n2 and n3 are in @big."""
    queue = parse_cell_queue("all.q", {"hostlist": "@allhosts", "pe_list": "smp mpi"} | told)
    mpi = ParallelEnvironment(
        name="mpi",
        spread=ParallelSlotDistribution.ANY_HOSTS,
        slots=99,
        access=parse_access_lists({"user_lists": "guests"}),
    )
    layout = replace(
        LAYOUT,
        groups={**LAYOUT.groups, "@big": frozenset(("n2", "n3"))},
        queues={"all.q": queue},
        environments=LAYOUT.environments | {"mpi": mpi},
        user_lists=LISTS,
    )
    row = waiting(5, tasks=99, **job)
    row = replace(row, shape=replace(row.shape, identity=identity))
    return cell(*full(MASTER), *map(instance, ("n1", "n2", "n3")), wait=[row], layout=layout)


def fitting_tasks(told: dict[str, str], identity: JobAccessIdentity = ANYBODY, **job: Any) -> int:
    return plan(three_hosts(told, identity, **job), most=1).figures.fit


def plan_in_big(told: dict[str, str], identity: JobAccessIdentity = ANYBODY, most: int = 9, **job: Any) -> BalancePlan:
    seen = three_hosts(told, identity, **job)
    none = replace(seen.cell, instances=full(MASTER, "n1", "n2", "n3"))
    pools = {"p": NodePoolSection(slots=4, resources=QueueDefaultRequests(mfree="8G"), hostgroups="@big @allhosts")}
    return plan(replace(seen, cell=none), pools, most=most)


def with_standby(sizes: Mapping[str, int], *there: CellQueueInstance, **more: Any) -> BalanceSituation:
    silent = [instance(name, slots=slots, state="au") for name, slots in sizes.items()]
    nodes = [node(name, state="standby", pool="rack") for name in sizes]
    return cell(*there, *silent, nodes=nodes, **({"standby": tuple(sizes)} | more))


def full(*names: str) -> tuple[CellQueueInstance, ...]:
    """Return hosts with four slots, all in use."""
    return tuple(instance(name, (4,)) for name in names)


def plan(
    seen: BalanceSituation, pools: Mapping[str, NodePoolSection] | None = None, most: int = 200, **demand: Any
) -> BalancePlan:
    """Return the plan by policy demand; new nodes have four slots and 8 GB unless pools are given."""
    rules = replace(RULES, max_nodes=most)
    return plan_balance_by_demand(seen, rules, DemandPolicySection(**demand), PLAIN if pools is None else pools)


def after(seen: BalanceSituation, done: BalancePlan) -> BalanceSituation:
    """Return the situation after the nodes of a plan were requested or removed."""
    groups = done.groups or ("",) * done.add
    numbers = (int(one.name[3:]) for one in seen.nodes if one.name.startswith("new"))
    first = max(numbers, default=0) + 1
    new = (
        ElasticNode(
            name=f"new{first + place}", state=ElasticNodeState.REQUESTED, since=seen.now, pool=done.pool, group=group
        )
        for place, group in enumerate(groups)
    )
    gone = (one for one in seen.nodes if one.name not in done.remove)
    instances = (one for one in seen.cell.instances if one.host not in done.remove)
    hosts = (one for one in seen.cell.hosts if one.name not in done.remove)
    left = replace(seen.cell, hosts=tuple(hosts), instances=tuple(instances))
    return replace(seen, cell=left, nodes=(*gone, *new))
