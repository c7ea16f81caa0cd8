"""Commands show and close events, and show clusters."""

import json
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from click import Command, UsageError
from click.testing import Result

from gridbridge.campaigns.cli.gridclusters import gridclusters
from gridbridge.campaigns.cli.gridevents import gridevents
from gridbridge.campaigns.cli.gridfetch import gridfetch
from gridbridge.campaigns.cli.gridstat import gridstat
from gridbridge.campaigns.cli.gridwait import gridwait
from gridbridge.campaigns.store import campaign_client
from gridbridge.campaigns.store.campaign_client import failed_start_directory, first_failed_task_details
from gridbridge.campaigns.store.campaign_files_of_owners import encode_campaign_file
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_events import CampaignEventCode, CampaignEventSubject
from gridbridge.model.campaigns.campaign_file_and_array_names import campaign_file_name
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestReply
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedClusterSlots
from gridbridge.model.fixed_paths import PUBLISHED, FixedPaths
from gridbridge.model.published_status_and_reports import PublishedClusterAnswer, PublishedClusterDrain
from gridbridge.state import drains
from gridbridge.state import published_json as shown
from tests.builders.campaigns import NOON
from tests.campaigns.cli.published_builder import (
    make_event,
    make_shown_campaign,
    publish_campaigns,
    publish_clusters,
    publish_events,
    run_command,
)

pytestmark = pytest.mark.usefixtures("utc")

COUNTED = {"campaign": 12, "cluster": "beta", "exit_status": 3, "tasks": 17, "first_task": 1}
FAILED = make_event(3, CampaignEventSubject.TASK, CampaignEventCode.EXIT_ERROR, **COUNTED)
UNTIL = {"campaign": 12, "cluster": "gamma", "until": NOON + timedelta(minutes=1)}
REFUSED = make_event(4, CampaignEventSubject.CAMPAIGN, CampaignEventCode.RUNNER_SUBMIT_ERROR, **UNTIL)
DOWN = make_event(5, CampaignEventSubject.CLUSTER, CampaignEventCode.GET_JOBS, cluster="gamma")
OVER = replace(REFUSED, number=6, cluster="beta", closed_at=NOON)
GRID = (
    PublishedClusterSlots(
        name="beta", kind="gridengine", slots=8, used=4, free=2, running=1, waiting=1, used_by_campaigns=2
    ),
    PublishedClusterSlots(name="gamma", kind="oar"),
)


@pytest.fixture(name="published")
def _published(tmp_path: Path) -> str:
    folder = str(tmp_path)
    one = make_shown_campaign(number=12, tasks=100, ended=17, failed=17, events=2)
    quiet = replace(one, number=13, events=0)
    publish_campaigns(folder, one, quiet)
    publish_events(folder, FAILED, REFUSED, DOWN, OVER)
    publish_clusters(folder, *GRID)
    return folder


def run(command: Command, published: str, *options: str) -> Result:
    return run_command(command, *options, "--published", published)


def answer_with(monkeypatch: pytest.MonkeyPatch, answers: dict[int, CampaignOwnerRequestReply]) -> None:
    def ask_runner(
        _verb: object, _numbers: object, paths: FixedPaths, **_: object
    ) -> dict[int, CampaignOwnerRequestReply]:
        assert paths.published != PUBLISHED, "the runner's answer must come from the folder of --published"
        return answers

    monkeypatch.setattr(campaign_client, "ask_runner_to_act_on_campaigns", ask_runner)


def test_gridstat_marks_campaigns_with_open_events_by_the_letter_e(published: str) -> None:
    """CiGri's gridstat does the same."""
    lines = run(gridstat, published, "-H").output.splitlines()

    assert [line[69:] for line in lines] == ["Re 17/100 (17%)", "R  17/100 (17%)"]


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ([], [3, 4, 5]),
        (["-c", "12"], [3, 4]),
        (["12"], [3, 4]),
        (["-c", "12", "-a"], [3, 4, 6]),
        (["-g"], [5]),
        (["-e", "6"], [6]),
        (["-c", "13"], []),
    ],
)
def test_gridevents_selects_events_by_campaign_cluster_or_number(
    published: str, options: list[str], numbers: list[int]
) -> None:
    done = run(gridevents, published, *options, "--json")

    assert [one["number"] for one in json.loads(done.output)] == numbers


