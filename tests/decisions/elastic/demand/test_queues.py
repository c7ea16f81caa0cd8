"""Policy demand: on which hosts a queue's attributes, resources and access lists admit a task."""

from dataclasses import replace
from typing import Any

import pytest

from gridbridge.decisions.elastic.balancer_round_reports import count_balancer_round_figures
from gridbridge.model.config_key_descriptions import QueueDefaultRequests
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation, NodeAddOrRemoveRefusalCause
from gridbridge.model.elastic.balance_plan import NodeAddOrRemoveRefusalCause as Cause
from gridbridge.model.elastic.balancer_config_sections import NodePoolSection
from gridbridge.model.elastic.grid_engine_cell import (
    CellExecutionHost,
    CellResourceDefinition,
    JobAccessIdentity,
    QueueAccessLists,
    RequestedValueComparison,
    parse_cell_queue,
)
from gridbridge.model.elastic.published_balance import RecentlyEndedTasks
from tests.decisions.elastic.cells import MASTER, instance, node, waiting
from tests.decisions.elastic.demand_cells import LAYOUT, cell, fitting_tasks, full, plan, plan_in_big, three_hosts


@pytest.mark.parametrize(
    ("h_rt", "asked", "fit"),
    [
        ("1:0:0", "36000", 0),
        ("1:0:0,[n1=INFINITY]", "36000", 4),
        ("1:0:0,[@big=20:0:0]", "36000", 8),
        ("1:0:0,[@big=20:0:0],[n2=0:30:0]", "36000", 4),
        ("1:0:0,[n2=0:30:0],[@big=20:0:0]", "36000", 4),
        ("INFINITY,[N1=1:0:0]", "36000", 8),
        ("1:0:0,[@big=20:0:0],[n1=20:0:0]", "36000", 12),
    ],
)
def test_the_limit_of_a_queue_may_differ_between_hosts(h_rt: str, asked: str, fit: int) -> None:
    """The entry of a host overrides the entry of the host's group, in any order (queue_conf(5))."""
    assert fitting_tasks({"h_rt": h_rt}, h_rt=asked) == fit


@pytest.mark.parametrize(
    ("told", "job", "fit"),
    [
        ({"complex_values": "arch=arm,[n1=NONE]"}, {"arch": "lx-amd64"}, 4),
        ({"complex_values": "NONE,[n1=gpu=2,arch=lx-amd64]"}, {"gpu": "1"}, 2),
        ({"complex_values": "gpu=1,[n1=gpu=2]"}, {"gpu": "1"}, 4),
        ({"complex_values": "gpu=1,[n1=arch=lx-amd64]"}, {"gpu": "1"}, 2),
        ({"pe_list": "NONE,[@big=smp]"}, {"pe": "smp", "slots": 2}, 4),
        ({"qtype": "BATCH,[n3=INTERACTIVE]"}, {}, 8),
    ],
)
def test_values_environments_and_type_of_a_queue_may_differ_between_hosts(
    told: dict[str, str], job: dict[str, Any], fit: int
) -> None:
    """The complex_values of one host replace the whole list of the queue."""
    assert fitting_tasks(told, **job) == fit


@pytest.mark.parametrize("name", ["gb_besteffort", "remote"])
def test_best_effort_and_transferred_tasks_do_not_count_as_running_on_hosts_marked_so(name: str) -> None:
    told = {"complex_values": f"{name}=TRUE,[n1=mfree=8G]"}
    busy = cell(*(instance(host, (1,)) for host in ("n1", "n2", "n3")), layout=three_hosts(told).layout)

    assert count_balancer_round_figures(busy, RecentlyEndedTasks(), "all.q").running == 1


def test_a_new_node_gets_the_queue_attributes_of_its_host_groups() -> None:
    long = {"h_rt": "36000"}

    assert plan_in_big({"h_rt": "1:0:0,[@big=20:0:0]"}, **long).add == 5
    assert [one.cause for one in plan_in_big({"h_rt": "20:0:0,[@big=1:0:0]"}, **long).refused] == [Cause.NO_QUEUE]
    assert plan_in_big({"complex_values": "NONE,[@big=gpu=2]"}, gpu="1").add == 5
    assert [one.cause for one in plan_in_big({"complex_values": "gpu=2,[@big=NONE]"}, gpu="1").refused] == [
        Cause.TOO_MUCH
    ]


