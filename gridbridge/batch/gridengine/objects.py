"""Reads by qconf the objects of a cell that a set-up touches, several at a time."""

import re
import socket
from collections.abc import Container, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from gridbridge.batch.gridengine import qconf
from gridbridge.batch.gridengine.consumables import taken
from gridbridge.batch.gridengine.status import names, queue_settings, show, snapshot
from gridbridge.batch.gridengine.submit import call
from gridbridge.errors import CommandFailed, StateError
from gridbridge.model.elastic.elastic_nodes import is_same_host
from gridbridge.model.qconf_attributes import QconfSettings, is_besteffort_queue, parse_words
from gridbridge.model.route import GridEngineCell
from gridbridge.model.site.setup_findings import BestEffortCell, CellSetup
from gridbridge.model.snapshot import QueueStatus
from gridbridge.shell import host

AT_ONCE = 4  # questions to a cell
GLOBAL = "global"
LISTS = {  # of names
    "operators": "-so",
    "managers": "-sm",
    "submit_hosts": "-ss",
    "admin_hosts": "-sh",
    "host_groups": "-shgrpl",
}
PORT = re.compile(r"^\s*SGE_QMASTER_PORT=([0-9]+)", re.MULTILINE)  # of settings.sh
SERVICE = "sge_qmaster"  # of services(5)
OUR_LIST = re.compile("gb_[a-z0-9_]+_users")
PROBE_S = 5.0
UNDEFINED = (b"not defined", b"can't resolve hostname")  # a host without configuration: qconf(1)


def cell_setup(cell: GridEngineCell, of_host: str) -> CellSetup:
    """Return the cell's set-up, with what it knows of a host; CommandFailed when it is silent."""
    complexes = qconf.complexes(show(cell, "-sc"))  # alone: a silent cell is asked no more
    with ThreadPoolExecutor(AT_ONCE) as threads:
        its_queues = threads.submit(queues, cell)
        environments = threads.submit(_environments, cell)
        scheduler, common = (
            threads.submit(show, cell, "-ssconf"),
            threads.submit(show, cell, "-sconf"),
        )
        of_that_host = threads.submit(_host_configuration, cell, of_host)
        exec_hosts = threads.submit(_exec_hosts, cell, of_host)
        user_lists = threads.submit(_user_lists, cell)
        lists = {field: threads.submit(names, cell, option) for field, option in LISTS.items()}
    return CellSetup(
        master=master(cell),
        complexes=complexes,
        queues=its_queues.result(),
        environments=environments.result(),
        scheduler=qconf.settings(scheduler.result()),
        common=qconf.settings(common.result()),
        host=of_that_host.result(),
        exec_hosts=exec_hosts.result(),
        user_lists=user_lists.result(),
        **{field: future.result() for field, future in lists.items()},
    )


def far_setup(cell: GridEngineCell) -> CellSetup:
    """Return what matters of a cell of another domain, whose set-up is its administrators' own."""
    return CellSetup(
        master=master(cell),
        complexes={},
        queues={},
        environments=_environments(cell),
        scheduler={},
        common={},
        exec_hosts={},
        operators=names(cell, "-so"),
        managers=names(cell, "-sm"),
    )


def besteffort_cell(cell: GridEngineCell) -> BestEffortCell:
    """Return what best-effort queues touch; CommandFailed when the cell is silent."""
    complexes = qconf.complexes(show(cell, "-sc"))
    slots: dict[str, dict[str, int]] = {}
    for instance in queue_instances(cell, ""):
        slots.setdefault(instance.queue, {})[instance.host] = instance.slots_total
    return BestEffortCell(
        complexes=complexes,
        queues=queues(cell),
        environments=_environments(cell),
        quotas={name: show(cell, "-srqs", name).decode() for name in names(cell, "-srqsl")},
        slots=slots,
        taken=taken(cell, complexes.values()),
    )


def queues(cell: GridEngineCell) -> Mapping[str, QconfSettings]:
    """Return every queue's configuration, by its name."""
    return {settings["qname"]: settings for settings in queue_settings(cell)}


def reruns(cell: GridEngineCell, excluded: Container[str]) -> Mapping[str, str]:
    """Return what each queue says of `rerun`, for some hosts differently; the others left out.

    So are best-effort queues: they take no job that did not ask for them.
    """
    usual = (settings for settings in queue_settings(cell) if not is_besteffort_queue(settings))
    return {
        settings["qname"]: settings["rerun"]
        for settings in usual
        if settings["qname"] not in excluded
    }