def test_gridevents_prints_a_readable_line_for_each_event(published: str) -> None:
    _, first, second = run(gridevents, published, "-c", "12").output.splitlines()

    assert " ".join(first.split()) == (
        "3 open job EXIT_ERROR 12 beta 2026-01-01 12-00-00 17 tasks failed at beta with exit status 3"
    )
    assert second.endswith("gamma refuses the campaign's arrays; the next try is at 2026-01-01 12-01-00")


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (["-f"], 2, "no event is named; expected one of -c ID, -e ID and -g"),
        (["-c", "99"], 1, "no campaign 99"),
        (["-e", "99"], 1, "no event 99"),
        (["-e", "x"], 2, "not a valid integer"),
        (["12", "-c", "13"], 2, "two campaigns are named"),
        (["-c", "13", "-f"], 0, "no event is open; nothing is changed"),
    ],
)
def test_gridevents_reports_each_mistake_with_its_exit_status(
    published: str, options: list[str], status: int, words: str
) -> None:
    done = run(gridevents, published, *options)

    assert getattr(done.exception, "exit_code", done.return_value) == status
    assert words in done.output + str(done.exception)


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ({3: CampaignOwnerRequestReply.DONE, 4: CampaignOwnerRequestReply.NOT_AGAIN}, 0),
        ({3: CampaignOwnerRequestReply.CLOSED, 4: CampaignOwnerRequestReply.NOT_AGAIN}, 1),
        ({4: CampaignOwnerRequestReply.NOT_AGAIN}, 1),
    ],
    ids=["with a closed event", "with a refused event", "alone"],
)
def test_a_black_hole_event_stays_open_when_tasks_run_again(
    published: str, monkeypatch: pytest.MonkeyPatch, answers: dict[int, CampaignOwnerRequestReply], status: int
) -> None:
    answer_with(monkeypatch, answers)

    done = run(gridevents, published, "-c", "12", "-r")

    assert done.return_value == status
    assert "event 4: a black hole's event (SINK) stays open until -f confirms the results" in done.output


@pytest.mark.parametrize(
    ("answer", "instead"),
    [
        (
            CampaignOwnerRequestReply.ONE_TRY,
            "a test campaign sends one task to each cluster: submit the campaign again",
        ),
        (CampaignOwnerRequestReply.FILE_REFUSED, "gridsub --retry-failed submits them again"),
    ],
)
def test_gridevents_says_why_no_task_runs_again(
    published: str, monkeypatch: pytest.MonkeyPatch, answer: CampaignOwnerRequestReply, instead: str
) -> None:
    answer_with(monkeypatch, {3: answer})

    done = run(gridevents, published, "-e", "3", "-r")

    assert done.return_value == 1
    assert "event 3: " in done.output
    assert instead in done.output


@pytest.mark.parametrize(
    ("state", "then"),
    [
        (CampaignState.PAUSED, "griddel -r 12 resumes the campaign"),
        (CampaignState.TERMINATED, "the campaign has ended, and needs no action"),
    ],
)
def test_the_event_of_a_restored_state_file_depends_on_the_campaigns_state(
    published: str, state: CampaignState, then: str
) -> None:
    publish_campaigns(published, replace(campaign_client.published_campaigns(published)[0], state=state))
    publish_events(published, replace(REFUSED, code=CampaignEventCode.RESTORED, cluster="", until=None))

    assert then in run(gridevents, published).output


def test_gridstat_shows_the_same_open_events_as_gridevents(published: str) -> None:
    assert run(gridstat, published, "12", "-e").output == run(gridevents, published, "12").output


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (gridevents, ["-g"]),
        (gridevents, ["12", "-f"]),
        (gridclusters, []),
        (gridstat, ["12"]),
        (gridwait, ["12"]),
        (gridfetch, ["12"]),
    ],
    ids=["events", "closing", "clusters", "gridstat", "gridwait", "gridfetch"],
)
def test_without_published_files_commands_name_the_missing_folder(
    tmp_path: Path, command: object, options: list[str]
) -> None:
    """An example is a login node without the mounted files."""
    done = run(command, str(tmp_path / "none"), *options)

    assert "no such folder; run this on the transfer host" in str(done.exception)


