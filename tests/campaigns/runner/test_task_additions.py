"""An owner adds tasks to an unfinished campaign by files, each of which is accepted once."""

import os
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gridbridge.campaigns.store import campaign_files_of_owners
from gridbridge.model.campaigns.admission import AdmissionRefusal, CampaignAdmissionRule, CampaignForAdmission
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_file_and_array_names import ADDS_TO
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestReply as Reply
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestVerb as Verb
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from tests.campaigns.runner.intake_site import SWEEP, IntakeSite

ENDED = datetime(2026, 1, 1, tzinfo=UTC)
ADDED = {ADDS_TO: 1, "token": "x"}


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Iterator[IntakeSite]:
    site = IntakeSite(tmp_path)
    site.taken("a 1", "b 2")
    yield site
    site.database.close()


def test_added_tasks_are_numbered_after_the_existing_tasks(site: IntakeSite) -> None:
    tokens = [site.bring(ADDED, "c 3", "d 4"), site.bring(ADDED, "e 5")]

    taken = site.intake.process_inbox_files()

    assert (taken, [site.answer(token)["campaign"] for token in tokens]) == (2, [1, 1])
    assert site.files() == ["c.1", "c.1.1", "c.1.2"]
    (found,) = site.campaigns.all_campaigns()
    assert (found.tasks, site.campaigns.count_unsent_tasks()) == (5, {1: 5})
    assert site.intake.parts.take_campaigns_with_added_tasks() == {1}
    assert site.intake.parts.take_campaigns_with_added_tasks() == frozenset()
    array = site.campaigns.create_array(1, "beta", 9, ENDED)
    assert [one.task for one in site.campaigns.unfinished_attempts(array)] == [0, 1, 2, 3, 4]
    _, lines = campaign_files_of_owners.read_own_campaign_file(1, str(site.brought))
    assert sorted(lines) == ["a 1", "b 2", "c 3", "d 4", "e 5"]


def test_a_killed_cycle_accepts_no_added_tasks_twice(site: IntakeSite) -> None:
    token = site.accept(ADDED, "c 3")
    os.rename(site.brought / "c.1.1", site.brought / f"begun/in.{token}")
    (site.published / "taken" / token).unlink()

    site.intake.process_inbox_files()

    assert (site.campaigns.count_unsent_tasks(), site.files()) == ({1: 3}, ["c.1", "c.1.1"])
    assert site.answer(token) == {"campaign": 1, "tasks": 1}


@pytest.mark.parametrize(
    ("verbs", "why"),
    [
        ([Verb.CANCEL], "campaign 1 is cancelled; submit the tasks as a new campaign"),
        ([Verb.CANCEL, Verb.PURGE], "no campaign 1"),
        ([], "campaign 1 is terminated; submit the tasks as a new campaign"),
    ],
    ids=["cancelled", "purged", "terminated"],
)
def test_an_ended_campaign_gets_no_more_tasks(site: IntakeSite, verbs: list[Verb], why: str) -> None:
    if not verbs:
        site.campaigns.set_campaign_state(1, CampaignState.TERMINATED, ENDED)
    for verb in verbs:
        assert site.ask(verb, 1) is Reply.DONE
    token = site.bring(ADDED, "c 3")

    assert site.intake.process_inbox_files() == 0
    assert site.answer(token)["refused"] == why
    assert f"begun/in.{token}" not in site.files()


def test_a_paused_campaign_gets_more_tasks(site: IntakeSite) -> None:
    site.ask(Verb.PAUSE, 1)
    site.bring(ADDED, "c 3")

    assert (site.intake.process_inbox_files(), site.campaigns.count_unsent_tasks()) == (1, {1: 3})


def test_nobody_adds_tasks_to_another_users_campaign(site: IntakeSite) -> None:
    site.give_away(1)
    tokens = [site.bring(ADDED, "c 3"), *(site.bring({ADDS_TO: number}, "c 3") for number in (7, -(10**30)))]
    site.intake.process_inbox_files()

    told = [site.answer(token)["refused"] for token in tokens]
    assert told == ["campaign 1 is owned by another user", "no campaign 7", "no campaign 0"]


