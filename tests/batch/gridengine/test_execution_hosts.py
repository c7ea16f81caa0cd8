"""Tests of one host's queue instances and load as printed by qstat and qhost 8.1.9."""

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
    return (GOLDEN / f"{name}.xml").read_bytes()


def test_a_disabled_host_with_a_task_is_used_and_disabled() -> None:
    (found,) = parse_host_queue_instances(golden("host-busy"))

    assert found == HostQueueInstance(queue="all.q", slots=2, is_used=True, is_disabled=True, tasks=("5",))


def test_an_array_task_is_listed_with_its_task_id() -> None:
    """qdel(1) of the array id would delete all tasks."""
    slots = b"<slots>1</slots>"
    (found,) = parse_host_queue_instances(golden("host-busy").replace(slots, slots + b"<tasks>7</tasks>"))

    assert found.tasks == ("5.7",)


def test_control_characters_in_a_job_name_do_not_break_parsing() -> None:
    told = golden("host-busy")
    odd = re.sub(rb"<JB_name>[^<]*<", b"<JB_name>a\x1b & b<", told)

    assert odd != told
    assert parse_host_queue_instances(odd) == parse_host_queue_instances(told)


def test_a_new_host_is_unused_and_disabled() -> None:
    (found,) = parse_host_queue_instances(golden("host-new"))

    assert found == HostQueueInstance(queue="all.q", slots=4, is_used=False, is_disabled=True)


@pytest.mark.parametrize("change", [TRANSFERRING, RESERVED], ids=["a task starts", "reserved"])
def test_used_or_reserved_slots_make_a_queue_instance_used(change: tuple[bytes, bytes]) -> None:
    (found,) = parse_host_queue_instances(golden("host-new").replace(*change))

    assert found.is_used


def test_a_suspended_task_without_slot_makes_a_queue_instance_used() -> None:
    (found,) = parse_host_queue_instances(golden("host-busy").replace(TRANSFERRING[1], TRANSFERRING[0]))

    assert found.is_used


def test_a_best_effort_queue_is_recognized_by_its_resource() -> None:
    at = b"<state>d</state>"
    (found,) = parse_host_queue_instances(golden("host-busy").replace(at, BEST_EFFORT + at))

    assert found.is_best_effort


def test_a_queue_closed_by_a_calendar_is_not_disabled() -> None:
    (found,) = parse_host_queue_instances(golden("host-new").replace(b"<state>du", b"<state>D"))

    assert not found.is_disabled


@pytest.mark.parametrize("ending", ["kill -9 $$", "exit 2", "echo no >&2; exit 1"])
def test_a_failed_qstat_does_not_mean_that_a_host_has_no_queue(tmp_path: Path, ending: str) -> None:
    """The program qstat exits with 1 and prints nothing if no queue instance exists."""
    assert query_host_queue_instances(cell_of_scripts(tmp_path, qstat="exit 1"), "n1") == ()

    with pytest.raises(CommandFailed):
        query_host_queue_instances(cell_of_scripts(tmp_path, qstat=ending), "n1")


@pytest.mark.parametrize(
    ("host", "expected"), [("alpha-n1", True), ("alpha-n", False), ("global", False), ("alpha-n9", False)]
)
def test_a_host_is_up_if_qhost_prints_its_load(host: str, expected: bool) -> None:
    assert has_execd_reported_load(golden("hosts"), host) == expected


def test_truncated_output_about_a_host_is_refused() -> None:
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
def test_a_new_hosts_seq_no_lies_between_earlier_hosts_and_the_next_queue(
    told: str, others: tuple[int, ...], expected: int | None
) -> None:
    assert expected == next_queue_seq_no(parse_qconf_values_by_host(told), others)
