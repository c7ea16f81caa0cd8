"""Tests of blocked jobs and free consumables as printed by qstat 8.1.9."""

import pytest

from gridbridge.batch.gridengine.blocked_job_reader import ConsumableTable, parse_blocked_jobs, parse_consumable_amount
from gridbridge.errors import ParseError
from gridbridge.model import grid_engine_amounts
from gridbridge.model.campaigns import task_deletions_and_preemptions as preemptions
from gridbridge.model.site.setup_findings_and_edits import QconfComplexRow
from tests.builders.golden import CAPTURED

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
TABLE = ConsumableTable(QconfComplexRow(shortcut=row[0], **dict(zip(KEYS, row, strict=True))) for row in ROWS)


@pytest.fixture(name="cell", scope="module")
def _cell() -> preemptions.CellRequestsAndResources:
    return parse_blocked_jobs(CROWD.read_bytes(), TABLE)


def test_only_consumables_and_exclusive_resources_are_queried() -> None:
    assert {"slots", "lic", "mem", "boot", "alone"} == {*TABLE.names}


def test_equal_requests_of_startable_jobs_are_listed_once(cell: preemptions.CellRequestsAndResources) -> None:
    asked = {tuple(one.amounts.items()): one for one in cell.asked}

    assert len(cell.asked) == 3
    assert asked[("lic", 2.0),].task == 1
    assert asked[("mem", 3 * G),].task == 0


def test_a_request_for_an_exclusive_host_has_environment_and_queues(cell: preemptions.CellRequestsAndResources) -> None:
    (alone,) = (one for one in cell.asked if one.alone)

    assert alone == preemptions.WaitingLocalRequest(
        job=alone.job,
        slots=2,
        defaults={"slots": 2, "boot": 1},
        alone=frozenset({"alone"}),
        pe="smp",
        queues=("all.q",),
    )


def test_a_preemptible_task_holds_its_requested_amounts(cell: preemptions.CellRequestsAndResources) -> None:
    tasks = [one for one in cell.holders if one.makes_way]
    others = [one for one in cell.holders if not one.makes_way]

    assert [(one.host, one.amounts["mem"]) for one in tasks if "mem" in one.amounts] == [("beta-n1", 1.5 * G)] * 2
    assert {1, 2} == {one.task for one in tasks if "mem" in one.amounts}
    assert all(one.since for one in cell.holders)
    assert [(one.host, one.amounts["mem"]) for one in others] == [("beta-n2", 2 * G)]


def test_only_local_queue_instances_are_listed_with_free_amounts(cell: preemptions.CellRequestsAndResources) -> None:
    places = {one.name: one for one in cell.places}

    assert {"all.q@beta-n1", "all.q@beta-n2"} == {*places}
    assert places["all.q@beta-n1"] == preemptions.FreeQueueInstanceResources(
        name="all.q@beta-n1", slots=2, free={"mem": G, "boot": 3}, alone=frozenset({"alone"})
    )
    assert places["all.q@beta-n2"].slots == 1
    assert cell.free == {"lic": 1}


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
