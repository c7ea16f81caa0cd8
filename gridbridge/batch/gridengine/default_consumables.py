"""Finds the consumables that jobs use without a request, by host (complex(5), host_conf(5)).

Every job on a host uses the host's and the cell's default amounts, whatever its queue.
"""

from collections.abc import Container, Iterable, Mapping
from functools import partial

from gridbridge.batch.gridengine import client_commands
from gridbridge.batch.gridengine.parse import (
    QUEUE,
    free_parsed_element,
    iterate_xml_elements,
    parse_repaired_xml,
    require_job_list,
)
from gridbridge.batch.gridengine.submit import run_client
from gridbridge.model.site.setup_findings_and_edits import QconfComplexRow
from gridbridge.model.transfer_route import GridEngineCellAccess

SLOTS = "slots"
EXCLUSIVE = "EXCL"  # relation of resources whose requests make the host exclusive
NOTHING = ("0", "0.0", "0:0:0", "00:00:00", "NONE", "FALSE")  # defaults without a request
OF_HOST, OF_ALL = "hc", "gc"  # qstat -F prefixes: consumable of a host, of the cell
ALL = "global"


def query_unrequested_consumables(
    cell: GridEngineCellAccess, complexes: Iterable[QconfComplexRow]
) -> Mapping[str, tuple[str, ...]]:
    """Return the consumables that jobs use without requesting them, with their hosts.

    The holder `global` stands for the whole cell.
    """
    names = [row.name for row in complexes if _is_taken(row)]
    answer = run_client(cell, client_commands.show_queue_resources_command(cell, names)).checked()
    return parse_repaired_xml(answer.stdout, partial(parse_hosts_of_consumables, names=names))


def _is_taken(row: QconfComplexRow) -> bool:
    is_counted = row.name == SLOTS or row.default.upper() not in NOTHING
    return row.relation == EXCLUSIVE or (row.consumable != "NO" and is_counted)


def parse_hosts_of_consumables(document: bytes, names: Container[str]) -> dict[str, tuple[str, ...]]:
    """Parse which hosts have these consumables, from `qstat -F ... -xml`."""
    holders_of: dict[str, set[str]] = {}
    walked = iterate_xml_elements(document, QUEUE)
    for _, queue in walked:
        host = (queue.findtext("name") or "").rpartition("@")[2]
        for resource in queue.iterfind("resource"):
            name, holder = (resource.get("name") or "", {OF_HOST: host, OF_ALL: ALL}.get(resource.get("type")))
            if name in names and holder:
                holders_of.setdefault(name, set()).add(holder)
        free_parsed_element(queue)
    require_job_list(walked.root)
    return {name: tuple(sorted(holders)) for name, holders in holders_of.items()}