def store_campaign(folder: Path, *parameters: str, directory: str = "") -> None:
    """Write the file of campaign 12 and make the folder of its outputs at beta, by default in the same folder."""
    header = {"clusters": {"beta": {"exec_directory": directory or str(folder)}}}
    (folder / "c.12").write_bytes(encode_campaign_file(header, parameters))
    (folder / "campaign.12").mkdir()


def test_only_the_owner_sees_the_parameters_and_errors_of_a_failed_task(tmp_path: Path) -> None:
    store_campaign(tmp_path, "a", "b 7\x1b[2J")
    for attempt in (1, 2, 10):
        lines = "".join(f"line {n} of {attempt}\n" for n in range(9))
        (tmp_path / f"campaign.12/1.{attempt}.err").write_text(lines)

    found = first_failed_task_details(FAILED, str(tmp_path))

    assert found == ("b 7?[2J", tuple(f"line {n} of 10" for n in range(4, 9)))
    assert first_failed_task_details(FAILED, str(tmp_path / "none")) == ("", ())
    assert first_failed_task_details(DOWN, str(tmp_path)) == ("", ())


def test_root_opens_no_pipe_among_a_users_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root reads the task's parameters, and follows no path that the owner chose."""
    store_campaign(tmp_path, "a", "b 7")
    if not os.geteuid():
        os.chown(tmp_path / "c.12", 41000, -1)
    os.mkfifo(tmp_path / "campaign.12/1.1.err")
    monkeypatch.setattr("os.geteuid", lambda: 0)

    assert first_failed_task_details(FAILED, str(tmp_path)) == ("b 7", ())


def test_parameters_of_added_tasks_are_shown_too(tmp_path: Path) -> None:
    store_campaign(tmp_path, "a")
    for part, lines in ((1, ("b", "c 8")), (2, ("d 9",))):
        (tmp_path / campaign_file_name(12, part)).write_bytes(encode_campaign_file({}, lines))

    told = [first_failed_task_details(replace(FAILED, first_task=task), str(tmp_path))[0] for task in range(5)]

    assert told == ["a", "b", "c 8", "d 9", ""]


def test_only_the_owner_sees_the_exec_directory_of_failed_starts(tmp_path: Path) -> None:
    store_campaign(tmp_path, "a", directory="$HOME/a\x1bb")
    event = replace(FAILED, kind=CampaignEventSubject.CAMPAIGN, code=CampaignEventCode.SETUP_ERROR)

    assert failed_start_directory(event, str(tmp_path)) == "$HOME/a?b"
    assert failed_start_directory(event, str(tmp_path / "none")) == ""
    assert failed_start_directory(FAILED, str(tmp_path)) == ""


def test_gridevents_shows_what_the_owner_can_do_about_an_event(published: str) -> None:
    failed, refused = (run(gridevents, published, "-e", number).output.splitlines()[-1] for number in ("3", "4"))

    retry = "gridevents -c 12 -r retries the failed tasks, gridevents -e 3 -f only closes the event"
    assert failed == f"after the cause is fixed: {retry}"
    assert refused == "the event closes when the next try succeeds; gridevents -e 4 -f tries at once"


def test_gridclusters_shows_more_values_on_request(published: str) -> None:
    """Numbers, words and bars are CiGri's."""
    assert run(gridclusters, published).output.splitlines() == ["1: beta", "2: gamma"]
    assert run(gridclusters, published, "-i").output.splitlines() == [
        "1: beta (gridengine, free:2/8)",
        "2: gamma (oar, free:unknown/unknown, BLACKLISTED, closed to campaigns 12): gamma gives no answer",
    ]
    usage = run(gridclusters, published, "-u").output.splitlines()
    assert usage[1:5] == [
        "    max_resources: 8",
        "    used_resources: 4",
        "    used_by_cigri: 2",
        "    unavailable_resources: 2",
    ]
    bar = run(gridclusters, published, "-b").output.splitlines()[1]
    assert bar == "#" * 20 + "o" * 20 + "." * 20 + "x" * 20
    assert "    kind: oar" in run(gridclusters, published, "-I").output.splitlines()


