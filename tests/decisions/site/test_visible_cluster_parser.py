"""What `gridbridge init` reads from the rows that its script prints about a host."""

import pytest

from gridbridge.decisions.site.visible_cluster_parser import parse_host_view
from gridbridge.model.site.visible_clusters import DaemonPorts
from gridbridge.model.site_configuration import ClusterKind

ROOT = "/var/lib/gridengine"
HOST = "host\talpha-master"
SETTINGS = "SGE_QMASTER_PORT=6454\tSGE_EXECD_PORT=6455\t"
SERVICES = ("service\tsge-qmaster 6444/tcp sge_qmaster", "service\tsge_execd 6445/tcp")
DAEMON = (
    *(f"daemon\t/proc/1/environ\t{word}" for word in (f"SGE_ROOT={ROOT}", "SGE_CELL=beta", *SETTINGS.split())),
    "daemon\t/proc/2/environ\tSGE_QMASTER_PORT=1",
)
USUAL, OTHER = DaemonPorts(qmaster=6444, execd=6445), DaemonPorts(qmaster=6454, execd=6455)


def cell(name: str, master: str, settings: str = "") -> str:
    return f"cell\t{ROOT}\t{name}\t{master}\t{settings}"


@pytest.mark.parametrize(
    ("rows", "ports", "is_guessed"),
    [
        ((cell("beta", "b"),), None, True),
        ((cell("beta", "b"), *SERVICES), USUAL, True),
        ((cell("beta", "b", SETTINGS), *SERVICES), OTHER, False),
        ((cell("beta", "b"), *SERVICES, *DAEMON), OTHER, False),
        ((cell("beta", "b"), *SERVICES, f"environment\tSGE_ROOT={ROOT}\tSGE_CELL=alpha\t{SETTINGS}"), USUAL, True),
        ((cell("beta", "b"), f"environment\tSGE_ROOT=/opt\tSGE_CELL=beta\t{SETTINGS}"), None, True),
        ((cell("beta", "b", "SGE_QMASTER_PORT=0\tSGE_EXECD_PORT=70000"),), None, True),
        ((cell("default", "b"), f"environment\tSGE_ROOT={ROOT}\t{SETTINGS}"), OTHER, False),
    ],
)
def test_ports_come_from_the_cell_and_its_daemons_or_else_from_services(
    rows: tuple[str, ...], ports: DaemonPorts | None, is_guessed: bool
) -> None:
    (found,) = parse_host_view("\n".join((HOST, *rows))).clusters.values()

    assert (found.ports, found.are_ports_guessed) == (ports, is_guessed)


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ((cell("alpha", "alpha-master"), cell("beta", "b")), {"alpha": True, "beta": False}),
        ((cell("alpha", "a"), cell("alpha", "a")), {"alpha": False}),
        ((cell("default", "head.site.org"),), {"head": False}),
        ((cell("default", "10.0.0.1"), cell("Old Cell", "alpha-master")), {"cluster-1": False, "alpha-master": True}),
        ((cell("default", "head"), "cell\t/opt/sge\tdefault\thead\t"), {"head": False, "cluster-1": False}),
        ((cell("x", "y"), f"daemon\t/proc/1\tSGE_ROOT={ROOT}", "daemon\t/proc/1\tSGE_CELL=x"), {"x": True}),
        (("oar\t/usr/bin", "Welcome to this host", "host"), {"alpha-master": True}),
    ],
)
def test_each_cell_gets_a_free_name_and_the_host_knows_its_own(rows: tuple[str, ...], names: dict[str, bool]) -> None:
    view = parse_host_view("\n".join((HOST, *rows)))

    assert {name: cluster.is_own for name, cluster in view.clusters.items()} == names


def test_programs_of_a_cell_are_in_the_first_folder_that_has_qstat() -> None:
    programs = (f"programs\t{ROOT}\t/usr/lib/gridengine", f"programs\t{ROOT}\t{ROOT}/bin/lx-amd64")

    view = parse_host_view("\n".join((HOST, cell("a", "b"), *programs, "oar\t/usr/local/bin")))

    assert [(cluster.kind, cluster.binaries) for cluster in view.clusters.values()] == [
        (ClusterKind.GRIDENGINE, "/usr/lib/gridengine"),
        (ClusterKind.OAR, "/usr/local/bin"),
    ]
