"""Options of gridbridge-balance, and calls that are refused before a round."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from gridbridge.elastic.balancer import balancer_configuration_reload
from gridbridge.elastic.balancer import balancer_daemon as service
from gridbridge.elastic.balancer.balancer_daemon import BalancerRunOptions
from gridbridge.elastic.balancer.balancer_round_decision import BalancerRoundPlan
from gridbridge.elastic.cli.balance_program import balance
from gridbridge.errors import ClusterStateUnknown
from gridbridge.model.elastic.balance_plan import BalancePlan, BalancePlanReason
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.elastic.published_balance import BalancePlanReport
from gridbridge.model.fixed_paths import BALANCE_PLOTS, BALANCE_STATS
from gridbridge.model.site_configuration import Policy
from gridbridge.shell.program_lock_file import MomentaryProgramLock
from gridbridge.shell.program_startup import version_with_commit_and_date
from tests.elastic.site_text import ALPHA
from tests.measured import FIGURES

SITE = f"{ALPHA}[balance]\n{{balance}}\n"


def run(tmp_path: Path, *words: str, balance_keys: str = "") -> Result:
    path = tmp_path / "gridbridge.toml"
    path.write_text(SITE.format(balance=balance_keys))
    return CliRunner().invoke(balance, ["--config", str(path), *words])


EMBEDDED = """
[site]
cluster = "alpha"
[cluster.alpha]
kind = "embedded"
folder = "/nowhere"
"""
PROVIDED = """
max_nodes = 5
[provider.rented]
program = "/opt/rented"
[pool.usual]
provider = "rented"
"""
NOTHING = BalancerRoundPlan(
    plan=BalancePlan(verdict=BalancePlanReason.NO_NEED, figures=FIGURES),
    dues=(),
    told=BalancePlanReport(add=0, pool=None, remove=(), sentence="nothing waits", refused=()),
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[BalancerRunOptions]:
    rounds = list[BalancerRunOptions]()

    def decided(wanted: BalancerRunOptions) -> BalancerRoundPlan:
        rounds.append(wanted)
        return NOTHING

    monkeypatch.setattr(service, "run_one_balancer_round", decided)
    return rounds


def test_the_help_has_an_example_and_both_forms_of_option_names() -> None:
    done = CliRunner().invoke(balance, ["--help"])

    assert 0 == done.exit_code
    for word in ("--max-nodes, --max_nodes", "--plot-output-dir, --plot_output_dir", "Example:"):
        assert word in done.output


def test_the_version_is_printed() -> None:
    done = CliRunner().invoke(balance, ["--version"], prog_name="gridbridge-balance")

    assert (done.exit_code, done.output) == (0, f"gridbridge-balance {version_with_commit_and_date()}\n")


@pytest.mark.parametrize(
    ("words", "keys", "line"),
    [
        (["beta"], "", "beta: not the home cluster; [site] cluster is alpha"),
        (["-K"], "", "--kill-master: not allowed; expected kill_master = true in [balance]"),
        (["--loop"], "", "--loop needs --apply, or apply = true in [balance]"),
        (["--interval", "1"], "", "Invalid value for '-i'"),
        (["--max-nodes", "many"], "", "'many' is not a valid integer"),
        (["--no-such"], "", "No such option"),
        (["--kill_cluster"], "", "--kill-master: not allowed; expected kill_master = true in [balance]"),
    ],
    ids=["another cluster", "master", "loop", "interval", "number", "option", "old name"],
)
def test_wrong_options_are_usage_errors(tmp_path: Path, words: list[str], keys: str, line: str) -> None:
    done = run(tmp_path, *words, balance_keys=keys)

    assert 2 == done.exit_code, done.output
    assert line in done.output


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "max_nodes is 0: nothing is added or removed"),
        (("--max-nodes", "5"), "no [pool.NAME] has a provider, and there is no [power.HOST]"),
    ],
)
def test_without_max_nodes_or_provider_the_balancer_refuses_to_act(
    tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    assert reason in str(run(tmp_path, "--apply", *words).exception)


def test_an_embedded_home_cluster_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "gridbridge.toml").write_text(EMBEDDED)
    done = CliRunner().invoke(balance, ["--config", str(tmp_path / "gridbridge.toml")])

    assert str(done.exception) == "[cluster.alpha] kind: embedded; expected gridengine or oar"


@pytest.mark.parametrize(
    ("names", "value", "key", "found"),
    [
        ("-i --interval", "70", "interval_s", 70),
        ("-m --max_nodes", "9", "max_nodes", 9),
        ("-n --min_nodes", "2", "min_nodes", 2),
        ("-a --add_nodes_per_iter --add_nodes_per_iteration", "3", "add_nodes_per_iteration", 3),
        ("-w --job_wait_time", "600", "job_wait_time_s", 600),
        ("-k --kill_after", "50", "kill_after_min", 50),
        ("-s --stabilization_time", "200", "stabilization_s", 200),
    ],
)
def test_options_for_rules_have_all_names_of_starcluster(
    tmp_path: Path, asked: list[BalancerRunOptions], names: str, value: str, key: str, found: float
) -> None:
    words = names.split()
    for name in [*words, *(one.replace("_", "-") for one in words)]:
        assert 0 == run(tmp_path, name, value, balance_keys="max_nodes = 20").exit_code, name

    assert {found} == {getattr(one.rules, key) for one in asked}
    assert found != getattr(BalanceSection(), key)


def test_the_lookback_option_is_in_minutes(tmp_path: Path, asked: list[BalancerRunOptions]) -> None:
    for words in ((), ("-l", "90"), ("--lookback_window", "90"), ("--lookback-window", "90")):
        run(tmp_path, *words)

    assert [timedelta(minutes=180), *[timedelta(minutes=90)] * 3] == [one.lookback for one in asked]


@pytest.mark.parametrize("word", ["-K", "--kill-master", "--kill_master", "--kill-cluster"])
def test_kill_master_needs_option_and_configuration(tmp_path: Path, asked: list[BalancerRunOptions], word: str) -> None:
    run(tmp_path, word, balance_keys="kill_master = true")
    run(tmp_path, balance_keys="kill_master = true")

    assert [True, False] == [one.kills_master for one in asked]


@pytest.mark.parametrize(
    ("names", "value", "stats", "drawn"),
    [
        ("-d --dump_stats", "", BALANCE_STATS, ""),
        ("-D --dump_stats_file", "/own.csv", "/own.csv", ""),
        ("-p --plot_stats", "", BALANCE_STATS, BALANCE_PLOTS),
        ("-P --plot_output_dir", "/own", BALANCE_STATS, "/own"),
    ],
)
def test_options_for_statistics_and_plots_set_the_paths(
    tmp_path: Path, asked: list[BalancerRunOptions], names: str, value: str, stats: str, drawn: str
) -> None:
    words = names.split()
    for name in [*words, *(one.replace("_", "-") for one in words)]:
        assert 0 == run(tmp_path, *filter(None, (name, value))).exit_code, name

    assert {stats} == {one.stats for one in asked}
    assert {(stats, drawn) if drawn else ()} == {
        one.after.args if isinstance(one.after, partial) else () for one in asked
    }


def test_relative_paths_are_relative_to_the_working_directory_of_the_caller(
    tmp_path: Path, asked: list[BalancerRunOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An acting round changes its working directory to /."""
    monkeypatch.chdir(tmp_path)
    run(tmp_path, "-D", "own.csv", "-P", "own")

    (one,) = asked
    assert f"{tmp_path}/own.csv" == one.stats
    assert isinstance(one.after, partial)
    assert (one.stats, f"{tmp_path}/own") == one.after.args