OWN = (
    CellResourceDefinition(name="ssd", relation=RequestedValueComparison.EQUAL),
    CellResourceDefinition(name="color", relation=RequestedValueComparison.EQUAL),
    CellResourceDefinition(name="exclusive", relation=RequestedValueComparison.EXCLUSIVE, shortcut="excl"),
)
ASKED = [
    ("ssd=TRUE", {"ssd": "1"}),
    ("color=red", {"color": "red"}),
    ("exclusive=1", {"exclusive": "1"}),
    ("exclusive=1", {"excl": "1"}),
]


def seen(complex_values: str, values: dict[str, str] | None = None, **job: Any) -> BalanceSituation:
    queue = parse_cell_queue("all.q", {"hostlist": "@allhosts", "complex_values": complex_values})
    known = {key: one for one in OWN for key in (one.name, one.shortcut) if key}
    layout = replace(LAYOUT, resources=LAYOUT.resources | known, queues=LAYOUT.queues | {"all.q": queue})
    nodes = [node("n1")]
    found = cell(*full(MASTER), instance("n1"), wait=[waiting(60, **job)], nodes=nodes, layout=layout)
    master, *others = found.cell.hosts
    own = replace(master, values=(*master.values, *(values or {}).items()))
    return replace(found, cell=replace(found.cell, hosts=(own, *others)))


def without_values(situation: BalanceSituation) -> BalanceSituation:
    """Return the situation without resource values of hosts, as qhost without -F prints."""
    hosts = tuple(CellExecutionHost(name=host.name) for host in situation.cell.hosts)
    return replace(situation, cell=replace(situation.cell, hosts=hosts))


def decided(situation: BalanceSituation, pools: dict[str, NodePoolSection] | None = None) -> BalancePlan:
    return plan(situation, pools or {}, most=9)


@pytest.mark.parametrize(("value", "asked"), ASKED)
def test_a_queue_value_for_one_host_does_not_count_for_another_host(value: str, asked: dict[str, str]) -> None:
    done = decided(seen(f"NONE,[{MASTER}={value}]", **asked))

    assert (done.figures.fit, done.add, done.remove) == (0, 0, ("n1",))
    assert [refused.cause for refused in done.refused] == [Cause.NO_VALUE]
    assert done.refused[0].name == value.partition("=")[0]


@pytest.mark.parametrize(("value", "asked"), ASKED)
@pytest.mark.parametrize("complex_values", ["{}", "NONE,[n1={}]", "{},[master=NONE]"])
def test_a_job_fits_on_a_host_for_which_the_queue_has_the_requested_value(
    complex_values: str, value: str, asked: dict[str, str]
) -> None:
    done = decided(seen(complex_values.format(value), **asked))

    assert (done.figures.fit, done.remove) == (1, ())


@pytest.mark.parametrize(("value", "asked"), ASKED)
def test_a_node_is_added_if_new_nodes_have_the_requested_value(value: str, asked: dict[str, str]) -> None:
    name, _, text = value.partition("=")
    pools = {"own": NodePoolSection(slots=4, resources=QueueDefaultRequests(**{name: text}), hostgroups="@allhosts")}

    assert decided(seen(f"{value},[n1=NONE]", **asked)).add == 1
    assert decided(seen(f"NONE,[{MASTER}={value}]", **asked), pools).add == 1


@pytest.mark.parametrize(("value", "asked"), ASKED)
def test_a_value_that_only_the_master_reports_does_not_count_for_other_hosts(value: str, asked: dict[str, str]) -> None:
    done = decided(seen("NONE", dict([value.split("=")]), **asked))

    assert (done.figures.fit, done.add) == (0, 0)
    assert [refused.cause for refused in done.refused] == [Cause.NO_VALUE]


