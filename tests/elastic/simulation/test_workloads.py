"""Workloads to replay: accounting records, lines of the Standard Workload Format, and synthetic tasks."""

import math
import statistics
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import pytest

from gridbridge.batch.gridengine.accounting_record_parser import parse_task_end_times
from gridbridge.elastic.simulation.replay_workload import (
    is_standard_workload_line,
    parse_accounting_tasks,
    parse_standard_workload_tasks,
)
from gridbridge.elastic.simulation.synthetic_workload import SyntheticWorkloadSettings, generate_synthetic_workload
from gridbridge.model.elastic.replay_tasks_and_results import (
    RecordedReplayTask,
    ReplayExclusionReason,
    WorkloadLineFault,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "gridengine-8.1.9" / "accounting.txt"


def record(**changed: str) -> bytes:
    """Return the record of a two-slot job that waited 60 s and ran 600 s; `changed` replaces fields."""
    fields = GOLDEN.read_text().splitlines()[0].split(":")
    named = {"submitted": 8, "started": 9, "ended": 10, "failed": 11, "slots": 34, "part": -4}
    values = {"submitted": "1000", "started": "1060", "ended": "1660", "failed": "0", "slots": "2"}
    for name, value in (values | changed).items():
        fields[named[name]] = value
    return ":".join(fields).encode() + b"\n"


def test_a_record_is_read_as_a_task() -> None:
    assert list(parse_accounting_tasks([b"# a comment\n", record()])) == [
        (2, RecordedReplayTask(submitted_s=1000, run_s=600, slots=2, waited_s=60, owner="alice", name="failed"))
    ]


def test_times_in_milliseconds_are_recognised() -> None:
    late = record(submitted="1795212511500", started="1795212512500", ended="1795212514000")
    ((_, found),) = parse_accounting_tasks([late])

    assert isinstance(found, RecordedReplayTask)
    assert (found.submitted_s, found.waited_s, found.run_s) == (1795212511.5, 1.0, 1.5)


def test_a_start_before_the_submission_by_some_seconds_means_no_wait() -> None:
    """The clock of the execution host may be behind that of the master."""
    line = record(started="998")
    ((_, found),) = parse_accounting_tasks([line])
    ((end, _, _),) = parse_task_end_times(line)

    assert isinstance(found, RecordedReplayTask)
    assert (found.submitted_s, found.waited_s, found.run_s) == (1000, 0, 662)
    assert (end.tasks, end.wait_s, end.run_s) == (1, 0, 662)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (record(started="0", ended="0", failed="1"), ReplayExclusionReason.NEVER_STARTED),
        (record(failed="24"), ReplayExclusionReason.PUT_BACK),
        (record(failed="25"), ReplayExclusionReason.PUT_BACK),
        (record(part="1.n2"), ReplayExclusionReason.PART),
        (b"all.q:n1:alice\n", WorkloadLineFault.FORM),
        (record(submitted="soon"), WorkloadLineFault.FORM),
        (record().rsplit(b":", 4)[0] + b"\n", WorkloadLineFault.FIELDS),
        (record(slots="0"), WorkloadLineFault.SLOTS),
        (record(slots="many"), WorkloadLineFault.FORM),
        (record(started="900"), WorkloadLineFault.TIMES),
        (record(ended="1000"), WorkloadLineFault.END),
        (record(submitted="-5"), WorkloadLineFault.TIMES),
        (b"\xff" * 40 + b"\n", WorkloadLineFault.FORM),
    ],
)
def test_a_record_that_is_no_task_gives_the_reason(line: bytes, why: ReplayExclusionReason | WorkloadLineFault) -> None:
    assert list(parse_accounting_tasks([line])) == [(1, why)]


SAMPLE = Path(__file__).parents[2] / "golden" / "workloads" / "small.swf"
RIGHT = b"1 5 10 60 2 -1 -1 4 -1 -1 1 7 1 3 1 -1 -1 -1"


