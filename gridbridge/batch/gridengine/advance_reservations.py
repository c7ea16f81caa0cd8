"""Queries the slots of advance reservations, including future reservations: qrstat(1).

qstat shows only the slots of reservations that have begun.
"""

from collections import Counter
from collections.abc import Mapping

from gridbridge.batch.gridengine.parse.documents import parse_short_xml
from gridbridge.batch.gridengine.submit import run_client
from gridbridge.errors import CommandFailed
from gridbridge.model.transfer_route import GridEngineCellAccess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lxml.etree import _Element

RESERVATIONS_AT_ONCE = 100  # reservations in one query
NO_PROGRAM = 127
GONE = b"do not exist"  # all queried reservations have ended meanwhile


def query_advance_reserved_slots(cell: GridEngineCellAccess) -> Mapping[str, int]:
    """Return the reserved slots by queue instance; none if the cell has no qrstat."""
    try:
        listed = run_client(cell, (_program(cell), "-u", "*", "-xml"))
    except CommandFailed as error:
        if error.status == NO_PROGRAM:
            return {}
        raise
    ids = [element.text or "" for element in _shown(listed.checked().stdout).iterfind("ar_summary/id")]
    slots = Counter[str]()
    for start in range(0, len(ids), RESERVATIONS_AT_ONCE):
        portion = ",".join(ids[start : start + RESERVATIONS_AT_ONCE])
        answer = run_client(cell, (_program(cell), "-ar", portion, "-xml"))
        if answer.status and GONE in answer.stdout + answer.stderr:
            continue
        slots.update(parse_advance_reserved_slots(answer.checked().stdout))
    return dict(slots)


def parse_advance_reserved_slots(data: bytes) -> Mapping[str, int]:
    """Parse `qrstat -ar IDS -xml`; ParseError for other output."""
    slots = Counter[str]()
    for element in _shown(data).iterfind("ar_summary/granted_slots_list/granted_slots"):
        slots[element.get("queue_instance", "")] += int(element.get("slots", "0"))
    return slots


def _shown(data: bytes) -> "_Element":
    return parse_short_xml(data, "qrstat")


def _program(cell: GridEngineCellAccess) -> str:
    return f"{cell.binaries}/qrstat"
