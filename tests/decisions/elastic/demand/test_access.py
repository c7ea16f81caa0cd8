"""Policy demand: a task starts only in a queue and an environment whose lists admit it."""

from dataclasses import replace
from typing import Any

import pytest

from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation, NodeAddOrRemoveRefusalCause
from gridbridge.model.elastic.balance_sections import NodePoolSection
from gridbridge.model.elastic.grid_engine_cell import (
    GridEngineUserList,
    JobAccessIdentity,
    ParallelEnvironment,
    ParallelSlotDistribution,
    QueueAccessLists,
    parse_access_lists,
    parse_cell_queue,
)
from gridbridge.model.key_settings import QueueDefaultRequests
from tests.decisions.elastic.cells import MASTER, instance, waiting
from tests.decisions.elastic.demand_cells import LAYOUT, cell, full, plan

LISTS = {
    "staff": GridEngineUserList(entries=("alice", "bob")),
    "guests": GridEngineUserList(entries=("carol",)),
    "department": GridEngineUserList(entries=("alice",), is_access=False),
    "hers": GridEngineUserList(entries=("@her",)),
    "group": GridEngineUserList(entries=("@users",)),
    "pattern": GridEngineUserList(entries=("al*",)),
    "nobody": GridEngineUserList(),
}
ALICE = JobAccessIdentity(owner="alice", project="p1", checkpoint="blcr")
PLAIN = JobAccessIdentity(owner="alice", project="")
BIG = frozenset(("n2", "n3"))


def seen(told: dict[str, str], identity: JobAccessIdentity = ALICE, **job: Any) -> BalanceSituation:
    """Return idle hosts n1, n2 and n3, the last two in @big, and a job that waits."""
    queue = parse_cell_queue("all.q", {"hostlist": "@allhosts", "pe_list": "smp mpi"} | told)
    mpi = ParallelEnvironment(
        name="mpi",
        spread=ParallelSlotDistribution.ANY_HOSTS,
        slots=99,
        access=parse_access_lists({"user_lists": "guests"}),
    )
    layout = replace(
        LAYOUT,
        groups={**LAYOUT.groups, "@big": BIG},
        queues={"all.q": queue},
        environments=LAYOUT.environments | {"mpi": mpi},
        user_lists=LISTS,
    )
    row = waiting(5, tasks=99, **job)
    row = replace(row, shape=replace(row.shape, identity=identity))
    hosts = [instance(name) for name in ("n1", "n2", "n3")]
    return cell(*full(MASTER), *hosts, wait=[row], layout=layout)


def fits(told: dict[str, str], identity: JobAccessIdentity = ALICE, **job: Any) -> int:
    """Return how many tasks of a job fit."""
    return plan(seen(told, identity, **job), most=1).figures.fit


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
def test_a_queue_takes_whom_its_lists_admit_on_that_host(told: dict[str, str], fit: int) -> None:
    """What is not known keeps nobody out: groups, patterns, a list that nobody asked for.

    A department is no access list: in either list it keeps everybody out (seen on 8.1.9).
    """
    assert fits(told) == fit


@pytest.mark.parametrize(("group", "fit"), [("her", (12, 0)), ("users", (0, 12)), ("", (12, 12))])
def test_a_group_counts_where_it_is_known(group: str, fit: tuple[int, int]) -> None:
    who = JobAccessIdentity(owner="alice", group=group)

    assert (fits({"user_lists": "hers"}, who), fits({"xuser_lists": "hers"}, who)) == fit


def test_a_job_without_a_project_or_checkpoints() -> None:
    told = ({"projects": "p1"}, {"xprojects": "p1"}, {"ckpt_list": "NONE"})

    assert [fits(one, PLAIN) for one in told] == [0, 12, 12]
    assert [one.wanted for one in new({"projects": "p2"}, PLAIN).refused] == ["jobs without a project"]


def test_what_nobody_asked_keeps_no_job_out() -> None:
    assert fits({"user_lists": "guests", "projects": "p2"}, JobAccessIdentity()) == 12


def new(told: dict[str, str], identity: JobAccessIdentity = ALICE, **job: Any) -> BalancePlan:
    """Return what is done where nothing is free, and new nodes are in @big."""
    situation = seen(told, identity, **job)
    none = replace(situation.cell, instances=full(MASTER, "n1", "n2", "n3"))
    pools = {"p": NodePoolSection(slots=4, resources=QueueDefaultRequests(mfree="8G"), hostgroups="@big @allhosts")}
    return plan(replace(situation, cell=none), pools, most=9)


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
def test_no_node_is_bought_for_whom_no_queue_of_it_admits(told: dict[str, str], wanted: str) -> None:
    done = new(told)

    assert done.add == 0
    assert [(one.cause, one.wanted) for one in done.refused] == [(NodeAddOrRemoveRefusalCause.NO_ACCESS, wanted)]


def test_a_node_is_bought_where_its_groups_admit_the_owner() -> None:
    assert new({"user_lists": "guests,[@big=staff]"}).add == 5


def test_an_environment_that_does_not_admit_the_owner_is_told() -> None:
    done = new({}, pe="mpi", slots=2)

    assert done.add == 0
    assert [(one.cause, one.name, one.wanted) for one in done.refused] == [
        (NodeAddOrRemoveRefusalCause.BARRED, "mpi", "user alice")
    ]
    assert fits({}, replace(ALICE, owner="carol"), pe="mpi", slots=2) == 6


def test_of_several_environments_one_that_admits_the_owner_is_enough() -> None:
    assert fits({}, pe="[ms]*", slots=2) == 6


def test_the_lists_of_a_queue_are_read_for_each_place() -> None:
    queue = parse_cell_queue("q", {"user_lists": "NONE,[n1=staff]", "projects": "p1", "ckpt_list": "NONE"})

    assert queue.access == QueueAccessLists(projects=("p1",), checkpoints=())
    assert queue.on("n1", ()).access.users == ("staff",)
    assert [one.names_users for one in queue.accesses] == [False, True]
