"""A request of a grid command is stored, removed or of unknown outcome; on a login node it goes with its files."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from click.testing import CliRunner

from gridbridge.campaigns.cli import UNANSWERED, UNREACHABLE, command_relay_and_runner_wait
from gridbridge.campaigns.cli.command_relay_and_runner_wait import (
    HANDED_OVER,
    RelayedCommandOutputFiles,
    relay_and_fetch_output_files,
    transfer_host_to_relay_to,
)
from gridbridge.campaigns.cli.griddel import main as griddel
from gridbridge.campaigns.cli.gridevents import main as gridevents
from gridbridge.campaigns.cli.gridfetch import main as gridfetch
from gridbridge.campaigns.cli.gridnotify import main as gridnotify
from gridbridge.campaigns.cli.gridstat import main as gridstat
from gridbridge.campaigns.cli.gridsub import gridsub as gridsub_command
from gridbridge.campaigns.cli.gridsub import main as gridsub
from gridbridge.campaigns.cli.gridsub_campaign_source import decode_jdl_from_login_node
from gridbridge.campaigns.store import campaign_client
from gridbridge.campaigns.store.campaign_client import NoRunnerForRequest, RunnerAnswerTimeout
from gridbridge.campaigns.store.campaign_files_of_owners import (
    list_unprocessed_inbox_files,
    publish_answer_to_sender,
    take_new_campaign_files,
    take_owner_requests,
)
from gridbridge.campaigns.store.campaign_inbox import list_inbox_files_of_all_users
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.cli import output_and_errors
from gridbridge.errors import ConfigError
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestReply, CampaignOwnerRequestVerb
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.shell.retry import poll_until
from tests.builders.command_lines import exit_status
from tests.builders.programs import write_program
from tests.campaigns.cli.published_builder import run_command

JDL = '{"name": "n", "nb_jobs": 1, "exec_file": "x", "clusters": {"beta": {}}}'
SITE = '[site]\ncluster = "alpha"\n{}[cluster.alpha]\nqmaster_port = 1\nexecd_port = 2\n'


def configured(folder: Path, line: str = 'transfer_host = "alpha-master"\n') -> str:
    path = folder / "gridbridge.toml"
    path.write_text(SITE.format(line))
    return str(path)


@pytest.fixture(name="asked")
def _asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Simulate a login node; return the commands for the transfer host, which all exit with 3."""
    asked: list[Any] = []

    def run(host: str, argv: tuple[str, ...], stdin: bytes | None = None) -> int:
        asked.append((host, *argv, stdin))
        return 3

    monkeypatch.setattr("gridbridge.shell.ssh.run_by_callers_ssh", run)
    monkeypatch.setattr(command_relay_and_runner_wait, "transfer_host_to_relay_to", lambda *_: "alpha-master")
    return asked


def test_a_command_runs_on_the_host_with_the_published_files(tmp_path: Path) -> None:
    """If this host lacks the folder, the command is relayed to the transfer host of gridbridge.toml."""
    path = configured(tmp_path)

    assert transfer_host_to_relay_to(str(tmp_path), path) == ""
    assert transfer_host_to_relay_to(str(tmp_path / "no"), path) == "alpha-master"
    assert transfer_host_to_relay_to(str(tmp_path / "no"), str(tmp_path / "none.toml")) == ""
    assert transfer_host_to_relay_to(str(tmp_path / "no"), configured(tmp_path, "")) == ""