def test_a_sample_gives_tasks_and_reasons_for_skipped_jobs() -> None:
    found = [told for _, told in parse_standard_workload_tasks(SAMPLE.read_bytes().splitlines(True))]
    begin_s = 1767225600.0

    assert found == [
        RecordedReplayTask(submitted_s=begin_s, run_s=3600, slots=4, waited_s=10, owner="1", name="2"),
        ReplayExclusionReason.CANCELLED,
        RecordedReplayTask(submitted_s=begin_s + 120, run_s=600, waited_s=30, owner="2", name="3"),
        ReplayExclusionReason.PART,
        ReplayExclusionReason.PART,
        RecordedReplayTask(submitted_s=begin_s + 240, run_s=900, slots=8, owner="3", name="4"),
    ]


@pytest.mark.parametrize(
    ("line", "right"),
    [
        (b"1 5 10 60 2 -1 -1 4 -1 -1 4 7 1 3 1 -1 -1 -1", ReplayExclusionReason.PART),
        (b"1 5 10 0 2 -1 -1 4 -1 -1 5 7 1 3 1 -1 -1 -1", ReplayExclusionReason.CANCELLED),
        (b"1 5 -1 -1 -1 -1 -1 4 -1 -1 -1 7 1 3 1 -1 -1 -1", ReplayExclusionReason.NEVER_STARTED),
        (
            b"1 5 -1 60 -1 -1 -1 -1 -1 -1 5 -1 1 -1 1 -1 -1 -1",
            RecordedReplayTask(submitted_s=5, run_s=60, slots=1, waited_s=0, owner="-1", name="-1"),
        ),
    ],
    ids=["the last part", "cancelled", "never started", "cancelled while it ran"],
)
def test_minus_one_means_an_unknown_value(line: bytes, right: ReplayExclusionReason | RecordedReplayTask) -> None:
    assert list(parse_standard_workload_tasks([line])) == [(1, right)]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (RIGHT + b" 1", WorkloadLineFault.FIELDS),
        (RIGHT.rsplit(b" ", 1)[0], WorkloadLineFault.FIELDS),
        (RIGHT.replace(b"60", b"x"), WorkloadLineFault.FORM),
        (RIGHT.replace(b"60", b"nan"), WorkloadLineFault.TIMES),
        (RIGHT.replace(b"60", b"1e300"), WorkloadLineFault.TIMES),
        (RIGHT.replace(b"1 5", b"1 -1"), WorkloadLineFault.TIMES),
        (b"\xff\xfe", WorkloadLineFault.FORM),
    ],
    ids=["19", "17", "a word", "no number", "too large", "never submitted", "no text"],
)
def test_an_invalid_line_is_reported_by_number_and_fault(line: bytes, why: WorkloadLineFault) -> None:
    found = list(parse_standard_workload_tasks([b"; a comment\n", line, b"\n", RIGHT]))

    assert [number for number, _ in found] == [2, 4]
    assert found[0][1] is why
    assert isinstance(found[1][1], RecordedReplayTask)


@pytest.mark.parametrize(
    ("line", "is_standard"),
    [
        (b"; Version: 2.2\n", True),
        (RIGHT, True),
        (b"all.q:n1:alice:alice:name:3:sge\n", False),
        (b"all.q:n1:g:alice:j:1:sge:0:1:2:3:-q all.q -V -l a=1 -l b=2 -l c=3 -l d=4 -l e=5 -l f=6 -l g=7 x", False),
        (b'{"submit_cmd_line": "qsub -l a=1 -l b=2 -l c=3 -l d=4 -l e=5 -l f=6 -l g=7 x.sh y"}', False),
    ],
    ids=["comment", "18 numbers", "accounting(5)", "18 words of accounting(5)", "18 words of an object"],
)
def test_the_format_is_recognised_by_the_first_line(line: bytes, is_standard: bool) -> None:
    assert is_standard_workload_line(line) is is_standard


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
