"""What one host is asked about before it leaves, as qstat and qhost of 8.1.9 print it."""

import re
from pathlib import Path

import pytest

from gridbridge.batch.gridengine.execution_hosts import (
    HostQueueInstance,
    has_execd_reported_load,
    next_queue_seq_no,
    parse_host_queue_instances,
    query_host_queue_instances,
)
from gridbridge.errors import CommandFailed, ParseError
from gridbridge.model.qconf_attribute_parser import parse_qconf_values_by_host
from tests.batch.gridengine.cells import cell_of_scripts

GOLDEN = Path(__file__).parents[2] / "golden" / "gridengine-8.1.9"
BEST_EFFORT = b'<resource name="gb_besteffort" type="qc">1</resource>'
TRANSFERRING = b"<slots_used>0</slots_used>", b"<slots_used>1</slots_used>"
RESERVED = b"<slots_resv>0</slots_resv>", b"<slots_resv>2</slots_resv>"


def golden(name: str) -> bytes:
    """Return what was captured."""
    return (GOLDEN / f"{name}.xml").read_bytes()


def test_a_closed_host_with_a_task_is_busy_and_closed() -> None:
    (found,) = parse_host_queue_instances(golden("host-busy"))

    assert found == HostQueueInstance(queue="all.q", slots=2, is_used=True, is_disabled=True, tasks=("5",))


def test_a_task_of_an_array_is_told_by_its_number() -> None:
    """That of the array alone is all of its tasks, wherever they run (qdel(1))."""
    slots = b"<slots>1</slots>"
    (found,) = parse_host_queue_instances(golden("host-busy").replace(slots, slots + b"<tasks>7</tasks>"))

    assert found.tasks == ("5.7",)


def test_a_job_whose_name_breaks_the_document_keeps_nothing_from_being_read() -> None:
    """Grid Engine prints a job's name as its owner wrote it (qsub(1), -N)."""
    told = golden("host-busy")
    odd = re.sub(rb"<JB_name>[^<]*<", b"<JB_name>a\x1b & b<", told)

    assert odd != told
    assert parse_host_queue_instances(odd) == parse_host_queue_instances(told)


def test_a_host_that_was_just_admitted_is_idle_and_closed() -> None:
    (found,) = parse_host_queue_instances(golden("host-new"))

    assert found == HostQueueInstance(queue="all.q", slots=4, is_used=False, is_disabled=True)


@pytest.mark.parametrize("change", [TRANSFERRING, RESERVED], ids=["a task starts", "reserved"])
def test_slots_that_are_taken_or_reserved_are_busy(change: tuple[bytes, bytes]) -> None:
    (found,) = parse_host_queue_instances(golden("host-new").replace(*change))

    assert found.is_used


def test_a_suspended_task_without_a_slot_is_busy() -> None:
    (found,) = parse_host_queue_instances(golden("host-busy").replace(TRANSFERRING[1], TRANSFERRING[0]))

    assert found.is_used


def test_a_queue_of_best_effort_is_known_by_its_resource() -> None:
    at = b"<state>d</state>"
    (found,) = parse_host_queue_instances(golden("host-busy").replace(at, BEST_EFFORT + at))

    assert found.is_best_effort


def test_a_queue_that_a_calendar_closed_is_not_disabled_by_hand() -> None:
    (found,) = parse_host_queue_instances(golden("host-new").replace(b"<state>du", b"<state>D"))

    assert not found.is_disabled


@pytest.mark.parametrize("ending", ["kill -9 $$", "exit 2", "echo no >&2; exit 1"])
def test_a_qstat_that_failed_does_not_say_that_a_host_has_no_queue(tmp_path: Path, ending: str) -> None:
    """It says so by ending with 1 and without a word."""
    assert query_host_queue_instances(cell_of_scripts(tmp_path, qstat="exit 1"), "n1") == ()

    with pytest.raises(CommandFailed):
        query_host_queue_instances(cell_of_scripts(tmp_path, qstat=ending), "n1")


@pytest.mark.parametrize(
    ("host", "expected"), [("alpha-n1", True), ("alpha-n", False), ("global", False), ("alpha-n9", False)]
)
def test_a_host_reports_when_its_load_is_told(host: str, expected: bool) -> None:
    assert has_execd_reported_load(golden("hosts"), host) == expected


def test_half_an_answer_tells_nothing() -> None:
    half = golden("host-busy")[:400]

    with pytest.raises(ParseError, match="qstat"):
        parse_host_queue_instances(half)
    with pytest.raises(ParseError, match="qhost"):
        has_execd_reported_load(half, "alpha-n1")


@pytest.mark.parametrize(
    ("told", "others", "expected"),
    [
        ("0", (), 1),
        ("0", (100, 0), 1),
        ("0,[n1=1],[n3=3]", (100,), 2),
        ("10,[n1=11]", (0, 20), 12),
        ("0,[n1=1],[n2=2]", (3,), 2),  # the last hosts share one
        ("0", (1,), None),  # no room before the next queue
        ("0,[@site=5],[n1=6]", (100,), 7),  # behind the hosts of a group that has one
        ("0,[@site=5]", (3, 9), 6),
    ],
)
def test_a_host_comes_after_those_before_it_and_before_the_next_queue(
    told: str, others: tuple[int, ...], expected: int | None
) -> None:
    assert expected == next_queue_seq_no(parse_qconf_values_by_host(told), others)