def test_a_relayed_campaign_includes_its_parameter_file(asked: list[Any], tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("a 1\nb \u00e9\n")
    (tmp_path / "n.json").write_text('{"name": "n", "param_file": "lines", "exec_file": "x", "clusters": {"beta": {}}}')

    words = ["-f", str(tmp_path / "n.json"), "--wait"]
    done = run_command(gridsub_command, *words)

    ((host, program, *options, data),) = asked
    assert (done.return_value, host, options) == (3, "alpha-master", ["--ready", "--wait"])
    assert program == "/opt/gridbridge/bin/gridsub"
    jdl = Jdl(name="n", clusters={"beta": JdlSettingsAtCluster(exec_file="x")})
    assert decode_jdl_from_login_node(data) == ParsedJdl(jdl=jdl, parameters=("a 1", "b \u00e9"))


def test_relayed_added_tasks_include_the_task_file(asked: list[Any], tmp_path: Path) -> None:
    (tmp_path / "more").write_text("c\n")

    run_command(gridsub_command, "-c", "12", "-F", str(tmp_path / "more"))
    run_command(gridsub_command, "--check", "-c", "12", "-J", '["c"]')

    assert [one[2:] for one in asked] == [("-c", "12", "-F", "-", b"c\n"), ("-c", "12", "-J", '["c"]', "--check", None)]


def test_a_retry_of_failed_tasks_is_relayed_with_its_options(asked: list[Any]) -> None:
    """The transfer host has the campaign's file and the outcomes of tasks."""
    for words in (["--retry-failed", "12"], ["--check", "-t", "test", "--retry-failed", "12"]):
        run_command(gridsub_command, *words)

    assert [one[2:] for one in asked] == [
        ("--retry-failed", "12", HANDED_OVER),
        ("--retry-failed", "12", "-t", "test", "--check", None),
    ]


@pytest.mark.parametrize("more", [["-N", "name"], ["-f", "n.json"], ["--idempotent"]])
def test_the_login_node_refuses_options_that_exclude_a_retry(asked: list[Any], more: list[str]) -> None:
    done = CliRunner().invoke(gridsub_command, ["--retry-failed", "12", *more])

    assert (done.exit_code, asked) == (2, [])


@pytest.mark.parametrize("data", [b"", b"[]\na\n", b"{}\n", b"\xff\n"])
def test_invalid_relayed_campaign_data_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^standard input: not the data that gridsub sends: "):
        decode_jdl_from_login_node(data)


@pytest.mark.parametrize(
    ("words", "status", "relayed"),
    [
        (["12", "-f"], 3, [("alpha-master", "/opt/gridbridge/bin/gridstat", "12", "-f", None)]),
        (["--help"], 0, []),
        (["--nosuch"], 2, []),
    ],
    ids=["a query is relayed unchanged", "help is printed here", "a mistake is reported here"],
)
def test_gridstat_is_relayed_except_for_help_and_usage_errors(
    asked: list[Any], words: list[str], status: int, relayed: list[object]
) -> None:
    assert (exit_status(gridstat, "gridstat", *words), asked) == (status, relayed)


@pytest.mark.parametrize(
    ("program", "words", "there", "said"),
    [
        (gridstat, ["12", "--plot=new/a.png"], ("12", "--plot=new/a.png", "--plot", "out/a.png"), "new/a.png"),
        (gridfetch, ["12", "new"], ("12", "out"), "done"),
    ],
)  # fmt: skip
def test_files_written_by_a_relayed_command_are_copied_to_this_host(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    program: Callable[[], None],
    words: list[str],
    there: tuple[str, ...],
    said: str,
) -> None:
    asked: list[tuple[str, ...]] = []

    def bring(_: str, argv: tuple[str, ...], folder: str) -> int:
        asked.append(argv[1:])
        (Path(folder) / "out/0").mkdir(parents=True)
        (Path(folder) / "out/a.png").write_text("new")
        (Path(folder) / "out/0/b").write_text("b")
        (Path(folder) / "said").write_text("done\n")
        return 0

    monkeypatch.chdir(tmp_path)
    (tmp_path / "new").mkdir()
    (tmp_path / "new/a.png").write_text("old")
    monkeypatch.setattr("gridbridge.shell.ssh.run_remotely_and_fetch_files", bring)
    monkeypatch.setattr(command_relay_and_runner_wait, "transfer_host_to_relay_to", lambda *_: "alpha-master")

    status = exit_status(program, "program", *words)

    files = {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()}
    assert (status, asked, capsys.readouterr().out) == (0, [there], f"{said}\n")
    assert (files, (tmp_path / "new/a.png").read_text()) == ({"new/a.png", "new/0/b"}, "new")


def test_relayed_files_are_not_copied_through_links_or_into_foreign_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def bring(_: str, __: tuple[str, ...], folder: str) -> int:
        (Path(folder) / "out/0").mkdir(parents=True)
        (Path(folder) / "out/0/b").write_text("b")
        return 0

    monkeypatch.setattr("gridbridge.shell.ssh.run_remotely_and_fetch_files", bring)
    mine, to = tmp_path / "mine", tmp_path / "to"
    mine.mkdir()
    to.mkdir()
    (to / "0").symlink_to(mine)

    asked = RelayedCommandOutputFiles(words=(), to=str(to))
    linked = relay_and_fetch_output_files("alpha-master", "gridfetch", asked)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    unchosen = relay_and_fetch_output_files("alpha-master", "gridfetch", replace(asked, is_chosen=False))

    assert (linked, unchosen, [*mine.iterdir()]) == (2, 2, [])
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith(f"{to}/0 is a link")
    assert second.endswith("owned by another user; expected a folder of yours as DIR")


NOT_REACHED = "alpha-master was not reached; nothing is changed there"
LOST = "lost the connection to alpha-master, which may have taken the request; look at gridstat"
EITHER = "alpha-master was not reached, or the connection was lost"


@pytest.mark.parametrize(
    ("main", "words", "begins", "status", "told"),
    [
        (griddel, ["12"], "", UNREACHABLE, NOT_REACHED),
        (griddel, ["12"], "cat >/dev/null", UNANSWERED, LOST),
        (gridevents, ["12", "-f"], "", UNREACHABLE, NOT_REACHED),
        (gridevents, ["12", "-r"], "cat >/dev/null", UNANSWERED, LOST),
        (gridevents, ["12"], "", UNREACHABLE, EITHER),
        (gridnotify, ["-m", "a@b", "-s", "low"], "cat >/dev/null", UNANSWERED, LOST),
        (gridnotify, ["-l"], "", UNREACHABLE, EITHER),
        (gridsub, ["-j", JDL], "", UNREACHABLE, NOT_REACHED),
        (gridsub, ["-j", JDL], "cat >/dev/null", UNANSWERED, LOST),
        (gridsub, ["-c", "12", "-J", "[]"], "", UNREACHABLE, NOT_REACHED),
        (gridsub, ["-c", "12", "-J", "[]"], "cat >/dev/null", UNANSWERED, LOST),
        (gridsub, ["-j", JDL, "--check"], "cat >/dev/null", UNREACHABLE, EITHER),
        (gridstat, ["12"], "", 2, EITHER),
    ],
)
def test_a_lost_connection_and_an_unreached_host_have_different_exit_statuses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    main: Callable[[], None],
    words: list[str],
    begins: str,
    status: int,
    told: str,
) -> None:
    """Exit status 75 means that nothing was done, so a script may repeat the command."""
    defaults = (None, str(write_program(tmp_path / "ssh", f"#!/bin/sh\n{begins}\nexit 255\n")), 1)
    monkeypatch.setattr("gridbridge.shell.ssh.run_by_callers_ssh.__defaults__", defaults)
    monkeypatch.setattr(command_relay_and_runner_wait, "transfer_host_to_relay_to", lambda *_: "alpha-master")

    assert exit_status(main, "program", *words) == status
    name = main.__module__.rpartition(".")[2]
    assert capsys.readouterr().err.startswith(f"{name}: {told}")