def test_a_value_of_another_queue_does_not_count_for_the_requested_queue() -> None:
    situation = seen("NONE", queues=("all.q",), color="red")
    other = parse_cell_queue("htc.q", {"hostlist": "@htc", "complex_values": "color=red"})
    layout = replace(situation.layout, queues=situation.layout.queues | {"htc.q": other})

    assert decided(replace(situation, layout=layout)).figures.fit == 0


def test_every_host_has_the_built_in_resources() -> None:
    """Hosts report mem_free themselves, even if the complex_values of a queue have mem_free as well."""
    free = CellResourceDefinition(name="mem_free", shortcut="mf")
    situation = seen(f"NONE,[{MASTER}=mem_free=8G]", mem_free="1G")
    resources = situation.layout.resources | {"mem_free": free}
    layout = replace(situation.layout, resources=resources)

    assert decided(replace(situation, layout=layout)).figures.fit == 1


@pytest.mark.parametrize(("value", "asked"), ASKED)
def test_no_resource_counts_as_missing_if_no_host_reports_values(value: str, asked: dict[str, str]) -> None:
    situation = seen(f"NONE,[{MASTER}={value}]", **asked)

    assert decided(without_values(situation)).figures.fit == 1


def test_a_job_that_requests_a_value_of_no_host_queue_or_pool_is_refused() -> None:
    done = decided(seen("NONE", color="red"))

    assert (done.figures.fit, done.add, done.remove) == (0, 0, ("n1",))
    assert [(one.cause, one.name) for one in done.refused] == [(Cause.NO_VALUE, "color")]


def silent(situation: BalanceSituation, *names: str) -> BalanceSituation:
    hosts = tuple(replace(host, values=()) if host.name in names else host for host in situation.cell.hosts)
    return replace(situation, cell=replace(situation.cell, hosts=hosts))


@pytest.mark.parametrize(("quiet", "fit"), [((), 0), (("n1",), 1), ((MASTER,), 0)], ids=str)
def test_a_host_without_load_reports_may_have_unknown_values(quiet: tuple[str, ...], fit: int) -> None:
    """A value that another host configures is known to be missing on this host."""
    done = decided(silent(seen("NONE", color="red"), *quiet))
    own = decided(silent(seen(f"NONE,[{MASTER}=color=red]", color="red"), *quiet))

    assert (done.figures.fit, own.figures.fit) == (fit, 0)


def test_a_new_node_like_silent_hosts_may_have_values_that_no_host_configures() -> None:
    situation = seen("NONE", color="red")
    busy = replace(situation.cell, instances=full(MASTER, "n1"))

    assert decided(replace(situation, cell=busy)).add == 0
    assert decided(silent(replace(situation, cell=busy), "n1")).add == 1


def test_the_refusal_names_the_missing_value() -> None:
    done = decided(seen(f"NONE,[{MASTER}=color=red]", arch="lx-amd64", color="red"))

    assert [(refused.name, refused.wanted) for refused in done.refused] == [("color", "red")]


ALICE = JobAccessIdentity(owner="alice", project="p1", checkpoint="blcr")
PLAIN = JobAccessIdentity(owner="alice", project="")


def fits(told: dict[str, str], identity: JobAccessIdentity = ALICE, **job: Any) -> int:
    return fitting_tasks(told, identity, **job)


