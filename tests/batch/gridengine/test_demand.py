"""Tests of a cell's hosts, waiting and blocked jobs and free consumables as printed by qstat and qhost 8.1.9."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from gridbridge.batch.gridengine.blocked_job_reader import CellConsumables, parse_blocked_jobs, parse_consumable_amount
from gridbridge.batch.gridengine.cell_demand_reader import parse_cell_demand
from gridbridge.errors import ParseError
from gridbridge.model import grid_engine_amounts
from gridbridge.model.campaigns import task_deletions_and_preemptions as preemptions
from gridbridge.model.elastic.grid_engine_cell import (
    CellConfiguration,
    CellResourceDefinition,
    GridEngineCellSnapshot,
    WaitingJobGroup,
)
from gridbridge.model.site.setup_findings_and_edits import QconfComplexRow
from tests.builders.golden import CAPTURED
from tests.builders.qstat import job_list, job_row

QSTAT, QHOST = (CAPTURED / "cell.xml").read_bytes(), (CAPTURED / "hosts.xml").read_bytes()
NOON = "2026-01-01T12:00:00"


def row(number: object, *more: str, submitted: str = NOON, slots: int = 1, **elements: object) -> str:
    return job_row(number, "qw", *more, JB_submission_time=submitted, slots=slots, **elements)


def cell(*rows: str, **options: Any) -> GridEngineCellSnapshot:
    return parse_cell_demand(job_list(*rows), QHOST, **options)


def layout_of(**shortcuts: str) -> CellConfiguration:
    rows = [CellResourceDefinition(name=name, shortcut=short) for name, short in shortcuts.items()]
    return CellConfiguration(resources={key: one for one in rows for key in (one.name, one.shortcut)})


def asking(pe: str) -> list[WaitingJobGroup]:
    """Return the golden cell's startable groups that request `pe`; an empty `pe` means no environment."""
    found = parse_cell_demand(QSTAT, QHOST)
    return [one for one in found.waiting if one.shape.pe == pe and one.state.can_start]


def test_hosts_and_queue_instances_have_load_slots_and_running_tasks() -> None:
    cell = parse_cell_demand(QSTAT, QHOST)
    (first, second), alone = cell.instances, cell.instances[1].begun[1]

    assert [host.name for host in cell.hosts] == ["alpha-master", "alpha-n1", "alpha-n2"]
    assert all(host.load is not None for host in cell.hosts)
    assert [(one.queue, one.host) for one in (first, second)] == [("all.q", "alpha-n1"), ("all.q", "alpha-n2")]
    assert [one.used for one in (first, second)] == [sum(one.running) for one in (first, second)]
    assert [one.used for one in (first, second)] == [sum(each.slots for each in one.begun) for one in (first, second)]
    assert any(len(one.running) > 1 for one in (first, second))
    assert (alone.owner, alone.name, alone.slots) == ("alice", "gb.alpha.7.0.1", 1)
    assert alone.since == datetime(2026, 11, 23, 21, 14, 50, tzinfo=UTC)


def test_equal_requests_of_one_owner_are_one_group() -> None:
    (plain,) = asking("")

    assert plain.shape.requests == (("arch", "none"),)
    assert (len(plain.jobs), plain.tasks, plain.total_requested_slots) == (4, 5 + 16 + 2, 23)
    assert plain.oldest_since == plain.first_since


def test_equal_requests_of_two_owners_are_two_groups() -> None:
    found = cell(*(row(job, JB_owner=owner) for job, owner in ((7, "alice"), (8, "bob"), (9, "alice")))).waiting

    assert [(group.jobs, group.tasks) for group in found] == [((7, 9), 2), ((8,), 1)]


def test_a_parallel_job_requests_slots_of_its_environment() -> None:
    (smp,) = asking("smp")

    assert (smp.shape.slots, smp.tasks, smp.total_requested_slots) == (2, 1, 2)


@pytest.mark.parametrize(("slots", "expected"), [(b"2", False), (b"2-8", True), (b"2-", True)])
def test_a_slot_range_is_recognized(slots: bytes, expected: bool) -> None:
    asked = b'<requested_pe name="smp">%s</requested_pe>'
    found = parse_cell_demand(QSTAT.replace(asked % b"2", asked % slots), QHOST)

    assert [expected] == [one.shape.is_range for one in found.waiting if one.shape.pe == "smp"]