SAID = ParsedJdl(jdl=Jdl(name="n", clusters={"beta": JdlSettingsAtCluster(exec_file="x")}), parameters=("a",))
LONG_S = 20.0
Request = Callable[[FixedPaths], object]


@pytest.fixture(name="places")
def _places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FixedPaths:
    """Return a folder for campaigns and a folder for answers; the client waits for 0.3 s."""
    monkeypatch.setattr(campaign_client, "ANSWER_S", 0.3)
    monkeypatch.setattr(campaign_client, "TAKEN_S", 0.3)
    for name in ("campaigns", "published"):
        (tmp_path / name).mkdir()
    return FixedPaths(campaigns=f"{tmp_path}/campaigns", published=f"{tmp_path}/published")


class Killed(Thread):
    """A runner that is killed after reading all requests; `told` is its answer after the restart."""

    def __init__(self, places: FixedPaths, told: object = None) -> None:
        super().__init__(daemon=True)
        self._folder, self._published = places.campaigns, places.published
        self._told = told
        self._tokens: list[str] = []
        self.start()

    def run(self) -> None:
        poll_until(self._take, LONG_S, 0.01)
        if self._told is not None:
            Event().wait(1.5)  # longer than both waits were
            publish_answer_to_sender(self._tokens[0], self._told, self._published)

    def _take(self) -> bool:
        listed = list_inbox_files_of_all_users(self._folder)
        self._tokens += [token for token, _ in take_new_campaign_files(listed, self._folder)]
        self._tokens += [one.token for one in take_owner_requests(listed, self._folder)]
        return bool(self._tokens)


def bring(places: FixedPaths) -> int:
    return campaign_client.submit_campaign(SAID, places)


