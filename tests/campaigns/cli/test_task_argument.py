"""gridstat shows task states to all users, and parameters and outputs only to the owner."""

import csv
import json
import os
import pty
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Self

import pytest
from click.testing import Result

from gridbridge.campaigns.cli import campaign_progress_display, campaign_table, task_output_reading_and_fetching
from gridbridge.campaigns.cli.campaign_table import parse_campaign_range
from gridbridge.campaigns.cli.gridfetch import gridfetch
from gridbridge.campaigns.cli.gridstat import gridstat
from gridbridge.campaigns.cli.task_output_reading_and_fetching import TaskOutputFolderAtCluster
from gridbridge.campaigns.store import published_campaign_files
from gridbridge.campaigns.submission import jdl_reader
from gridbridge.model.campaigns.campaign import CampaignState, TaskAttemptOutcome
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    CampaignProgressAtCluster,
    CampaignTaskEndCounts,
    PublishedCampaign,
    PublishedCampaignTask,
)
from gridbridge.model.campaigns.speculative_attempts import PublishedCompetingAttempt
from gridbridge.model.campaigns.task_resource_usage import TaskUsageAtCluster
from gridbridge.model.fixed_paths import FixedPaths
from tests.builders.campaigns import NOON
from tests.campaigns.cli.published_builder import (
    jdl_for_beta,
    make_shown_campaign,
    publish_campaigns,
    run_command,
    write_campaign_file,
)

pytestmark = pytest.mark.usefixtures("utc")

SWEEP = make_shown_campaign(
    name="sw$eep\x1b",
    tasks=2003,
    ended=3,
    failed=1,
    waiting=1999,
    at=(
        CampaignProgressAtCluster(cluster="beta", waiting=1),
        CampaignProgressAtCluster(cluster="gamma", running=1, ended_per_h=12.0),
    ),
    ended_per_h=12.0,
)
SENT = PublishedCampaignTask(number=2, attempt=1, is_waiting=False, cluster="gamma", job_id=31, place=3)
TASKS = (
    replace(
        SENT, number=0, outcome=TaskAttemptOutcome.SUCCESS, cluster="beta", exit_status=0, wallclock_s=9, max_rss_kb=5
    ),
    replace(SENT, number=1, outcome=TaskAttemptOutcome.PROGRAM_ERROR, exit_status=3, wallclock_s=1),
    SENT,
    replace(SENT, number=3, outcome=TaskAttemptOutcome.PREEMPTED, is_waiting=True),
)
USAGE_HEAD, UNKNOWN = "Max s Peak MB Written MB", ["-"] * 3
PARAMETERS = ["north 1", "it's $HOME", *(f"p{n}" for n in range(2, 2003))]


class Site:
    def __init__(self, folder: Path) -> None:
        self.published = str(folder / "published")
        self.files = folder / "files"
        for each in (Path(self.published), self.files):
            each.mkdir()
        self.show(SWEEP)
        published_campaign_files.publish_campaign_task_file(7, 0, TASKS, self.published)
        ends = (CampaignTaskEndCounts(at=NOON + timedelta(minutes=5), cluster="beta", tasks=2, failed=0),)
        later = NOON + timedelta(minutes=9)
        more = CampaignTaskEndCounts(at=later, cluster="gamma", tasks=1, failed=1, timed=1, wallclock_s=30)
        published_campaign_files.append_published_task_end_counts(7, (*ends, more), self.published)

    def show(self, *campaigns: PublishedCampaign) -> None:
        publish_campaigns(self.published, *campaigns)

    def bring(self) -> None:
        write_campaign_file(self.files, jdl_for_beta(), *PARAMETERS)

    def stat(self, *options: str) -> Result:
        paths = FixedPaths(campaigns=str(self.files), configuration="/nonexistent.toml")
        return run_command(gridstat, *options, "--published", self.published, paths=paths)

    def lines(self, *options: str) -> list[list[str]]:
        return [line.split() for line in self.stat(*options).output.splitlines()]


