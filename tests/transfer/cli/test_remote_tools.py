"""The remote tools print tables, JSON and one-line errors."""

import json
import shlex
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import click
import pytest
from click.testing import CliRunner

from gridbridge.batch.gridengine.accounting_record_parser import JobRunAccounting
from gridbridge.cli import output_and_errors
from gridbridge.decisions.transfer.transfer_status_explanation import NEVER_PUBLISHED
from gridbridge.model.jobs_and_accounting import RemoteJobRunAccounting, RemoteUsageSource
from gridbridge.shell.program_startup import version_with_commit_and_date
from gridbridge.transfer.cli import qacct_remote_command as qacct_command
from gridbridge.transfer.cli.qacct_remote import HomeAndRemoteAccounting
from gridbridge.transfer.cli.qacct_remote_command import qacct_remote
from gridbridge.transfer.cli.qalter_remote_command import qalter_remote
from gridbridge.transfer.cli.qdel_remote_command import qdel_remote
from gridbridge.transfer.cli.qstat_remote_command import qstat_remote
from tests.builders.configurations import queue_text, site_text
from tests.shown import NOW, ago, cluster, history, load, publish, shown, transfer

pytestmark = pytest.mark.usefixtures("utc")

CONFIG = site_text("alpha", "beta", binaries="/nonexistent") + queue_text("beta")
PROGRAMS = {
    "qstat_remote": qstat_remote,
    "qacct_remote": qacct_remote,
    "qalter_remote": qalter_remote,
    "qdel_remote": qdel_remote,
}
WAITING = transfer(
    transfer="gb.alpha.13.2.1", owner="bob", remote_id=35, remote_state="hqw", remote_host="", since=ago(90000)
)


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "gridbridge.toml"
    path.write_text(CONFIG)
    return str(path)


def run(monkeypatch: pytest.MonkeyPatch, name: str, *words: str, command: click.Command | None = None) -> int:
    monkeypatch.setattr("sys.argv", [name, *words])
    with pytest.raises(SystemExit) as ended:
        output_and_errors.run_command_reporting_errors(command or PROGRAMS[name], name)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture
