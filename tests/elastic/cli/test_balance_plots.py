"""`gridbridge balance plan`, `tag`, `snapshot` and `plot`: output and exit status."""

import json
import pwd
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result
from matplotlib import image

from gridbridge.batch.gridengine import execution_hosts
from gridbridge.cli.main import gridbridge
from gridbridge.decisions.elastic.nodes_needing_administrator import explain_how_to_wake_host
from gridbridge.elastic import balancer_round_queries, host_membership_and_tags, saved_balancer_round_folder
from gridbridge.elastic.balancer import balance_preview, balance_situation_sources
from gridbridge.elastic.cli import balance_plan_and_plot
from gridbridge.elastic.cli.balance_and_replay_plots import format_duration
from gridbridge.errors import GridbridgeError, ParseError, StandardOutputUnwritable, StateError
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.elastic_nodes import BalancerOwnedNode, ElasticNodeState
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT, BALANCE_PLOTS
from tests.builders.campaigns import made_policy
from tests.elastic.saved_rounds import NOW, save_round
from tests.elastic.site_text import ALPHA, RACK, powered_hosts


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_round(tmp_path)


def run(*words: str) -> Result:
    return CliRunner().invoke(gridbridge, ("balance", *words))


def plan(folder: Path, *words: str) -> dict[str, object]:
    done = run("plan", "--from", str(folder), "--json", *words)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_a_plan_is_printed_as_lines_or_json(folder: Path) -> None:
    found = plan(folder, "--max-nodes", "9", "--add-nodes-per-iteration", "2")
    lines = run("plan", "--from", str(folder), "-m", "9").stdout.splitlines()

    assert (found["add"], found["pool"], found["remove"]) == (2, None, [])
    assert str(found["sentence"]).endswith("3 of 9 nodes exist: add 2")
    refused: list[dict[str, str]] = found["refused"]  # type: ignore[assignment]
    assert {one["reason"] for one in refused} == {"the job is held", "the job is in error"}
    assert lines[0].endswith(": add 6")
    assert all(line.startswith("  job ") for line in lines[1:])


def test_the_faithful_option_repeats_the_counting_errors_of_starcluster(folder: Path) -> None:
    """StarCluster stops if hosts have different numbers of slots."""
    words = ("--max-nodes", "9", "--add-nodes-per-iteration", "2")

    assert plan(folder, *words, "--policy", "starcluster")["add"] == 2
    for policy in ((), ("--policy", "starcluster")):
        assert plan(folder, *words, *policy, "--faithful")["add"] == 0


def test_a_saved_round_is_decided_by_the_configuration_that_is_named(folder: Path, tmp_path: Path) -> None:
    """Options override the configuration. Without --config the command reads no configuration."""
    config = tmp_path / "gridbridge.toml"
    config.write_text(f"{ALPHA}[balance]\nmax_nodes = 9\n[demand]\nadd_at_once = 3\n[pool.big]\nslots = 4\n")
    named = plan(folder, "--config", str(config))
    option = plan(folder, "--config", str(config), "-a", "2")

    assert (named["add"], named["pool"]) == (3, "big")
    assert (option["add"], option["pool"]) == (2, "big")
    assert plan(folder, "-m", "9")["pool"] is None


@pytest.mark.parametrize("words", [(), ("--max-nodes", "0")])
def test_without_max_nodes_the_plan_changes_nothing(folder: Path, words: tuple[str, ...]) -> None:
    found = plan(folder, *words)

    assert (found["add"], found["remove"]) == (0, [])
    assert found["sentence"] == "max_nodes is not set: no node is added or removed"


def test_plan_exits_with_75_if_an_answer_is_incomplete(folder: Path) -> None:
    (folder / "qstat.xml").write_text("error: commlib error")
    done = run("plan", "--from", str(folder), "-m", "9")

    assert (done.exit_code, done.stdout) == (75, "")
    assert f"gridbridge: {folder}: qstat: the answer is not XML: 'error: commlib error'\n" == done.stderr


