"""Which consumables a job takes of without asking for them, and where (complex(5), host_conf(5)).

Such of a host or of the whole cell are taken by every job there, whatever its queue.
"""

from collections.abc import Container, Iterable, Mapping
from functools import partial

from gridbridge.batch.gridengine import client_commands
from gridbridge.batch.gridengine.parse import QUEUE, check_whole, drop, read_xml, walk
from gridbridge.batch.gridengine.submit import call
from gridbridge.model.route import GridEngineCell
from gridbridge.model.site.setup_findings import ComplexRow

SLOTS = "slots"
EXCLUSIVE = "EXCL"  # a relation: a job that asks for it shares its host with none
NOTHING = ("0", "0.0", "0:0:0", "00:00:00", "NONE", "FALSE")  # defaults of complex(5)
OF_HOST, OF_ALL = "hc", "gc"  # the types of resources of qstat -F
ALL = "global"


def taken(cell: GridEngineCell, complexes: Iterable[ComplexRow]) -> Mapping[str, tuple[str, ...]]:
    """Return such consumables with the hosts that have them, or `global`."""
    wanted = [row.name for row in complexes if _is_taken(row)]
    done = call(cell, client_commands.consumables(cell, wanted)).checked()
    return read_xml(done.stdout, partial(read_consumables, names=wanted))


def _is_taken(row: ComplexRow) -> bool:
    is_counted = row.name == SLOTS or row.default.upper() not in NOTHING
    return row.relation == EXCLUSIVE or (row.consumable != "NO" and is_counted)


def read_consumables(document: bytes, names: Container[str]) -> dict[str, tuple[str, ...]]:
    """Read `qstat -F ... -xml`."""
    found: dict[str, set[str]] = {}
    walked = walk(document, QUEUE)
    for _, queue in walked:
        host = (queue.findtext("name") or "").rpartition("@")[2]
        for one in queue.iterfind("resource"):
            name, place = one.get("name") or "", {OF_HOST: host, OF_ALL: ALL}.get(one.get("type"))
            if name in names and place:
                found.setdefault(name, set()).add(place)
        drop(queue)
    check_whole(walked.root)
    return {name: tuple(sorted(places)) for name, places in found.items()}
