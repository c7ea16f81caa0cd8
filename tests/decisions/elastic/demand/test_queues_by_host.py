"""Policy demand: what a queue has on a host counts there, be it the host's own or its group's."""

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
def test_a_limit_counts_on_each_host_as_it_is_there(h_rt: str, asked: str, fit: int) -> None:
    """The host's own entry comes before that of its group, wherever they stand (queue_conf(5))."""
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
def test_so_do_its_values_environments_and_type(told: dict[str, str], job: dict[str, Any], fit: int) -> None:
    """Values for a host replace the whole list, so that nothing usual is left of it there."""
    assert fitting_tasks(told, **job) == fit


@pytest.mark.parametrize("name", ["gb_besteffort", "remote"])
def test_tasks_of_a_queue_are_no_occupation_on_those_hosts_where_they_make_way_or_go(name: str) -> None:
    told = {"complex_values": f"{name}=TRUE,[n1=mfree=8G]"}
    busy = cell(*(instance(host, (1,)) for host in ("n1", "n2", "n3")), layout=three_hosts(told).layout)

    assert count_balancer_round_figures(busy, RecentlyEndedTasks(), "all.q").running == 1


def test_a_new_node_is_in_its_queues_as_its_groups_are() -> None:
    long = {"h_rt": "36000"}

    assert plan_in_big({"h_rt": "1:0:0,[@big=20:0:0]"}, **long).add == 5
    assert [one.cause for one in plan_in_big({"h_rt": "20:0:0,[@big=1:0:0]"}, **long).refused] == [Cause.NO_QUEUE]
    assert plan_in_big({"complex_values": "NONE,[@big=gpu=2]"}, gpu="1").add == 5
    assert [one.cause for one in plan_in_big({"complex_values": "gpu=2,[@big=NONE]"}, gpu="1").refused] == [
        Cause.TOO_MUCH
    ]
