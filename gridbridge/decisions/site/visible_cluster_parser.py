"""Parses what the script of `gridbridge init` prints about a host: cells, daemons, ports and programs.

A row has a word and fields, with tabs between. Grid Engine's ports come from the cell's settings.sh, from the
environment of daemons and of the caller, or else from services(5).
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from gridbridge.model.elastic.elastic_nodes import is_same_host
from gridbridge.model.site.visible_clusters import DaemonPorts, HostView, VisibleCluster
from gridbridge.model.site_configuration import MAX_PORT, ClusterKind
from gridbridge.model.transfer_name import is_valid_cluster_name

SERVICES = {"sge_qmaster": "SGE_QMASTER_PORT", "sge_execd": "SGE_EXECD_PORT"}  # variable by name in services(5)
USUAL_CELL = "default"  # name of most cells, therefore no name of a cluster
Variables = Mapping[str, str]
Rows = Sequence[Sequence[str]]


def parse_host_view(text: str) -> HostView:
    """Parse the script's output; other lines, such as a login banner, are ignored."""
    rows = [line.split("\t") for line in text.splitlines()]
    host = next((fields[0] for fields in _fields_of_rows(rows, "host")), "")
    clusters: dict[str, VisibleCluster] = {}
    for cluster in (*_cells(rows, host), *_oar_servers(rows, host)):
        clusters[_free_cluster_name(cluster, clusters)] = cluster
    return HostView(host=host, clusters=clusters)


def _fields_of_rows(rows: Rows, word: str) -> Iterator[Sequence[str]]:
    return (fields for first, *fields in rows if first == word)


def _cells(rows: Rows, host: str) -> Iterator[VisibleCluster]:
    environments = [*_environments_of_daemons(rows), *map(_parse_variables, _fields_of_rows(rows, "environment"))]
    services = {SERVICES[name]: port for name, port in _parse_services(rows)}
    binaries = {fields[0]: fields[1] for fields in reversed([*_fields_of_rows(rows, "programs")])}
    by_place = {(fields[0], fields[1]): fields[2:] for fields in _fields_of_rows(rows, "cell")}
    for (root, cell), (master, *settings) in by_place.items():
        own = [variables for variables in environments if _is_environment_of_cell(variables, root, cell)]
        known = _ports_of_variables(_first_of_each([_parse_variables(settings), *own]))
        yield VisibleCluster(
            kind=ClusterKind.GRIDENGINE,
            master=master,
            root=root,
            cell=cell,
            binaries=binaries.get(root, ""),
            ports=known or _ports_of_variables(services),
            are_ports_guessed=known is None,
            is_own=bool(own) or is_same_host(master, host),
        )


def _environments_of_daemons(rows: Rows) -> Iterator[Variables]:
    variables_by_process: dict[str, list[str]] = {}
    for process, *variables in (fields for fields in _fields_of_rows(rows, "daemon") if fields):
        variables_by_process.setdefault(process, []).extend(variables)
    return map(_parse_variables, variables_by_process.values())


def _oar_servers(rows: Rows, host: str) -> Iterator[VisibleCluster]:
    for (folder,) in _fields_of_rows(rows, "oar"):
        yield VisibleCluster(kind=ClusterKind.OAR, master=host, binaries=folder, is_own=True)


def _parse_variables(fields: Sequence[str]) -> Variables:
    return dict(field.split("=", 1) for field in fields if "=" in field)


def _parse_services(rows: Rows) -> Iterator[tuple[str, str]]:
    for (line,) in _fields_of_rows(rows, "service"):
        words = line.split()
        yield from ((name, words[1].partition("/")[0]) for name in words[:1] + words[2:] if name in SERVICES)


def _is_environment_of_cell(variables: Variables, root: str, cell: str) -> bool:
    return variables.get("SGE_CELL", USUAL_CELL) == cell and variables.get("SGE_ROOT") == root


def _first_of_each(environments: Sequence[Variables]) -> Variables:
    return {name: value for variables in reversed(environments) for name, value in variables.items()}


def _ports_of_variables(variables: Variables) -> DaemonPorts | None:
    qmaster, execd = (variables.get(variable, "") for variable in SERVICES.values())
    return DaemonPorts(qmaster=int(qmaster), execd=int(execd)) if is_port(qmaster) and is_port(execd) else None


def is_port(text: str) -> bool:
    return bool(re.fullmatch("[0-9]{1,5}", text)) and 0 < int(text) <= MAX_PORT


def _free_cluster_name(cluster: VisibleCluster, taken: Mapping[str, object]) -> str:
    """Return the cell's name, or else a name made from the master's host name; names are unique."""
    host = re.sub("[^a-z0-9-]", "-", cluster.master.partition(".")[0].lower()).lstrip("-0123456789")[:30]
    names = (
        cluster.cell if cluster.cell != USUAL_CELL else "",
        host,
        *(f"cluster-{number}" for number in range(1, 99)),
    )
    return next(name for name in names if is_valid_cluster_name(name) and name not in taken)
