"""Tests of an OAR server's nodes and waiting jobs as the balancer reads them."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gridbridge.batch.oar import oar_node_power_and_tags
from gridbridge.batch.oar.oar_command_line_builders import BREAK, WHOLE
from gridbridge.batch.oar.oar_demand_reader import encode_reachable_hosts, parse_oar_cell
from gridbridge.batch.oar.oar_output_parser import MAY_REST
from gridbridge.batch.oar.oar_request_slot_parser import WAYS, OarNodeSlotCounts, oar_slot_distributions
from gridbridge.decisions.elastic.demand.demand_policy import plan_balance_by_demand
from gridbridge.errors import ParseError
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation, NodeAddOrRemoveRefusalCause
from gridbridge.model.elastic.balancer_config_sections import BalanceSection, DemandPolicySection
from gridbridge.model.elastic.grid_engine_cell import ParallelSlotDistribution, RunningTaskGroup, TaskResourceRequests
from gridbridge.model.job_and_queue_states import QueueStartBlocker
from tests.batch.oar.test_oar_output import answer, nodes, resource, shown

QUEUE = "all.q"


def document(
    resources: list[dict[str, object]],
    *jobs: dict[str, object],
    up: tuple[str, ...] = (),
    lines: Sequence[str] | None = None,
) -> bytes:
    """Return the output of the demand query; without `lines`, the output of an earlier version."""
    parts = [nodes(*resources), answer(*jobs)]
    if lines is not None:
        parts.append("\n".join(lines).encode())
    return BREAK.join(parts) + WHOLE + encode_reachable_hosts(up)


TWO = [resource(number, host) for number, host in ((1, "n1"), (2, "n1"), (3, "n2"), (4, "n2"))]
HALTED = {"state": "Absent", "available_upto": MAY_REST}
NODES = OarNodeSlotCounts((2, 2, 3), (2, 2, 3))


def table(file: str) -> Iterator[list[str]]:
    """Yield the cells of each row of a file, whose first line has the names of the columns."""
    for line in Path(__file__).with_name(file).read_text().splitlines()[1:]:
        yield [text.strip() for text in line.split("|")]


@pytest.mark.parametrize(("wanted", "message", "expected"), [*table("requests.txt")])
def test_a_request_is_parsed_as_slots_and_distribution(wanted: str, message: str, expected: str) -> None:
    """The nodes have two, two and three slots; the smallest alternative counts."""
    slots, distribution, is_whole = oar_slot_distributions(f"{wanted} " if wanted else "", NODES, message)[0][:3]

    assert f"{slots}, {distribution}, {'whole' if is_whole else 'part'}" == expected


@pytest.mark.parametrize(
    ("wanted", "message", "groups"),
    [
        ("/nodes=1+/core=3", "", [(2, "one", True), (3, "any", False)]),
        ("{{a}}/nodes=1/core=2+{{b}}/gpu=3", "", [(2, "one", False), (3, "any", False)]),
        ("/nodes=2/core=1+/nodes=1", "R=4", [(2, "each-1", False), (2, "one", True)]),
        ("/nodes=1+/cpu=1", "R=6,W=1", [(2, "one", True), (4, "any", False)]),
        ("/core=2+/nodes=ALL", "", [(2, "any", False), (6, "all-2", True)]),
        ("/core=2+/core=3", "", []),
        ("/nodes=1+/nodes=1", "", []),
    ],
)
def test_groups_of_different_distribution_are_kept_apart(
    wanted: str, message: str, groups: list[tuple[int, str, bool]]
) -> None:
    found = oar_slot_distributions(f'-l "{wanted},walltime=1:0:0" '.replace("{{", "{"), NODES, message)[0]

    assert [group[:3] for group in found.groups] == groups
    assert not groups or found.slots == sum(group[0] for group in groups)


CPUS = [row | {"cpu": (number + 1) // 2, "switch": "s"} for number, row in enumerate(TWO, 1)]


@pytest.mark.parametrize(("used", "wanted", "message", "fit"), [*table("fitting_requests.txt")])
def test_a_job_fits_if_all_its_groups_and_units_fit(used: str, wanted: str, message: str, fit: str) -> None:
    """Each of two nodes has one CPU with two slots; two jobs may share a slot."""
    slots = [[int(slot) for slot in job.split(",")] for job in used.split()]
    runs = (shown(Job_Id=at, assigned_resources=job, queue="default") for at, job in enumerate(slots, 1))

    assert _plan(document(CPUS, *runs, _waiting(wanted, message=message))).figures.fit == (fit == "yes")


def test_a_resource_shared_by_several_jobs_counts_once() -> None:
    """A container job and its inner jobs share resources, as do jobs of type timesharing."""
    runs = [
        shown(Job_Id=1, assigned_resources=[1, 2], queue="default", types=["container"]),
        shown(Job_Id=2, assigned_resources=[2], queue="default", types=["inner=1"]),
    ]
    cell, _ = parse_oar_cell(document(TWO, *runs), QUEUE)

    assert [one.used for one in cell.instances if one.queue == QUEUE] == [2, 0]


def test_an_inner_job_of_a_container_is_no_demand() -> None:
    run = shown(Job_Id=1, assigned_resources=[1, 2, 3, 4], queue="default", types=["container"])
    plan = _plan(document(TWO, run, _waiting("/core=1", types=["inner=1"])))

    assert (plan.add, [refused.cause for refused in plan.refused]) == (0, [NodeAddOrRemoveRefusalCause.INNER])


def test_as_many_nodes_are_woken_as_all_groups_need() -> None:
    run = shown(Job_Id=1, assigned_resources=[1, 2], queue="default")
    rest = [resource(number, f"n{number // 2}", **HALTED) for number in range(10, 16)]
    told = document([*TWO, *rest], run, _waiting("/nodes=2+/core=2"))

    assert _plan(told, standby=("n5", "n6", "n7")).wake == ("n5", "n6")


def _plan(told: bytes, standby: tuple[str, ...] = ()) -> BalancePlan:
    cell, layout = parse_oar_cell(told, QUEUE)
    now = datetime(2026, 11, 28, tzinfo=UTC)
    situation = BalanceSituation(now=now, cell=cell, layout=layout, master="m", standby=standby)
    return plan_balance_by_demand(situation, BalanceSection(max_nodes=9), DemandPolicySection(), {})


def _waiting(wanted: str, **values: object) -> dict[str, object]:
    usual: dict[str, object] = {"Job_Id": 9, "state": "Waiting", "assigned_resources": []}
    return shown(**usual | {"wanted_resources": f'-l "{wanted},walltime=0:2:0" '} | values)


def test_a_node_with_a_dead_resource_has_only_its_living_slots() -> None:
    dead = resource(2, "n1", state="Dead")
    cell, _ = parse_oar_cell(document([resource(1, "n1"), dead, resource(3, "n1")]), QUEUE)

    assert [(one.total, one.state.facts) for one in cell.instances if one.queue == QUEUE] == [(2, set())]
    assert cell.hosts[0].load == 0.0


UNLIKE = [*TWO, *(resource(number, "n3") for number in (5, 6, 7, 8))]
DEAD = [resource(9, "n4", state="Dead")]
REST = [resource(number, "n5", **HALTED) for number in (10, 11)]


@pytest.mark.parametrize("wanted", ["/network_address=ALL", "/nodes=ALL/core=2", "/resource_id=ALL"])
@pytest.mark.parametrize("more", [[], DEAD, REST, DEAD + REST])
def test_a_request_for_all_nodes_counts_only_usable_nodes(wanted: str, more: list[dict[str, object]]) -> None:
    plan = _plan(document([*UNLIKE, *more], _waiting(wanted)))

    assert (plan.figures.fit, plan.add) == (1, 0)


@pytest.mark.parametrize("wanted", ["/network_address=ALL", "/nodes=ALL/core=2", "/resource_id=ALL"])
def test_no_node_is_added_or_woken_for_a_job_on_all_nodes(wanted: str) -> None:
    """The job would also request the new node."""
    run = shown(Job_Id=1, assigned_resources=[1], queue="default")
    plan = _plan(document([*UNLIKE, *REST], run, _waiting(wanted)), standby=("n5",))

    assert (plan.figures.fit, plan.add, plan.wake) == (0, 0, ())
    assert [refused.cause for refused in plan.refused] == [NodeAddOrRemoveRefusalCause.ALL_HOSTS]


def test_one_standby_node_is_woken_for_a_job_on_all_nodes() -> None:
    wanted = _waiting("/network_address=ALL")
    resting = [one | HALTED for one in TWO]

    assert _plan(document(resting, wanted), standby=("n1", "n2")).wake == ("n1",)


@pytest.mark.parametrize(
    ("ways", "fit", "add"),
    [
        (("/nodes=2", "/core=1"), 1, 0),
        (("/core=1", "/nodes=2"), 1, 0),
        (("/nodes=1", "/core=9"), 1, 0),
        (("/core=8", "/nodes=2", "/nodes=1/core=3", "/nodes=2/core=1"), 1, 0),
        (("/nodes=1/core=4", "/nodes=ALL"), 0, 0),
        (("/nodes=2", "/core=4"), 0, 1),
        (("/nodes=1/core=8", "/nodes=2"), 0, 1),
        (("/nodes=ALL", "/nodes=3"), 0, 2),
        (("/nodes=3", "/core=4"), 0, 1),
        (("/nodes=1/core=8", "/nodes=1/core=9"), 0, 0),
    ],
)
def test_nodes_are_added_for_the_smallest_alternative_if_no_alternative_fits(
    ways: Sequence[str], fit: int, add: int
) -> None:
    run = shown(Job_Id=1, assigned_resources=[1], queue="default")
    wanted = "".join(f'-l "{way},walltime=1:0:0" ' for way in ways)
    plan = _plan(document(TWO, run, _waiting("", wanted_resources=wanted)))

    assert (plan.figures.fit, plan.add) == (fit, add)


def test_only_the_smallest_of_many_alternatives_are_kept() -> None:
    wanted = "".join(f'-l "/core={number},walltime=1:0:0" ' for number in range(1000, 0, -1))
    cell, _ = parse_oar_cell(document(TWO, _waiting("", wanted_resources=wanted)), QUEUE)

    shape = cell.waiting[0].shape
    assert [shape.slots, *(other.slots for other in shape.others)] == list(range(1, WAYS + 1))


def test_two_jobs_that_fit_by_an_alternative_share_no_slot() -> None:
    run = shown(Job_Id=1, assigned_resources=[1], queue="default")
    wanted = '-l "/core=8,walltime=1:0:0" -l "/nodes=1,walltime=1:0:0" '
    jobs = [_waiting("", wanted_resources=wanted, Job_Id=number) for number in (8, 9)]

    assert _plan(document(TWO, run, *jobs)).figures.fit == 1


def test_slots_of_ordinary_and_best_effort_jobs_are_counted_apart() -> None:
    run = shown(Job_Id=1, assigned_resources=[1], owner="alice", name="solve", startTime=86400)
    best = shown(Job_Id=2, assigned_resources=[2, 3], queue="besteffort")
    cell, layout = parse_oar_cell(document(TWO, run, best), QUEUE)

    usual = {one.host: one for one in cell.instances if one.queue == QUEUE}
    assert (usual["n1"].running, usual["n1"].free_slots) == ((1,), 1)
    assert (usual["n2"].running, usual["n2"].free_slots) == ((), 2)
    assert [one.running for one in cell.instances if one.queue == "besteffort"] == [(1,), (1,)]
    begun = datetime(1970, 1, 2, tzinfo=UTC)
    assert usual["n1"].begun == (RunningTaskGroup(owner="alice", name="solve", slots=1, since=begun),)
    assert layout.queues["besteffort"].is_best_effort
    launching, _ = parse_oar_cell(document(TWO, shown(state="toLaunch", assigned_resources=[3])), QUEUE)
    assert [one.used for one in launching.instances if one.queue == QUEUE] == [0, 1]


def test_equal_jobs_are_one_group_and_held_jobs_cannot_start() -> None:
    wanted = "-l \"{type = 'default'}/network_address=2/resource_id=1,walltime=0:10:0\" "
    usual: dict[str, object] = {"assigned_resources": [], "wanted_resources": wanted}
    waits = [shown(Job_Id=at, state="Waiting", **usual) for at in (1, 2)]
    held = shown(Job_Id=3, state="Hold", **usual)
    after = shown(Job_Id=4, state="Waiting", dependencies=[1], **usual)
    booked = shown(Job_Id=5, state="Waiting", reservation="Scheduled", **usual)
    cell, layout = parse_oar_cell(document(TWO, *waits, held, after, booked), QUEUE)

    rows = {one.jobs: one for one in cell.waiting}
    assert rows[1, 2].shape == TaskResourceRequests(slots=2, pe="each-1")
    assert [one.can_start for one in rows.values()] == [True, False, False, False]
    assert (rows[(4,)].is_dependent, rows[(5,)].is_deferred) == (True, True)
    assert layout.environments["each-1"].spread is ParallelSlotDistribution.FIXED


def test_campaign_tasks_are_one_group_apart_from_other_jobs() -> None:
    names = ("a", "gc.alpha.12.1", "campaign.12", "gc.alpha")
    jobs = [shown(Job_Id=n, name=name, state="Waiting") for n, name in enumerate(names, start=1)]
    cell, _ = parse_oar_cell(document(TWO, *jobs), QUEUE)

    told = [(one.jobs, one.is_campaign, one.uses_only_spare_slots) for one in cell.waiting]
    assert told == [((1, 4), False, False), ((2, 3), True, True)]


def test_an_advance_reservation_reserves_its_slots() -> None:
    booked = shown(
        state="Waiting",
        reservation="Scheduled",
        assigned_resources=[],
        reserved_resources={"3": {"network_address": "n2"}},
    )
    told = document(TWO, booked)
    cell, _ = parse_oar_cell(told, QUEUE)

    assert [one.reserved for one in cell.instances if one.queue == QUEUE] == [0, 1]
    plain = told[: told.index(WHOLE) + len(WHOLE)]
    assert (
        oar_node_power_and_tags.parse_oar_node_state(plain, "n1").is_idle,
        oar_node_power_and_tags.parse_oar_node_state(plain, "n2").is_idle,
    ) == (True, False)


@pytest.mark.parametrize(
    ("values", "up", "expected"),
    [
        ({}, (), set()),
        ({"drain": "YES"}, (), {QueueStartBlocker.DISABLED}),
        (HALTED, (), {QueueStartBlocker.DISABLED, QueueStartBlocker.UNREACHABLE}),
        (HALTED, ("n1",), {QueueStartBlocker.DISABLED}),
        ({"state": "Absent"}, ("n1",), {QueueStartBlocker.UNREACHABLE}),
        ({"state": "Absent", "available_upto": 0}, ("n1",), {QueueStartBlocker.UNREACHABLE}),
        ({"state": "Suspected"}, (), {QueueStartBlocker.UNREACHABLE}),
        ({"state": "Dead"}, (), {QueueStartBlocker.UNREACHABLE}),
    ],
)
def test_a_node_accepts_jobs_if_alive_and_not_drained(
    values: dict[str, object], up: tuple[str, ...], expected: set[str]
) -> None:
    """A halted node counts as alive if it accepts connections."""
    cell, _ = parse_oar_cell(document([resource(1, "n1", **values)], up=up), QUEUE)

    assert cell.instances[0].state.facts == expected
    assert (cell.hosts[0].load is None) == (QueueStartBlocker.UNREACHABLE in expected)


@pytest.mark.parametrize("told", [b"", document([]), document(TWO)[:-3], b"{}"])
def test_an_incomplete_oar_answer_is_no_idle_cluster(told: bytes) -> None:
    with pytest.raises(ParseError):
        parse_oar_cell(told, QUEUE)


def test_a_node_in_maintenance_has_no_tags() -> None:
    table = {
        "1": resource(1, "n1", gb_tags="htools:standby:auto", **HALTED),
        "2": resource(2, "n2", gb_tags="htools:standby:3+x", state="Absent", available_upto=0),
        "3": resource(3, "n3", gb_tags="a+b"),
        "4": resource(4, "n4", gb_tags=None),
    }

    expected = {"n1": ("htools:standby:auto",), "n3": ("a", "b")}
    assert oar_node_power_and_tags.parse_oar_node_tags(json.dumps(table).encode()) == expected


@pytest.mark.parametrize(
    ("line", "is_ours"),
    [
        ('ENERGY_SAVING_INTERNAL="no"', True),
        ('#SCHEDULER_NODE_MANAGER_SLEEP_CMD="/x"', True),
        ('SCHEDULER_NODE_MANAGER_SLEEP_CMD=""', True),
        ('ENERGY_SAVING_INTERNAL="yes"', False),
        ("ENERGY_SAVING_INTERNAL = yes", False),
        ('SCHEDULER_NODE_MANAGER_WAKE_UP_CMD="/opt/gridbridge/oar-hooks/wake-up"', False),
        ("  SCHEDULER_NODE_MANAGER_SLEEP_CMD=/x -f", False),
    ],
)
def test_oar_conf_settings_that_halt_nodes_are_found(line: str, is_ours: bool) -> None:
    assert (oar_node_power_and_tags.find_oar_energy_saving_setting(f"# OAR\nDB_TYPE=Pg\n{line}\n") == "") == is_ours
