"""Policy demand: a task fits only into queues and parallel environments whose access lists admit the job."""

from dataclasses import replace
from typing import Any

import pytest

from gridbridge.model.elastic.balance_plan import NodeAddOrRemoveRefusalCause
from gridbridge.model.elastic.grid_engine_cell import JobAccessIdentity, QueueAccessLists, parse_cell_queue
from tests.decisions.elastic.demand_cells import fitting_tasks, plan_in_big

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
