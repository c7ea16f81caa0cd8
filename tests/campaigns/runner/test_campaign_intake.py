"""Each campaign file in the inbox becomes one campaign, which only the campaign's owner can change."""

import os
import pwd
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import DEFAULT, Mock

import pytest
from sqlalchemy import delete

from gridbridge.campaigns.runner import campaign_intake
from gridbridge.campaigns.runner.campaign_runner import TAKING_S, process_inbox_before_cycle
from gridbridge.campaigns.store import campaign_files_of_owners, published_campaign_files
from gridbridge.campaigns.store.campaign_file_verification import MAX_FIRST_BYTES, CampaignFileRegister
from gridbridge.campaigns.store.campaign_inbox import A_SCAN
from gridbridge.campaigns.store.campaign_statistics_rows import InputCarryRows
from gridbridge.decisions.campaigns.event_texts_and_notifications import describe_campaign_event
from gridbridge.errors import StateError
from gridbridge.model.campaigns.admission import AdmissionRefusal, CampaignAdmissionRule, CampaignForAdmission
from gridbridge.model.campaigns.campaign import ArraySubmissionState, CampaignState, WaitingTaskRange
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome as Outcome
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignRunnerSection
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.campaigns.campaign_file_and_array_names import ADDS_TO
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequest
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestReply as Reply
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestVerb as Verb
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.task_deletions_and_preemptions import NikitaDeletionReason, TaskDeletionMark
from gridbridge.shell.clock import Clock
from gridbridge.shell.log_file_reopening_and_line_limits import LINES
from gridbridge.state.campaign_tables import CAMPAIGNS, PARTS, WAITING
from tests.builders.campaigns import site_fixture
from tests.campaigns.runner.intake_site import SWEEP, IntakeSite

TOKEN = "0123456789abcdef" * 2


_site = site_fixture(IntakeSite)


def test_a_campaign_file_becomes_a_campaign_of_the_files_owner(site: IntakeSite) -> None:
    token = site.bring(asdict(SWEEP), "a 1", "b 2")

    assert site.intake.process_inbox_files() == 1

    (found,) = site.campaigns.all_campaigns()
    assert site.answer(token) == {"campaign": 1}
    assert (found.uid, found.tasks, found.jdl) == (os.getuid(), 2, SWEEP)
    assert site.files() == ["c.1"]


def test_a_killed_cycle_accepts_no_campaign_file_twice(site: IntakeSite) -> None:
    token = site.taken("a 1")
    os.rename(site.brought / "c.1", site.brought / f"begun/in.{token}")
    (site.published / "taken" / token).unlink()

    assert site.intake.process_inbox_files() == 0
    assert len(site.campaigns.all_campaigns()) == 1
    assert site.answer(token) == {"campaign": 1}
    assert site.files() == ["c.1"]


def test_a_foreign_file_named_like_a_campaign_file_is_not_overwritten(site: IntakeSite) -> None:
    (site.brought / "c.1").write_text("another's")
    site.bring(asdict(SWEEP), "a 1")

    site.intake.process_inbox_files()

    assert [one.number for one in site.campaigns.all_campaigns()] == [2]
    assert (site.brought / "c.1").read_text() == "another's"


def restored_without(site: IntakeSite, *numbers: int) -> IntakeSite:
    for number in numbers:
        for table in (WAITING, PARTS):
            site.database.execute(delete(table).where(table.c.campaign == number))
        site.database.execute(delete(CAMPAIGNS).where(CAMPAIGNS.c.number == number))
    return site.restarted()


def test_campaigns_missing_in_a_restored_state_file_are_paused(site: IntakeSite) -> None:
    for _ in range(4):
        site.taken("a", "b")
    (site.brought / "c.2").unlink()
    site = restored_without(site, 2, 3, 4)

    site.intake.restore_lost_campaigns()
    site.intake.restore_lost_campaigns()

    found = [(one.number, one.state, one.tasks) for one in site.campaigns.all_campaigns()]
    assert found[1:] == [(3, CampaignState.PAUSED, 2), (4, CampaignState.PAUSED, 2)]
    assert site.ask(Verb.RESUME, 3) is Reply.DONE


