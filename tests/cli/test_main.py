"""The command line: one line for bad input, documented exit statuses, help with examples."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gridbridge.cli import main
from gridbridge.config import configuration_file
from gridbridge.decisions.site.check_report_lines import WHY
from gridbridge.model.site.check_report import CheckReport, CheckReportItem
from gridbridge.model.site.setup_findings_and_edits import CheckSubject, FindingSeverity, SetupEdit
from gridbridge.shell import program_lock_file
from gridbridge.shell.clock import Clock
from gridbridge.site.cli import check_command, setup_command
from tests.cli.commands import commands_by_name

CONFIG = """[site]
cluster = "alpha"
[cluster.alpha]
qmaster_port = 1
execd_port = 2
[cluster.beta]
qmaster_port = 3
execd_port = 4
"""


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(name="run")
def _run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*argv: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["gridbridge", *argv])
        with pytest.raises(SystemExit) as ended:
            main.main()
        assert isinstance(ended.value.code, int | None)
        return ended.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "gridbridge.toml"
    path.write_text(CONFIG)
    monkeypatch.setattr(setup_command, "CONFIG", str(path))
    return path


WRONG = Path(__file__).with_name("wrong_commands.txt").read_text().splitlines()[1:]


@pytest.mark.parametrize(("line", "words"), [line.split(" | ") for line in WRONG])
@pytest.mark.usefixtures("configured")
def test_bad_input_prints_one_line_and_returns_2(line: str, words: str, run: Run) -> None:
    status, out, err = run(*shlex.split(line))

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("gridbridge: ")
    assert words in err


def test_every_configuration_problem_is_a_line(configured: Path, run: Run) -> None:
    configured.write_text(CONFIG.replace("= 1", "= -1").replace("= 4", "= -4"))

    status, _, err = run("setup", "transfer", "beta")

    assert status == 2
    assert [line.startswith(f"gridbridge: {configured}: ") for line in err.splitlines()] == [True, True]


def test_a_missing_configuration_prints_one_line(configured: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    configured.unlink()
    monkeypatch.setattr(configuration_file, "CONFIG", str(configured))

    status, _, err = run("setup", "transfer", "beta")

    assert status == 2
    assert err.endswith("on a new host run gridbridge init\n")


@pytest.mark.parametrize("what", [("host",), ("transfer", "beta"), ("besteffort",), ("order",)])
def test_a_second_setup_waits_for_the_lock_of_the_first(
    what: tuple[str, ...], configured: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two setups at once would lose a section of gridbridge.toml."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(program_lock_file, "PAUSE_S", 0.0)
    await_turn = program_lock_file.wait_for_lock_until_exit
    monkeypatch.setattr(program_lock_file, "wait_for_lock_until_exit", lambda path, tell: await_turn(path, tell, 0.1))
    assert program_lock_file.take_lock_until_exit(f"{configured}.lock")

    status, out, err = run("setup", *what, "--apply")

    assert (status, out) == (2, "")
    assert err.splitlines() == [
        "setup: waiting for the end of another setup",
        f"gridbridge: another setup still runs, and holds {configured}.lock; repeat this command later",
    ]


@pytest.mark.usefixtures("configured")
def test_setup_balance_refuses_users_other_than_root(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise useradd fails with a misleading message about a lock."""
    edit = SetupEdit.shell_command_edit("false")
    step = setup_command.SetupStep(what="x", line="false", environment="", where="", edit=edit)
    monkeypatch.setattr(setup_command.balancer_setup, "plan_balancer_setup", lambda _: (step,))
    monkeypatch.setattr("os.geteuid", lambda: 1001)
    monkeypatch.setattr(setup_command.configuration_file, "load_configuration", lambda _: None)

    only = "--apply: not root; expected root, or no --apply to see the changes"
    assert run("setup", "balance", "--apply") == (2, "", f"gridbridge: {only}\n")