def test_a_looping_balancer_rereads_an_absolute_configuration_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_again = list[str]()
    monkeypatch.setattr(
        balancer_configuration_reload, "run_balancer_forever", lambda _, path, __: read_again.append(path)
    )
    (tmp_path / "own.toml").write_text(SITE.format(balance="apply = true"))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(balance, ["--config", "own.toml", "--loop"])

    assert (0, [f"{tmp_path}/own.toml"]) == (done.exit_code, read_again), done.output


@pytest.mark.parametrize(
    ("words", "printed"), [((), "nothing waits\nnothing waits\n"), (("--quiet",), "")], ids=["", "quiet"]
)
def test_a_looping_balancer_prints_each_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], printed: str
) -> None:
    def rounds(wanted: BalancerRunOptions, _: str, renew: Callable[[Policy], BalancerRunOptions]) -> None:
        wanted.tell(NOTHING)
        renew(wanted.policy).tell(NOTHING)

    monkeypatch.setattr(balancer_configuration_reload, "run_balancer_forever", rounds)
    done = run(tmp_path, "--loop", *words, balance_keys="apply = true")

    assert (0, printed) == (done.exit_code, done.stdout)


@pytest.mark.parametrize("word", ["-D", "-P"])
def test_an_empty_path_is_a_usage_error(tmp_path: Path, asked: list[BalancerRunOptions], word: str) -> None:
    assert 2 == run(tmp_path, word, "").exit_code
    assert [] == asked