@pytest.mark.parametrize(
    ("days", "is_known", "told"),
    [(1, False, ["failed tasks were retried after the backup"]), (1, True, []), (31, False, [])],
    ids=["unknown", "known", "long ago"],
)
def test_a_retry_missing_in_a_restored_state_file_opens_an_event(
    site: IntakeSite, days: int, is_known: bool, told: list[str]
) -> None:
    site.taken("a")
    site.campaigns.set_campaign_state(1, CampaignState.TERMINATED, datetime.now(UTC))
    at = datetime.now(UTC) - timedelta(days=days)
    CampaignFileRegister(str(site.brought)).record_retry_request(1, TOKEN, int(at.timestamp()))
    if is_known:
        site.campaigns.record_executed_request(TOKEN, 1, at)

    for _ in range(2):
        site.restarted().intake.restore_lost_campaigns()

    found = site.campaigns.find_campaign(1)
    events = site.events.query_open_events()
    assert (found.state, [one.why for one in events]) == (CampaignState.TERMINATED, told)
    assert all(one.code is CampaignEventCode.RESTORED for one in events)
    assert published_campaign_files.campaigns_half_published(str(site.published)) == ({1} if told else set())
    assert [describe_campaign_event(one, found.state).rpartition("; ")[2] for one in events] == [
        "gridevents -c 1 -r takes over their results" for _ in told
    ]


def test_a_lost_retry_opens_no_second_event_after_its_owner_closed_the_first(site: IntakeSite) -> None:
    site.taken("a")
    site.end_campaign(1, 0, CampaignState.TERMINATED)
    CampaignFileRegister(str(site.brought)).record_retry_request(1, TOKEN, int(datetime.now(UTC).timestamp()))
    site.restarted().intake.restore_lost_campaigns()
    (event,) = site.events.query_open_events()

    assert site.ask(Verb.FIX, event.number) is Reply.DONE
    site.restarted().intake.restore_lost_campaigns()

    assert not site.events.query_open_events()


def test_a_forgotten_and_purged_campaign_number_is_not_reused(site: IntakeSite) -> None:
    for _ in range(2):
        site.taken("a")
    (site.brought / "c.2").unlink()
    site = restored_without(site, 2)
    site.intake.restore_lost_campaigns()
    token = site.taken("a")

    assert site.answer(token) == {"campaign": 3}


def test_only_registered_campaign_files_are_restored(site: IntakeSite) -> None:
    site.taken("a")
    for name in ("c.1", "c.2"):
        (site.brought / name).write_bytes(campaign_files_of_owners.encode_campaign_file(asdict(SWEEP), ("b",)))
    site = restored_without(site, 1)

    site.intake.restore_lost_campaigns()

    assert site.campaigns.all_campaigns() == ()