def set_output_folder(monkeypatch: pytest.MonkeyPatch, cluster: str, folder: object) -> None:
    place = TaskOutputFolderAtCluster(login=None, folder=str(folder), timeout_s=9)
    monkeypatch.setattr(task_output_reading_and_fetching, "own_campaign_output_folders", lambda *_: {cluster: place})


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_all_users_see_the_state_of_each_task(site: Site) -> None:
    lines = site.stat("-H", "-f", "7").output.splitlines()

    states = ["success", "program_error", "sent", "waiting", "waiting"]
    assert [line.split()[:2] for line in lines[2:7]] == [[str(n), state] for n, state in enumerate(states)]
    assert lines[1] == "forecast of the end: unknown (P50), unknown (P90)"
    assert len(lines) == 2 + 2003
    assert "north" not in site.stat("-f", "7").output


def test_the_owner_sees_the_parameters_of_tasks(site: Site) -> None:
    """Only the owner can read the campaign file."""
    site.bring()

    assert site.stat("-H", "-f", "7").output.splitlines()[2].endswith("north 1")
    assert site.stat("-H", "7", "-f", "-o", "2001").output.splitlines()[2:] == [
        f"{number:<10} waiting         -                  0    -       -  p{number}" for number in (2001, 2002)
    ]


def test_gridstat_shows_what_ended_tasks_used(site: Site) -> None:
    used = TaskUsageAtCluster(campaign=7, cluster="beta", ended=9, longest_s=60, measured=2, max_rss_kb=1536)
    unmeasured = TaskUsageAtCluster(campaign=7, cluster="gamma", ended=1, longest_s=90)
    site.show(replace(SWEEP, usage=(replace(used, written_kb=512), unmeasured)))

    assert [line[-3:] for line in site.lines("7")[2:]] == [
        *(["MB", "Written", "MB"], ["60", "1.5", "0.5"], ["90", "-", "-"], ["90", "1.5", "0.5"]),
    ]
    (shown,) = json.loads(site.stat("7", "--json").output)
    assert [usage["max_rss_kb"] for usage in shown["usage"]] == [1536, 0]
    assert json.loads(site.stat("-j", "7.0", "--json").output)["max_rss_kb"] == 5


def test_gridstat_shows_one_task_by_its_cigri_job_id(site: Site) -> None:
    site.bring()

    found = json.loads(site.stat("-j", "7.1", "--json").output)
    assert (found["state"], found["exit_status"], found["parameters"]) == (*("program_error", 3), "it's $HOME")
    assert site.stat("-j", "7.1", "-C").output == "gamma: job 31, task 3\n"
    done = site.stat("-j", "7.2002", "-C")
    assert (done.return_value, done.output[:41]) == (1, "gridstat: task 7.2002 has no job at a clu")


@pytest.mark.parametrize("job", ["7.2003", "8.0"])
def test_gridstat_exits_with_1_for_a_missing_task(site: Site, job: str) -> None:
    done = site.stat("-j", job)

    assert (done.return_value, done.output) == (1, f"gridstat: no job {job}\n")


