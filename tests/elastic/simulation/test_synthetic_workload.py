"""Synthetic workloads have the documented distributions."""

import math
import statistics
from datetime import UTC, datetime
from itertools import groupby

import pytest

from gridbridge.elastic.simulation.synthetic_workload import SyntheticWorkloadSettings, generate_synthetic_workload
from gridbridge.model.elastic.replay_tasks_and_results import RecordedReplayTask

DAYS, NODE = 70, 16
ASKED = SyntheticWorkloadSettings(seed="ash", days=DAYS, tasks_a_day=1000.0, node_slots=NODE)
TASKS = generate_synthetic_workload(ASKED).tasks
BURSTS = [list(some) for _, some in groupby(TASKS, lambda one: (one.submitted_s, one.name, one.slots))]


def is_busy(one: RecordedReplayTask) -> bool:
    """Say whether a task was submitted on a working day between 8 and 20 o'clock."""
    at = datetime.fromtimestamp(one.submitted_s, UTC)
    return at.weekday() < 5 and 8 <= at.hour < 20


def test_burst_sizes_are_geometric_with_a_mean_of_five() -> None:
    sizes = [len(one) for one in BURSTS]

    assert statistics.mean(sizes) == pytest.approx(5, rel=0.05)
    assert statistics.pstdev(sizes) == pytest.approx(math.sqrt(20), rel=0.1)
    assert sizes.count(1) / len(sizes) == pytest.approx(0.2, abs=0.02)


def test_the_burst_rate_depends_on_hour_and_weekday() -> None:
    busy = sum(is_busy(one[0]) for one in BURSTS)
    hours = DAYS * 24 * 60 / 168
    rates = busy / hours, (len(BURSTS) - busy) / (DAYS * 24 - hours)
    mean = 1000 / 5 / 24

    assert rates[0] / mean == pytest.approx(1.3, rel=0.05)
    assert rates[1] / mean == pytest.approx(0.8, rel=0.05)


def test_bursts_have_the_documented_slot_counts() -> None:
    slots = [one[0].slots for one in BURSTS]

    assert {n: slots.count(n) / len(slots) for n in sorted(set(slots))} == {
        1: pytest.approx(0.7, abs=0.02),
        2: pytest.approx(0.2, abs=0.02),
        NODE // 2: pytest.approx(0.1, abs=0.02),
    }


def test_run_times_of_each_of_twelve_job_names_are_log_normal() -> None:
    by_kind = dict[str, list[float]]()
    for one in TASKS:
        assert 10 <= one.run_s <= 86400
        by_kind.setdefault(one.name, []).append(math.log(one.run_s))

    assert len(by_kind) == 12
    for times in by_kind.values():
        assert statistics.pstdev(times) == pytest.approx(0.5, rel=0.1)
        assert statistics.mean(times) == pytest.approx(statistics.median(times), abs=0.05)


def test_median_run_times_are_log_normal_around_twenty_minutes() -> None:
    medians = list[float]()
    for number in range(40):
        by_kind = dict[str, list[float]]()
        for one in generate_synthetic_workload(SyntheticWorkloadSettings(seed=str(number), days=2)).tasks:
            by_kind.setdefault(one.name, []).append(math.log(one.run_s))
        medians.extend(statistics.median(times) for times in by_kind.values())

    assert statistics.mean(medians) == pytest.approx(math.log(1200), abs=0.15)
    assert statistics.pstdev(medians) == pytest.approx(1.0, abs=0.1)