@pytest.mark.parametrize(
    "spoil", [lambda path: path.symlink_to(path.with_name("other")), os.mkfifo], ids=["link", "pipe"]
)
def test_a_link_or_pipe_in_place_of_the_register_is_ignored(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    (tmp_path / "other").write_text(f"c.7 1 {TOKEN}\n")
    given = CampaignFileRegister(str(tmp_path))
    spoil(tmp_path / "given")

    assert given.highest_campaign_number() == 0
    given.register_campaign_file(3, 1, TOKEN)
    assert CampaignFileRegister(str(tmp_path)).has_campaign_file(3, 1, TOKEN)
    given.register_campaign_file(4, 1, TOKEN)
    assert CampaignFileRegister(str(tmp_path)).highest_campaign_number() == 4
    assert (tmp_path / "other").read_text() == f"c.7 1 {TOKEN}\n"


def test_a_folder_of_files_in_process_that_others_can_write_is_moved_away(site: IntakeSite) -> None:
    """On a new site anybody may make the folder first, and put files of others into it, or close it to the service."""
    begun = site.brought / "begun"
    begun.mkdir()
    begun.chmod(0o777)
    (begun / f"in.{TOKEN[:32]}").write_text("{}\na\n")

    site.intake.restore_lost_campaigns()

    assert [] == [*begun.iterdir()]
    assert 0o700 == begun.stat().st_mode & 0o777


def test_a_register_line_cut_by_a_crash_is_written_again(tmp_path: Path) -> None:
    CampaignFileRegister(str(tmp_path)).register_campaign_file(1, 7, TOKEN)
    with open(tmp_path / "given", "a", encoding="ascii") as file:
        file.write("c.2 7 0123")

    cut = CampaignFileRegister(str(tmp_path))
    cut.register_campaign_file(2, 7, TOKEN)

    assert (cut.highest_campaign_number(), [*CampaignFileRegister(str(tmp_path)).campaign_numbers()]) == (2, [1, 2])
    assert CampaignFileRegister(str(tmp_path)).has_campaign_file(2, 7, TOKEN)


def test_a_file_with_the_token_of_a_campaign_is_refused(site: IntakeSite) -> None:
    token = site.taken("a 1")
    before = (site.brought / "c.1").read_bytes()
    data = campaign_files_of_owners.encode_campaign_file(asdict(SWEEP), ("b",))
    for name in (token, "c.1"):
        (site.own_inbox / f"new.{name}").write_bytes(data)

    assert site.intake.process_inbox_files() == 0
    assert site.answer(token) == {"refused": "another file has the same token"}
    assert (site.brought / "c.1").read_bytes() == before


def test_a_foreign_file_with_a_campaigns_number_is_moved_aside(site: IntakeSite) -> None:
    token = site.taken("a 1")
    os.rename(site.brought / "c.1", site.brought / f"begun/in.{token}")
    (site.brought / "c.1").write_text("another's")

    site.intake.process_inbox_files()

    odd, own = sorted(site.files(), reverse=True)
    assert (site.brought / odd).read_text() == "another's"
    assert (own, (site.brought / own).read_bytes()[-4:]) == ("c.1", b"a 1\n")


def test_files_and_events_of_campaigns_that_ended_long_ago_are_removed(site: IntakeSite) -> None:
    site.bring(asdict(SWEEP), "a 1")
    site.taken("a 1")
    for campaign, days in ((1, 31), (2, 0)):
        site.end_campaign(campaign, days, CampaignState.TERMINATED)
        site.open_event(CampaignEventCode.EXIT_ERROR, campaign=campaign, last_at=datetime.now(UTC) - timedelta(days=31))
        InputCarryRows(site.database).record_begun_carry(campaign, "beta")
        site.campaigns.record_ledger_has_campaign_end(campaign)

    site.intake.delete_old_files_and_events()

    assert site.files() == ["c.2"]
    assert [*InputCarryRows(site.database).input_copies_of_ended_campaigns()] == [(2, "beta")]
    assert [event.campaign for event in site.events.query_open_events()] == [2]


def test_a_forward_jump_of_the_clock_removes_no_campaign_file(site: IntakeSite) -> None:
    wall_s, steady_s = [datetime.now(UTC).timestamp()], [50.0]
    site.clock = Clock(lambda: wall_s[0], lambda: steady_s[0])
    site.restarted()
    site.taken("a 1")
    site.campaigns.set_campaign_state(1, CampaignState.TERMINATED, site.clock.now())
    left = []
    for leap_days, days in ((0, 0), (60, 0), (0, 29), (0, 2)):
        wall_s[0] += 86400 * (leap_days + days)
        steady_s[0] += 86400 * days
        site.restarted().intake.delete_old_files_and_events()
        left.append(site.files())

    assert left == [["c.1"], ["c.1"], ["c.1"], []]


@pytest.mark.parametrize(("kept_d", "left"), [(300.0, [2, 3, 4]), (0.0, [1, 2, 3, 4])])
def test_a_campaign_is_purged_after_keep_campaigns_d(site: IntakeSite, kept_d: float, left: list[int]) -> None:
    for _ in range(4):
        site.taken("a 1")
    array = site.send(campaign=3)
    site.end_campaign(1, 301, CampaignState.TERMINATED)
    site.end_campaign(2, 299, CampaignState.TERMINATED)
    site.end_campaign(3, 301)
    site.limits = CampaignRunnerSection(keep_campaigns_d=kept_d)
    site.restarted()

    for _ in range(2):
        site.intake.delete_old_files_and_events()

    known = [one.number for one in site.campaigns.all_campaigns() if one.state is not CampaignState.PURGED]
    assert (known, site.files()) == (left, ["c.4"])
    site.campaigns.set_array_state(array, ArraySubmissionState.OVER)
    site.intake.delete_old_files_and_events()
    assert site.ask(Verb.PAUSE, 3) is (Reply.CANCELLED if not kept_d else Reply.UNKNOWN)


def test_a_campaign_is_purged_after_its_input_copies_are_removed(site: IntakeSite) -> None:
    """The owner's program removes the copies, and needs the campaign's file. A removed cluster keeps its copies."""
    copies = InputCarryRows(site.database)
    site.taken("a 1")
    site.end_campaign(1, 1, CampaignState.TERMINATED)
    copies.record_begun_carry(1, "beta")
    copies.record_begun_carry(1, "removed")

    refused = site.ask(Verb.PURGE, 1)
    assert (refused, site.files()) == (Reply.COPIES_LEFT, ["c.1"])
    copies.forget_input_copies(1, "beta")
    assert (site.ask(Verb.PURGE, 1), site.files()) == (Reply.DONE, [])


def test_campaigns_with_open_arrays_do_not_count_among_those_purged(site: IntakeSite) -> None:
    for _ in range(3):
        site.taken("a 1")
    site.send()
    for number, days in ((1, 303), (2, 301), (3, 302)):
        site.end_campaign(number, days)

    site.request_handler().purge_ended_campaigns(datetime.now(UTC), 1)

    campaigns = site.campaigns.all_campaigns()
    assert [campaign.number for campaign in campaigns if campaign.state is CampaignState.PURGED] == [3]


@pytest.mark.parametrize(
    ("code", "is_deleted", "is_open"),
    [
        (CampaignEventCode.SINK, True, False),
        (CampaignEventCode.SINK, False, True),
        (CampaignEventCode.OWNER_UNKNOWN, False, True),
        (CampaignEventCode.NO_LEDGER, True, True),
    ],
)
def test_an_event_stays_open_while_its_campaign_has_open_arrays(
    site: IntakeSite, code: CampaignEventCode, is_deleted: bool, is_open: bool
) -> None:
    site.taken("a 1")
    array = site.send(job_id=7)
    if is_deleted:
        site.campaigns.set_array_state(array, ArraySubmissionState.OVER)
    site.end_campaign(1, 31)
    site.open_event(code, last_at=datetime.now(UTC) - timedelta(days=31))

    site.intake.delete_old_files_and_events()

    assert bool(site.open_event_numbers()) is is_open


@pytest.mark.parametrize(
    ("most", "ages_s", "left"),
    [(9, (25 * 3600, 0), [1]), (2, (0, 1, 2), [0, 1])],
    ids=["older than a day", "more than the most"],
)
def test_only_the_newest_answers_of_the_last_day_are_kept(
    site: IntakeSite, monkeypatch: pytest.MonkeyPatch, most: int, ages_s: tuple[int, ...], left: list[int]
) -> None:
    monkeypatch.setattr(campaign_intake, "MOST_ANSWERS", most)
    tokens = [site.bring(asdict(SWEEP), "a") for _ in ages_s]
    site.intake.process_inbox_files()
    taken, now = site.published / "taken", datetime.now(UTC).timestamp()
    for age_s, token in zip(ages_s, tokens, strict=True):
        os.utime(taken / token, (now - age_s, now - age_s))

    site.intake.delete_old_files_and_events()

    assert sorted(os.listdir(taken)) == sorted(tokens[n] for n in left)


def test_a_test_campaign_has_one_task_for_each_cluster(site: IntakeSite) -> None:
    """CiGri scheduler specification: further tasks are dropped."""
    clusters = {name: JdlSettingsAtCluster(exec_file="run") for name in ("beta", "gamma")}
    site.bring(asdict(Jdl(name="test", type=CampaignType.TEST, clusters=clusters)), "a", "b", "c")

    site.intake.process_inbox_files()

    assert [one.tasks for one in site.campaigns.all_campaigns()] == [2]


def header_with_beta(**values: object) -> dict[str, object]:
    """Return a campaign header with these settings at beta, which gridsub would not write."""
    return asdict(SWEEP) | {"clusters": {"beta": {"exec_file": "run"} | values}}


def header_with_changed_beta(without: str = "", **values: object) -> dict[str, object]:
    """Return gridsub's header with these settings at beta, but without one setting."""
    table = asdict(SWEEP)["clusters"]["beta"] | values
    return asdict(SWEEP) | {"clusters": {"beta": {key: value for key, value in table.items() if key != without}}}


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (asdict(SWEEP) | {"clusters": {"omega": {"exec_file": "x"}}}, "no cluster omega here"),
        (asdict(SWEEP) | {"clusters": {}}, "the campaign has no task or no cluster"),
        (asdict(SWEEP) | {"clusters": {"gamma": {"exec_file": "x"}}, "inputs": ["in/{}"]}, "inputs, outputs_to, ch"),
        (asdict(SWEEP) | {"clusters": {"gamma": {"exec_file": "x", "side_by_side": 2}}}, "inputs, outputs_to, ch"),
        ({"name": "sweep", "type": "odd"}, "not what gridsub writes"),
        ([1], "not what gridsub writes"),
        (asdict(SWEEP) | {"name": ""}, "name = ''"),
        (asdict(SWEEP) | {"name": "a\nb"}, "name = "),
        (asdict(SWEEP) | {"name": "\ud800"}, "name = "),
        (asdict(SWEEP) | {"name": "a\x9b31m"}, "name = "),
        (asdict(SWEEP) | {"name": "a\u2028b"}, "name = "),
        (asdict(SWEEP) | {"name": "a\u202egnp"}, "name = "),
        (asdict(SWEEP) | {"outputs": ["../x"]}, "outputs = "),
        (asdict(SWEEP) | {"inputs": ["/x"] * 101}, "inputs = "),
        (asdict(SWEEP) | {"inputs": ["/x\n"]}, "inputs = "),
        (asdict(SWEEP) | {"outputs_to": "/x" * 3000}, "outputs_to = "),
        (asdict(SWEEP) | {"checkpoint_files": [f"x{number}" for number in range(101)]}, "checkpoint_files = "),
        (asdict(SWEEP) | {"checkpoint_files": ["\x1b[31m"]}, "checkpoint_files = "),
        (asdict(SWEEP) | {"checkpoint_signal": "KILL"}, "checkpoint_signal = "),
        (asdict(SWEEP) | {"checkpoint_s": 10**30}, "checkpoint_s = 1"),
        (asdict(SWEEP) | {"max_parallel": 10**30}, "max_parallel = 1"),
        (header_with_beta(slots=10**30), "beta.slots = 1000000"),
        (header_with_beta(slots=0), "beta.slots = 0: out of range"),
        (header_with_beta(slots=-5), "beta.slots = -5: out of range"),
        (header_with_beta(max_jobs=-(10**25)), "beta.max_jobs = -1"),
        (header_with_beta(max_jobs=10**25), "beta.max_jobs = 1"),
        (header_with_beta(walltime_s=0), "beta.walltime_s = 0: out of range"),
        (header_with_beta(walltime_s=10**12), "beta.walltime_s = 1"),
        (header_with_beta(slots=float("inf")), "not what gridsub writes"),
        (header_with_beta(exec_file=""), "beta.exec_file = "),
        (header_with_beta(exec_file="a\0b"), "beta.exec_file = "),
        (header_with_beta(exec_directory="a\nb"), "beta.exec_directory = "),
        (header_with_beta(project="-x y"), "beta.project = "),
        (header_with_beta(queue="a;b"), "beta.queue = "),
        (header_with_beta(environment="*"), "beta.environment = "),
        (asdict(SWEEP) | {"odd": "x" * MAX_FIRST_BYTES}, "the first line is missing or longer than 4194304 bytes"),
        (header_with_changed_beta("is_besteffort"), "beta.is_besteffort: missing"),
        (header_with_changed_beta("slots"), "beta.slots: missing"),
        (header_with_changed_beta("prologue_walltime_s", prologue="make"), "beta.prologue_walltime_s: missing"),
        (header_with_changed_beta(is_besteffort=1), "beta.is_besteffort = 1: expected True"),
        (header_with_changed_beta(slots="1"), "beta.slots = '1': expected 1"),
        (header_with_changed_beta(properties=[]), "beta.properties = []: expected '[]'"),
    ],
    ids=range(42),
)
def test_an_invalid_campaign_header_is_refused_with_its_reason(site: IntakeSite, header: object, why: str) -> None:
    token = site.bring(header, "a")

    assert site.intake.process_inbox_files() == 0
    refused = site.answer(token)["refused"].removeprefix(f"{site.brought}/begun/in.{token}: ")
    assert refused.startswith(why)
    assert site.files() == []


