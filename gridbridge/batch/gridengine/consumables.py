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
    names = [row.name for row in complexes if _is_taken(row)]
    answer = call(cell, client_commands.consumables(cell, names)).checked()
    return read_xml(answer.stdout, partial(read_consumables, names=names))


def _is_taken(row: ComplexRow) -> bool:
    is_counted = row.name == SLOTS or row.default.upper() not in NOTHING
    return row.relation == EXCLUSIVE or (row.consumable != "NO" and is_counted)


def read_consumables(document: bytes, names: Container[str]) -> dict[str, tuple[str, ...]]:
    """Read `qstat -F ... -xml`."""
    holders_of: dict[str, set[str]] = {}
    walked = walk(document, QUEUE)
    for _, queue in walked:
        host = (queue.findtext("name") or "").rpartition("@")[2]
        for resource in queue.iterfind("resource"):
            name, holder = (
                resource.get("name") or "",
                {OF_HOST: host, OF_ALL: ALL}.get(resource.get("type")),
            )
            if name in names and holder:
                holders_of.setdefault(name, set()).add(holder)
        drop(queue)
    check_whole(walked.root)
    return {name: tuple(sorted(holders)) for name, holders in holders_of.items()}
