"""Reads a cell's objects for `gridbridge setup` and `gridbridge check`, such as queues, hosts and resources."""

import re
import socket
from collections.abc import Container, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from gridbridge.batch.gridengine import qconf_parser_and_edits
from gridbridge.batch.gridengine.job_submission_and_control import run_client
from gridbridge.batch.gridengine.qstat_xml_parser import QUEUE, iterate_job_list, with_qstat_xml_repair
from gridbridge.batch.gridengine.status import (
    query_all_queue_settings,
    query_cluster_snapshot,
    query_qconf_names,
    query_qconf_object,
    query_qconf_object_settings,
)
from gridbridge.errors import CommandFailed, GridbridgeError, SshAccessRejected, StateError
from gridbridge.model.cluster_snapshot import QueueInstanceStatus
from gridbridge.model.elastic.elastic_nodes import is_same_host
from gridbridge.model.qconf_attribute_parser import (
    QconfSettings,
    is_besteffort_queue,
    is_transfer_queue,
    parse_qconf_words,
)
from gridbridge.model.site.setup_findings_and_edits import (
    BestEffortCellFacts,
    CellQconfSettings,
    GridEngineObject,
    QconfComplexRow,
)
from gridbridge.model.site.site_check_facts import ClusterFacts
from gridbridge.model.transfer_route import GridEngineCellAccessSettings
from gridbridge.shell import local_host_facts

AT_ONCE = 4  # number of simultaneous queries to a cell
GLOBAL = "global"
HAS_OPERATORS = True
HAS_ENVIRONMENTS = True
LISTS = {  # qconf options that list names
    "operators": "-so",
    "managers": "-sm",
    "submit_hosts": "-ss",
    "admin_hosts": "-sh",
    "host_groups": "-shgrpl",
}
PORT = re.compile(r"^\s*SGE_QMASTER_PORT=([0-9]+)", re.MULTILINE)  # port in the cell's settings.sh
SERVICE = "sge_qmaster"  # name of the qmaster's port in services(5)
OUR_LIST = re.compile("gb_[a-z0-9_]+_users")
PROBE_S = 5.0
OBJECT_OPTIONS = {  # qconf's options that show the objects of set-up edits
    "complexes": "-sc",
    "scheduler": "-ssconf",
    "queue": "-sq",
    "exechost": "-se",
    "configuration of host": "-sconf",
    "userset": "-su",
    "resource quota": "-srqs",
    "managers": "-sm",
    "operators": "-so",
    "submit hosts": "-ss",
    "admin hosts": "-sh",
}
UNDEFINED = (b"not defined", b"can't resolve hostname")  # qconf(1)'s messages for a host without its own configuration
MISSING = (*UNDEFINED, b"No cluster queue or queue instance", b"does not exist", b" defined")


def query_cluster_facts(cell: GridEngineCellAccessSettings, now: float) -> ClusterFacts:
    """Return the qmaster's version and clock offset, or why the qmaster does not answer."""
    try:
        master = read_acting_qmaster(cell)
    except GridbridgeError as error:
        return ClusterFacts(trouble=str(error), is_shut=isinstance(error, SshAccessRejected))
    try:
        query_qconf_object(cell, "-sql")
        ahead_s = query_qmaster_clock_offset_s(cell, now)
        answer = run_client(cell, qconf_parser_and_edits.qconf_command(cell, "-help"))
        version = (answer.stdout or answer.stderr).decode("utf-8", "replace").partition("\n")[0].strip()
        return ClusterFacts(version=version, ahead_s=ahead_s, master=master)
    except GridbridgeError as error:
        port = find_other_qmaster_port(cell) if master and not cell.login else 0
        return ClusterFacts(trouble=str(error), master=master, other_port=port)


def count_batch_slots(cell: GridEngineCellAccessSettings) -> int:
    """Return the number of slots in batch queues; slots of transfer and best-effort queues don't count."""
    transfers = {name for name, queue in query_queue_settings(cell).items() if is_transfer_queue(queue)}
    queues = query_queue_instances(cell, "")
    ours = (queue for queue in queues if not queue.is_besteffort)
    own = (queue for queue in ours if queue.name.partition("@")[0] not in transfers)
    return sum(queue.slots_total for queue in own if queue.takes_batch)


