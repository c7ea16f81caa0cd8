"""Who waits for what others hold, as qstat of 8.1.9 prints it."""

from pathlib import Path

import pytest

from gridbridge.batch.gridengine.blocked_job_reader import ConsumableTable, parse_blocked_jobs, parse_consumable_amount
from gridbridge.errors import ParseError
from gridbridge.model import grid_engine_amounts
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    CellRequestsAndResources,
    FreeQueueInstanceResources,
    WaitingLocalRequest,
)
from gridbridge.model.site.setup_findings_and_edits import QconfComplexRow

CROWD = Path(__file__).parents[2] / "golden" / "gridengine-8.1.9" / "crowd.xml"
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
def _cell() -> CellRequestsAndResources:
    return parse_blocked_jobs(CROWD.read_bytes(), TABLE)


def test_only_consumables_are_asked_about() -> None:
    assert {"slots", "lic", "mem", "boot", "alone"} == {*TABLE.names}


def test_requests_that_can_start_are_in_the_schedulers_order(cell: CellRequestsAndResources) -> None:
    """One that is held is none, and of those that ask for the same the first is enough."""
    asked = {tuple(one.amounts.items()): one for one in cell.asked}

    assert len(cell.asked) == 3
    assert asked[("lic", 2.0),].task == 1
    assert asked[("mem", 3 * G),].task == 0


def test_a_request_for_a_host_alone_has_its_environment_and_queues(cell: CellRequestsAndResources) -> None:
    """It takes a slot for each of its processes, and what each job takes without asking."""
    (alone,) = (one for one in cell.asked if one.alone)

    assert alone == WaitingLocalRequest(
        job=alone.job,
        slots=2,
        defaults={"slots": 2, "boot": 1},
        alone=frozenset({"alone"}),
        pe="smp",
        queues=("all.q",),
    )


def test_tasks_that_make_way_hold_what_they_asked_for(cell: CellRequestsAndResources) -> None:
    """On the host of their queue, since they started."""
    tasks = [one for one in cell.holders if one.makes_way]
    others = [one for one in cell.holders if not one.makes_way]

    assert [(one.host, one.amounts["mem"]) for one in tasks if "mem" in one.amounts] == [("beta-n1", 1.5 * G)] * 2
    assert {1, 2} == {one.task for one in tasks if "mem" in one.amounts}
    assert all(one.since for one in cell.holders)
    assert [(one.host, one.amounts["mem"]) for one in others] == [("beta-n2", 2 * G)]


def test_places_are_of_local_queues_with_what_is_free_there(cell: CellRequestsAndResources) -> None:
    """Neither a best-effort queue nor one that sends jobs away is one."""
    places = {one.name: one for one in cell.places}

    assert {"all.q@beta-n1", "all.q@beta-n2"} == {*places}
    assert places["all.q@beta-n1"] == FreeQueueInstanceResources(
        name="all.q@beta-n1", slots=2, free={"mem": G, "boot": 3}, alone=frozenset({"alone"})
    )
    assert places["all.q@beta-n2"].slots == 1
    assert cell.free == {"lic": 1}


def test_half_a_list_is_none() -> None:
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
def test_amounts(text: str, amount: float | None) -> None:
    """As complex(5) has them."""
    assert parse_consumable_amount(text) == amount


def test_what_a_job_takes_once_is_not_multiplied_by_its_slots() -> None:
    """But all else is (complex(5), JOB)."""
    assert TABLE.amounts((("boot", "2"), ("mem", "1G"), ("arch", "x")), 4) == {"boot": 2, "mem": 4 * G}
    assert TABLE.others((("boot", "2"), ("arch", "x"))) == (("arch", "x"),)
