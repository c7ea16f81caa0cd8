"""gridbridge init as administrators see the command."""

import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gridbridge.cli.main import gridbridge
from gridbridge.config import configuration_file
from gridbridge.model.site.visible_clusters import DaemonPorts, HostView, VisibleCluster
from gridbridge.model.site_configuration import ClusterKind
from gridbridge.site import visible_cluster_queries

ALPHA = VisibleCluster(
    kind=ClusterKind.GRIDENGINE,
    master="a",
    root="/var/lib/gridengine",
    cell="alpha",
    ports=DaemonPorts(qmaster=6444, execd=6445),
    is_own=True,
)
BETA = VisibleCluster(kind=ClusterKind.GRIDENGINE, master="b", root="/var/lib/gridengine", cell="beta")


@pytest.fixture
def toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    view = HostView(host="a", clusters={"alpha": ALPHA, "beta": BETA})
    monkeypatch.setattr(visible_cluster_queries, "look_at_this_host", lambda: view)
    return tmp_path / "etc/gridbridge.toml"


def run(path: Path, *words: str) -> Result:
    return CliRunner().invoke(gridbridge, ["init", "--config", str(path), *words])


def run_at_terminal(path: Path, replies: str, monkeypatch: pytest.MonkeyPatch, *words: str) -> Result:
    runner = CliRunner()
    monkeypatch.setattr("gridbridge.site.cli.init_command.is_terminal", lambda: True)
    return runner.invoke(gridbridge, ["init", "--config", str(path), *words], input=replies)


def test_options_write_a_file_that_everybody_reads_and_name_the_next_command(toml: Path) -> None:
    done = run(toml, "--ports", "beta=6454,6455", "--spool-shared")

    assert (done.exit_code, done.output) == (0, f"{toml}: written\nnext: gridbridge check --config {toml}\n")
    policy = configuration_file.load_configuration(str(toml))
    assert (policy.site.cluster, [*policy.clusters]) == ("alpha", ["alpha", "beta"])
    assert (policy.clusters["beta"].qmaster_port, policy.clusters["beta"].spool_shared) == (6454, True)
    assert stat.S_IMODE(toml.stat().st_mode) == 0o644


def test_questions_are_asked_again_after_a_wrong_answer(toml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run_at_terminal(toml, "A b\n\n\n\nbeta\nbeta=1,2\n\n", monkeypatch)

    assert done.exit_code == 0
    assert "a shows alpha: cell alpha in /var/lib/gridengine, qmaster on a, ports 6444 and 6445" in done.output
    assert "--home 'A b': wrong name" in done.output
    assert configuration_file.load_configuration(str(toml)).clusters["beta"].execd_port == 2


def test_an_existing_file_stays_as_it_is_without_replace(toml: Path) -> None:
    toml.parent.mkdir()
    toml.write_text("# by hand\n")

    done = run(toml, "--yes", "--clusters", "none")
    assert (done.exit_code, toml.read_text()) == (1, "# by hand\n")
    assert done.output == f"gridbridge: {toml}: exists and stays as it is; --replace replaces the file\n"

    done = run(toml, "--yes", "--clusters", "none", "--replace")
    assert (done.exit_code, toml.with_name("gridbridge.toml.old").read_text()) == (0, "# by hand\n")
    assert configuration_file.load_configuration(str(toml)).clusters.keys() == {"alpha"}


def test_dry_run_prints_the_file_and_writes_nothing(toml: Path) -> None:
    done = run(toml, "--yes", "--clusters", "none", "--dry-run")

    assert configuration_file.parse_configuration("printed", done.output.encode()).site.cluster == "alpha"
    assert not toml.parent.exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "no terminal for the questions; expected --yes, which accepts what this host shows, or options"),
        (("--yes",), "--ports: missing: Ports of beta, as NAME=QMASTER,EXECD, or NAME=oar"),
        (("--clusters", "gama"), "--clusters 'gama': no other cluster on this host; expected beta, or none"),
    ],
)
def test_without_a_terminal_a_missing_or_wrong_answer_is_one_line(
    words: tuple[str, ...], line: str, toml: Path
) -> None:
    done = run(toml, *words)

    assert (str(done.exception), toml.parent.exists()) == (line, False)


def test_an_unwritable_folder_is_reported_before_the_questions(toml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)

    done = run(toml, "--yes")

    assert str(done.exception) == f"{toml.parents[1]}: not writable; expected root, or another file with --config FILE"