def test_plan_exits_with_75_if_a_ready_node_has_no_queue(folder: Path) -> None:
    (folder / "qstat.xml").write_text("<job_info><queue_info/><job_info/></job_info>")
    bare = run("plan", "--from", str(folder), "-m", "9").exit_code
    node = {"up_since": "2126-01-01T11:00:00+00:00", "state": "ready"}
    state = {"now": NOW, "master": "alpha-master", "nodes": {"alpha-n1": node}}
    (folder / "state.json").write_text(json.dumps(state))
    done = run("plan", "--from", str(folder), "-m", "9")

    assert (bare, done.exit_code, done.stdout) == (0, 75, "")
    assert "no queue on any host" in done.stderr


def test_contradicting_limits_are_refused(folder: Path) -> None:
    done = run("plan", "--from", str(folder), "-m", "2", "-n", "3")

    assert str(done.exception) == "min_nodes is 3; expected at most max_nodes (2)"


@pytest.mark.parametrize("words", [("-m", "-1"), ("-k", "60"), ("-a", "x"), ("--policy", "best")])
def test_invalid_options_are_usage_errors(folder: Path, words: tuple[str, ...]) -> None:
    assert run("plan", "--from", str(folder), *words).exit_code == 2


def test_tag_prints_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_membership_and_tags, "require_home_execution_host", lambda *_: None)
    monkeypatch.setattr(
        host_membership_and_tags, "change_home_cluster_host_tag", lambda *_, **__: ("htools:standby:1",)
    )

    done = run("tag", "alpha-n1", "1", "--config", site(tmp_path), "--json")

    assert json.loads(done.stdout) == {"host": "alpha-n1", "tags": ["htools:standby:1"]}


@pytest.mark.parametrize("more", [(), ("--remove",)])
def test_tag_refuses_a_host_that_the_cluster_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.setattr(execution_hosts, "list_execution_hosts", lambda _: ("alpha-n1.cluster",))
    change = Mock(return_value=())
    monkeypatch.setattr(host_membership_and_tags, "change_home_cluster_host_tag", change)
    config = ("--config", site(tmp_path))

    unknown = run("tag", "alpha-n77", "1", *more, *config)
    known = run("tag", "alpha-n1", "1", *more, *config)

    assert str(unknown.exception) == "alpha-n77: cluster alpha has no such execution host"
    assert known.exit_code == 0
    assert change.call_count == 1


