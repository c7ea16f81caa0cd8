"""Tests of slots of advance reservations as printed by qrstat 8.1.9."""

from pathlib import Path

import pytest

from gridbridge.batch.gridengine.cell_configuration_reader import (
    parse_advance_reserved_slots,
    query_advance_reserved_slots,
)
from gridbridge.errors import CommandFailed, ParseError
from gridbridge.model.transfer_route import GridEngineCellAccess
from tests.batch.gridengine.cells import cell_of_scripts

ONE = (Path(__file__).with_name("fake_cell") / "qrstat.xml").read_bytes()


def cell(folder: Path, body: str = "") -> GridEngineCellAccess:
    """Return a cell whose qrstat runs `body`; the cell has no qrstat if `body` is empty."""
    return cell_of_scripts(folder, **({"qrstat": body} if body else {}))


def test_reserved_slots_of_several_reservations_are_added() -> None:
    assert parse_advance_reserved_slots(ONE) == {"all.q@n3": 3, "all.q@n4": 2}


def test_invalid_output_of_qrstat_is_refused() -> None:
    with pytest.raises(ParseError):
        parse_advance_reserved_slots(b"error: commlib error")


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        ("", []),
        ('echo "$*" >>"$0.log"; echo "<qrstat/>"', ["-u * -xml"]),
        (
            """echo "$*" >>"$0.log"
[ "$1" = -u ] && exec echo '<qrstat><ar_summary><id>7</id></ar_summary></qrstat>'
printf 'Following advance reservations do not exist:\\n7\\n'; exit 1""",
            ["-u * -xml", "-ar 7 -xml"],
        ),
    ],
    ids=["no qrstat", "no reservation", "the reservation ended meanwhile"],
)
def test_a_cell_without_reservations_has_no_reserved_slots(tmp_path: Path, body: str, calls: list[str]) -> None:
    log = tmp_path / "qrstat.log"

    assert query_advance_reserved_slots(cell(tmp_path, body)) == {}
    assert (log.read_text().splitlines() if log.exists() else []) == calls


def test_a_failed_qrstat_does_not_mean_no_reservation(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed):
        query_advance_reserved_slots(cell(tmp_path, "echo 'unable to contact qmaster' >&2; exit 1"))
