"""Grid Engine accounting records as tasks to replay."""

from pathlib import Path

import pytest

from gridbridge.batch.gridengine.accounting_record_parser import parse_task_end_times
from gridbridge.elastic.simulation.replay_workload import parse_accounting_tasks
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
