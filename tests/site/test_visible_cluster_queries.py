"""The script of `gridbridge init` finds cells below several roots, and guesses no port of another cell."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gridbridge.model.site.visible_clusters import DaemonPorts
from gridbridge.shell import program_runs
from gridbridge.shell.program_runs import CompletedProgram
from gridbridge.site.visible_cluster_queries import look_at_host_by_ssh, look_at_this_host

SETTINGS = "SGE_ROOT=/x; export SGE_ROOT\nSGE_QMASTER_PORT=7000; export SGE_QMASTER_PORT\nSGE_EXECD_PORT=7001\n"


def add_cell(root: Path, name: str, master: str, settings: str = "") -> None:
    common = root / name / "common"
    common.mkdir(parents=True)
    (common / "act_qmaster").write_text(f"{master}\n")
    if settings:
        (common / "settings.sh").write_text(settings)


def test_cells_are_found_below_each_root(tmp_path: Path) -> None:
    """A root may have a blank; SGE_ROOT of the caller counts too."""
    first, second = tmp_path / "first root", tmp_path / "second"
    add_cell(first, "one", "host-1", SETTINGS)
    add_cell(second, "two", "host-2")
    (first / "bin/lx").mkdir(parents=True)
    (first / "bin/lx/qstat").touch(0o755)
    own = {"SGE_ROOT": str(second), "SGE_CELL": "two", "SGE_QMASTER_PORT": "8000", "SGE_EXECD_PORT": "8001"}

    clusters = look_at_this_host({**own, "HOME": "/"}, (str(first), str(second))).clusters

    ours = {name: cell for name, cell in clusters.items() if cell.root.startswith(str(tmp_path))}
    assert {name: (cell.master, cell.ports, cell.is_own) for name, cell in ours.items()} == {
        "one": ("host-1", DaemonPorts(qmaster=7000, execd=7001), False),
        "two": ("host-2", DaemonPorts(qmaster=8000, execd=8001), True),
    }
    assert ours["one"].binaries in ("/usr/lib/gridengine", f"{first}/bin/lx")


@pytest.fixture
def guess() -> Iterator[int]:
    """Answer the look with a cell whose port is in services(5)."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
        rows = f"cell\t/r\tbeta\t127.0.0.1\t\nservice\tsge_qmaster {port}/tcp\nservice\tsge_execd 1/tcp\n"
        program_runs.replace_program_runs_by(lambda argv, *_: CompletedProgram(argv, 0, rows.encode(), b""))
        yield port
        program_runs.replace_program_runs_by(None)


def test_a_port_of_services_counts_only_while_the_qmaster_accepts_connections(guess: int) -> None:
    assert look_at_this_host({}).clusters["beta"].ports == DaemonPorts(qmaster=guess, execd=1)


def test_a_silent_port_of_services_is_no_port_of_the_cell(guess: int, monkeypatch: pytest.MonkeyPatch) -> None:
    del guess

    def refuse(*_: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", refuse)

    assert look_at_this_host({}).clusters["beta"].ports is None


def test_a_failed_login_is_a_trouble_in_words() -> None:
    view = look_at_host_by_ssh("nobody@localhost:1", "")

    assert view.clusters == {}
    assert "localhost" in view.trouble or "ssh" in view.trouble
