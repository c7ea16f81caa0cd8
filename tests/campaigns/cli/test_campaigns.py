"""Commands about campaigns accept and print CiGri's words."""

import json
import os
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from unittest.mock import ANY, Mock, call

import pytest
from click import Command
from click.testing import CliRunner, Result

from gridbridge.campaigns.cli import gridsub_campaign_source
from gridbridge.campaigns.cli.campaign_table import HEAD
from gridbridge.campaigns.cli.gridclusters import gridclusters
from gridbridge.campaigns.cli.griddel import griddel
from gridbridge.campaigns.cli.gridevents import gridevents
from gridbridge.campaigns.cli.gridnotify import gridnotify
from gridbridge.campaigns.cli.gridstat import gridstat
from gridbridge.campaigns.cli.gridsub import gridsub
from gridbridge.campaigns.store import campaign_client
from gridbridge.campaigns.store.published_campaign_files import publish_campaign_value
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.cli import output_and_errors
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestReply, CampaignOwnerRequestVerb
from gridbridge.model.campaigns.campaign_predecessors import (
    AwaitedPredecessor,
    PredecessorCondition,
    PredecessorProgress,
)
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaign, PublishedForecastErrors
from gridbridge.model.campaigns.send_reasons import (
    PublishedTaskSendExplanations,
    TaskSendExplanation,
    TaskSentOrUnsentCause,
)
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.site.cli.status_watch import TerminalText
from tests.builders.campaigns import NOON
from tests.builders.command_lines import exit_status
from tests.campaigns.cli.published_builder import make_shown_campaign, publish_campaigns, run_command

pytestmark = pytest.mark.usefixtures("utc")

JDL = '{"name": "n", "nb_jobs": 1, "exec_file": "x", "clusters": {"beta": {}}}'


def shown(number: int, ended: int, state: CampaignState, **other: object) -> PublishedCampaign:
    at = NOON + timedelta(seconds=number)
    known = {"number": number, "ended": ended, "state": state, "submitted_at": at, "clusters": ("beta",), "tasks": 300}
    return make_shown_campaign(**known | other)


@pytest.fixture(name="published")
def _published(tmp_path: Path) -> str:
    of_bob = {"owner": "bob", "name": "a name of more than nineteen letters"}
    listed = (
        shown(1, 300, CampaignState.TERMINATED),
        shown(2, 7, CampaignState.IN_TREATMENT, **of_bob),
        shown(30, 0, CampaignState.PAUSED),
        shown(31, 5, CampaignState.CANCELLED),
    )
    publish_campaigns(tmp_path, *listed)
    return str(tmp_path)


def stat(published: str, *options: str) -> Result:
    return run_command(gridstat, *options, "--published", published)


def test_gridstat_lines_equal_cigris_lines_exactly(published: str) -> None:
    """Scripts of CiGri's users read the columns by their blanks and dashes."""
    assert stat(published).output.splitlines() == [
        "Campaign id Name                User             Submission time     S  Progress",
        "1           sweep               alice            2026-01-01 12-00-01 T  300/300 (100%)",
        "2           a name of more than bob              2026-01-01 12-00-02 R  7/300 (2%)",
        "30          sweep               alice            2026-01-01 12-00-30 P  0/300 (0%)",
        "31          sweep               alice            2026-01-01 12-00-31 C  5/300 (1%)",
    ]


@pytest.mark.parametrize(("condition", "letter"), [("ok", "W"), ("same", "R")])
def test_gridstat_shows_a_campaign_that_waits_for_another(tmp_path: Path, condition: str, letter: str) -> None:
    reads = PredecessorProgress(number=6, name="reads", tasks=100, succeeded=30, is_unfinished=True)
    unmet = (AwaitedPredecessor(condition=PredecessorCondition(condition), progress=reads),)
    publish_campaigns(tmp_path, shown(7, 0, CampaignState.IN_TREATMENT, unmet=unmet))

    assert f" {letter}  0/300 (0%)" in stat(str(tmp_path)).output
    assert "campaign 6 (reads): 30 of 100 tasks succeeded" in stat(str(tmp_path), "7").output
    assert 30 == json.loads(stat(str(tmp_path), "7", "--json").output)[0]["unmet"][0]["progress"]["succeeded"]