def test_optional_cluster_settings_may_be_missing(site: IntakeSite) -> None:
    table = asdict(SWEEP)["clusters"]["beta"]
    for key in ("prologue", "epilogue_walltime_s", "properties", "max_jobs"):
        del table[key]
    site.bring(asdict(SWEEP) | {"clusters": {"beta": table}}, "a")

    assert site.intake.process_inbox_files() == 1
    assert site.campaigns.all_campaigns()[0].jdl == SWEEP


def test_refusals_of_large_or_many_files_stay_short_in_answer_and_log(
    site: IntakeSite, caplog: pytest.LogCaptureFixture
) -> None:
    long = asdict(SWEEP) | {"clusters": {"x" * 3_000_000: {"exec_file": "x"}}}
    token = site.bring(long, "a")
    for _ in range(6):
        for _ in range(A_SCAN):
            site.bring([1], "a")
        site.intake.process_inbox_files()

    assert len(site.answer(token)["refused"]) < 5000
    assert len(caplog.records) == LINES
    assert len(caplog.text) < 1000 * LINES


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (CampaignRunnerSection(files_per_uid=2), "you would have 3 campaign files with "),
        (CampaignRunnerSection(mb_per_uid=1), "you would have 3 campaign files with 1.2 MB; expected at most"),
    ],
    ids=["files", "bytes"],
)
def test_number_and_size_of_a_persons_campaign_files_are_limited(
    site: IntakeSite, limits: CampaignRunnerSection, why: str
) -> None:
    """Files of ended campaigns count until the campaigns are purged."""
    site.limits = limits
    site.restarted()
    asked = asdict(SWEEP)
    site.accept(asked, "a" * 600_000)
    site.accept({ADDS_TO: 1}, "b")
    token = site.bring(asked, "c" * 600_000)
    part = site.accept({ADDS_TO: 1}, "c" * 600_000)

    assert site.answer(token)["refused"].startswith(why)
    assert site.answer(part)["refused"].startswith(why)
    assert site.files() == ["c.1", "c.1.1"]
    assert site.ask(Verb.CANCEL, 1) is Reply.DONE
    site.campaigns.set_campaign_state(1, CampaignState.CANCELLED, Clock().now())
    assert site.ask(Verb.PURGE, 1) is Reply.DONE
    site.bring(asked, "c" * 600_000)
    assert site.intake.process_inbox_files() == 1