@pytest.mark.parametrize("slots", [2**31, 2**32 - 1])
def test_a_negative_slot_number_of_qstat_is_corrected(slots: int) -> None:
    """Grid Engine 8.1.9 prints `-pe smp 4294967295` as -1."""
    assert [slots] == [group.shape.slots for group in cell(row(1, slots=slots - 2**32)).waiting]


def test_waiting_held_and_error_jobs_are_distinct_groups() -> None:
    states = {one.state.text for one in parse_cell_demand(QSTAT, QHOST).waiting}

    assert {"qw", "hqw", "Eqw"} == states


def test_a_group_has_the_submission_times_of_its_first_and_oldest_job() -> None:
    at = "2026-01-01T12:0{}:00"
    found = cell(row(7, submitted=at.format(5)), row(3, submitted=at.format(1), tasks="1-4:1"))
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)

    assert [(noon + timedelta(minutes=5), noon + timedelta(minutes=1), (7, 3), 5)] == [
        (one.first_since, one.oldest_since, one.jobs, one.tasks) for one in found.waiting
    ]


def test_submission_times_are_parsed_in_the_given_zone() -> None:
    (group,) = cell(row(1), zone=timezone(timedelta(hours=2))).waiting

    assert group.first_since == datetime(2026, 1, 1, 10, tzinfo=UTC)


def test_an_unparsable_submission_time_is_unknown() -> None:
    assert cell(row(1, submitted="soon")).waiting[0].oldest_since is None


@pytest.mark.parametrize(("load", "expected"), [("3.19", 3.19), ("1.2K", 1200.0), ("-", None), ("", None)])
def test_a_load_with_a_unit_or_without_a_value_is_parsed(load: str, expected: float | None) -> None:
    host = f"<host name='n1'><hostvalue name='load_avg'>{load}</hostvalue></host>"

    assert expected == parse_cell_demand(job_list(), f"<qhost>{host}</qhost>".encode()).hosts[0].load


