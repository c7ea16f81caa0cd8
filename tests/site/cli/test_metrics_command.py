"""gridbridge metrics: the Prometheus text on standard output, in a file and by HTTP."""

import json
import os
import queue
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from prometheus_client.parser import text_string_to_metric_families

from gridbridge.cli.main import gridbridge
from gridbridge.model.fixed_paths import METRICS_LOCK
from gridbridge.shell import program_lock_file
from gridbridge.shell.program_startup import version_with_commit
from gridbridge.site import published_metrics
from gridbridge.site.cli import metrics_command
from gridbridge.site.published_metrics import collect_published_metrics
from gridbridge.site.storage_provider_and_runner_checks import LOCKS
from tests.measured import site
from tests.shown import NOW

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests/golden/metrics.prom"
DASHBOARD = ROOT / "conf/grafana/gridbridge.json"
LABELS = {"cluster", "version", "queue", "state", "pool", "cause", "code", "part", "kind"}
NAME = re.compile(r"gridbridge_[a-z0-9_]+")
SELECTED = re.compile(r"(gridbridge_[a-z0-9_]+)(?:\{([^}]*)\})?")
LABEL = re.compile(r"(\w+)\s*[=!]~?")
SUMMED = re.compile(r"\bby \(([^)]*)\)")
NAMED = re.compile(r"\{\{(\w+)\}\}")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, ...]:
    """Return the options that name the folders of a site that uses every capability."""
    published, balance = site(tmp_path)
    return "--published", published, "--balance-published", balance


def run(*words: str) -> Result:
    return CliRunner().invoke(gridbridge, ("metrics", *words))


def names(text: str) -> set[str]:
    families = text_string_to_metric_families(text)
    return {one.name for family in families for one in family.samples}


def test_the_metrics_text_equals_the_golden_file(tmp_path: Path) -> None:
    """GOLDEN=new in the environment rewrites the golden file."""
    families, troubles = collect_published_metrics(NOW, *site(tmp_path))
    text = published_metrics.format_prometheus_text(families)
    if os.environ.get("GOLDEN") == "new":
        GOLDEN.write_bytes(text)

    assert (text.decode(), troubles) == (GOLDEN.read_text(), ())


def test_metric_names_follow_prometheus_conventions(folders: tuple[str, ...]) -> None:
    """Units are words at the end, only counters end with _total, and labels have few values."""
    for family in text_string_to_metric_families(run(*folders).stdout):
        for one in family.samples:
            assert NAME.fullmatch(one.name)
            assert set(one.labels) <= LABELS, one.name
            assert one.name.endswith("_total") == (family.type == "counter"), one.name
            assert not re.search("_(ms|min|minutes|hours|count)$", one.name)


def test_metrics_name_no_user_and_no_job(folders: tuple[str, ...]) -> None:
    text = run(*folders).stdout

    assert [word for word in ("alice", "bob", "gb.alpha", "bag") if word in text] == []


def test_every_metric_of_the_dashboard_is_exposed(folders: tuple[str, ...]) -> None:
    board = json.loads(DASHBOARD.read_text())
    asked = {name for expression in expressions(board) for name in NAME.findall(expression)}

    assert asked - names(run(*folders).stdout) == set()
    assert {"gridbridge_transfers", "gridbridge_campaign_tasks", "gridbridge_balance_nodes"} < asked


def test_every_label_of_the_dashboard_exists_on_its_metric(folders: tuple[str, ...]) -> None:
    """An unknown label in a selection, sum or legend would leave a panel empty."""
    known = dict[str, set[str]]()
    for family in text_string_to_metric_families(run(*folders).stdout):
        for one in family.samples:
            known.setdefault(one.name, set()).update(one.labels)
    board = json.loads(DASHBOARD.read_text())
    targets = [one for panel in board["panels"] for one in panel.get("targets", ())]

    assert targets
    for one in targets:
        for name, chosen in SELECTED.findall(one["expr"]):
            assert set(LABEL.findall(chosen)) <= known[name], one["expr"]
        shown = {word for some in SUMMED.findall(one["expr"]) for word in some.split(", ")}
        named = set(NAMED.findall(one["legendFormat"]))
        assert shown | named <= set.intersection(*(known[n] for n in NAME.findall(one["expr"])))
        assert not shown or named <= shown, one["expr"]


