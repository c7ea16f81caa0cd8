"""Parsing of the Standard Workload Format."""

from pathlib import Path

import pytest

from gridbridge.elastic.simulation.replay_workload import is_standard_workload_line, parse_standard_workload_tasks
from gridbridge.model.elastic.replay_tasks_and_results import (
    RecordedReplayTask,
    ReplayExclusionReason,
    WorkloadLineFault,
)

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


def test_the_format_is_recognised_by_the_first_line() -> None:
    assert is_standard_workload_line(b"; Version: 2.2\n")
    assert is_standard_workload_line(RIGHT)
    assert not is_standard_workload_line(b"all.q:n1:alice:alice:name:3:sge\n")


@pytest.mark.parametrize(
    "line",
    [
        b"all.q:n1:g:alice:j:1:sge:0:1:2:3:-q all.q -V -l a=1 -l b=2 -l c=3 -l d=4 -l e=5 -l f=6 -l g=7 x",
        b'{"submit_cmd_line": "qsub -l a=1 -l b=2 -l c=3 -l d=4 -l e=5 -l f=6 -l g=7 x.sh y"}',
    ],
    ids=["a line of accounting(5)", "an object"],
)
def test_a_line_of_eighteen_words_that_are_not_numbers_is_another_format(line: bytes) -> None:
    assert len(line.split()) == 18
    assert not is_standard_workload_line(line)
    assert is_standard_workload_line(RIGHT)