def pause(places: FixedPaths) -> dict[int, CampaignOwnerRequestReply]:
    return campaign_client.ask_runner_to_act_on_campaigns(CampaignOwnerRequestVerb.PAUSE, (7,), places)


def unprocessed_files(folder: str) -> list[Any]:
    return list_unprocessed_inbox_files(list_inbox_files_of_all_users(folder), folder)


DO = pytest.mark.parametrize("do", [bring, pause])


@DO
def test_a_file_that_no_runner_reads_is_removed_again(places: FixedPaths, do: Request) -> None:
    with pytest.raises(NoRunnerForRequest):
        do(places)

    assert unprocessed_files(places.campaigns) == []


@pytest.mark.parametrize(
    ("verb", "told"),
    [
        (CampaignOwnerRequestVerb.SUBSCRIPTIONS, "no gridbridge-runner takes requests now; the request has no answer"),
        (CampaignOwnerRequestVerb.SUBSCRIBE, "no gridbridge-runner takes requests now; nothing is changed"),
    ],
)
def test_the_message_about_a_missing_runner_depends_on_the_request(
    places: FixedPaths, verb: CampaignOwnerRequestVerb, told: str
) -> None:
    with pytest.raises(NoRunnerForRequest, match=told):
        campaign_client.send_request_to_runner(verb, (), places)


@DO
def test_a_request_that_the_runner_read_is_not_reported_as_undone(places: FixedPaths, do: Request) -> None:
    killed = Killed(places)

    with pytest.raises(RunnerAnswerTimeout):
        do(places)

    killed.join(LONG_S)
    assert len(unprocessed_files(places.campaigns)) == 1


@pytest.mark.parametrize(
    ("do", "told", "answer"),
    [
        (bring, {"campaign": 12}, 12),
        (pause, {"7": CampaignOwnerRequestReply.DONE}, {7: CampaignOwnerRequestReply.DONE}),
    ],
    ids=["bring", "pause"],
)
def test_a_request_that_the_runner_read_is_awaited(
    monkeypatch: pytest.MonkeyPatch,
    places: FixedPaths,
    do: Request,
    told: object,
    answer: object,
) -> None:
    """Cron or systemd starts a killed runner again."""
    monkeypatch.setattr(campaign_client, "TAKEN_S", LONG_S)
    Killed(places, told)

    assert do(places) == answer


@pytest.mark.parametrize("missing", ["spool/campaigns", "spool"])
def test_an_error_names_the_missing_folder_of_the_service(tmp_path: Path, missing: str) -> None:
    """The host has the published files, so it is no login node."""
    published, folder = tmp_path / "published", tmp_path / "spool/campaigns"
    published.mkdir()
    if missing != "spool":
        folder.parent.mkdir()
    told = f"{tmp_path / missing}: no such folder, though {published} is here; an administrator"

    with pytest.raises(NoRunnerForRequest, match=f"^{told}"):
        bring(FixedPaths(campaigns=str(folder), published=str(published)))


def test_on_a_host_without_the_service_users_are_sent_to_the_transfer_host(tmp_path: Path) -> None:
    with pytest.raises(NoRunnerForRequest, match="submit campaigns on the transfer host"):
        bring(FixedPaths(campaigns=f"{tmp_path}/spool/campaigns", published=f"{tmp_path}/published"))


@pytest.mark.parametrize(
    ("after_s", "taken_s", "line"),
    [
        (0.0, 3600.0, "waiting for gridbridge-runner, 90 s at most (cron starts the runner once a minute)"),
        (3600.0, 0.0, "gridbridge-runner took the request and has not answered; waiting at most 600 s more"),
    ],
    ids=["late answer", "request was read"],
)
def test_a_late_answer_of_the_runner_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, after_s: float, taken_s: float, line: str
) -> None:
    told, lines = Event(), list[str]()

    def complain(line: str) -> None:
        lines.append(line)
        told.set()

    monkeypatch.setattr(output_and_errors, "print_error", complain)

    with command_relay_and_runner_wait.report_late_runner_answer("griddel", after_s, taken_s):
        assert told.wait(10.0)

    assert lines == [f"griddel: {line}"]


def test_an_early_answer_of_the_runner_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with command_relay_and_runner_wait.report_late_runner_answer("griddel", after_s=3600.0):
        pass

    assert capsys.readouterr() == ("", "")
