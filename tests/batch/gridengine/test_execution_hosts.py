"""Tests of one host's queue instances and load as printed by qstat and qhost 8.1.9."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.batch.gridengine import execution_hosts
from gridbridge.errors import CommandFailed, ParseError
from gridbridge.model.qconf_attribute_parser import parse_qconf_values_by_host
from tests.batch.gridengine.cells import cell_of_scripts
from tests.builders.golden import CAPTURED

BEST_EFFORT = b'<resource name="gb_besteffort" type="qc">1</resource>'


def golden(name: str) -> bytes:
    return (CAPTURED / f"{name}.xml").read_bytes()


NEW = execution_hosts.HostQueueInstance(queue="all.q", slots=4, is_used=False, is_disabled=True)
BUSY = execution_hosts.HostQueueInstance(queue="all.q", slots=2, is_used=True, is_disabled=True, tasks=("5",))


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("host-busy", b"", b"", BUSY),
        ("host-busy", b"<slots>1</slots>", b"<slots>1</slots><tasks>7</tasks>", replace(BUSY, tasks=("5.7",))),
        ("host-busy", b"<slots_used>1<", b"<slots_used>0<", BUSY),
        ("host-busy", b"<state>", BEST_EFFORT + b"<state>", replace(BUSY, is_best_effort=True)),
        ("host-new", b"", b"", NEW),
        ("host-new", b"<slots_used>0<", b"<slots_used>1<", replace(NEW, is_used=True)),
        ("host-new", b"<slots_resv>0<", b"<slots_resv>2<", replace(NEW, is_used=True)),
        ("host-new", b"<state>du", b"<state>D", replace(NEW, is_disabled=False)),
    ],
    ids=[
        *("task", "array task", "suspended task without slot", "best-effort"),
        *("no task", "starting task", "reserved", "closed by a calendar"),
    ],
)
def test_a_host_queue_instance_is_parsed(
    name: str, old: bytes, new: bytes, expected: execution_hosts.HostQueueInstance
) -> None:
    data = golden(name)
    changed = data.replace(old, new, 1) if old else data

    assert changed != data or not old
    assert execution_hosts.parse_host_queue_instances(changed) == (expected,)


def test_control_characters_in_a_job_name_do_not_break_parsing() -> None:
    told = golden("host-busy")
    odd = re.sub(rb"<JB_name>[^<]*<", b"<JB_name>a\x1b & b<", told)

    assert odd != told
    assert execution_hosts.parse_host_queue_instances(odd) == execution_hosts.parse_host_queue_instances(told)


@pytest.mark.parametrize("ending", ["kill -9 $$", "exit 2", "echo no >&2; exit 1"])
def test_a_failed_qstat_does_not_mean_that_a_host_has_no_queue(tmp_path: Path, ending: str) -> None:
    """The program qstat exits with 1 and prints nothing if no queue instance exists."""
    assert execution_hosts.query_host_queue_instances(cell_of_scripts(tmp_path, qstat="exit 1"), "n1") == ()

    with pytest.raises(CommandFailed):
        execution_hosts.query_host_queue_instances(cell_of_scripts(tmp_path, qstat=ending), "n1")


@pytest.mark.parametrize(
    ("host", "expected"), [("alpha-n1", True), ("alpha-n", False), ("global", False), ("alpha-n9", False)]
)
def test_a_host_is_up_if_qhost_prints_its_load(host: str, expected: bool) -> None:
    assert execution_hosts.has_execd_reported_load(golden("hosts"), host) == expected


def test_truncated_output_about_a_host_is_refused() -> None:
    half = golden("host-busy")[:400]

    with pytest.raises(ParseError, match="qstat"):
        execution_hosts.parse_host_queue_instances(half)
    with pytest.raises(ParseError, match="qhost"):
        execution_hosts.has_execd_reported_load(half, "alpha-n1")


@pytest.mark.parametrize(
    ("told", "others", "expected"),
    [
        ("0", (), 1),
        ("0", (100, 0), 1),
        ("0,[n1=1],[n3=3]", (100,), 2),
        ("10,[n1=11]", (0, 20), 12),
        ("0,[n1=1],[n2=2]", (3,), 2),  # the last hosts share a seq_no
        ("0", (1,), None),  # no seq_no is left before the next queue
        ("0,[@site=5],[n1=6]", (100,), 7),  # behind the hosts of a group with a seq_no
        ("0,[@site=5]", (3, 9), 6),
    ],
)
def test_a_new_hosts_seq_no_lies_between_earlier_hosts_and_the_next_queue(
    told: str, others: tuple[int, ...], expected: int | None
) -> None:
    assert expected == execution_hosts.next_queue_seq_no(parse_qconf_values_by_host(told), others)


TOLD = """<?xml version='1.0'?>
<qhost xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qhost/qhost.xsd">
 <host name='global'><hostvalue name='arch_string'>-</hostvalue></host>
 <host name='n1'>{}</host>
 <host name='n2'><hostvalue name='num_proc'>2</hostvalue></host>
</qhost>
"""
VALUE = "<resourcevalue name='gb_tags' dominance='hf'>{}</resourcevalue>"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", {}),
        (VALUE.format("htools:standby:auto"), {"n1": ("htools:standby:auto",)}),
        (VALUE.format("htools:standby:3+other"), {"n1": ("htools:standby:3", "other")}),
    ],
)
def test_host_tags_are_parsed_from_qhost(value: str, expected: dict[str, tuple[str, ...]]) -> None:
    assert execution_hosts.parse_cell_host_tags(TOLD.format(value).encode()) == expected
