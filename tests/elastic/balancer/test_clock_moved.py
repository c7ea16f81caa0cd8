"""The balancer's stored times follow a clock that was set between two rounds."""

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.decisions.elastic import clock_step_correction
from gridbridge.elastic.balancer import balancer_daemon
from gridbridge.elastic.balancer.balancer_daemon import BalancerDaemon, BalancerRunOptions
from gridbridge.elastic.balancer_state_file import BalancerStateRows
from gridbridge.model.elastic.balance_plan import WaitingJobsHistory
from gridbridge.model.elastic.elastic_nodes import BalancerOwnedNode, ElasticNodeState, PoolFailureRecord
from gridbridge.model.host_clocks import HostClockReadings
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile
from tests.elastic.balancer import test_balance_service

wanted = test_balance_service.wanted  # a fixture
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
BOOT = "b"
DAYS_AHEAD = timedelta(days=2)
NODE = BalancerOwnedNode(
    name="alpha-n3",
    pool="usual",
    state=ElasticNodeState.BOOTING,
    since=NOON - HOUR,
    machine="m-3",
    up_since=NOON - 2 * HOUR,
    idle_since=NOON - HOUR / 2,
)
RECORD = PoolFailureRecord(failures=2, failed_at=NOON - HOUR, no_capacity_at=NOON - 2 * HOUR)
SEEN = WaitingJobsHistory(at=NOON - HOUR, tasks=3, room_since=NOON - 2 * HOUR, stuck_since=None)


@pytest.fixture
def memory(state_file: StateFile) -> BalancerStateRows:
    memory = BalancerStateRows(state_file)
    memory.shift_times_to_clock(clocks(NOON, 0.0))
    memory.nodes.replace_all_nodes([NODE])
    memory.store_pool_failure_records({"usual": RECORD})
    memory.store_machine_missing_times({"alpha-n3 m-3": NOON})
    memory.store_silence_start_times({"alpha-n3 m-3": NOON - HOUR})
    memory.store_job_eligible_times({17: NOON - HOUR})
    memory.store_job_histories({17: SEEN})
    memory.store_round_time_and_cost(NOON, NOON - HOUR, 12.5)
    return memory


def clocks(wall: datetime, steady_s: float, boot: str = BOOT) -> HostClockReadings:
    return HostClockReadings(boot=boot, wall=wall, steady_s=steady_s)


@pytest.mark.parametrize("by", [DAYS_AHEAD, -5 * HOUR], ids=["ahead", "back"])
def test_all_stored_times_are_shifted_with_the_clock(memory: BalancerStateRows, by: timedelta) -> None:
    after = NOON + timedelta(minutes=1) + by
    told = memory.shift_times_to_clock(clocks(after, 60.0))

    assert by == told
    assert (
        replace(NODE, since=NOON - HOUR + by, up_since=NOON - 2 * HOUR + by, idle_since=NOON - HOUR / 2 + by),
    ) == memory.nodes.load_all_nodes()
    assert {
        "usual": replace(RECORD, failed_at=NOON - HOUR + by, no_capacity_at=NOON - 2 * HOUR + by)
    } == memory.pool_failure_records()
    assert {"alpha-n3 m-3": NOON + by} == memory.machine_missing_times()
    assert {"alpha-n3 m-3": NOON - HOUR + by} == memory.silence_start_times()
    assert {17: NOON - HOUR + by} == memory.job_eligible_times([17], after)
    assert {17: replace(SEEN, at=NOON - HOUR + by, room_since=NOON - 2 * HOUR + by)} == memory.job_histories(after)
    assert (NOON + by, NOON - HOUR + by) == (memory.last_round_time(), memory.last_node_change_time())
    assert 12.5 == memory.month_cost(NOON)


def test_stored_times_are_restored_when_the_clock_is_set_right_again(memory: BalancerStateRows) -> None:
    memory.shift_times_to_clock(clocks(NOON + timedelta(minutes=1) + DAYS_AHEAD, 60.0))
    memory.shift_times_to_clock(clocks(NOON + timedelta(minutes=2), 120.0))

    assert (NODE,) == memory.nodes.load_all_nodes()
    assert NOON == memory.last_round_time()


@pytest.mark.parametrize(
    "after",
    [
        clocks(NOON + DAYS_AHEAD, DAYS_AHEAD.total_seconds()),
        clocks(NOON + timedelta(seconds=90), 60.0),
        clocks(NOON + DAYS_AHEAD, 60.0, boot="c"),
        clocks(NOON + DAYS_AHEAD, 60.0, boot=""),
    ],
    ids=["time passed", "a little", "the machine was started", "nobody knows"],
)
def test_stored_times_stay_without_a_known_clock_step(memory: BalancerStateRows, after: HostClockReadings) -> None:
    told = memory.shift_times_to_clock(after)

    assert timedelta() == told
    assert (NODE,) == memory.nodes.load_all_nodes()


def test_a_time_that_cannot_be_shifted_is_unchanged() -> None:
    last = datetime.max.replace(tzinfo=UTC)

    assert last == clock_step_correction.shift_time_by_clock_step(last, HOUR)


def test_an_acting_round_follows_the_clock_and_logs_the_step(
    wanted: BalancerRunOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A dry run stores nothing, and so shifts nothing."""
    monkeypatch.setattr(balancer_daemon, "BALANCE_STATE", str(tmp_path / "state.db"))
    monkeypatch.setattr(balancer_daemon, "BALANCE_PUBLISHED", str(tmp_path))
    ahead = NOON + DAYS_AHEAD
    for wall, is_acting in ((NOON, True), (ahead, False), (ahead, True), (ahead, True)):
        clock = Clock(wall.timestamp, lambda: 0.0)
        with (
            caplog.at_level(logging.WARNING, balancer_daemon.__name__),
            BalancerDaemon(replace(wanted, is_acting=is_acting), clock).open_cycle(),
        ):
            pass

    assert ["event=clock_moved by_s=172800"] == [one.getMessage() for one in caplog.records]