def tool(
    tmp_path: Path, config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a remote tool and returns its exit status, output and errors."""
    publish(tmp_path, shown(transfer(), WAITING))

    def run_tool(name: str, *words: str, folder: str = str(tmp_path)) -> tuple[int, str, str]:
        options = ("--config", config) if name != "qstat_remote" or "-j" in words else ()
        status = run(monkeypatch, name, *words, "--published", folder, *options)
        return status, *capsys.readouterr()

    return run_tool


Tool = Callable[..., tuple[int, str, str]]


def test_qstat_remote_prints_an_aligned_table_of_the_selected_jobs(tool: Tool) -> None:
    status, told, _ = tool("qstat_remote", "-u", "alice,bob")

    lines = told.splitlines()[2:]  # the poller of the sample is long silent
    assert status == 0
    assert [line.split()[:7] for line in lines] == [
        ["JOB", "USER", "CLUSTER", "ID", "STATE", "SINCE", "HOST"],
        ["12", "alice", "beta", "34", "r", "2026-03-01", "11:56:40"],
        ["13.2", "bob", "beta", "35", "hqw", "2026-02-28", "11:00:00"],
    ]
    assert len({line.index("beta") for line in lines[1:]}) == 1


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        (("-u", "a*"), ["12"]),
        (("-u", "[b-z]ob,?lice"), ["12", "13.2"]),
        (("-u", "$user"), ["13.2"]),
        (("-u", "Bob"), []),
        (("-u", "*"), ["12", "13.2"]),
        (("-u", "alice", "-u", "bob"), ["12", "13.2"]),
        (("-u", "*", "-s", "r"), ["12"]),
        (("-u", "*", "-s", "p"), ["13.2"]),
        (("-u", "*", "-s", "h"), ["13.2"]),
        (("-u", "*", "-s", "s"), []),
        (("-u", "*", "-s", "rh"), ["12", "13.2"]),
        (("-u", "*", "--cluster", "beta"), ["12", "13.2"]),
        (("-u", "*", "--cluster", "alpha"), []),
        (("-u", "carol"), []),
    ],
    ids=" ".join,
)
def test_qstat_remote_selects_jobs_by_user_patterns_and_state_and_cluster(
    tool: Tool, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], jobs: list[str]
) -> None:
    monkeypatch.setattr("os.getuid", lambda: 4711)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {4711: SimpleNamespace(pw_name="bob")}[uid])
    _, told, _ = tool("qstat_remote", *words, "--json")

    assert [one["job"] for one in json.loads(told)["transfers"]] == jobs


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        (("-q", "transfer-beta"), ["12", "13.2"]),
        (("-q", "transfer-*", "-s", "r"), ["12"]),
        (("-q", "x,transfer-b*"), ["12", "13.2"]),
        (("-q", "all.q"), []),
    ],
)
def test_qstat_remote_q_selects_jobs_by_their_transfer_queue(
    tool: Tool, words: tuple[str, ...], jobs: list[str]
) -> None:
    _, out, _ = tool("qstat_remote", "--json", "-u", "*", *words)

    assert [row["job"] for row in json.loads(out)["transfers"]] == jobs


def test_qstat_remote_f_lists_queues_with_their_jobs_and_ext_and_t_add_columns(tool: Tool) -> None:
    _, out, _ = tool("qstat_remote", "-u", "*", "-f", "-ext", "-t")

    *_, head, titles, running, waiting = out.splitlines()
    assert head.startswith("transfer-beta to beta, 1/2 slots used, closed: the load values are too old")
    assert titles.split()[8:] == ["NAME", "QUEUE", "SENT", "TASK", "FUNCTION", "WAITS", "FOR"]
    assert " transfer-beta " in running
    assert " 2     MASTER " in waiting


@pytest.mark.parametrize("words", [(), ("-f",)])
def test_qstat_remote_xml_has_the_elements_of_qstat_xml(tool: Tool, words: tuple[str, ...]) -> None:
    """Programs that read the XML of qstat find running and waiting jobs where qstat has them."""
    _, out, notes = tool("qstat_remote", "-u", "*", "-xml", *words)

    root = ET.fromstring(out)
    (running,) = root.findall("queue_info/Queue-List/job_list" if words else "queue_info/job_list")
    (waiting,) = root.findall("job_info/job_list")
    assert [running.get("state"), waiting.get("state")] == ["running", "pending"]
    assert [running.findtext(name) for name in ("JB_job_number", "JB_owner", "state")] == ["12", "alice", "r"]
    assert [waiting.findtext(name) for name in ("JB_job_number", "tasks", "remote_job_number")] == ["13", "2", "35"]
    assert running.findtext("JAT_start_time") == "2026-03-01T11:56:40"
    assert waiting.findtext("JB_submission_time") == "2026-02-28T11:00:00"
    assert (running.find("tasks"), running.find("JAT_prio")) == (None, None)
    assert root.findtext("queue_info/Queue-List/name") == ("transfer-beta" if words else None)
    assert "gridbridge-poller is silent" in notes


def test_qstat_remote_first_warns_of_stale_data_with_the_reason(tool: Tool, tmp_path: Path) -> None:
    silent = {"beta": cluster("beta", trouble="qstat: no answer in time", taken_at=ago(300))}
    publish(tmp_path, shown(transfer(), clusters=silent, load=load(age_s=600)))

    told = tool("qstat_remote", "-u", "*")[1].splitlines()
    assert told[0].startswith("gridbridge-poller is silent for ")
    assert told[2].startswith("beta has not answered for ")
    assert told[2].endswith(": qstat: no answer in time")


def test_qstat_remote_j_shows_published_data_when_a_cluster_does_not_answer(tool: Tool, tmp_path: Path) -> None:
    publish(tmp_path, shown(transfer()), history(transfer(), "sent"))

    status, told, error = tool("qstat_remote", "-j", "12,99")
    assert status == 1
    assert "job 12 of alice is at beta as job 34\n" in told
    assert "  transfer   gb.alpha.12.0.1, sent at " in told
    assert "  beta       no answer: " in told
    assert "; the state above is " in told
    assert error.startswith("qstat_remote: job 99: no transfer in the last 24 h")


LOCAL = JobRunAccounting(
    job_id=12,
    task=0,
    name="job",
    owner="alice",
    account="sge",
    queue="transfer-beta",
    host="alpha-master",
    submitted_at=ago(70),
    started_at=ago(65),
    ended_at=ago(5),
    failed=0,
    exit_status=3,
    wallclock_s=60.2,
    user_s=0.05,
    system_s=0.02,
    max_rss_kb=9318,
)
REMOTE = RemoteJobRunAccounting(
    transfer="gb.alpha.12.0.1",
    cluster="beta",
    source=RemoteUsageSource.ACCOUNTING,
    mark="00",
    job_id=34,
    owner="alice",
    queue="all.q",
    host="beta-n1",
    submitted_at=ago(64),
    started_at=ago(62),
    ended_at=ago(6),
    failed=0,
    exit_status=3,
    wallclock_s=56,
    user_s=50,
    system_s=1.5,
    max_rss_kb=204800,
)


def test_qalter_remote_h_without_value_names_the_values_and_the_help_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = "qalter_remote: -h: no value; expected u, U or n (--help shows the help)\n"

    assert (run(monkeypatch, "qalter_remote", "-h"), capsys.readouterr().err) == (2, error)


def test_qacct_remote_prints_one_table_with_local_and_remote_usage(capsys: pytest.CaptureFixture[str]) -> None:
    one = HomeAndRemoteAccounting(job="12", cluster="alpha", local=(LOCAL,), remote=(REMOTE,), transfers=(transfer(),))

    qacct_command.print_home_and_remote_usage([one], (), NOW)

    assert capsys.readouterr().out == (
        "JOB  OWNER  CLUSTER  ID  HOST          STARTED   ENDED     WAITED  WALLCLOCK      CPU"
        "    MAXRSS  FAILED  EXIT  TOLD BY\n"
        "12   alice  alpha    12  alpha-master  11:58:55  11:59:55     5 s       60 s   0.07 s"
        "    9.1 MB       0     3  accounting\n"
        "12   alice  beta     34  beta-n1       11:58:58  11:59:54     2 s       56 s  51.50 s"
        "  200.0 MB       0     3  accounting\n"
    )


def test_qacct_remote_prints_a_running_remote_job_without_usage(capsys: pytest.CaptureFixture[str]) -> None:
    qacct_command.print_home_and_remote_usage(
        [HomeAndRemoteAccounting(job="12", cluster="alpha", transfers=(transfer(),))], ("a note",), NOW
    )

    told = capsys.readouterr()
    assert told.out.splitlines()[1].split()[:6] == ["12", "alice", "beta", "34", "beta-n1", "-"]
    assert told.out.endswith("  running at beta as 34 on all.q@beta-n1\n")
    assert told.err == "qacct_remote: a note\n"


WRONG_CALLS = Path(__file__).with_name("wrong_calls.txt").read_text().splitlines()[1:]


@pytest.mark.parametrize(("call", "status", "told"), [line.split(" | ") for line in WRONG_CALLS])
def test_a_wrong_call_of_a_remote_tool_is_a_one_line_error_with_its_exit_status(
    tool: Tool, call: str, status: str, told: str
) -> None:
    name, *words = shlex.split(call)
    ended, _, error = tool(name, *words)

    assert (ended, len(error.splitlines())) == (int(status), 1), error
    assert error.startswith(f"{name}: ")
    assert told in error


@pytest.mark.parametrize(
    ("name", "words"),
    [("qstat_remote", ()), ("qacct_remote", ()), ("qalter_remote", ("1", "-p", "-1")), ("qdel_remote", ("1",))],
)
def test_every_remote_tool_reports_a_missing_folder_of_published_files(
    tool: Tool, tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    missing = f"{tmp_path}/missing"

    assert tool(name, *words, folder=missing) == (
        *(2, ""),
        f"{name}: {missing}: no such folder; run this on the transfer host, where the"
        " service is; on a new host gridbridge setup host --apply creates the folder\n",
    )


def test_qstat_remote_reports_a_poller_that_never_published(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    assert tool("qstat_remote", folder=str(tmp_path / "empty")) == (0, f"{NEVER_PUBLISHED}\n\n", "")


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_each_remote_tool_prints_version_and_help_with_an_example(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(PROGRAMS[name], ("--version",), prog_name=name)

    assert (done.exit_code, done.output) == (0, f"{name} {version_with_commit_and_date()}\n")
    assert f"Example:\n      {name}" in (PROGRAMS[name].callback.__doc__ or "")
    assert run(monkeypatch, name, "--help") == 0
    assert run(monkeypatch, name, "-help") == 0  # as Grid Engine's own commands have it


def test_qacct_remote_prints_the_date_of_an_old_record(capsys: pytest.CaptureFixture[str]) -> None:
    qacct_command.print_home_and_remote_usage(
        [HomeAndRemoteAccounting(job="12", cluster="alpha", local=(LOCAL,))], (), NOW + timedelta(days=100)
    )

    assert "2026-03-01 11:58:55  2026-03-01 11:59:55" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "words"), [("qalter_remote", ("99", "-p", "-1")), ("qdel_remote", ("99",))])
def test_the_outcome_of_an_act_is_printed_as_json(tool: Tool, name: str, words: tuple[str, ...]) -> None:
    ended, told, error = tool(name, *words, "--json")

    (only,) = json.loads(told)
    assert (ended, error, only["job"], only["is_done"]) == (1, "", "99", False)
    assert only["text"].startswith("job 99: no task is away; q")