def test_an_empty_file_and_tasks_for_a_test_campaign_are_refused(site: IntakeSite) -> None:
    empty = site.bring(ADDED)
    site.accept(asdict(Jdl(name="t", type=CampaignType.TEST, clusters=SWEEP.clusters)), "a", "b")
    token = site.accept({ADDS_TO: 2}, "c")

    assert site.answer(empty)["refused"] == "campaign 1 has 2 tasks; expected more, 10000000 in all at most"
    assert "is a test campaign, which sends one task" in site.answer(token)["refused"]


def test_admission_rules_see_the_total_number_of_tasks(site: IntakeSite) -> None:
    def few(candidate: CampaignForAdmission) -> AdmissionRefusal | None:
        return AdmissionRefusal(reason=f"{candidate.tasks} are too many") if candidate.tasks > 3 else None

    site.rules = (CampaignAdmissionRule(name="10.py:few", judge=few),)
    tokens = [site.bring(ADDED, "c")]
    site.intake.process_inbox_files()
    tokens.append(site.bring(ADDED, "d"))
    site.intake.process_inbox_files()

    assert site.answer(tokens[0]) == {"campaign": 1, "tasks": 1}
    assert site.answer(tokens[1])["refused"] == "10.py:few: 4 are too many"


def test_a_foreign_folder_named_like_an_added_file_is_moved_aside(site: IntakeSite) -> None:
    (site.brought / "c.1.1").mkdir()
    site.accept(ADDED, "c 3")

    assert (site.brought / "c.1.1").is_file()
    assert campaign_files_of_owners.read_own_campaign_file(1, str(site.brought))[1] == ["a 1", "b 2", "c 3"]


@pytest.mark.skipif(os.getuid() != 0, reason="another person's file")
def test_another_users_file_adds_no_tasks(site: IntakeSite) -> None:
    (site.brought / "c.1.1").write_bytes(b"{}\nevil\n")
    os.chown(site.brought / "c.1.1", 1, -1)

    assert campaign_files_of_owners.read_own_campaign_file(1, str(site.brought))[1] == ["a 1", "b 2"]
    site.intake.restore_lost_campaigns()
    assert site.campaigns.count_unsent_tasks() == {1: 2}


def test_added_tasks_missing_in_a_restored_state_file_pause_the_campaign(site: IntakeSite) -> None:
    for number in (1, 2):
        data = campaign_files_of_owners.encode_campaign_file({ADDS_TO: 1, "token": str(number)}, ("c", "d"))
        site.add_registered_file(data, 1, number)
    planted = campaign_files_of_owners.encode_campaign_file({ADDS_TO: 1, "token": "z"}, ("evil",))
    (site.brought / "c.1.3").write_bytes(planted)

    site.restarted().intake.restore_lost_campaigns()
    site.intake.restore_lost_campaigns()

    (found,) = site.campaigns.all_campaigns()
    assert (found.tasks, found.state) == (6, CampaignState.PAUSED)
    assert site.campaigns.count_unsent_tasks() == {1: 6}
    site.accept(ADDED, "e")
    assert "c.1.3" in site.files()


def test_a_lost_campaign_is_restored_with_its_added_tasks(site: IntakeSite) -> None:
    site.add_registered_file(campaign_files_of_owners.encode_campaign_file(asdict(SWEEP) | {"token": "x"}, ("a",)), 2)
    data = campaign_files_of_owners.encode_campaign_file({ADDS_TO: 2, "token": "y"}, ("b", "c"))
    site.add_registered_file(data, 2, part=1)

    site.restarted().intake.restore_lost_campaigns()

    found = site.campaigns.find_campaign(2)
    assert (found.tasks, found.state) == (3, CampaignState.PAUSED)


def test_a_purge_removes_the_files_of_added_tasks(site: IntakeSite) -> None:
    site.bring(ADDED, "c 3")
    site.accept(ADDED, "d 4")
    site.ask(Verb.CANCEL, 1)

    assert site.ask(Verb.PURGE, 1) is Reply.DONE
    assert site.files() == []


def test_a_file_of_added_tasks_creates_no_campaign(site: IntakeSite) -> None:
    clusters = {"beta": JdlSettingsAtCluster(exec_file="evil")}
    header = asdict(Jdl(name="n", clusters=clusters)) | {ADDS_TO: 1}
    site.accept(header, "c")

    (found,) = site.campaigns.all_campaigns()
    assert (found.tasks, found.jdl) == (3, SWEEP)