@pytest.mark.parametrize(
    ("folder", "said"),
    [("published", "campaigns.json: not what this version of gridbridge publishes"), ("x", "x: no")],
    ids=["invalid file", "missing folder"],
)
def test_unreadable_published_files_are_reported_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str, said: str
) -> None:
    (tmp_path / "published").mkdir()
    (tmp_path / "published/campaigns.json").write_text('{"at": 7, "campaigns": "none"}')

    program = partial(output_and_errors.run_command_reporting_errors, gridstat, "gridstat")
    status = exit_status(program, "gridstat", "--published", str(tmp_path / folder))

    out, err = capsys.readouterr()
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith("gridstat: ")
    assert said in err


def test_gridstat_shows_the_accuracy_of_earlier_forecasts(tmp_path: Path) -> None:
    listed = (shown(1, 3, CampaignState.IN_TREATMENT), shown(2, 3, CampaignState.CANCELLED))
    errors = PublishedForecastErrors(forecasts=12, p90_held=11, median_error=0.08)
    publish_campaigns(tmp_path, *listed, errors=errors)
    told = (
        "earlier forecasts: 11 of 12 campaigns ended by their P90; "
        "half missed their P50 by at most 8% of the time left at the forecast"
    )

    assert told in stat(str(tmp_path), "1", "-f").output.splitlines()
    assert "earlier forecasts" not in stat(str(tmp_path), "2", "-f").output


def test_gridstat_shows_when_nightly_tasks_start_next(tmp_path: Path) -> None:
    publish_campaigns(tmp_path, shown(1, 3, CampaignState.IN_TREATMENT))
    reason = TaskSendExplanation(
        campaign=1,
        cluster="beta",
        cause=TaskSentOrUnsentCause.NIGHT,
        starts_from=NOON,
        starts_until=NOON + timedelta(hours=9),
    )
    cycle = PublishedTaskSendExplanations(at=NOON, reasons=(reason, replace(reason, campaign=2)))
    publish_campaign_value(cycle, str(tmp_path))

    lines = stat(str(tmp_path), "1").output.splitlines()

    assert [line for line in lines if "nightly" in line] == [
        f"beta: nightly tasks start from {NOON:%Y-%m-%d %H:%M} until"
        f" {NOON + timedelta(hours=9):%Y-%m-%d %H:%M} UTC, to end in the night"
    ]


def test_gridstat_shows_one_campaign_or_the_campaigns_of_one_user(published: str) -> None:
    assert stat(published, "-H", "2").output.split()[0] == "2"
    assert len(stat(published, "-u", "alice").output.splitlines()) == 4
    assert stat(published, "-H", "-u", "nobody").output == ""
    assert [stat(published, "-H", "--cluster", name).output.count("\n") for name in ("beta", "delta")] == [4, 0]


def test_gridstat_stacks_rows_on_a_narrow_terminal(published: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    with redirect_stdout(TerminalText()) as text:
        gridstat.main(["--published", published, "-u", "bob"], standalone_mode=False)

    assert text.getvalue().startswith("Campaign 2\n  Name             a name of more than\n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["2", "-f", "-e"], "give one of -f, -e, -J, --failed, --plot and --watch, not several"),
        (["-f"], "-f, -e, -J, --failed and --plot need one campaign: gridstat 12 -f"),
        (["-j", "2.0", "-O", "-E"], "give one of -C, -O and -E, not several"),
    ],
)
def test_conflicting_options_of_gridstat_are_reported(published: str, options: list[str], words: str) -> None:
    done = stat(published, *options)

    assert str(done.exception) == words


