"""A submitted request is stored or removed, or the message says that the outcome is unknown."""

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from gridbridge.campaigns.cli import command_relay_and_runner_wait
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
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestReply, CampaignOwnerRequestVerb
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.shell.retry import poll_until

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
        (CampaignOwnerRequestVerb.SUBSCRIPTIONS, "no gridbridge-runner takes requests now; nobody has answered"),
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
