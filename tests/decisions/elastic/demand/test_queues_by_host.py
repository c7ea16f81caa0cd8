"""Policy demand: the attributes of a queue on a host are those of the host's or the host group's entry."""

from typing import Any

import pytest

from gridbridge.decisions.elastic.balancer_round_reports import count_balancer_round_figures
from gridbridge.model.elastic.balance_plan import NodeAddOrRemoveRefusalCause as Cause
from gridbridge.model.elastic.published_balance import RecentlyEndedTasks
from tests.decisions.elastic.cells import instance
from tests.decisions.elastic.demand_cells import cell, fitting_tasks, plan_in_big, three_hosts


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
