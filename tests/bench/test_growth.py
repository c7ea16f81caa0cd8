"""Work that grows with its input grows in proportion: the tests count calls, not time.

The figures of docs/reference/figures.md need full sizes and an idle machine; a count of calls is the
same on every machine.
"""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import FrameType

import pytest

from bench import elastic, qstat_parse, rebalance
from gridbridge.batch.gridengine.qstat_xml_parser import parse_cluster_snapshot
from gridbridge.decisions.elastic.demand.task_packing import count_exclusive_tasks_and_hosts
from gridbridge.elastic.balancer import balance_situation_sources, balancer_round_decision
from gridbridge.model.elastic.balancer_config_sections import BalanceSection, DemandPolicySection, NodePoolSection

MOST_GROWTH = 12.0  # for ten times as much: n log n is allowed
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def calls(act: Callable[[], object]) -> int:
    calls = count()

    def note(_: FrameType, event: str, __: object) -> None:
        if event in ("call", "c_call"):
            next(calls)

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return next(calls)


def growth(act: Callable[[int], Callable[[], object]], few: int) -> float:
    """Return the factor by which calls grow for ten times the input; making the input does not count."""
    act(few)()  # caches of the process are filled
    return calls(act(10 * few)) / calls(act(few))


def test_an_answer_of_qstat_is_read_once() -> None:
    def parsed(jobs: int) -> Callable[[], object]:
        document = qstat_parse.make_document(jobs)
        return lambda: parse_cluster_snapshot(document, cluster="beta", taken_at=NOON)

    assert growth(parsed, 300) <= MOST_GROWTH


def test_a_plan_of_the_balancer_looks_at_each_job_and_host_a_few_times(tmp_path: Path) -> None:
    def planned(size: int) -> Callable[[], object]:
        folder = tmp_path / str(size)
        folder.mkdir(exist_ok=True)
        (folder / "qstat.xml").write_bytes(elastic.make_qstat(size * 10, size))
        (folder / "qhost.xml").write_bytes(elastic.make_qhost(size))
        (folder / "qconf.json").write_text(elastic.json.dumps(elastic.LAYOUT))
        (folder / "state.json").write_text(elastic.json.dumps({"now": elastic.NOW.isoformat()}))
        pools = {"small": NodePoolSection(slots=4, price=1, limit=5000)}
        rules = BalanceSection(max_nodes=100_000)
        return lambda: balancer_round_decision.decide_balance_plan(
            balance_situation_sources.load_saved_balance_situation(str(folder)), rules, DemandPolicySection(), pools
        )

    assert growth(planned, 40) <= MOST_GROWTH


def test_a_task_that_shares_no_host_is_laid_by_the_kinds_of_hosts_not_by_their_number() -> None:
    def laid(hosts: int) -> Callable[[], object]:
        there = dict.fromkeys((7, 11, 13, 17), hosts)
        return lambda: count_exclusive_tasks_and_hosts(sum(there) * hosts - 5, 1, there)

    assert growth(laid, 30) <= 2


def test_a_task_that_shares_no_host_looks_at_each_kind_of_host_a_few_times() -> None:
    def laid(kinds: int) -> Callable[[], object]:
        there = dict.fromkeys(range(100, 100 + kinds), 2)
        return lambda: count_exclusive_tasks_and_hosts(150 * kinds, 1, there)

    assert growth(laid, 10) <= MOST_GROWTH


@pytest.mark.parametrize("what", [*rebalance.PLANS])
def test_a_plan_of_rebalancing_looks_at_each_task_a_few_times(what: str) -> None:
    act, form = rebalance.PLANS[what]

    def planned(tasks: int) -> Callable[[], object]:
        snapshot = form(rebalance.made(tasks))
        return lambda: act(snapshot)

    assert growth(planned, 10_000) <= MOST_GROWTH