def test_an_unexpected_error_prints_no_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_command, "check_site", lambda *_: 1 // 0)

    status, _, err = run("check")

    assert status == 2
    assert err.startswith("gridbridge: unexpected ZeroDivisionError")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "program"),
    [(("-b", "y", "sleep", "1"), "qsub"), (("12",), "qstat")],
    ids=["a job that is not submitted", "a job that is there"],
)
def test_missing_batch_system_programs_are_reported_with_the_remedy(
    words: tuple[str, ...], program: str, tmp_path: Path, run: Run
) -> None:
    path = tmp_path / "gridbridge.toml"
    queue = '[queue.transfer-beta]\ncluster = "beta"\nslots = 1\npending_limit = 1\n'
    there = f'binaries = "{tmp_path}"\nqmaster_port = 1\n'
    path.write_text(CONFIG.replace("qmaster_port = 1\n", there) + queue)

    remedy = "run this on the transfer host, where the service is, or set `binaries` in section"
    wrong = f"{program}: {tmp_path}/{program}: No such file or directory; {remedy} [cluster.NAME]"
    told = run("explain", "--config", str(path), "--to", "beta", *words)
    assert told == (2, "", f"gridbridge: {wrong}\n")


def test_explain_without_a_cluster_lists_the_possible_clusters(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "gridbridge.toml"
    path.write_text(f'{CONFIG}[queue.q]\ncluster = "beta"\nslots = 1\npending_limit = 1\n')

    told = run("explain", "--config", str(path), "12")
    assert told == (2, "", "gridbridge: no --to; expected --to with beta\n")


def test_explain_treats_a_single_h_as_help_and_otherwise_as_a_qsub_option(run: Run) -> None:
    status, out, _ = run("explain", "-h")

    assert (status, out.split()[:3]) == (0, ["Usage:", "gridbridge", "explain"])
    told = run("explain", "-h", "--config", "/nosuch", "--to", "beta", "job.sh")
    assert told == (2, "", "gridbridge: /nosuch: No such file or directory\n")


Report = Callable[[str], None]


@pytest.fixture(name="report")
def _report(monkeypatch: pytest.MonkeyPatch) -> Report:
    def report(severity: str) -> None:
        state = FindingSeverity(severity)
        item = CheckReportItem(name="poller", state=state, found="f", right="r", commands=("mend",), where="", hint="")
        monkeypatch.setattr(check_command, "check_site", lambda *_: CheckReport(items=(item,), worst=state))

    return report


@pytest.mark.parametrize(("state", "status"), [("ok", 0), ("warning", 1), ("broken", 2)])
def test_the_exit_status_of_check_is_its_worst_item(state: str, status: int, run: Run, report: Report) -> None:
    report(state)

    assert run("check")[0] == status


def test_check_prints_the_correcting_command(run: Run, report: Report) -> None:
    report("broken")

    assert run("check")[1].split("\n") == [
        "broken: 0 of 1 items are right",
        "",
        f"this host: {WHY[CheckSubject.HOST]}",
        "broken   poller: f; expected r",
        "         mend",
        "",
    ]
    assert run("check", "--quiet") == (2, "broken: this host: poller: f\n", "")


def test_check_prints_a_hint_shared_by_several_items_once(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = tmp_path / "gridbridge.toml"
    wrong.write_text(CONFIG.replace("= 1", '= "one"').replace("= 2", "= 0"))
    report = check_command.check_site(Clock(), str(wrong))
    monkeypatch.setattr(check_command, "check_site", lambda *_: report)

    status, out, _ = run("check")

    assert (status, len(report.items)) == (2, 2)
    assert out.count("# edit the file") == 1


def test_check_json_has_every_field(run: Run, report: Report) -> None:
    report("warning")

    item: dict[str, object] = {"name": "poller", "state": "warning", "found": "f", "right": "r"}
    item |= {"commands": ["mend"], "where": "", "hint": "", "subject": "this host", "is_unanswered": False}
    assert json.loads(run("check", "--json")[1]) == {"items": [item], "worst": "warning"}


ALL = commands_by_name(main.gridbridge, "gridbridge")


def test_help_of_a_group_lists_each_command_with_its_first_sentence() -> None:
    for name in (name for name, one in ALL.items() if isinstance(one, click.Group)):
        shown = " ".join(CliRunner().invoke(ALL[name], ["--help"]).output.split())
        for word, command in ALL.items():
            if word.rpartition(" ")[0] == name:
                sentence = (command.help or "").partition("\n\n")[0]
                assert f"{word.rpartition(' ')[2]} {' '.join(sentence.split())}" in shown


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_help_has_an_example(name: str) -> None:
    shown = CliRunner().invoke(main.gridbridge, [*name.split()[1:], "--help"])

    assert shown.exit_code == 0
    assert "Example:\n    gridbridge " in shown.output
