"""What the runner does besides a cycle: it resets its watchdog, keeps its site's name, and stores its decisions."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock, PropertyMock

import pytest

from gridbridge.campaigns.runner import campaign_program_start, campaign_runner
from gridbridge.decisions.campaigns import campaign_cycle_planning as rules
from gridbridge.errors import CommandFailed, ConfigError
from gridbridge.model.campaigns.campaign import TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignTaskCountsAtCluster, ClusterCapacityForCampaigns
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell import program_runs, ssh
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import CompletedProgram
from gridbridge.state.decision_journal import DecisionJournal
from gridbridge.state.state_file import StateFile
from tests.builders.campaign_site import CampaignSite
from tests.builders.campaigns import NOON, made_campaign, made_situation, released_array, site_fixture


class Lost(ssh.OpenSshClient):
    def run_ssh_request(self, login: SshLogin, *_: object) -> tuple[CompletedProgram, bool]:
        raise CommandFailed((login.host,), None)


@pytest.fixture(name="calling")
def _calling(tmp_path: Path) -> Iterator[MagicMock]:
    """Return a program whose only cycle calls several clusters."""
    calling = MagicMock(pause_s=15.0, is_stopped=False, beats_after=[])
    calling.journal = DecisionJournal(StateFile.open(f"sqlite:///{tmp_path}/state.db"))
    calling.open_cycle.return_value.__enter__.return_value = calling
    calling.journal_entry.return_value = None

    def call(*programs: str, login: SshLogin | None = None) -> None:
        calling.is_stopped = True
        for program in programs:
            with suppress(CommandFailed):
                ssh.run_over_ssh(login, (program,), {}, 9.0, carrier=Lost())
            calling.beats_after.append(calling.send_heartbeat.call_count)

    calling.gather.side_effect = lambda: call("/bin/true") or call("/bin/true", login=SshLogin(host="beta"))
    calling.apply.side_effect = lambda *_: call("/bin/true", "/no/such/program")
    yield calling
    program_runs.call_after_each_program_end(lambda: None)


def test_each_finished_or_failed_call_resets_the_watchdog(calling: MagicMock) -> None:
    campaign_program_start.run_cycles_until_signal(calling, calling, calling, Clock())

    assert calling.beats_after == [2, 3, 4, 4]


@pytest.mark.parametrize(
    ("working", "early", "is_dry", "cycles"),
    [
        ((False,), (), False, 1),
        ((True,), (), True, 1),
        ((True, True, False), (False, False), False, 1),
        ((True, True, False), (False, True), False, 2),
        ((True,) * 31 + (False,), (False,) * 30, False, 2),
        ((True,) * 99, (True,) * 99, False, 67),
    ],
    ids=["no program", "dry run", "no use of it", "an ended program", "the usual pause", "a program that never ends"],
)
def test_a_run_from_cron_uses_what_the_programs_do_that_its_cycles_start(
    calling: MagicMock, working: tuple[bool, ...], early: tuple[bool, ...], is_dry: bool, cycles: int
) -> None:
    """A look takes half a second, and a cycle 4.5 s."""
    now_s = [0.0]

    def pass_time(seconds: float) -> None:
        now_s[0] += seconds

    calling.is_stopped = False
    calling.gather.side_effect = lambda: pass_time(4.5)
    calling.apply.side_effect = None
    calling.wait_for_signal.side_effect = pass_time
    calling.should_start_cycle_early.side_effect = early
    type(calling).has_background_work = PropertyMock(side_effect=working)

    clock = Clock(lambda: 0.0, lambda: now_s[0])
    campaign_program_start.run_cycles_until_programs_end(calling, calling, clock, is_dry=is_dry)

    assert cycles == calling.gather.call_count
    calling.release.assert_called_once_with()


class NamedSite(CampaignSite):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, made_campaign(tasks=2))
        self.name = folder / "runner.site"

    def require(self, name: str, *, is_dry: bool = False) -> None:
        campaign_runner.require_unchanged_site_name(name, self.campaigns, str(self.name), is_dry=is_dry)


_site = site_fixture(NamedSite)


@pytest.mark.parametrize("first", [NamedSite.send, lambda site: site.require("alpha")], ids=["array", "name"])
def test_a_new_site_name_is_refused_while_arrays_are_open(site: NamedSite, first: Callable[..., object]) -> None:
    """A site's first name is accepted, even with open arrays."""
    first(site)
    site.require("alpha")
    site.send()
    for _ in range(2):
        with pytest.raises(ConfigError):
            site.require("omega")
    site.require("alpha")


def test_a_new_site_name_is_accepted_without_open_arrays(site: NamedSite) -> None:
    site.require("alpha")
    site.require("omega")

    assert site.name.read_text() == "omega"


def test_a_dry_run_stores_no_site_name(site: NamedSite) -> None:
    site.require("alpha", is_dry=True)

    assert not site.name.exists()


CAMPAIGN = made_campaign(
    number=1,
    tasks=9,
    digest="abc",
    jdl=Jdl(name="sweep", clusters={"beta": JdlSettingsAtCluster(exec_file="run", max_jobs=5)}),
)


def test_a_stored_campaign_decision_is_replayed_from_json() -> None:
    array = released_array(size=2, job_id=7)
    seen = made_situation(
        campaigns=(CAMPAIGN,),
        waiting={1: 7},
        arrays=(array,),
        room={"beta": ClusterCapacityForCampaigns(free_slots=4)},
        there=(CampaignTaskCountsAtCluster(campaign=1, cluster="beta", waiting=1, listed=1),),
        tried={1: frozenset({"beta"})},
        ended=(TaskAttempt(campaign=1, task=0, attempt=1, array=1, place=1, outcome=TaskAttemptOutcome.RESUBMIT),),
    )
    plan = rules.plan_campaign_cycle(seen)

    entry = campaign_runner.campaign_cycle_journal_entry(seen, plan, NOON)

    assert entry.sentence == "1 task ended, 1 of them runs again; sent: 3 tasks of campaign 1 to beta"
    kept = json.loads(json.dumps(entry.inputs))
    assert (
        campaign_runner.replay_campaign_cycle_decision(kept)
        == rules.describe_campaign_cycle_plan(plan)
        == kept["actions"]
    )


def test_the_journal_stores_no_scripts_of_campaigns() -> None:
    wish = JdlSettingsAtCluster(exec_file="s" * 60_000, prologue="p" * 60_000, max_jobs=5)
    one = replace(CAMPAIGN, jdl=Jdl(name="sweep", clusters={"beta": wish}))
    room = {"beta": ClusterCapacityForCampaigns(free_slots=4)}
    seen = made_situation(campaigns=(one,), waiting={1: 7}, room=room)
    plan = rules.plan_campaign_cycle(seen)

    entry = campaign_runner.campaign_cycle_journal_entry(seen, plan, NOON)

    assert plan.steps
    assert len(json.dumps(entry.inputs)) < 2000
    assert campaign_runner.replay_campaign_cycle_decision(
        json.loads(json.dumps(entry.inputs))
    ) == rules.describe_campaign_cycle_plan(plan)


def test_a_cycle_that_does_nothing_has_no_journal_entry() -> None:
    seen = made_situation()

    assert campaign_runner.campaign_cycle_journal_entry(seen, rules.plan_campaign_cycle(seen), NOON) is None