def test_gridstat_shows_only_the_header_without_campaigns(tmp_path: Path) -> None:
    assert stat(str(tmp_path)).output.splitlines() == [HEAD]


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (["-j", "{}"], 1, "clusters: no cluster named"),
        (["-j", '{"clusters": ["beta"]}'], 1, 'clusters = ["beta"]: not a table; expected at'),
        (["-j", "not"], 1, "JSON or TOML"),
        (["-f", "a", "-j", "b"], 2, "one of -f FILE, -j JSON, -,"),
        (["-f", "a", "b"], 2, "one of -f FILE, -j JSON, -,"),
        (["--array", "1", "--each-line", "a", "--", "b"], 2, "one of -f FILE, -j JSON, -,"),
        (["-", "b"], 2, "one of -f FILE, -j JSON, -,"),
        (["--array", "1-9"], 2, "no command stands after --"),
        (["--array", "9-1", "--clusters", "a", "--", "x"], 2, "--array 9-1: the last number is less than the first"),
        (["--array", "1", "--clusters", "", "--", "x"], 2, "--clusters '': no cluster named"),
        (["-f", "/dev/zero"], 2, "/dev/zero: longer than 256 MiB"),
        (["--array", "1-99999999", "--clusters", "a", "--", "x"], 2, "expected at most 10000000"),
        (["--array", "1", "--clusters", "A", "--", "x"], 2, "--clusters A: not a valid cluster name"),
        (["--array", "1", "--clusters", "a", "-l", "h_rt=x", "--", "x"], 2, "-l h_rt=x: 'x' is no"),
        (["--each-line", "/nonexistent", "--clusters", "a", "--", "x"], 2, "No such file"),
        (["-j", "{}", "-N", "name"], 2, "exclude a JDL"),
        (["/nonexistent.sh"], 2, "No such file"),
        (["-c", "99999", "-F", "lines"], 1, "no campaign 99999"),
        (["-c", "1"], 2, "give -c ID with -F FILE or -J JSON"),
        (["-c", "1", "-F", "a", "-J", "[]"], 2, "give -c ID with -F FILE or -J JSON"),
        (["-c", "1", "-J", "[]", "-f", "x"], 2, "give -c ID with -F FILE or -J JSON"),
        (["-c", "1", "-J", "[]", "-N", "x"], 2, "give -c ID with -F FILE or -J JSON"),
        (["-F", "lines"], 2, "give -c ID with -F FILE or -J JSON"),
        (["--retry-failed", "99999"], 1, "no campaign 99999"),
        (["-f", "/nonexistent"], 2, "No such file"),
        (["-t", "batch", "-j", "{}"], 2, "not one of"),
        (["-t", "1-10", "job.sh"], 2, "gridsub --array N-M -- ./SCRIPT {}"),
        (["-tc", "5", "job.sh"], 2, "-t is the campaign's type"),
        (["--arry", "1", "--", "run", "-o"], 2, "No such option '--arry'"),
        (["--foo", "job.sh", "-o", "x"], 2, "No such option '--foo'"),
        (["-hold_jid", "3", "job.sh"], 2, "No such option"),
        (["-pe", "smp", "2", "job.sh"], 2, "#$ -pe"),
        (["-cwd", "job.sh"], 2, "#$ -cwd"),
        (["-V", "job.sh"], 2, "#$ -V"),
        (["-b", "y", "hostname"], 2, "No such option '-b'"),
    ],
)
def test_gridsub_reports_each_mistake_with_its_exit_status(options: list[str], status: int, words: str) -> None:
    """Exit status 1 is a refused campaign, 2 a wrong command line."""
    done = run_command(gridsub, *options)

    assert getattr(done.exception, "exit_code", done.return_value) == status
    assert words in done.output + str(done.exception)


NO_HOST = FixedPaths(campaigns="/nonexistent/campaigns")


def test_without_a_runner_commands_exit_with_75() -> None:
    """A script may try the command again on another host, or later."""
    brought = run_command(gridsub, "-t", "default", "-j", JDL, paths=NO_HOST)
    asked = run_command(griddel, "1", paths=NO_HOST)

    assert (brought.return_value, asked.return_value) == (75, 75)
    assert "submit campaigns on the transfer host" in brought.output
    assert "submit campaigns on the transfer host" in asked.output


