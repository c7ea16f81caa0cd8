"""The figures of a round in StarCluster's columns, and the sentence about a plan."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gridbridge.decisions.elastic.balancer_round_reports import (
    LOOKBACK,
    count_balancer_round_figures,
    describe_balance_plan,
)
from gridbridge.model.elastic.balance_plan import BalancePlan, BalancePlanFigures, BalanceSituation
from gridbridge.model.elastic.balance_plan import BalancePlanReason as Reason
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.elastic.grid_engine_cell import CellConfiguration, CellQueue
from gridbridge.model.elastic.published_balance import (
    BalanceRoundStatistics,
    RecentlyEndedTasks,
    TasksEndedInMinute,
    minute_since_epoch,
)
from tests.decisions.elastic.cells import NOON, ago, instance, situation, waiting
from tests.measured import FIGURES

DAY_S = 86400.0
NO_ENDS = RecentlyEndedTasks()


def ends(*rows: tuple[float, int, float, float]) -> RecentlyEndedTasks:
    """Return ended tasks from rows of minutes ago, tasks, total run time and total waiting time."""
    return RecentlyEndedTasks(
        minutes=tuple(
            TasksEndedInMinute(minute=minute_since_epoch(ago(minutes)), tasks=tasks, run_s=run_s, wait_s=wait_s)
            for minutes, tasks, run_s, wait_s in rows
        )
    )


def counted(
    seen: BalanceSituation, ended: RecentlyEndedTasks = NO_ENDS, lookback: timedelta = LOOKBACK
) -> BalanceRoundStatistics:
    return count_balancer_round_figures(seen, ended, "all.q", lookback)


def loaded(seen: BalanceSituation, *loads: float | None) -> BalanceSituation:
    hosts = tuple(replace(host, load=load) for host, load in zip(seen.cell.hosts, loads, strict=True))
    return replace(seen, cell=replace(seen.cell, hosts=hosts))


def test_hosts_slots_and_tasks_are_counted() -> None:
    seen = situation(
        instance("n1", (1, 2)),
        instance("n2", (1,)),
        instance("n3", state="au"),
        wait=[waiting(5, tasks=40), waiting(9, tasks=3, state="hqw"), waiting(1, state="Eqw")],
        hosts=("bare",),
    )
    found = counted(seen)

    assert (found.at, found.hosts, found.running, found.queued, found.slots) == (NOON, 4, 3, 40, 8)


def test_best_effort_and_transferred_tasks_do_not_count_as_running() -> None:
    """The cell configuration or the saved round input names the best-effort queues."""
    queues = {name: CellQueue(name=name, is_away=name == "away") for name in ("all.q", "away")}
    running = [instance("n1", (1,), queue=name) for name in ("all.q", "away", "spare")]
    seen = replace(situation(*running), layout=CellConfiguration(queues=queues))

    assert counted(seen).running == 2
    assert counted(replace(seen, best_effort=frozenset({"spare"}))).running == 1


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (ends((10, 1, DAY_S + 60, 2 * DAY_S + 30)), (86460, 172830)),  # StarCluster lets 24 h and 1 min be 60 s
        (ends((10, 1, 100, 0), (20, 2, 5, 5)), (35, 2)),
        (NO_ENDS, (0, 0)),
    ],
    ids=["more than a day", "each task weighs the same", "no end"],
)
def test_mean_times_are_rounded(ended: RecentlyEndedTasks, expected: tuple[int, int]) -> None:
    found = counted(situation(), ended)

    assert (found.duration_s, found.wait_s) == expected


@pytest.mark.parametrize(("minutes", "expected"), [(179, 60), (181, 0), (-2, 0)])
def test_only_tasks_that_ended_within_the_lookback_count(minutes: float, expected: int) -> None:
    assert counted(situation(), ends((minutes, 1, 60, 0))).duration_s == expected
    assert counted(situation(), ends((600, 1, 60, 0)), timedelta(hours=11)).duration_s == 60


def test_the_load_is_the_mean_of_the_hosts_that_report_a_load() -> None:
    seen = loaded(situation(hosts=("n1", "n2", "n3")), 1200.0, 0.5, None)

    assert counted(seen).load == 600.25
    idle = loaded(situation(hosts=("n1", "n2")), 0.0, 0.5)
    assert (counted(idle).load, counted(situation()).load) == (0.25, 0.0)


ONE = replace(FIGURES, nodes=1, tasks=1, fit=1, free=1, coming=1, most=1, least=1, waited_s=60.0)
NONE = replace(ONE, tasks=0, fit=0, coming=0)
WAITS = "1 task waits 60 s, 1 fits in 1 free slot and 1 node on its way"


@pytest.mark.parametrize(
    ("verdict", "figures", "expected"),
    [
        (Reason.MORE_WANTED, ONE, f"{WAITS}, 1 of 1 node: nothing is done"),
        (Reason.MORE_WANTED, NONE, "no task waits, 1 free slot, 1 of 1 node: nothing is done"),
        (Reason.ABOVE_MAXIMUM, ONE, f"{WAITS}, 1 node, and at most 1 may exist: nothing is done"),
        (Reason.FULL, ONE, "1 of at most 1 node: nothing is done"),
        (Reason.BELOW_MINIMUM, ONE, "1 of at least 1 node: nothing is done"),
        (Reason.AT_MINIMUM, NONE, "no job waits, 1 of at least 1 node: nothing is done"),
        (Reason.NO_CAPACITY, ONE, f"{WAITS}, and pools had no capacity in the last 600 s: nothing is done"),
        (
            Reason.MONTH_SPENT,
            ONE,
            "1 task waits, and the rest of the month's budget does not pay for 1 node: nothing is done",
        ),
        (Reason.TOO_DEAR, ONE, "1 task waits, and 1 node costs more than the hourly budget: nothing is done"),
        (
            Reason.TOO_DEAR,
            replace(NONE, nodes=2),
            "no task waits, and 2 nodes cost more than the hourly budget: nothing is done",
        ),
    ],
)
def test_one_item_is_described_in_the_singular(verdict: Reason, figures: BalancePlanFigures, expected: str) -> None:
    assert describe_balance_plan(BalancePlan(verdict=verdict, figures=figures), BalanceSection()) == expected
