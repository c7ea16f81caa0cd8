"""Lookup of a job in a cluster snapshot, the free slots of a queue, and clocks that were set forward."""

from datetime import UTC, datetime, timedelta

import pytest

from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot, QueueInstanceStatus
from gridbridge.model.host_clocks import (
    ClockJump,
    HostClockReadings,
    record_clock_jumps,
    shift_past_time_by_clock_jumps,
)
from tests.states import job_state, queue_state
from tests.steps import steps


def make_queue(letters: str = "", used: int = 1, takes_batch: bool = True) -> QueueInstanceStatus:
    return QueueInstanceStatus(
        name="all.q@n1",
        slots_used=used,
        slots_reserved=1,
        slots_total=4,
        state=queue_state(letters),
        takes_batch=takes_batch,
    )


def make_job(job_id: int, letters: str, *tasks: range) -> ClusterJobListRow:
    return ClusterJobListRow(job_id=job_id, tasks=tasks, name="x", owner="alice", state=job_state(letters))


def make_snapshot(*rows: ClusterJobListRow) -> ClusterSnapshot:
    jobs = {row.job_id: tuple(r for r in rows if r.job_id == row.job_id) for row in rows}
    return ClusterSnapshot(
        cluster="beta", taken_at=datetime(2026, 1, 1, tzinfo=UTC), jobs=jobs, pending=0, free_slots=0
    )


def test_free_slots_are_neither_used_nor_reserved() -> None:
    assert make_queue().free_slots == 2


def test_an_overbooked_queue_and_a_queue_without_batch_have_no_free_slots() -> None:
    assert make_queue(used=9).free_slots == make_queue(takes_batch=False).free_slots == 0


@pytest.mark.parametrize("letters", [*"uadDEsSCcAoP", "au", "?"])
def test_a_queue_in_any_error_state_has_no_free_slots(letters: str) -> None:
    assert make_queue(letters).free_slots == 0


def test_a_queue_knows_its_host() -> None:
    assert make_queue().host_name == "n1"


def test_an_array_task_is_found_in_the_row_that_covers_it() -> None:
    running, waiting = make_job(7, "r", range(1, 2)), make_job(7, "qw", range(2, 1_000_000_000, 2))
    snapshot = make_snapshot(running, waiting)

    assert snapshot.find_job_list_row(7) == running
    assert snapshot.find_job_list_row(7, 1) == running
    assert snapshot.find_job_list_row(7, 999_999_998) == waiting
    assert snapshot.find_job_list_row(7, 3) is None
    assert snapshot.find_job_list_row(8) is None


def find_all(count: int) -> int:
    running = [make_job(7, "r", range(n, n + 1)) for n in range(1, count + 1)]
    waiting = make_job(7, "qw", range(count + 1, count + 9))
    snapshot = make_snapshot(*running, waiting)
    found: list[ClusterJobListRow | None] = []
    took = steps(lambda: found.extend(snapshot.find_job_list_row(7, row.single_task_number) for row in running))

    assert all(one is row for one, row in zip(found, running, strict=True))
    assert (snapshot.find_job_list_row(7, count + 5), snapshot.find_job_list_row(7, count + 9)) == (waiting, None)
    return took


def test_finding_tasks_takes_linear_time() -> None:
    """Each running task of an array has its own row."""
    assert find_all(2000) < 15 * find_all(200)


def test_a_row_without_tasks_stands_for_the_whole_job() -> None:
    row = make_job(7, "r")

    assert (row.single_task_number, row.task_count) == (0, 1)
    assert make_snapshot(row).find_job_list_row(7, 5) == row


def test_only_a_row_of_one_task_has_a_task_number() -> None:
    assert make_job(7, "r", range(4, 5)).single_task_number == 4
    assert make_job(7, "qw", range(4, 6)).single_task_number == 0


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def at(wall: datetime, steady_s: float, *leaps: ClockJump, boot: str = "a") -> HostClockReadings:
    return HostClockReadings(boot=boot, wall=wall, steady_s=steady_s, leaps=leaps)


def leap(by_s: float, when: datetime = NOON) -> ClockJump:
    return ClockJump(at=when, by_s=by_s)


BEFORE = at(NOON, 1000.0)


@pytest.mark.parametrize(
    ("before", "now", "leaps"),
    [
        pytest.param(None, at(NOON, 5), (), id="no earlier reading"),
        pytest.param(BEFORE, at(NOON + HOUR, 4600), (), id="an hour passed"),
        pytest.param(BEFORE, at(NOON + HOUR, 4555), (), id="an hour passed, the clock was slewed"),
        pytest.param(BEFORE, at(NOON + HOUR, 1060), (leap(3540, NOON + HOUR),), id="a minute passed"),
        pytest.param(
            BEFORE, at(NOON + HOUR, 600, boot="b"), (leap(3000, NOON + HOUR),), id="switched on ten minutes ago"
        ),
        pytest.param(at(NOON, 1000, leap(7200)), at(NOON - HOUR, 1000), (leap(3600),), id="half set back"),
        pytest.param(at(NOON, 1000, leap(9), leap(3600)), at(NOON - HOUR, 1000), (leap(9),), id="set back"),
        pytest.param(at(NOON, 0, leap(90)), at(NOON - DAY, 0), (), id="set back by more"),
        pytest.param(at(NOON, 0, leap(90)), at(NOON + 31 * DAY, 31 * 86400), (), id="jump of a month ago"),
    ],
)
def test_a_clock_jump_is_wall_time_that_the_steady_clock_has_not_counted(
    before: HostClockReadings | None, now: HostClockReadings, leaps: tuple[ClockJump, ...]
) -> None:
    assert record_clock_jumps(before, now).leaps == leaps


def test_times_recorded_before_clock_jumps_are_shifted_by_the_jumps() -> None:
    leaps = (leap(60), leap(3600, NOON + HOUR))

    assert shift_past_time_by_clock_jumps(NOON - HOUR, leaps) == NOON + timedelta(seconds=60)
    assert shift_past_time_by_clock_jumps(NOON, leaps) == NOON + HOUR
    assert shift_past_time_by_clock_jumps(NOON + HOUR, leaps) == NOON + HOUR