@pytest.mark.parametrize(("command", "words"), [(gridsub, ["-j", JDL]), (griddel, ["1"]), (gridnotify, ["-l"])])
def test_an_unanswered_request_has_its_own_exit_status(
    monkeypatch: pytest.MonkeyPatch, command: Command, words: list[str]
) -> None:
    """A script that repeats commands after 75 would do the request twice."""
    timeout = campaign_client.RunnerAnswerTimeout(campaign_client.UNANSWERED)
    for name in ("submit_campaign", "ask_runner_to_act_on_campaigns", "send_request_to_runner"):
        monkeypatch.setattr(campaign_client, name, Mock(side_effect=timeout))

    done = run_command(command, *words)

    assert (done.return_value, "look at gridstat before" in done.output) == (76, True)


@pytest.mark.parametrize("options", [[], ["--debug"]], ids=["plain", "debug"])
@pytest.mark.parametrize(
    ("text", "ended"),
    [("{}", (1, "ConfigError")), (JDL, (75, "NoRunnerForRequest")), ('{"name": "odd"}', (2, "RuntimeError"))],
    ids=["refused", "unreachable", "unexpected"],
)
def test_the_debug_option_prints_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    text: str,
    ended: tuple[int, str],
) -> None:
    read = gridsub_campaign_source.read_jdl

    def reads(source: str, said: str, type_: str, configuration: str) -> ParsedJdl:
        if "odd" in said:
            raise RuntimeError("odd")
        return read(source, said, type_, configuration)

    monkeypatch.setattr(gridsub_campaign_source, "read_jdl", reads)
    program = partial(output_and_errors.run_command_reporting_errors, partial(gridsub, obj=NO_HOST), "gridsub")

    status = exit_status(program, "gridsub", *options, "-j", text)
    told = capsys.readouterr()
    lines = told.err.splitlines()
    is_traced = lines[0] == "Traceback (most recent call last):"
    assert (status, told.out, is_traced) == (ended[0], "", bool(options))
    assert any(ended[1] in line for line in lines) == (bool(options) or status == 2)
    assert lines[-1].startswith("gridsub: ")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["9" * 30], f"campaign {'9' * 30}: no campaign has this id"),
        (["9" * 5000], "campaign 1000000000: no campaign has this id"),
        (["-j", f"1.{'9' * 30}"], "campaign 1: the campaign has no such task"),
        (["-j", f"1.{'9' * 5000}"], "campaign 1: the campaign has no such task"),
    ],
)
def test_a_huge_campaign_or_task_number_is_refused_at_once(options: list[str], told: str) -> None:
    done = run_command(griddel, *options)

    assert (done.return_value, done.output) == (1, f"griddel: {told}\n")


@pytest.mark.parametrize("options", [[], ["-f"]], ids=["script", "JDL"])
def test_a_file_that_is_not_utf_8_is_reported_with_its_line(tmp_path: Path, options: list[str]) -> None:
    """An example is an old script with a comment in Latin-1."""
    (tmp_path / "job.sh").write_bytes(b"#!/bin/sh\n# caf\xe9\n")

    done = run_command(gridsub, *options, str(tmp_path / "job.sh"))

    assert str(done.exception) == f"{tmp_path}/job.sh:2: 0xe9 is not UTF-8"