def test_descriptions_of_a_persons_unfinished_campaigns_are_limited(
    site: IntakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cycle reads them: thousands with long scripts would use up the memory, and delay everybody's campaigns."""
    monkeypatch.setattr(campaign_intake, "MOST_JDL_MB", 0.1)
    header = asdict(replace(SWEEP, clusters={"beta": JdlSettingsAtCluster(exec_file="x" * 60_000)}))
    site.accept(header, "a")

    refused = site.answer(site.accept(header, "a"))["refused"]
    site.end_campaign(1, 1)

    assert refused.startswith("your unfinished campaigns would have descriptions of 0.1 MB")
    assert {"campaign": 2} == site.answer(site.accept(header, "a"))


def test_foreign_files_are_not_examined_to_measure_a_persons_files(
    site: IntakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.taken("a")
    (site.brought / "c.77").write_bytes(b"x")
    looked = list[object]()
    really = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path: looked.append(path) or really(path))
    site.limits = CampaignRunnerSection(files_per_uid=2)
    site.restarted()
    site.bring(asdict(SWEEP), "b")

    assert site.intake.process_inbox_files() == 1
    assert f"{site.brought}/c.1" in looked
    assert f"{site.brought}/c.77" not in looked


def test_a_campaign_file_with_two_hard_links_is_refused(site: IntakeSite, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(campaign_files_of_owners.encode_campaign_file(asdict(SWEEP), ("a",)))
    os.link(tmp_path / "other", site.own_inbox / f"new.{TOKEN}")

    assert site.intake.process_inbox_files() == 0
    assert "not a regular file with one hard link" in site.answer(TOKEN)["refused"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (AdmissionRefusal(reason="not here"), "10.py:rule: not here"),
        (Jdl(name="other", clusters=SWEEP.clusters), "10.py:rule would still change the campaign: name: "),
    ],
)
def test_admission_rules_apply_to_files_that_gridsub_did_not_write(
    site: IntakeSite, said: AdmissionRefusal | Jdl, why: str
) -> None:
    site.rules = (CampaignAdmissionRule(name="10.py:rule", judge=lambda _: said),)
    token = site.bring(asdict(SWEEP), "a 1")

    assert site.intake.process_inbox_files() == 0
    assert site.answer(token)["refused"].startswith(why)


def test_a_campaign_that_the_admission_rules_keep_unchanged_is_accepted(site: IntakeSite) -> None:
    seen: list[CampaignForAdmission] = []
    site.rules = (CampaignAdmissionRule(name="10.py:rule", judge=seen.append),)
    site.bring(asdict(SWEEP), "a 1", "b 2")

    assert site.intake.process_inbox_files() == 1
    assert [(one.user, one.tasks) for one in seen] == [(pwd.getpwuid(os.getuid()).pw_name, 2)]


@pytest.mark.parametrize(
    ("verbs", "told", "state"),
    [
        ([Verb.CANCEL], Reply.DONE, CampaignState.CANCELLED),
        ([Verb.PAUSE], Reply.DONE, CampaignState.PAUSED),
        ([Verb.PAUSE, Verb.RESUME], Reply.DONE, CampaignState.IN_TREATMENT),
        ([Verb.RESUME], Reply.NOT_PAUSED, CampaignState.IN_TREATMENT),
        ([Verb.CANCEL, Verb.RESUME], Reply.CANCELLED, CampaignState.CANCELLED),
    ],
)
def test_an_owner_cancels_pauses_and_resumes_a_campaign(
    site: IntakeSite, verbs: list[Verb], told: Reply, state: CampaignState
) -> None:
    site.taken("a 1")

    answers = [site.ask(verb, 1) for verb in verbs]

    assert (answers[-1], site.campaign.state) == (told, state)
    assert site.campaigns.count_unsent_tasks() == ({} if state is CampaignState.CANCELLED else {1: 1})


def test_a_second_cancellation_drops_the_epilogue(site: IntakeSite) -> None:
    settings = JdlSettingsAtCluster(exec_file="run", epilogue="clean")
    site.accept(asdict(Jdl(name="n", clusters={"beta": settings})), "a 1")

    told = [site.ask(Verb.CANCEL, 1)]
    (kept,) = site.campaigns.unfinished_campaigns()
    told += [site.ask(verb, 1) for verb in (Verb.PURGE, Verb.CANCEL)]

    assert (kept.awaits_epilogues_after_cancel, told) == (True, [Reply.DONE, Reply.NOT_ENDED, Reply.DONE])
    assert (site.campaigns.unfinished_campaigns(), site.ask(Verb.CANCEL, 1)) == ((), Reply.CANCELLED)


def test_root_abandons_the_open_arrays_of_a_cancelled_campaign(
    site: IntakeSite, caplog: pytest.LogCaptureFixture
) -> None:
    site.taken("a", "b", "c")
    site.send()
    site.send(job_id=41)

    told = [site.ask(verb, 1) for verb in (Verb.ABANDON, Verb.CANCEL)]
    is_left = site.campaigns.is_campaign_unfinished(1)
    told += [site.ask(verb, 1) for verb in (Verb.ABANDON, Verb.ABANDON, Verb.PURGE)]

    expected = [Reply.NOT_CANCELLED, Reply.DONE, Reply.DONE, Reply.CANCELLED, Reply.DONE]
    assert (told, is_left) == (expected, True)
    assert "event=abandoned array=1.2 at=beta job=41" in caplog.messages
    touched = {one.task: one.outcome for one in site.intake.requests.take_changed_attempts()}
    assert touched == dict.fromkeys((0, 1), Outcome.CANCELLED)


@pytest.mark.parametrize(
    ("before", "verb"),
    [
        (None, Verb.CANCEL),
        (None, Verb.PAUSE),
        (Verb.PAUSE, Verb.RESUME),
        (Verb.CANCEL, Verb.PURGE),
        (None, Verb.CANCEL_TASK),
    ],
)
def test_a_request_repeated_after_a_kill_is_answered_as_done(site: IntakeSite, before: Verb | None, verb: Verb) -> None:
    site.taken("a 1")
    if before:
        site.ask(before, 1)
    requests = site.request_handler()
    asked = CampaignOwnerRequest(token="t", uid=os.getuid(), verb=verb, numbers=(1,))

    told = [requests.execute_request(request)[1] for request in (asked, replace(asked, token="u"), asked)]

    assert told[::2] == [Reply.DONE] * 2
    assert told[1] is not Reply.DONE


def test_a_task_cancelled_before_submission_has_ended_unsuccessfully(site: IntakeSite) -> None:
    site.taken("a", "b", "c", "d")

    told = [site.ask(Verb.CANCEL_TASK, 1, task) for task in (2, 2, 4, -1)]

    assert told == [Reply.DONE, Reply.TASK_ENDED, Reply.NO_TASK, Reply.NO_TASK]
    (touched,) = site.intake.requests.take_changed_attempts()
    assert (touched.task, touched.attempt, touched.outcome) == (2, 1, Outcome.UNWANTED)
    assert (site.campaign.ended, site.campaign.failed, site.campaign.cancelled) == (1, 0, 1)
    assert site.campaigns.count_unsent_tasks() == {1: 3}
    assert [attempt.task for attempt in site.attempts(site.send(9))] == [0, 1, 3]
    shown = site.tasks.submitted_tasks(1, 0, 9)
    assert [(one.number, one.state_word) for one in shown] == [(0, "sent"), (1, "sent"), (2, "cancelled"), (3, "sent")]


def test_a_cancelled_submitted_task_is_marked_until_its_end(site: IntakeSite) -> None:
    site.taken("a", "b")
    array = site.send(2)

    told = [site.ask(Verb.CANCEL_TASK, 1, 1) for _ in range(2)]

    assert told == [Reply.DONE, Reply.DONE]
    assert not site.intake.requests.take_changed_attempts()
    mark = TaskDeletionMark(wiped_for=NikitaDeletionReason.UNWANTED)
    assert site.marks.deletion_marks() == {(1, array.number): {2: mark}}
    site.end(site.attempts(array), Outcome.SUCCESS)
    assert site.ask(Verb.CANCEL_TASK, 1, 1) is Reply.TASK_ENDED


def test_a_task_waiting_for_its_second_attempt_is_cancelled(site: IntakeSite) -> None:
    site.taken("a", "b")
    site.campaigns.remove_all_unsent_tasks(1)
    site.campaigns.add_unsent_tasks(1, WaitingTaskRange(first=1, last=1, attempt=2))

    assert site.ask(Verb.CANCEL_TASK, 1, 1) is Reply.DONE
    assert [one.attempt for one in site.intake.requests.take_changed_attempts()] == [2]


def test_the_number_of_a_purged_campaign_is_not_reused(site: IntakeSite) -> None:
    site.taken("a 1")

    early = site.ask(Verb.PURGE, 1)
    site.ask(Verb.CANCEL, 1)
    late = [site.ask(verb, 1) for verb in (Verb.PURGE, Verb.PURGE, Verb.CANCEL)]

    assert (early, late) == (Reply.NOT_ENDED, [Reply.DONE, Reply.UNKNOWN, Reply.UNKNOWN])
    assert site.files() == []
    token = site.taken("a 1")
    assert site.answer(token) == {"campaign": 2}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"verb": "cancel", "campaigns": [1], "task": "x"}',
        b'{"verb": "rob", "campaigns": [1]}',
        b"[" * 100_000,
        b'{"verb": "pause", "campaigns": [1e999]}',
        b'{"verb": "pause", "campaigns": [99999999999999999999999]}',
        b'{"verb": "pause", "campaigns": ["1"]}',
        b'{"verb": "pause", "campaigns": 1}',
        b'{"verb": "cancel_task", "campaigns": [1], "task": 1e999}',
        b'{"verb": "fix", "campaigns": [1000000000000000000000000000000]}',
        b'{"verb": "subscribe", "way": "\\ud800"}',
    ],
    ids=range(12),
)
def test_an_invalid_request_file_is_removed(site: IntakeSite, data: bytes) -> None:
    (site.own_inbox / f"ask.{TOKEN}").write_bytes(data)

    assert site.intake.process_inbox_files() == 0
    assert site.files() == []