def test_the_dashboard_is_valid_for_grafana() -> None:
    """Panels have unique ids, do not overlap, and query the chosen data source."""
    board = json.loads(DASHBOARD.read_text())
    panels = board["panels"]
    places = [tuple(one["gridPos"][key] for key in "xywh") for one in panels]

    assert (board["uid"], board["id"], board["title"]) == ("gridbridge", None, "gridbridge")
    assert board["schemaVersion"] >= 36
    assert len({one["id"] for one in panels}) == len(panels)
    assert all(x + w <= 24 for x, _, w, _ in places)
    assert not any(overlap(a, b) for a in places for b in places if a is not b)
    assert {one["type"] for one in panels} <= {"row", "timeseries", "stat"}
    assert all(one["title"] and one["targets"] for one in panels if one["type"] != "row")
    for one in panels:
        for target in one.get("targets", ()):
            assert one["datasource"]["uid"] == target["datasource"]["uid"] == "${source}"


def expressions(board: dict[str, Any]) -> Iterator[str]:
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["definition"]


def overlap(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]


def test_the_metrics_file_is_replaced_atomically_and_world_readable(folders: tuple[str, ...], tmp_path: Path) -> None:
    target = tmp_path / "text" / "gridbridge.prom"
    target.parent.mkdir()
    done = run("--textfile", str(target), *folders)

    assert (done.exit_code, done.output) == (0, "")
    assert "gridbridge_balance_nodes_added_total" in names(target.read_text())
    assert target.stat().st_mode & 0o777 == 0o644
    assert os.listdir(target.parent) == ["gridbridge.prom"]


def test_the_metrics_file_may_be_a_bare_name(
    folders: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run("--textfile", "here.prom", *folders).exit_code == 0
    assert (tmp_path / "here.prom").exists()


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (("--listen", "9108", "--textfile", "a.prom"), "--textfile and --listen exclude each other"),
        (("--textfile", "a.txt"), "--textfile a.txt: wrong name; expected a name that ends with .prom"),
        (("--listen", "here"), "'here': expected an address such as 127.0.0.1:9108"),
        (("--listen", "70000"), "'70000': expected an address such as 127.0.0.1:9108"),
        (("--listen", "::1:9108"), "'::1:9108': expected an address such as 127.0.0.1:9108"),
        (("--listen", ""), "'': expected an address such as 127.0.0.1:9108"),
    ],
)
def test_a_wrong_option_prints_one_line_and_returns_2(words: tuple[str, ...], right: str) -> None:
    done = program(*words)

    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert right in done.stderr


def program(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv(*words), capture_output=True, text=True, check=False, timeout=60)


def argv(*words: str) -> list[str]:
    start = "from gridbridge.cli.main import main; main()"
    return [sys.executable, "-c", start, "metrics", *words]


def test_missing_and_unwritable_folders_print_one_line_and_return_2(folders: tuple[str, ...], tmp_path: Path) -> None:
    nothing = str(tmp_path / "nothing")
    missing = program("--published", nothing, "--balance-published", nothing)
    unwritable = program("--textfile", "/proc/gridbridge.prom", *folders)

    assert missing.stderr.startswith(f"gridbridge: {nothing}, {nothing}: no such folders")
    assert unwritable.stderr.startswith("gridbridge: /proc/gridbridge.prom: ")
    for done in (missing, unwritable):
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)