def test_snapshot_prints_its_folder_as_json(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_from(folder, monkeypatch)
    target = str(tmp_path / "saved")

    done = run("snapshot", target, "--config", site(tmp_path), "--json")

    assert json.loads(done.stdout) == {"folder": target}
    assert plan(tmp_path / "saved", "--max-nodes", "9")["add"] == 6


def answer_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = saved_balancer_round_folder.read_saved_balancer_round(str(folder))
    monkeypatch.setattr(balancer_round_queries, "query_raw_cell_status", lambda *_: saved)


def test_plan_says_that_the_nodes_are_hidden_from_this_account(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_from(folder, monkeypatch)
    monkeypatch.setattr(balance_situation_sources, "is_balancer_state_unreadable", lambda: True)

    done = run("plan", "--config", site(tmp_path), "--max-nodes", "9")
    of_folder = run("plan", "--from", str(folder), "--max-nodes", "9")

    assert "only root and gridbridge-admin see the balancer's nodes" in done.stderr
    assert of_folder.stderr == ""


@pytest.mark.parametrize(("enabled", "lines"), [("true", 2), ("false", 1)])
def test_plan_says_that_a_squeeze_is_left_out_for_this_account(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enabled: str, lines: int
) -> None:
    answer_from(folder, monkeypatch)
    monkeypatch.setattr(balance_situation_sources, "is_balancer_state_unreadable", lambda: True)
    config = site(tmp_path)
    with open(config, "a", encoding="utf-8") as end:
        end.write(f"{RACK}{powered_hosts('alpha-n1')}[squeeze]\nenabled = {enabled}\n")

    done = run("plan", "--config", config, "--max-nodes", "9", "--json")

    assert len(done.stderr.splitlines()) == lines
    assert json.loads(done.stdout)["unseen"] == done.stderr.splitlines()
    assert ("this plan lacks the squeeze" in done.stderr) == (enabled == "true")


def site(folder: Path) -> str:
    path = folder / "site.toml"
    path.write_text(ALPHA)
    return str(path)


NODE = {"up_since": "2126-01-01T11:00:00+00:00", "idle_since": "2126-01-01T11:59:40+00:00"}


@pytest.fixture
def node_folder(tmp_path: Path) -> Path:
    return save_round(tmp_path, nodes={"alpha-n1": NODE})


def explain(node_folder: Path, what: str, *words: str) -> Result:
    words = ("explain", what, "--from", str(node_folder), *words)
    return CliRunner().invoke(gridbridge, ("balance", *words))


def job(node_folder: Path, reason: str) -> str:
    words = ("balance", "plan", "--from", str(node_folder), "--json", "-m", "9")
    told = json.loads(CliRunner().invoke(gridbridge, words).stdout)
    return next(str(one["job"]) for one in told["refused"] if one["reason"] == reason)


def test_explain_says_that_a_job_is_held(node_folder: Path) -> None:
    held = job(node_folder, "the job is held")
    done = explain(node_folder, held)

    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, f"job {held}: the job is held")


@pytest.mark.parametrize(
    ("what", "status", "reason"),
    [
        ("alpha-n2", 0, "a host that is no node of the balancer is never removed"),
        ("alpha-n1", 0, "nothing is planned for the host"),
        ("alpha-n77", 1, "no such host"),
        ("999999", 1, "the job does not wait: the job runs, has ended, or never existed"),
    ],
    ids=["host", "node, without a maximum", "unknown host", "unknown job"],
)
def test_explain_says_what_happens_to_a_host_or_job(node_folder: Path, what: str, status: int, reason: str) -> None:
    done = explain(node_folder, what, "--json")

    assert (done.exit_code, json.loads(done.stdout)["reason"]) == (status, reason)


@pytest.fixture
def situation(node_folder: Path, monkeypatch: pytest.MonkeyPatch) -> BalanceSituation:
    """Observe the saved round in place of the cluster."""
    situation = balance_situation_sources.load_saved_balance_situation(str(node_folder))
    policy = made_policy()
    monkeypatch.setattr(balance_preview.configuration_in_force, "load_config_with_home_cluster", lambda _: policy)
    monkeypatch.setattr(balance_situation_sources, "observe_balanced_cluster", lambda *_: situation)
    return situation


def test_explain_says_that_the_nodes_are_hidden(situation: BalanceSituation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance_preview, "may_not_read_balancer_nodes", lambda: True)

    shown = balance_preview.explain_balance_of_job_or_host("alpha-n2", situation.now)

    assert shown.reason == "only root and gridbridge-admin see whether the host is a node of the balancer"


def test_explain_says_how_to_wake_a_powered_off_host(
    situation: BalanceSituation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balance_preview.host_membership_and_tags, "query_home_cluster_host_tags", lambda _: {})
    name = "alpha-n2"
    off = BalancerOwnedNode(name=name, pool="rack", machine=name, state=ElasticNodeState.STANDBY, since=situation.now)

    shown = balance_preview.explain_balance_of_job_or_host(name, situation.now, (off,))

    assert (shown.node, shown.reason) == (off, explain_how_to_wake_host(off, {}))


@pytest.mark.skipif(BALANCE_ACCOUNT in {one.pw_name for one in pwd.getpwall()}, reason="root would become that account")
@pytest.mark.parametrize("words", [("status",), ("drain", "alpha-n1"), ("keep", "alpha-n1"), ("history",)])
def test_before_the_first_round_the_error_names_the_missing_account(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(gridbridge, ("balance", *words))

    assert done.exit_code
    assert "gridbridge-admin" in str(done.exception)


NAMES = ("queued", "running", "num_hosts", "avg_duration", "avg_wait", "avg_load")
BEGIN = datetime(2026, 3, 1, 8, tzinfo=UTC)


def row(minutes: int) -> str:
    at = BEGIN + timedelta(minutes=minutes)
    return f"{at.isoformat()},{2 + minutes % 4},{minutes},{60 - minutes},8,{minutes * 90},7,1.5\n"


def plot(stats: Path, folder: Path) -> Result:
    words = ("balance", "plot", "--stats", str(stats), "--output-dir", str(folder))
    return CliRunner().invoke(gridbridge, words)


@pytest.mark.parametrize("minutes", [(5,), range(60)], ids=["one row", "an hour"])
def test_each_picture_has_content(tmp_path: Path, minutes: range | tuple[int, ...]) -> None:
    (tmp_path / "stats.csv").write_text("".join(map(row, minutes)))
    done = plot(tmp_path / "stats.csv", tmp_path / "a" / "b")

    assert done.output.splitlines() == [f"{tmp_path}/a/b/{name}.png" for name in NAMES]
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == sorted(f"{name}.png" for name in NAMES)
    least = 0.05 if len(minutes) > 1 else 0.00001
    for name in NAMES:
        pixels = image.imread(tmp_path / "a" / "b" / f"{name}.png")[:, :, :3]
        assert (pixels.max(axis=2) - pixels.min(axis=2) > 0.02).mean() > least, name


@pytest.mark.parametrize(
    ("lines", "invalid"),
    [
        ("2026-03-01 08:00:00.123456,2,1,3,8,60,7,0.5\n", ""),
        ("2026-03-01,7\n\n,,,,,,,\n", "2 lines are invalid; the first is line 1"),
        ("2026-03-01T12:00:00+00:00,3,4,24,6,2700,45,nan\n", "1 line is invalid; the first is line 1"),
        ("2026-03-01T12:00:00+00:00,3,4,24,6,2700,45,inf\n", "1 line is invalid; the first is line 1"),
        ("2026-03-01T12:00:00+00:00,3,4,24,6,2700,1e300,1\n", "1 line is invalid; the first is line 1"),
        (f"2026-03-01T12:00:00+00:00,1{'0' * 400},4,24,6,2700,45,1\n", "1 line is invalid; the first is line 1"),
        ("0001-01-01T00:00:00+14:00,3,4,24,6,2700,45,1\n", "1 line is invalid; the first is line 1"),
        ("9999-12-31T23:59:59-14:00,3,4,24,6,2700,45,1\n", "1 line is invalid; the first is line 1"),
    ],
    ids=["StarCluster's", "columns", "nan", "inf", "too large", "400 digits", "the first day", "the last day"],
)
def test_lines_that_cannot_be_drawn_are_reported_and_skipped(tmp_path: Path, lines: str, invalid: str) -> None:
    """StarCluster writes times without a zone."""
    (tmp_path / "stats.csv").write_text(lines + row(2))
    done = plot(tmp_path / "stats.csv", tmp_path)

    told = f"gridbridge: {tmp_path}/stats.csv: {invalid}\n" if invalid else ""
    assert (done.exit_code, done.stderr) == (0, told)


@pytest.mark.parametrize(
    ("content", "folder", "kind", "why"),
    [
        (None, "pictures", StateError, "No such file or directory; each round of `gridbridge-balance --dump"),
        ("", "pictures", ParseError, "no row of statistics; expected rows of 8 columns"),
        ("a,b\n", "pictures", ParseError, "no row of statistics; expected rows of 8 columns"),
        (row(1), "stats.csv/in", StandardOutputUnwritable, "Not a directory"),
    ],
    ids=["none", "empty", "another", "no folder"],
)
def test_a_file_without_rows_or_a_folder_that_cannot_be_created_is_a_one_line_error(
    tmp_path: Path, content: str | None, folder: str, kind: type[GridbridgeError], why: str
) -> None:
    if content is not None:
        (tmp_path / "stats.csv").write_text(content)
    done = plot(tmp_path / "stats.csv", tmp_path / folder)

    assert isinstance(done.exception, kind)
    assert re.match(f"{tmp_path}/stats.csv(/in)?: {re.escape(why)}", str(done.exception))
    assert not (tmp_path / "pictures").exists()


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (60, "1 min"), (379, "6 min 19 s"), (7260, "2 h 1 min"), (90000, "1 d 1 h")]
)
def test_a_duration_is_printed_in_its_two_largest_units(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text


def test_root_plots_into_the_folder_of_the_balancer_as_the_account_of_the_balancer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    became = list[str]()
    monkeypatch.setattr(balance_plan_and_plot, "drop_root_to_account", became.append)
    monkeypatch.setattr(balance_plan_and_plot, "plot_balancer_statistics_file", lambda *_: ())
    plot(tmp_path / "stats.csv", tmp_path)
    plot(tmp_path / "stats.csv", Path(BALANCE_PLOTS))

    assert became == [BALANCE_ACCOUNT]