@pytest.mark.parametrize(
    ("options", "verb", "said"),
    [
        (["1", "2", "1"], CampaignOwnerRequestVerb.CANCEL, "cancelled"),
        (["-c", "1,2"], CampaignOwnerRequestVerb.CANCEL, "cancelled"),
        (["-p", "1", "-c", "2"], CampaignOwnerRequestVerb.PAUSE, "paused"),
        (["-r", "-c", "1,2"], CampaignOwnerRequestVerb.RESUME, "resumed"),
        (["--pause", "--campaign_ids", "1,2", "-v"], CampaignOwnerRequestVerb.PAUSE, "paused"),
        (["--purge", "1", "2"], CampaignOwnerRequestVerb.PURGE, "purged"),
    ],
)
def test_griddel_acts_on_each_campaign_as_its_option_says(
    monkeypatch: pytest.MonkeyPatch, options: list[str], verb: CampaignOwnerRequestVerb, said: str
) -> None:
    answers = {1: CampaignOwnerRequestReply.DONE, 2: CampaignOwnerRequestReply.DONE}
    asked = record_requests(monkeypatch, answers)

    well = run_command(griddel, *options)
    answers[2] = CampaignOwnerRequestReply.NOT_THEIRS
    badly = run_command(griddel, *options)

    assert asked.mock_calls == [call(verb, (1, 2), ANY, 0)] * 2
    assert (well.return_value, well.output) == (0, f"Campaign 1 {said}\nCampaign 2 {said}\n")
    assert (badly.return_value, badly.stdout) == (1, f"Campaign 1 {said}\n")
    assert badly.stderr == "griddel: campaign 2: owned by another user\n"


def record_requests(monkeypatch: pytest.MonkeyPatch, answers: dict[int, CampaignOwnerRequestReply]) -> Mock:
    client = Mock(return_value=answers)
    monkeypatch.setattr(campaign_client, "ask_runner_to_act_on_campaigns", client)
    return client


def test_griddel_cancels_one_task(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = record_requests(monkeypatch, {1: CampaignOwnerRequestReply.DONE})

    found = run_command(griddel, "-j", "1.7")

    assert asked.mock_calls == [call(CampaignOwnerRequestVerb.CANCEL_TASK, (1,), ANY, 7)]
    assert (found.return_value, found.output) == (0, "Task 1.7 cancelled\n")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "no campaign id"),
        (["a"], "no campaign id"),
        (["a.7"], "no campaign id"),
        (["1,2"], "no campaign id"),
        (["-c", ","], "no campaign id"),
        (["-p", "-r", "1"], "several of -p, -r, --purge, --abandon and -j JOB"),
        (["-j", "1.2", "1"], "several of -p, -r, --purge, --abandon and -j JOB"),
        (["-j", "1"], "-j '1'"),
        (["1.7"], "1.7 is a task; expected griddel -j 1.7"),
        (["1", "2.0"], "2.0 is a task; expected griddel -j 2.0"),
    ],
)
def test_griddel_refuses_wrong_options_with_exit_status_2(options: list[str], told: str) -> None:
    done = run_command(griddel, *options)

    assert getattr(done.exception, "exit_code", None) == 2
    assert str(done.exception).startswith(told)