def read_remote_setup(cell: GridEngineCellAccessSettings, of_host: str, _home: CellQconfSettings) -> CellQconfSettings:
    """Return the cell's objects that transfers from a host involve; without queues and hosts if ssh is used."""
    if not cell.login:
        return read_home_setup(cell, of_host)
    return CellQconfSettings(
        master=read_acting_qmaster(cell),
        complexes={},
        queues={},
        environments=_query_parallel_environments(cell),
        scheduler={},
        common={},
        exec_hosts={},
        operators=query_qconf_names(cell, "-so"),
        managers=query_qconf_names(cell, "-sm"),
    )


def read_home_setup(cell: GridEngineCellAccessSettings, of_host: str) -> CellQconfSettings:
    complexes = qconf_parser_and_edits.parse_complex_table(query_qconf_object(cell, "-sc"))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        answers: dict[str, Future[Any]] = {
            "queues": threads.submit(query_queue_settings, cell),
            "environments": threads.submit(_query_parallel_environments, cell),
            "scheduler": threads.submit(query_qconf_object_settings, cell, "-ssconf"),
            "common": threads.submit(query_qconf_object_settings, cell, "-sconf"),
            "host": threads.submit(_query_local_configuration_of_host, cell, of_host),
            "exec_hosts": threads.submit(_query_exec_host_settings, cell, of_host),
            "user_lists": threads.submit(_query_gridbridge_user_lists, cell),
            **{field: threads.submit(query_qconf_names, cell, option) for field, option in LISTS.items()},
        }
    settings = {field: answer.result() for field, answer in answers.items()}
    return CellQconfSettings(master=read_acting_qmaster(cell), complexes=complexes, **settings)


def read_besteffort_queue_setup(cell: GridEngineCellAccessSettings) -> BestEffortCellFacts:
    complexes = qconf_parser_and_edits.parse_complex_table(query_qconf_object(cell, "-sc"))
    slots: dict[str, dict[str, int]] = {}
    for instance in query_queue_instances(cell, ""):
        slots.setdefault(instance.queue_name, {})[instance.host_name] = instance.slots_total
    return BestEffortCellFacts(
        complexes=complexes,
        queues=query_queue_settings(cell),
        environments=_query_parallel_environments(cell),
        quotas={name: query_qconf_object(cell, "-srqs", name).decode() for name in query_qconf_names(cell, "-srqsl")},
        slots=slots,
        taken=query_unrequested_consumables(cell, complexes.values()),
    )


def query_object_lines(cell: GridEngineCellAccessSettings, shown: GridEngineObject) -> tuple[str, ...]:
    """Return the lines of an object without comments, with single blanks; no line for a missing object."""
    command = qconf_parser_and_edits.qconf_command(cell, *f"{OBJECT_OPTIONS[shown.kind]} {shown.name}".split())
    answer = run_client(cell, command)
    if any(words in answer.stdout + answer.stderr for words in MISSING):
        return ()
    return qconf_parser_and_edits.parse_object_lines(answer.require_success().stdout)


def query_queue_settings(cell: GridEngineCellAccessSettings) -> Mapping[str, QconfSettings]:
    return {settings["qname"]: settings for settings in query_all_queue_settings(cell)}


def query_queue_rerun_settings(cell: GridEngineCellAccessSettings, excluded: Container[str]) -> Mapping[str, str]:
    """Return the setting `rerun` of each queue, without best-effort queues and the queues in `excluded`."""
    usual = (settings for settings in query_all_queue_settings(cell) if not is_besteffort_queue(settings))
    return {settings["qname"]: settings["rerun"] for settings in usual if settings["qname"] not in excluded}


def query_queue_instances(cell: GridEngineCellAccessSettings, cluster: str) -> tuple[QueueInstanceStatus, ...]:
    return query_cluster_snapshot(cell, cluster, ())[0].queues


def count_queue_slots_on_host(cell: GridEngineCellAccessSettings, name: str) -> Mapping[str, int]:
    instances = query_queue_instances(cell, "")
    return {
        instance.queue_name: instance.slots_total for instance in instances if is_same_host(instance.host_name, name)
    }


def query_qmaster_clock_offset_s(cell: GridEngineCellAccessSettings, now: float) -> float | None:
    """Return the seconds by which the qmaster's clock (qping -info) is ahead of `now`; None if unknown."""
    argv = (f"{cell.binaries}/qping", "-info", read_acting_qmaster(cell), cell.qmaster_port, "qmaster", "1")
    answer = run_client(cell, argv)
    return qconf_parser_and_edits.parse_qmaster_clock_offset_s(answer.stdout, now)