def test_a_round_without_acts_exits_with_0_and_prints_why(tmp_path: Path, asked: list[BalancerRunOptions]) -> None:
    line, as_json = run(tmp_path), run(tmp_path, "--json")

    assert (0, "nothing waits\n") == (line.exit_code, line.stdout)
    assert 0 == as_json.exit_code
    assert {"add", "pool", "remove", "sentence", "refused", "done"} == json.loads(as_json.stdout).keys()
    assert [False, False] == [one.is_acting for one in asked]


def test_options_or_configuration_make_a_round_act_and_faithful(
    tmp_path: Path, asked: list[BalancerRunOptions]
) -> None:
    run(tmp_path, "--apply")
    run(tmp_path, "--faithful", balance_keys="apply = true")
    run(tmp_path)

    assert [(True, False), (True, True), (False, False)] == [(rules.is_acting, rules.is_faithful) for rules in asked]


def test_a_round_exits_with_75_if_a_source_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_: BalancerRunOptions) -> None:
        raise ClusterStateUnknown("qstat: no answer")

    monkeypatch.setattr(service, "run_one_balancer_round", silent)
    done = run(tmp_path)

    assert (75, "", "gridbridge-balance: qstat: no answer\n") == (done.exit_code, done.stdout, done.stderr)


def test_a_second_acting_balancer_exits_with_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(service, "BALANCE_LOCK", f"{tmp_path}/lock")
    monkeypatch.setattr(service, "switch_process_to_account", lambda *_: None)
    monkeypatch.setattr(service.service_cycle, "start_service_log_on_stderr", lambda _: None)
    with MomentaryProgramLock(f"{tmp_path}/lock"):
        done = run(tmp_path, "--apply", balance_keys=PROVIDED)

    assert (3, "gridbridge-balance: another instance runs\n") == (done.exit_code, done.stderr)


def test_a_failure_to_plot_stops_no_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def acted(wanted: BalancerRunOptions) -> BalancerRoundPlan:
        wanted.after()
        told = BalancePlanReport(add=0, pool=None, remove=(), sentence="nothing is done", refused=())
        return BalancerRoundPlan(plan=Mock(), dues=(), told=told)

    monkeypatch.setattr(service, "run_one_balancer_round", acted)
    (tmp_path / "stats").write_text("2026-03-01T12:00:00+00:00,3,4,24,6,2700,45,3.18\n")
    (tmp_path / "taken").touch()
    words = ("--plot-output-dir", str(tmp_path / "taken"), "-D", str(tmp_path / "stats"))
    done = run(tmp_path, *words)

    assert (0, "nothing is done\n") == (done.exit_code, done.stdout)
    assert f"{tmp_path}/taken" in done.stderr


ROUND = """
import sys
from gridbridge.elastic.cli import balance_program as program
from tests.elastic.cli.test_balance_program import NOTHING
program._print_round_report(NOTHING.told, ("h1 is added",), is_json=False)
sys.argv = ["gridbridge-balance", "--config", "{0}/none"]
program.main()
"""
AT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ "


@pytest.mark.parametrize(("redirection", "begins"), [(">>", AT), (">", "")], ids=["appended to a log", "a file"])
def test_lines_appended_to_a_log_file_begin_with_the_time(tmp_path: Path, redirection: str, begins: str) -> None:
    log = tmp_path / "balance.log"
    script = f'exec "$0" -c "$1" {redirection}{log} 2>&1'
    argv = ("sh", "-c", script, sys.executable, ROUND.format(tmp_path))
    subprocess.run(argv, check=False, timeout=60)

    lines = log.read_text().splitlines()
    expected = ("gridbridge-balance: .*", "nothing waits", "  h1 is added")
    whole = [re.compile(begins + words) for words in expected]
    assert [sum(bool(one.fullmatch(line)) for line in lines) for one in whole] == [1, 1, 1]