@pytest.mark.parametrize(
    ("told", "fit"),
    [
        ({"user_lists": "NONE"}, 12),
        ({"user_lists": "staff"}, 12),
        ({"user_lists": "guests"}, 0),
        ({"user_lists": "guests staff"}, 12),
        ({"user_lists": "guests,staff"}, 12),
        ({"user_lists": "nobody"}, 0),
        ({"user_lists": "group"}, 12),
        ({"user_lists": "pattern"}, 12),
        ({"user_lists": "unknown"}, 12),
        ({"user_lists": "department"}, 0),
        ({"xuser_lists": "department"}, 0),
        ({"xuser_lists": "staff"}, 0),
        ({"xuser_lists": "group"}, 12),
        ({"user_lists": "staff", "xuser_lists": "staff"}, 0),
        ({"user_lists": "guests,[n1=staff]"}, 4),
        ({"user_lists": "NONE,[@big=guests]"}, 4),
        ({"xuser_lists": "NONE,[@big=staff],[n2=NONE]"}, 8),
        ({"projects": "p1 p2"}, 12),
        ({"projects": "p2"}, 0),
        ({"projects": "p2,[n3=p1]"}, 4),
        ({"xprojects": "p1"}, 0),
        ({"xprojects": "p2"}, 12),
        ({"projects": "p1", "xprojects": "p1"}, 0),
        ({"ckpt_list": "NONE"}, 0),
        ({"ckpt_list": "blcr"}, 12),
        ({"ckpt_list": "NONE,[@big=blcr]"}, 8),
    ],
    ids=str,
)
def test_a_task_fits_on_hosts_where_the_access_lists_of_the_queue_admit_the_job(told: dict[str, str], fit: int) -> None:
    """Unknown facts (groups, patterns, lists that were not read) exclude nobody.

    A department is not an access list: in either list, a department excludes everybody (seen on 8.1.9).
    """
    assert fits(told) == fit


@pytest.mark.parametrize(("group", "fit"), [("her", (12, 0)), ("users", (0, 12)), ("", (12, 12))])
def test_a_unix_group_in_an_access_list_counts_if_the_job_group_is_known(group: str, fit: tuple[int, int]) -> None:
    who = JobAccessIdentity(owner="alice", group=group)

    assert (fits({"user_lists": "hers"}, who), fits({"xuser_lists": "hers"}, who)) == fit


def test_a_job_without_a_project_or_checkpoint_is_checked_against_the_lists_of_the_queue() -> None:
    told = ({"projects": "p1"}, {"xprojects": "p1"}, {"ckpt_list": "NONE"})

    assert [fits(one, PLAIN) for one in told] == [0, 12, 12]
    assert [one.wanted for one in plan_in_big({"projects": "p2"}, PLAIN).refused] == ["jobs without a project"]


def test_a_job_with_unknown_owner_project_and_checkpoint_is_excluded_from_no_queue() -> None:
    assert fits({"user_lists": "guests", "projects": "p2"}, JobAccessIdentity()) == 12


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ({"user_lists": "guests"}, "user alice"),
        ({"user_lists": "NONE,[@big=guests]"}, "user alice"),
        ({"xuser_lists": "staff"}, "user alice"),
        ({"projects": "p2"}, "project p1"),
        ({"ckpt_list": "NONE"}, "checkpointing environment blcr"),
    ],
    ids=str,
)
def test_no_node_is_added_for_a_job_that_no_queue_of_a_new_node_admits(told: dict[str, str], wanted: str) -> None:
    done = plan_in_big(told, ALICE)

    assert done.add == 0
    assert [(one.cause, one.wanted) for one in done.refused] == [(NodeAddOrRemoveRefusalCause.NO_ACCESS, wanted)]


def test_a_node_is_added_if_the_host_groups_of_new_nodes_admit_the_owner_of_the_job() -> None:
    assert plan_in_big({"user_lists": "guests,[@big=staff]"}, ALICE).add == 5


def test_the_refusal_names_the_parallel_environment_that_does_not_admit_the_owner() -> None:
    done = plan_in_big({}, ALICE, pe="mpi", slots=2)

    assert done.add == 0
    assert [(one.cause, one.name, one.wanted) for one in done.refused] == [
        (NodeAddOrRemoveRefusalCause.BARRED, "mpi", "user alice")
    ]
    assert fits({}, replace(ALICE, owner="carol"), pe="mpi", slots=2) == 6


def test_one_parallel_environment_that_admits_the_owner_is_enough() -> None:
    assert fits({}, pe="[ms]*", slots=2) == 6


def test_access_lists_of_a_queue_may_differ_between_hosts() -> None:
    queue = parse_cell_queue("q", {"user_lists": "NONE,[n1=staff]", "projects": "p1", "ckpt_list": "NONE"})

    assert queue.access == QueueAccessLists(projects=("p1",), checkpoints=())
    assert queue.with_values_of_host("n1", ()).access.users == ("staff",)
    assert [one.depends_on_job_owner for one in queue.access_lists_on_all_hosts] == [False, True]