def test_an_unexpected_error_with_one_file_does_not_stop_other_files(
    site: IntakeSite, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = site.bring(asdict(SWEEP), "a"), site.bring(asdict(SWEEP), "a", "b")
    add = Mock(wraps=site.intake._campaigns.insert_campaign)
    add.side_effect = lambda _, token: 1 / 0 if token == bad else DEFAULT
    monkeypatch.setattr(site.intake._campaigns, "insert_campaign", add)

    assert site.intake.process_inbox_files() == 1
    assert site.answer(good) == {"campaign": 1}
    assert site.files() == ["c.1"]
    assert f"event=not_taken token={bad}" in caplog.text


@pytest.mark.parametrize("is_full", [True, False], ids=["full disk", "no account"])
def test_a_file_is_accepted_later_after_a_temporary_failure(
    site: IntakeSite, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_full: bool
) -> None:
    token = site.bring(asdict(SWEEP), "a")
    with monkeypatch.context() as failing:
        if is_full:
            failing.setattr(site.intake._campaigns, "insert_campaign", Mock(side_effect=StateError("disk full")))
        else:
            failing.setattr(pwd, "getpwuid", Mock(side_effect=KeyError("uid not found")))
        taken = [site.intake.process_inbox_files() for _ in range(3)]

    why = "disk full" if is_full else f"uid {os.getuid()} has no account"
    assert (taken, caplog.text.count(why)) == ([0, 0, 0], 1)
    assert site.intake.process_inbox_files() == 1
    assert site.answer(token) == {"campaign": 1}


def test_one_cycle_processes_the_whole_inbox(site: IntakeSite) -> None:
    tokens = [site.bring(header, "a") for header in [asdict(SWEEP)] * 15 + [{}] * 15]
    tokens += [
        campaign_files_of_owners.write_owner_request_to_inbox(Verb.PAUSE, (1,), str(site.brought)) for _ in range(12)
    ]

    process_inbox_before_cycle(site.intake.process_inbox_files, site.intake.list_unprocessed_inbox_files, Clock())

    assert site.intake.list_unprocessed_inbox_files() == []
    assert len([one for one in map(site.answer, tokens) if "campaign" in one]) == 15


def test_an_endless_inbox_delays_a_cycle_by_20_s_at_most() -> None:
    now_s = [0.0]

    def take() -> int:
        now_s[0] += 1.0
        return 10

    process_inbox_before_cycle(take, lambda: [f"new.{now_s[0]}"], Clock(lambda: 0.0, lambda: now_s[0]))

    assert now_s[0] == TAKING_S


def test_a_file_that_cannot_be_accepted_now_waits_for_the_next_cycle(
    site: IntakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.bring(asdict(SWEEP), "a")
    monkeypatch.setattr(pwd, "getpwuid", Mock(side_effect=KeyError("uid not found")))
    looks: list[int] = []

    def take() -> int:
        looks.append(site.intake.process_inbox_files())
        return looks[-1]

    process_inbox_before_cycle(take, site.intake.list_unprocessed_inbox_files, Clock())

    assert (looks, len(site.intake.list_unprocessed_inbox_files())) == ([0, 0], 1)


def test_a_dry_run_counts_inbox_files_and_leaves_them(site: IntakeSite) -> None:
    token = site.bring(asdict(SWEEP), "0")
    campaign_files_of_owners.write_owner_request_to_inbox(Verb.CANCEL, (1,), str(site.brought))
    before = site.files()

    assert len(site.intake.list_unprocessed_inbox_files()) == 2
    assert site.files() == before
    assert campaign_files_of_owners.withdraw_campaign_file(token, str(site.brought))
    assert len(site.intake.list_unprocessed_inbox_files()) == 1