def find_other_qmaster_port(cell: GridEngineCellAccessSettings) -> int:
    """Return another port (settings.sh, services(5)) at which the qmaster answers; 0 if none answers."""
    text = local_host_facts.read_text_or_empty(f"{cell.root}/{cell.cell}/common/settings.sh")
    ports = dict.fromkeys(PORT.findall(text))
    with suppress(OSError):
        ports[str(socket.getservbyname(SERVICE, "tcp"))] = None
    return next((int(port) for port in ports if port != cell.qmaster_port and _is_qmaster_at_port(cell, port)), 0)


def _is_qmaster_at_port(cell: GridEngineCellAccessSettings, port: str) -> bool:
    argv = (f"{cell.binaries}/qping", "-info", read_acting_qmaster(cell), port, "qmaster", "1")
    try:
        return run_client(cell.with_time_limit(PROBE_S), argv).status == 0
    except CommandFailed:
        return False


def read_acting_qmaster(cell: GridEngineCellAccessSettings) -> str:
    """Return the host on which the qmaster runs (bootstrap(5): act_qmaster)."""
    path = f"{cell.root}/{cell.cell}/common/act_qmaster"
    if cell.login:
        return run_client(cell, ("/bin/cat", path)).require_success().stdout.decode("ascii", "replace").strip()
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readline().strip()
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}; expected the cell's folder common/ on this host") from error


def _query_parallel_environments(cell: GridEngineCellAccessSettings) -> Mapping[str, QconfSettings]:
    return {name: query_qconf_object_settings(cell, "-sp", name) for name in query_qconf_names(cell, "-spl")}


def _query_gridbridge_user_lists(cell: GridEngineCellAccessSettings) -> Mapping[str, tuple[str, ...]]:
    ours = [name for name in query_qconf_names(cell, "-sul") if OUR_LIST.fullmatch(name)]
    shown = {name: query_qconf_object_settings(cell, "-su", name) for name in ours}
    return {name: parse_qconf_words(values.get("entries", "")) for name, values in shown.items()}


def _query_local_configuration_of_host(cell: GridEngineCellAccessSettings, name: str) -> QconfSettings | None:
    answer = run_client(cell, qconf_parser_and_edits.qconf_command(cell, "-sconf", name))
    if answer.status and any(words in answer.stdout + answer.stderr for words in UNDEFINED):
        return None
    return qconf_parser_and_edits.parse_object_attributes(answer.require_success().stdout)


def _query_exec_host_settings(cell: GridEngineCellAccessSettings, of_host: str) -> Mapping[str, QconfSettings]:
    hosts = {name.lower() for name in query_qconf_names(cell, "-sel")}
    present = (name for name in (GLOBAL, of_host) if name == GLOBAL or name.lower() in hosts)
    return {name: query_qconf_object_settings(cell, "-se", name) for name in present}


SLOTS = "slots"
EXCLUSIVE = "EXCL"  # relation (complex(5)) of a resource by which a job requests a whole host
NOTHING = ("0", "0.0", "0:0:0", "00:00:00", "NONE", "FALSE")  # default amounts that mean that a job uses nothing
OF_HOST, OF_ALL = "hc", "gc"  # prefixes of consumables of a host and of the whole cell in `qstat -F`
ALL = "global"


def query_unrequested_consumables(
    cell: GridEngineCellAccessSettings, complexes: Iterable[QconfComplexRow]
) -> Mapping[str, tuple[str, ...]]:
    """Return consumables that jobs use by default, each with its hosts; `global` is the whole cell."""
    names = [row.name for row in complexes if _is_consumable_used_without_request(row)]
    argv = (f"{cell.binaries}/qstat", "-F", ",".join(names), "-u", "root", "-xml")
    answer = run_client(cell, argv).require_success()
    return parse_hosts_of_consumables(answer.stdout, names)


def _is_consumable_used_without_request(row: QconfComplexRow) -> bool:
    is_counted = row.name == SLOTS or row.default.upper() not in NOTHING
    return row.relation == EXCLUSIVE or (row.consumable != "NO" and is_counted)


@with_qstat_xml_repair
def parse_hosts_of_consumables(document: bytes, names: Container[str]) -> dict[str, tuple[str, ...]]:
    holders_of: dict[str, set[str]] = {}
    for queue in (element for element in iterate_job_list(document) if element.tag == QUEUE):
        host = (queue.findtext("name") or "").rpartition("@")[2]
        for resource in queue.iterfind("resource"):
            name, holder = (resource.get("name") or "", {OF_HOST: host, OF_ALL: ALL}.get(resource.get("type") or ""))
            if name in names and holder:
                holders_of.setdefault(name, set()).add(holder)
    return {name: tuple(sorted(holders)) for name, holders in holders_of.items()}