def test_gridstat_reports_a_missing_output_file(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_output_folder(monkeypatch, "beta", tmp_path)
    Path(tmp_path, "0.1.err").write_text("")

    there, gone = site.stat("-j", "7.0", "-E"), site.stat("-j", "7.0", "-O")

    assert (there.return_value, there.output) == (0, "")
    none = f"no {tmp_path}/0.1.out at beta: the task has not started, or the file was removed"
    assert (gone.return_value, gone.output) == (1, f"gridstat: job 7.0: {none}\n")


@pytest.mark.parametrize("options", [["-J", "7"], ["-j", "7.0", "-O"], ["-j", "7.0", "-E"]])
def test_gridstat_refuses_outputs_and_jdl_to_other_users(site: Site, options: list[str]) -> None:
    done = site.stat(*options)

    assert done.return_value == 1
    assert done.output == "gridstat: campaign 7: the campaign's file was removed\n"


@pytest.mark.parametrize(
    "options",
    [
        *(["-f"], ["-e"], ["--failed"], ["--plot", "x.png"], ["-j", "7"]),
        *(["-s", "1-2-3"], ["-s", "x"], ["-s", "9-4"]),
        *(["-O"], ["7", "-E"], ["7", "-o", "3"], ["7", "-f", "-e"], ["7", "-f", "--watch"]),
        *(["--watch", "--json"], ["--watch", "--csv"], ["7", "-c", "5"], ["7", "--plot", ""]),
        *(["7", "--csv", "-e"], ["7", "--csv", "-J"], ["7", "--csv", "--plot", "x.png"]),
        *(["-j", "7.0", "--csv", "-C"], ["-j", "7.0", "--csv", "-O"], ["--csv", "--json"]),
        ["7", "--json", "--plot", "x.png"],
    ],
)
def test_gridstat_exits_with_2_for_a_wrong_command_line(site: Site, options: list[str]) -> None:
    assert getattr(site.stat(*options).exception, "exit_code", None) == 2


def test_gridstat_exits_with_1_for_a_missing_campaign(site: Site) -> None:
    for options in (["8"], ["-s", "8"]):
        done = site.stat(*options)
        assert (done.return_value, done.output) == (1, "gridstat: no campaign 8\n")
    assert site.stat("-s", "8-*", "-H").return_value == 0


def test_cigris_long_option_names_equal_the_short_options(site: Site) -> None:
    site.bring()

    short_options = {"--full": "-f", "--dump": "-d", "--jdl": "-J", "--headerless": "-H", "--events": "-e"}
    for long, short in short_options.items():
        assert site.stat("--campaign", "7", long).output == site.stat("7", short).output
    assert site.stat("--job", "7.1", "--cinfos").output == site.stat("-j", "7.1", "-C").output


def test_the_shown_jdl_can_be_submitted_again(site: Site, tmp_path: Path) -> None:
    site.bring()
    text = site.stat("-J", "7").output

    said = jdl_reader.parse_jdl("JDL", text)

    assert said.parameters == tuple(PARAMETERS)
    assert said.jdl == jdl_for_beta()


def test_all_users_see_failed_tasks_without_the_output(site: Site) -> None:
    lines = site.stat("-H", "--failed", "7").output.splitlines()

    assert lines == ["1          program_error   gamma              1    3       1"]


def test_the_owner_sees_the_last_error_lines_of_failed_tasks(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site.bring()
    (tmp_path / "1.1.err").write_text("".join(f"line {n}\x1b[31m\n" for n in range(9)))
    set_output_folder(monkeypatch, "gamma", tmp_path)

    lines = site.stat("-H", "--failed", "7").output.splitlines()

    assert [line.strip()[:6] for line in lines[1:]] == [f"line {n}" for n in range(4, 9)]
    assert "\x1b" not in "".join(lines)


def test_gridstat_reports_a_cluster_whose_outputs_cannot_be_read(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site.bring()
    set_output_folder(monkeypatch, "gamma", tmp_path / "none")

    told = site.stat("-H", "--failed", "7").output

    assert "program_error" in told
    assert "gridstat: gamma: " in told


def test_csv_output_is_parsed_by_a_csv_reader(site: Site) -> None:
    site.bring()

    (campaign,) = csv.DictReader(site.stat("--csv").output.splitlines())
    tasks = list(csv.DictReader(site.stat("--csv", "-f", "7").output.splitlines()))
    assert (campaign["id"], campaign["tasks"], campaign["failed"]) == ("7", "2003", "1")
    assert (tasks[1]["parameters"], tasks[1]["state"]) == ("it's $HOME", "program_error")


def test_json_output_lists_the_tasks_as_jobs(site: Site) -> None:
    found = json.loads(site.stat("7", "-d", "-p", "-f").output)

    assert (found["number"], len(found["jobs"]), found["jobs"][2]["job_id"]) == (7, 2003, 31)
    assert "parameters" not in found["jobs"][2]


def test_successes_at_a_black_hole_are_marked(site: Site) -> None:
    site.show(replace(SWEEP, sinks=("beta",)))

    first, second, *_ = site.stat("-H", "-f", "7").output.splitlines()[2:]
    found = json.loads(site.stat("7", "-d", "-f").output)["jobs"]
    site.show(SWEEP)
    later = site.stat("-H", "-f", "7").output.splitlines()[2]

    assert (first.split()[:4], second.split()[1]) == (["0", "success", "(sink)", "beta"], "program_error")
    assert [one["is_suspect"] for one in found[:3]] == [True, False, False]
    assert later.split()[:3] == ["0", "success", "beta"]


def test_gridfetch_warns_of_results_of_a_black_hole(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.show(replace(SWEEP, sinks=("beta",)))
    monkeypatch.setattr(task_output_reading_and_fetching, "own_campaign_output_folders", lambda *_: {})
    monkeypatch.setattr(task_output_reading_and_fetching, "fetch_task_outputs", lambda *_, **__: ())
    site.bring()

    run = run_command(gridfetch, "7", "--published", site.published)

    assert "beta is a black hole (SINK): check the results of its 1 task " in run.output


def test_a_summary_counts_the_tasks_of_selected_campaigns(site: Site) -> None:
    """The columns are CiGri's."""
    over = replace(SWEEP, number=8, state=CampaignState.CANCELLED, waiting=0, at=())
    site.show(SWEEP, over)

    head, *rows = site.lines("-s", "7-*")

    assert head == ["Id", "User", "Status", "Type", "Waiting", "Running", "Finished", "ToFix", "Err"]
    assert rows == [
        ["7", "alice", "in_treatment", "default", "1999", "1", "3", "1"],
        ["8", "alice", "cancelled", "default", "0", "0", "3", "0"],
    ]


def test_sent_tasks_without_a_slot_count_as_waiting(site: Site) -> None:
    there = CampaignProgressAtCluster(cluster="beta", waiting=30, running=14)
    site.show(replace(SWEEP, tasks=46, ended=0, failed=0, waiting=0, at=(there,)))

    assert site.lines("-s", "7")[1][4:6] == ["32", "14"]


def test_gridstat_shows_the_progress_of_a_campaign_by_cluster(site: Site) -> None:
    assert site.lines("7")[2:] == [
        ["Cluster", "Waiting", "Running", "Ended", "Failed", "Tasks/h", "Mean", "s", *USAGE_HEAD.split()],
        ["beta", "1", "0", "2", "0", "-", "-", *UNKNOWN],
        ["gamma", "0", "1", "1", "1", "12.0", "30.0", *UNKNOWN],
        ["all", "1999", "1", "3", "1", "12.0", "30.0", *UNKNOWN],
    ]
    assert len(site.stat("7", "-H").output.splitlines()) == 1
    (known,) = json.loads(site.stat("7", "--json").output)
    assert known["mean_s"] == 30.0
    assert [(at["cluster"], at["ended"], at["failed"]) for at in known["at"]] == [("beta", 2, 0), ("gamma", 1, 1)]


def test_an_ended_campaign_is_shown_with_the_rates_of_its_whole_time(site: Site) -> None:
    over = replace(SWEEP, state=CampaignState.TERMINATED, tasks=3, at=(), ended_per_h=None)
    site.show(replace(over, waiting=0))

    assert site.lines("7")[3:] == [
        ["beta", "0", "0", "2", "0", "13.3", "-", *UNKNOWN],
        ["gamma", "0", "0", "1", "1", "6.7", "30.0", *UNKNOWN],
        ["all", "0", "0", "3", "1", "20.0", "30.0", *UNKNOWN],
    ]


def test_cancelled_tasks_count_as_ended_but_not_in_failures_or_rates(site: Site) -> None:
    cancelled = CampaignTaskEndCounts(at=NOON + timedelta(minutes=9), cluster="delta", tasks=4, failed=0, cancelled=4)
    published_campaign_files.append_published_task_end_counts(7, [cancelled], site.published)
    over = replace(SWEEP, state=CampaignState.CANCELLED, at=(), ended_per_h=None, waiting=0)
    site.show(replace(over, tasks=7, ended=7, failed=1, cancelled=4))

    assert site.lines("7", "-f")[3:8] == [
        ["beta", "0", "0", "2", "0", "13.3", "-", *UNKNOWN],
        ["gamma", "0", "0", "1", "1", "6.7", "30.0", *UNKNOWN],
        ["delta", "0", "0", "4", "0", "0.0", "-", *UNKNOWN],
        ["all", "0", "0", "7", "1", "20.0", "30.0", *UNKNOWN],
        ["1", "of", "7", "ended", "tasks", "failed"],
    ]


def test_a_summary_has_the_same_columns_as_csv(site: Site) -> None:
    site.show(SWEEP)
    told = site.stat("-s", "7", "--csv").output
    bare = site.stat("-s", "7", "--csv", "-H").output
    (known,) = json.loads(site.stat("-s", "7", "--json").output)

    assert told.splitlines() == [
        "Id,User,Status,Type,Waiting,Running,Finished,ToFix Err",
        "7,alice,in_treatment,default,1999,1,3,1",
    ]
    assert bare.splitlines() == told.splitlines()[1:]
    assert (known["waiting"], known["running"], known["ended"]) == (1999, 1, 3)


@pytest.mark.parametrize(
    ("text", "those"), [("3", {3}), ("2-3", {2, 3}), ("3-*", {3, 4}), ("*-2", {1, 2}), ("*-*", {1, 2, 3, 4})]
)
def test_a_range_selects_campaigns(text: str, those: set[int]) -> None:
    """CiGri's gridstat -s takes the same ranges."""
    assert {n for n in range(1, 5) if parse_campaign_range(text)(n)} == those


def test_watching_ends_when_all_campaigns_have_ended(site: Site) -> None:
    steps = [SWEEP, SWEEP, replace(SWEEP, ended=2003, state=CampaignState.TERMINATED)]
    shown: list[str] = []

    campaign_progress_display.watch_campaigns_until_end(lambda: [steps.pop(0)], lambda _: None, shown.append)

    assert [line[69:] for line in shown] == ["R  3/2003 (0%)", "T  2003/2003 (100%)"]


class Terminal:
    """A pseudo-terminal of a given size, and all the text written to the terminal."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, columns: int, lines: int = 24) -> None:
        self._monkeypatch = monkeypatch
        self._size = {"TERM": "xterm", "COLUMNS": str(columns), "LINES": str(lines)}
        self._shown = b""

    def __enter__(self) -> Self:
        self._mine, theirs = pty.openpty()
        for key, word in self._size.items():
            self._monkeypatch.setenv(key, word)
        self._file = open(theirs, "w", encoding="utf-8")
        self._monkeypatch.setattr("sys.stdout", self._file)
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        os.close(self._mine)

    def until(self, sign: bytes) -> None:
        self._file.flush()
        while sign not in self._shown:
            self._shown += os.read(self._mine, 65536)

    @property
    def text(self) -> str:
        return self._shown.decode(errors="replace")


def test_a_small_terminal_shows_unfinished_campaigns_first(monkeypatch: pytest.MonkeyPatch) -> None:
    over = [replace(SWEEP, number=n, state=CampaignState.TERMINATED) for n in range(21, 60)]
    every = [*over, replace(SWEEP, number=60)]
    looks = [every, [replace(one, state=CampaignState.TERMINATED) for one in every]]
    with Terminal(monkeypatch, columns=40, lines=5) as terminal:
        campaign_progress_display.watch_campaigns_until_end(lambda: looks.pop(0), lambda _: terminal.until(b"    60 "))

    for part in ("    60 sw$eep R ", " 3/2003", "    59 ", "    58 ", "and 37 more"):
        assert part in terminal.text
    assert "    57 " not in terminal.text


def test_each_campaign_has_a_progress_bar_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [SWEEP, replace(SWEEP, ended=2003, state=CampaignState.TERMINATED)]
    with Terminal(monkeypatch, columns=90) as terminal:
        campaign_progress_display.watch_campaigns_until_end(
            lambda: [steps.pop(0)], lambda _: terminal.until(b" 3/2003")
        )
        terminal.until(b"2003/2003")

    for part in ("     7 sw$eep\ufffd", " R ", " T ", "\u2501", "1 failed", "\r\x1b[2K"):
        assert part in terminal.text


def test_csv_at_a_terminal_has_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may look at parameters that bob wrote."""
    task = replace(SENT, number=0)
    with Terminal(monkeypatch, columns=90) as terminal:
        campaign_table.print_tasks_csv([task], ["\x1b]0;a\x07 \x9b31m"], is_headless=True)
        terminal.until(b"\n")

    assert "\ufffd]0;a\ufffd \ufffd31m" in terminal.text
    assert "\x1b" not in terminal.text


def test_gridstat_prints_and_plots_a_forecast(site: Site, tmp_path: Path) -> None:
    late = {"p50_at": NOON + timedelta(hours=1), "p90_at": NOON + timedelta(hours=2)}
    site.show(replace(SWEEP, **late))

    lines = site.stat("-H", "7", "-f").output.splitlines()
    done, image = (site.stat("7", "--plot", f"{tmp_path}/picture.{ending}") for ending in ("svg", "png"))

    assert lines[1].startswith("forecast of the end: 2026-01-01 ")
    assert (done.return_value, image.output) == (0, f"{tmp_path}/picture.png\n")
    assert "</svg>" in (tmp_path / "picture.svg").read_text()
    assert (tmp_path / "picture.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("path", ["/nonexistent/picture.png", "picture.nothing", "keep"])
def test_gridstat_reports_a_plot_that_cannot_be_written(site: Site, path: str) -> None:
    assert path in str(site.stat("7", "--plot", path).exception)


def test_a_plot_name_without_an_ending_is_refused(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keep.png").write_text("another")

    done = site.stat("7", "--plot", "keep")

    assert getattr(done.exception, "exit_code", None) == 2
    assert "keep: not a picture's name; expected the ending .png, .svg" in str(done.exception)
    assert [one.name for one in tmp_path.glob("*.png")] == ["keep.png"]
    assert (tmp_path / "keep.png").read_text() == "another"


def test_a_campaign_without_ended_tasks_has_no_plot(site: Site) -> None:
    site.show(replace(SWEEP, number=9))

    assert site.stat("9", "--plot", "x.png").output == ("gridstat: campaign 9: no task has ended yet\n")


def test_each_speculative_attempt_has_its_own_line(site: Site) -> None:
    lost = PublishedCompetingAttempt(attempt=1, cluster="beta", outcome=TaskAttemptOutcome.COPY, beyond_s=None)
    won = replace(TASKS[0], attempt=2, cluster="gamma", beyond_s=95, copies=(lost,))
    published_campaign_files.publish_campaign_task_file(7, 0, (won,), site.published)

    assert [line[:4] for line in site.lines("-j", "7.0")[1:]] == [
        ["0", "success", "gamma", "2"],
        ["copy", "copy", "beta", "1"],
    ]
    (told,) = json.loads(site.stat("--json", "-j", "7.0").output)["copies"]
    assert told == {"attempt": 1, "cluster": "beta", "outcome": "copy", "beyond_s": None}