@pytest.mark.parametrize(
    ("qstat", "qhost", "why"),
    [
        (b"", QHOST, "qstat: the answer is empty"),
        (b"error: commlib error", QHOST, "qstat: the answer is not XML: 'error: commlib error'"),
        (QSTAT[: len(QSTAT) // 2], QHOST, "qstat: broken XML"),
        (QHOST, QHOST, "qstat: <qhost> is not a job list"),
        (QSTAT, b"", "qhost: the answer is empty"),
        (QSTAT, QHOST[:-20], "qhost: broken XML"),
        (QSTAT, QSTAT, "qhost: <job_info> is not a list of hosts"),
        (QSTAT, b"<qhost/>", "qhost: no hosts printed"),
        (job_list(row("x")), QHOST, "qstat:"),
        (job_list(row(1, slots=0)), QHOST, "qstat: a waiting job requests 0 slots"),
    ],
    ids=[*("empty", "words", "cut", "other", "no hosts", "cut hosts", "swapped", "no host", "id"), "no slots"],
)
def test_an_incomplete_answer_is_no_idle_cell(qstat: bytes, qhost: bytes, why: str) -> None:
    with pytest.raises(ParseError, match=f"^{why.replace('?', '.')}"):
        parse_cell_demand(qstat, qhost)


@pytest.mark.parametrize(
    ("shortcut", "laid_out", "expected"),
    [
        ("h", CellConfiguration(), "hostname"),
        ("q", CellConfiguration(), "qname"),
        ("mf", CellConfiguration(), "mem_free"),
        ("m", CellConfiguration(), "m"),
        ("host", layout_of(hostname="host"), "hostname"),
        ("gpu", layout_of(gpu="gpu"), "gpu"),
        ("h", layout_of(gpu="g"), "hostname"),
        ("q", layout_of(quality="q"), "quality"),
    ],
)
def test_a_resource_shortcut_is_replaced_by_the_resource_name(
    shortcut: str, laid_out: CellConfiguration, expected: str
) -> None:
    (waits,) = cell(row(1, f"<hard_request name='{shortcut}'>x</hard_request>"), laid_out=laid_out).waiting

    assert waits.shape.requests == ((expected, "x"),)


CROWD = CAPTURED / "crowd.xml"
G = 1024.0**3
ROWS = (
    ("slots", "INT", "<=", "YES", "YES", "1"),
    ("lic", "INT", "<=", "YES", "YES", "0"),
    ("mem", "MEMORY", "<=", "YES", "YES", "0"),
    ("boot", "INT", "<=", "YES", "JOB", "1"),
    ("alone", "BOOL", "EXCL", "YES", "YES", "0"),
    ("arch", "STRING", "==", "YES", "NO", "NONE"),
)
KEYS = ("name", "type", "relation", "requestable", "consumable", "default")
TABLE = CellConsumables(QconfComplexRow(shortcut=row[0], **dict(zip(KEYS, row, strict=True))) for row in ROWS)


@pytest.fixture(name="crowded", scope="module")
def _cell() -> preemptions.CellRequestsAndResources:
    return parse_blocked_jobs(CROWD.read_bytes(), TABLE)


def test_only_consumables_and_exclusive_resources_are_queried() -> None:
    assert {"slots", "lic", "mem", "boot", "alone"} == {*TABLE.names}


def test_equal_requests_of_startable_jobs_are_listed_once(crowded: preemptions.CellRequestsAndResources) -> None:
    asked = {tuple(one.amounts.items()): one for one in crowded.asked}

    assert len(crowded.asked) == 3
    assert asked[("lic", 2.0),].task == 1
    assert asked[("mem", 3 * G),].task == 0


def test_a_request_for_an_exclusive_host_has_environment_and_queues(
    crowded: preemptions.CellRequestsAndResources,
) -> None:
    (alone,) = (one for one in crowded.asked if one.alone)

    assert alone == preemptions.WaitingLocalRequest(
        job=alone.job,
        slots=2,
        defaults={"slots": 2, "boot": 1},
        alone=frozenset({"alone"}),
        pe="smp",
        queues=("all.q",),
    )


def test_a_preemptible_task_holds_its_requested_amounts(crowded: preemptions.CellRequestsAndResources) -> None:
    tasks = [one for one in crowded.holders if one.makes_way]
    others = [one for one in crowded.holders if not one.makes_way]

    assert [(one.host, one.amounts["mem"]) for one in tasks if "mem" in one.amounts] == [("beta-n1", 1.5 * G)] * 2
    assert {1, 2} == {one.task for one in tasks if "mem" in one.amounts}
    assert all(one.since for one in crowded.holders)
    assert [(one.host, one.amounts["mem"]) for one in others] == [("beta-n2", 2 * G)]


def test_only_local_queue_instances_are_listed_with_free_amounts(crowded: preemptions.CellRequestsAndResources) -> None:
    places = {one.name: one for one in crowded.places}

    assert {"all.q@beta-n1", "all.q@beta-n2"} == {*places}
    assert places["all.q@beta-n1"] == preemptions.FreeQueueInstanceResources(
        name="all.q@beta-n1", slots=2, free={"mem": G, "boot": 3}, alone=frozenset({"alone"})
    )
    assert places["all.q@beta-n2"].slots == 1
    assert crowded.free == {"lic": 1}


def test_a_truncated_qstat_list_of_blocked_jobs_is_refused() -> None:
    with pytest.raises(ParseError):
        parse_blocked_jobs(CROWD.read_bytes()[:5000], TABLE)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("3", 3),
        ("1.5G", 1.5 * G),
        ("2k", 2000),
        ("4.000K", 4096),
        ("1:00:30", 3630),
        ("-1", -1),
        ("INFINITY", grid_engine_amounts.MOST),
        ("0x10", 16),
        ("nan", None),
        ("lx-amd64", None),
        ("", None),
    ],
)
def test_consumable_amounts_are_parsed(text: str, amount: float | None) -> None:
    assert parse_consumable_amount(text) == amount


def test_a_consumable_per_job_is_not_multiplied_by_slots() -> None:
    assert TABLE.requested_amounts((("boot", "2"), ("mem", "1G"), ("arch", "x")), 4) == {"boot": 2, "mem": 4 * G}
    assert TABLE.requests_without_consumables((("boot", "2"), ("arch", "x"))) == (("arch", "x"),)