@contextmanager
def listening(*words: str) -> Iterator[str]:
    with subprocess.Popen(
        argv("--listen", *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(20)


def test_every_http_request_reads_the_published_files_again(folders: tuple[str, ...]) -> None:
    with listening("0", *folders) as url:
        before = urllib.request.urlopen(url, timeout=20).read().decode()
        Path(folders[1], "service.json").unlink()
        after = urllib.request.urlopen(url, timeout=20).read().decode()

    assert url.startswith("http://127.0.0.1:")
    assert "gridbridge_service_info" in names(before) - names(after)


def served() -> int:
    ports = queue.Queue[int]()
    words = (tuple, "127.0.0.1", 0, ports.put)
    threading.Thread(target=metrics_command.serve_metrics, args=words, daemon=True).start()
    return ports.get(timeout=20)


def test_an_idle_http_client_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a few hundred idle connections would block all other clients."""
    monkeypatch.setattr(metrics_command, "IDLE_CLIENT_S", 0.2)

    with socket.create_connection(("127.0.0.1", served()), 20) as idle:
        assert idle.recv(1) == b""


def test_a_client_that_sends_one_byte_at_a_time_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit applies to the whole request, not to each byte."""
    monkeypatch.setattr(metrics_command, "REQUEST_LIMIT_S", 0.5)

    with socket.create_connection(("127.0.0.1", served()), 20) as slow:
        slow.settimeout(0.1)
        answers = (said(slow) for _ in range(100))
        assert b"" in answers


def test_too_many_connections_close_the_oldest_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise connections would use up threads and descriptors before the first time limit."""
    monkeypatch.setattr(metrics_command, "MAX_CONNECTIONS", 3)
    port = served()
    with ExitStack() as opened:
        idle = [opened.enter_context(socket.create_connection(("127.0.0.1", port), 5)) for _ in range(4)]
        cut, _, _ = select.select(idle, [], [], 5)  # much less than one may say nothing
        answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5)

        assert [one.recv(1) for one in cut[:1]] == [b""]
        assert answer.status == 200


def said(slow: socket.socket) -> bytes | None:
    """Send one byte; return the answer, b"" at the end of the connection, None if no answer came yet."""
    try:
        slow.send(b"G")
        return slow.recv(1)
    except TimeoutError:
        return None
    except OSError:
        return b""


@pytest.mark.parametrize("accept", ["version=zz", "version=1.0.0"])
def test_any_accept_header_gets_the_plain_text(accept: str, folders: tuple[str, ...]) -> None:
    with listening("0", *folders) as url:
        headers = {"Accept": f"application/openmetrics-text; {accept}"}
        question = urllib.request.Request(url, headers=headers)
        answer = urllib.request.urlopen(question, timeout=20)

    assert answer.headers.get_content_type() == "text/plain"


def test_a_reset_connection_leaves_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    """Otherwise anybody could fill the log."""
    port = served()
    with socket.create_connection(("127.0.0.1", port), 20) as gone:
        gone.send(b"GE")
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20).read()
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20).read()

    assert capfd.readouterr().err == ""


def test_an_unreadable_file_hides_only_its_own_metrics(folders: tuple[str, ...]) -> None:
    Path(folders[1], "campaigns.json").write_text("{")
    done = run(*folders)

    assert done.exit_code == 0
    assert 'gridbridge_published_readable{part="campaigns"} 0.0' in done.stdout
    assert {"gridbridge_transfers", "gridbridge_balance_nodes"} < names(done.stdout)
    assert done.stderr == (f"gridbridge: {folders[1]}/campaigns.json: not what this version of gridbridge publishes\n")


def test_the_http_server_answers_without_published_files(tmp_path: Path) -> None:
    nothing = str(tmp_path / "nothing")
    with listening("0", "--published", nothing, "--balance-published", nothing) as url:
        text = urllib.request.urlopen(url, timeout=20).read().decode()

    assert names(text) == {"gridbridge_published_readable"}


def test_a_port_in_use_prints_one_line_and_returns_2(folders: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = program("--listen", str(port), *folders)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"gridbridge: 127.0.0.1:{port}: Address already in use\n"


def test_the_metrics_lock_file_names_the_running_version(
    folders: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gridbridge check` compares the running version with the installed version."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    unit = (ROOT / "conf/systemd/gridbridge-metrics.service").read_text()

    with listening("0", *folders):
        found = program_lock_file.lock_file_holder_version(f"{tmp_path}/lock")

    assert found == version_with_commit()
    assert f"/run/{unit.partition('RuntimeDirectory=')[2].split()[0]}/lock" == METRICS_LOCK
    assert METRICS_LOCK in LOCKS.values()