def queue_instances(cell: GridEngineCell, cluster: str) -> tuple[QueueStatus, ...]:
    """Return every queue on every host with its letters and slots."""
    return snapshot(cell, cluster, ())[0].queues


def slots_on(cell: GridEngineCell, name: str) -> Mapping[str, int]:
    """Return the slots of every queue on a host."""
    instances = queue_instances(cell, "")
    return {
        instance.queue: instance.slots_total
        for instance in instances
        if is_same_host(instance.host, name)
    }


def check_answers(cell: GridEngineCell) -> None:
    """Ask the qmaster something small; CommandFailed tells why it doesn't answer."""
    show(cell, "-sql")


def version(cell: GridEngineCell) -> str:
    """Return what the client programs call themselves, e.g. `SGE 8.1.9`."""
    answer = call(cell, qconf.show(cell, "-help"))
    return (answer.stdout or answer.stderr).decode("utf-8", "replace").partition("\n")[0].strip()


def master_offset_s(cell: GridEngineCell, now: float) -> float | None:
    """Return how far the qmaster's clock is ahead of `now`; None when qping doesn't tell.

    qping prints when the qmaster started and how long it has run, both by its own clock.
    """
    argv = (f"{cell.binaries}/qping", "-info", master(cell), cell.qmaster_port, "qmaster", "1")
    answer = call(cell, argv)
    return qconf.clock(answer.stdout, now)


def other_port(cell: GridEngineCell) -> int:
    """Return the port where a qmaster answers on act_qmaster's host, though not at ours; else 0.

    Asked are those that the cell's settings.sh and services(5) name.
    """
    ports = (port for port in _known_ports(cell) if port != cell.qmaster_port)
    return next((int(port) for port in ports if _is_qmaster(cell, port)), 0)


def _known_ports(cell: GridEngineCell) -> Iterator[str]:
    text = host.text(f"{cell.root}/{cell.cell}/common/settings.sh")
    yield from dict.fromkeys(PORT.findall(text))
    with suppress(OSError):
        yield str(socket.getservbyname(SERVICE, "tcp"))


def _is_qmaster(cell: GridEngineCell, port: str) -> bool:
    argv = (f"{cell.binaries}/qping", "-info", master(cell), port, "qmaster", "1")
    try:
        return call(cell.within(PROBE_S), argv).status == 0
    except CommandFailed:
        return False


def master(cell: GridEngineCell) -> str:
    """Return the host whose qmaster acts now (bootstrap(5): act_qmaster)."""
    path = f"{cell.root}/{cell.cell}/common/act_qmaster"
    if cell.login:
        return call(cell, ("/bin/cat", path)).checked().stdout.decode("ascii", "replace").strip()
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readline().strip()
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}; the cell's common/ has to be here") from error


def _environments(cell: GridEngineCell) -> Mapping[str, QconfSettings]:
    """Return every parallel environment's configuration; qconf(1) shows one at a time."""
    return {name: qconf.settings(show(cell, "-sp", name)) for name in names(cell, "-spl")}


def _user_lists(cell: GridEngineCell) -> Mapping[str, tuple[str, ...]]:
    """Return who is in the usersets of ours (access_list(5))."""
    ours = [name for name in names(cell, "-sul") if OUR_LIST.fullmatch(name)]
    shown = {name: qconf.settings(show(cell, "-su", name)) for name in ours}
    return {name: parse_words(values.get("entries", "")) for name, values in shown.items()}


def _host_configuration(cell: GridEngineCell, name: str) -> QconfSettings | None:
    answer = call(cell, qconf.show(cell, "-sconf", name))
    if answer.status and any(words in answer.stdout + answer.stderr for words in UNDEFINED):
        return None
    return qconf.settings(answer.checked().stdout)


def _exec_hosts(cell: GridEngineCell, of_host: str) -> Mapping[str, QconfSettings]:
    hosts = {name.lower() for name in names(cell, "-sel")}
    present = [name for name in (GLOBAL, of_host) if name == GLOBAL or name.lower() in hosts]
    return {name: qconf.settings(show(cell, "-se", name)) for name in present}