@pytest.mark.parametrize(
    ("age_min", "trouble", "told"),
    [(1, "", "free:3/8"), (60, "", "free:unknown/unknown"), (1, "down", "free:unknown/unknown")],
    ids=["fresh", "old", "down"],
)
def test_gridclusters_shows_the_pollers_values_of_a_cluster_without_campaigns(
    published: str, age_min: int, trouble: str, told: str
) -> None:
    """The runner does not query a cluster before its first campaign."""
    at = NOON - timedelta(minutes=age_min)
    seen = PublishedClusterAnswer(
        cluster="gamma", asked_at=at, taken_at=at, trouble=trouble, free_slots=3, slots=8, used=4
    )
    (Path(published) / "clusters").mkdir()
    (Path(published) / "clusters/gamma.json").write_bytes(shown.encode_published_value(seen))

    assert told in run(gridclusters, published, "-i").output.splitlines()[1]
    assert "free:2/8" in run(gridclusters, published, "-i").output.splitlines()[0]


def test_gridclusters_shows_the_open_events_of_each_cluster(published: str) -> None:
    publish_events(published, replace(REFUSED, why="no queue"), DOWN, OVER)

    lines = run(gridclusters, published, "-I").output.splitlines()

    assert [line for line in lines if " event " in line] == [
        "    event 4, RUNNER_SUBMIT_ERROR: campaign 12: gamma refuses the campaign's arrays: no queue",
        "    event 5, GET_JOBS: gamma gives no answer",
    ]


def test_gridclusters_says_that_a_cluster_without_campaigns_is_not_queried(published: str) -> None:
    publish_events(published)

    assert run(gridclusters, published, "-i").output.splitlines()[1] == (
        "2: gamma (oar, free:unknown/unknown, not queried, because no campaign uses the cluster)"
    )


def test_a_usage_bar_counts_no_slot_twice(published: str) -> None:
    """Slots of best-effort tasks are in use, and free for ordinary tasks."""
    full = replace(GRID[0], used=8, used_by_campaigns=8, free=0, free_for_normal=8)
    publish_clusters(published, full)

    assert run(gridclusters, published, "-b").output.splitlines() == ["1: beta (gridengine, free:0/8)", "o" * 80]
    publish_clusters(published, replace(full, free=8))
    assert run(gridclusters, published, "-b").output.splitlines()[1] == "o" * 80


@pytest.mark.parametrize("slots", [1, 3, 7, 80, 81, 999])
def test_a_usage_bar_is_80_columns_wide(published: str, slots: int) -> None:
    third = slots // 3
    one = replace(GRID[0], slots=slots, used=2 * third, used_by_campaigns=third, free=third)
    publish_clusters(published, one)

    assert len(run(gridclusters, published, "-b").output.splitlines()[1]) == 80


def test_gridclusters_without_published_clusters_explains_this_on_standard_error(tmp_path: Path) -> None:
    """Scripts read standard output, which stays empty."""
    done = run(gridclusters, str(tmp_path))

    assert done.stdout == ""
    assert done.stderr == "gridclusters: gridbridge-runner has published no cluster yet\n"


def test_gridclusters_marks_a_drained_cluster(published: str) -> None:
    drains.make_cluster_drains_folder(published)
    drains.drain_cluster("beta", PublishedClusterDrain(by="root", at=NOON, reason="Monday"), published)

    first = run(gridclusters, published, "-i", "--cluster", "beta").output

    assert first.endswith("drained): drained by root: Monday\n")
    with pytest.raises(UsageError, match="no cluster 'delta'; known: beta, gamma"):
        gridclusters.main(["--published", published, "--cluster", "delta"], standalone_mode=False)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("-f", ["Event 3 closed", "Event 4 closed"]),
        ("-r", ["Event 3 closed", "Event 3: its tasks are sent again", "Event 4 closed"]),
    ],
)
def test_gridevents_reports_closed_events_and_retried_tasks(
    published: str, monkeypatch: pytest.MonkeyPatch, option: str, told: list[str]
) -> None:
    answer_with(monkeypatch, dict.fromkeys((3, 4), CampaignOwnerRequestReply.DONE))

    assert run(gridevents, published, "-c", "12", option).output.splitlines() == told
