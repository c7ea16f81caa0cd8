"""The numbers of a round, as StarCluster's columns have them, counted right."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gridbridge.decisions.elastic.balancer_round_reports import count_balancer_round_figures
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.grid_engine_cell import CellConfiguration, CellExecutionHost, CellQueue
from gridbridge.model.elastic.published_balance import RecentlyEndedTasks, TasksEndedInMinute, minute_since_epoch
from tests.decisions.elastic.cells import NOON, ago, instance, situation, waiting

DAY_S = 86400.0


def ends(*rows: tuple[float, int, float, float]) -> RecentlyEndedTasks:
    """Return what ended so many minutes ago: tasks, and their run times and waits together."""
    return RecentlyEndedTasks(
        minutes=tuple(
            TasksEndedInMinute(minute=minute_since_epoch(ago(minutes)), tasks=tasks, run_s=run_s, wait_s=wait_s)
            for minutes, tasks, run_s, wait_s in rows
        )
    )


def loaded(seen: BalanceSituation, *loads: float | None) -> BalanceSituation:
    """Return it with these loads of its hosts."""
    hosts = tuple(replace(host, load=load) for host, load in zip(seen.cell.hosts, loads, strict=True))
    return replace(seen, cell=replace(seen.cell, hosts=hosts))


def test_hosts_slots_and_tasks_are_counted() -> None:
    seen = situation(
        instance("n1", (1, 2)),
        instance("n2", (1,)),
        wait=[waiting(5, tasks=40), waiting(9, tasks=3, state="hqw"), waiting(1, state="Eqw")],
        hosts=("bare",),
    )
    found = count_balancer_round_figures(seen, RecentlyEndedTasks(), "all.q")

    assert (found.at, found.hosts, found.running, found.queued, found.slots) == (NOON, 3, 3, 40, 8)


def test_a_silent_host_is_no_capacity() -> None:
    seen = situation(instance("n1"), instance("n2", state="au"))

    assert count_balancer_round_figures(seen, RecentlyEndedTasks(), "all.q").slots == 4


def test_tasks_of_queues_that_make_way_or_lead_away_do_not_count_as_running() -> None:
    """Whether the layout tells it or the best-effort queues are told by themselves."""
    queues = {name: CellQueue(name=name, is_away=name == "away") for name in ("all.q", "away")}
    running = [instance("n1", (1,), queue=name) for name in ("all.q", "away", "spare")]
    seen = replace(situation(*running), layout=CellConfiguration(queues=queues))

    assert count_balancer_round_figures(seen, RecentlyEndedTasks(), "all.q").running == 2
    assert (
        count_balancer_round_figures(
            replace(seen, best_effort=frozenset({"spare"})), RecentlyEndedTasks(), "all.q"
        ).running
        == 1
    )


def test_a_run_of_more_than_a_day_counts_with_its_days() -> None:
    """StarCluster's own code lets 24 h and 1 min be 60 s."""
    found = count_balancer_round_figures(situation(), ends((10, 1, DAY_S + 60, 2 * DAY_S + 30)), "all.q")

    assert (found.duration_s, found.wait_s) == (86460, 172830)


def test_a_mean_is_rounded_and_weighs_each_task_the_same() -> None:
    found = count_balancer_round_figures(situation(), ends((10, 1, 100, 0), (20, 2, 5, 5)), "all.q")

    assert (found.duration_s, found.wait_s) == (35, 2)


@pytest.mark.parametrize(("minutes", "expected"), [(179, 60), (181, 0), (-2, 0)])
def test_only_what_ended_within_the_lookback_counts(minutes: float, expected: int) -> None:
    assert count_balancer_round_figures(situation(), ends((minutes, 1, 60, 0)), "all.q").duration_s == expected


def test_another_lookback_holds_at_once() -> None:
    long_ago = ends((600, 1, 60, 0))

    found = count_balancer_round_figures(situation(), long_ago, "all.q", timedelta(hours=11))

    assert found.duration_s == 60


def test_the_load_is_the_mean_of_the_hosts_that_tell_theirs() -> None:
    seen = loaded(situation(hosts=("n1", "n2", "n3")), 1200.0, 0.5, None)

    assert count_balancer_round_figures(seen, RecentlyEndedTasks(), "all.q").load == 600.25
    idle = loaded(situation(hosts=("n1", "n2")), 0.0, 0.5)
    assert count_balancer_round_figures(idle, RecentlyEndedTasks(), "all.q").load == 0.25


def test_without_hosts_and_ends_all_numbers_are_0() -> None:
    found = count_balancer_round_figures(situation(), RecentlyEndedTasks(), "all.q")

    assert (found.hosts, found.duration_s, found.wait_s, found.load) == (0, 0, 0, 0.0)
    assert CellExecutionHost(name="n1").load is None