@pytest.mark.parametrize("options", [[], ["-d"], ["--details"]])
def test_gridsub_reports_a_stored_campaign_in_cigris_words(monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    """CiGri's -d prints the campaign's JSON between the two lines that scripts read."""
    monkeypatch.setattr(campaign_client, "submit_campaign", lambda *_: 12)

    done = run_command(gridsub, *options, "-", stdin=JDL)

    first, *details, last = done.output.splitlines()
    assert (first, last) == ("Campaign successfully submitted", "CAMPAIGN_ID=12")
    assert len(details) == len(options)
    for found in map(json.loads, details):
        assert (found["id"], found["name"], found["nb_jobs"]) == (12, "n", 1)
        assert found["clusters"]["beta"]["exec_file"] == "x"


def test_root_cannot_submit_a_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only an embedded site, whose spool root owns, accepts campaigns of root."""
    spool = tmp_path / "spool"
    spool.mkdir()
    if os.getuid() == 0:
        os.chown(spool, 990, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    said = ParsedJdl(jdl=Jdl(name="n", clusters={}), parameters=())

    with pytest.raises(campaign_client.CampaignSubmissionRefusal, match="campaigns never run as root"):
        campaign_client.submit_campaign(said, FixedPaths(campaigns=str(spool), published=str(tmp_path)))
    assert os.listdir(spool) == []


@pytest.mark.parametrize(("option", "is_told"), [("--type", True), ("--wait", True), ("--seed", False)])
def test_gridsub_options_after_the_script_cause_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, is_told: bool
) -> None:
    """Qsub passes these words to the script too."""
    (tmp_path / "job.sh").write_text("echo $1\n")
    monkeypatch.setattr(campaign_client, "submit_campaign", lambda *_: 12)
    argv = ["--clusters", "beta", str(tmp_path / "job.sh"), option]

    done = run_command(gridsub, *argv)

    assert (f"{option} after the script is an argument of the script" in done.stderr) is is_told
    assert "CAMPAIGN_ID=12" in done.stdout


@pytest.mark.parametrize(
    ("command", "names"),
    [
        (gridsub, {"--file", "--json", "--campaign", "--jobfile", "--jsonjob", "--details"}),
        (griddel, {"--campaign_ids", "--pause", "--resume", "--job", "--verbose"}),
        (gridstat, {"--campaign", "--dump", "--full", "--offset", "--events", "--job", "--cinfos"}),
        (gridstat, {"--headerless", "--pretty", "--username", "--stdout", "--stderr", "--jdl"}),
        (gridevents, {"--campaign", "--global", "--event", "--fix", "--resubmit", "--all"}),
        (gridevents, {"--verbose"}),
        (gridclusters, {"--infos", "--more_infos", "--usage", "--bars"}),
        (gridnotify, {"--list", "--mail", "--jabber", "--unsubscribe", "--severity", "--verbose"}),
    ],
)
def test_commands_accept_cigris_long_option_names(command: Command, names: set[str]) -> None:
    """Scripts written for CiGri's commands use these options, and ask for the version."""
    known = {word for each in command.params for word in each.opts}

    assert names | {"--version"} <= known


TOML = 'name = "n"\nnb_jobs = 1\nexec_file = "x"\n[clusters.beta]\n'

Run = Callable[..., tuple[int, list[str]]]


@pytest.fixture(name="run")
def _run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(campaign_client, "submit_campaign", lambda *_: pytest.fail("it was submitted"))

    def run(*words: str) -> tuple[int, list[str]]:
        program = partial(output_and_errors.run_command_reporting_errors, gridsub, "gridsub")
        return exit_status(program, "gridsub", *words), capsys.readouterr().err.splitlines()

    return run


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sweep.json", JDL),
        ("s.toml", TOML),
        ("sweep.jdl", JDL),
        ("up.JSON", JDL),
        ("sweep", JDL),
        ("sweep.txt", TOML),
        ("broken.json", "{"),
    ],
)
def test_a_jdl_without_the_option_f_is_refused(run: Run, name: str, text: str) -> None:
    Path(name).write_text(text)

    assert run("--clusters", "beta", name) == (
        2,
        [f"gridsub: {name}: a JDL, not a job script; expected gridsub -f {name}"],
    )


def test_gridsub_suggests_no_hidden_option(run: Run) -> None:
    """Gridsub itself adds --ready on a login node."""
    status, (told,) = run("--aray", "1-3", "--", "echo")

    assert status == 2
    assert "--array" in told
    assert "--ready" not in told


def test_a_check_option_after_the_script_submits_nothing(run: Run) -> None:
    Path("job.sh").write_text("echo $1\n")

    assert run("--clusters", "beta", "job.sh", "a", "--check") == (
        2,
        [
            "gridsub: --check after job.sh would be an argument of the script; expected"
            " gridsub --check job.sh, or gridsub --array 1 -- job.sh --check {}"
            " for a script that has such an option"
        ],
    )


def test_gridsub_without_arguments_lists_the_sources_of_a_campaign(run: Run) -> None:
    assert run() == (
        2,
        ["gridsub: give one of -f FILE, -j JSON, -, --array, --each-line, --retry-failed and a job script"],
    )
    assert CliRunner().invoke(gridsub, ["-h"]).exit_code == 0
