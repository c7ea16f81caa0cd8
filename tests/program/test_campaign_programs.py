"""The runner and nikita begin a cycle by a reloaded gridbridge.toml, a request, or an urgent plan."""

from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from gridbridge.campaigns.runner import program as runner_program
from gridbridge.campaigns.runner.background_readings import BackgroundPrograms
from gridbridge.campaigns.runner.campaign_runner import CampaignRunnerCycle, CampaignRunnerDaemon
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import CampaignSlotUsageRows
from gridbridge.config import configuration_file
from gridbridge.model.campaigns.campaign import CampaignState, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_configuration_sections import FairShareUnit
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan, DecayedCampaignUsage
from gridbridge.model.site_configuration import Policy
from gridbridge.program.configuration_in_force import ReloadableConfiguration
from gridbridge.program.service_cycle import ReloadingDaemon
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import BackgroundProgram
from gridbridge.state.state_file import StateFile
from tests.builders.campaigns import made_campaign

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEFORE = '[site]\ncluster = "alpha"\n[cluster.alpha]\nkind = "embedded"\nfolder = "/x"\n'
PAUSE = "[runner]\ninterval_s = {}\n"


class Program:
    def __init__(self, policy: Policy) -> None:
        self.pause_s = policy.runner.interval_s
        self.is_released = False

    def open_cycle(self) -> AbstractContextManager[object]:
        return nullcontext(self)

    def should_start_cycle_early(self) -> bool:
        return False

    def recover(self) -> None:
        """Do nothing."""

    def release(self) -> None:
        self.is_released = True


def test_a_changed_configuration_applies_from_the_next_cycle(tmp_path: Path) -> None:
    """A wrong file changes nothing. After a change the former program closes its state file, and a cycle starts."""
    now_s = [0.0]
    path = tmp_path / "gridbridge.toml"
    path.write_text(BEFORE + PAUSE.format(15))
    configuration = ReloadableConfiguration(Clock(lambda: 0.0, lambda: now_s[0]), str(path))
    first = Program(configuration.policy)
    daemon = ReloadingDaemon(first, configuration, Program)  # type: ignore[arg-type]  # a test's

    def pause_after(text: str) -> float:
        path.write_text(text)
        for _ in range(2):  # it has to stay the same for a moment
            with daemon.open_cycle():
                now_s[0] += 1.0
        return daemon.pause_s

    assert pause_after(BEFORE + PAUSE.format(20)) == 20.0
    assert first.is_released
    assert pause_after(BEFORE + PAUSE.format("soon")) == 20.0
    assert pause_after(BEFORE + PAUSE.format(30)) == 30.0

    path.write_text(BEFORE + PAUSE.format(40))
    starts_early = [daemon.should_start_cycle_early()]
    now_s[0] += 1.0
    starts_early.append(daemon.should_start_cycle_early())
    with daemon.open_cycle():
        starts_early.append(daemon.should_start_cycle_early())
    assert (starts_early, daemon.pause_s) == ([False, True, False], 40.0)


def test_a_changed_configuration_forgets_no_program_of_an_owner(tmp_path: Path) -> None:
    """Otherwise a second program of the owner would be started beside the first."""
    text = BEFORE.replace("[cluster", f'state = "sqlite:///{tmp_path}/state.db"\n[cluster', 1)
    policy = configuration_file.parse_configuration("FILE", text.encode())
    StateFile.open(policy.site.state).close()
    make, clock = runner_program._import_runner_daemon(), Clock()
    first = make(policy, clock, is_dry=True, lead=None)
    working = cast(BackgroundProgram, SimpleNamespace(result_if_ended=lambda: None))
    cast(CampaignRunnerDaemon, first)._programs.usages.add((4000, "beta"), working, (1, "beta"), ())
    first.release()

    assert make(policy, clock, is_dry=True, lead=None).has_background_work


def attempt(outcome: TaskAttemptOutcome) -> TaskAttempt:
    return TaskAttempt(campaign=1, task=0, attempt=1, array=1, place=1, outcome=outcome)


def test_a_cycle_uses_the_configured_fair_share(tmp_path: Path) -> None:
    state = f'state = "sqlite:///{tmp_path}/state.db"\n'
    text = BEFORE.replace("[cluster", f"{state}[cluster", 1) + '[metascheduler]\nshare_by = "user"\n'
    policy = configuration_file.parse_configuration("FILE", text.encode())
    database = StateFile.open(policy.site.state)
    sweep = made_campaign("alpha", state=CampaignState.TERMINATED, tasks=9)
    CampaignRows(database).insert_campaign(sweep, "token")
    used = DecayedCampaignUsage(campaign=1, cluster="alpha", at=NOON, used_s=80.0)
    CampaignSlotUsageRows(database).store_slot_usage([used])
    database.close()

    runner = CampaignRunnerCycle(policy, Clock(lambda: NOON.timestamp(), lambda: 0.0), is_dry=True)
    sharing = runner.gather().sharing
    runner.database.close()

    assert (sharing.by, sharing.used_s) == (FairShareUnit.USER, {"alice": 80.0})


@pytest.mark.parametrize("outcome", [TaskAttemptOutcome.MOVED, TaskAttemptOutcome.RESUBMIT, TaskAttemptOutcome.WIPED])
def test_only_a_moved_attempt_makes_a_cycle_urgent(outcome: TaskAttemptOutcome) -> None:
    """Urgent cycles after frequent outcomes would leave no pause between cycles."""
    plan = CampaignCyclePlan(ended=(attempt(TaskAttemptOutcome.SUCCESS), attempt(outcome)))

    assert plan.starts_next_cycle_at_once == (outcome is TaskAttemptOutcome.MOVED)
    assert not CampaignCyclePlan().starts_next_cycle_at_once


def a_daemon(*requests: int, is_urgent: bool = False) -> CampaignRunnerDaemon:
    """Return a daemon whose runner finds these numbers of requests, one number at each look."""
    daemon = CampaignRunnerDaemon.__new__(CampaignRunnerDaemon)
    daemon.runner = CampaignRunnerCycle.__new__(CampaignRunnerCycle)
    daemon.runner.is_urgent = is_urgent
    looks = {"process_inbox": iter(requests).__next__, "list_unprocessed_inbox_files": list}
    vars(daemon.runner).update(looks)
    vars(daemon).update(_is_dry=True, _clock=Clock(lambda: 0.0, lambda: 0.0), _programs=BackgroundPrograms())
    return daemon


@pytest.mark.parametrize("is_urgent", [True, False])
def test_an_urgent_cycle_is_followed_at_once(is_urgent: bool) -> None:
    assert a_daemon(0, is_urgent=is_urgent).should_start_cycle_early() is is_urgent


@pytest.mark.parametrize(
    ("requests", "carry_ends"), [((1, 1, 0, 0), (False,) * 4), ((0,) * 4, (True, True, False, False))]
)
def test_a_request_or_program_of_a_user_begins_a_cycle_after_a_pause(
    requests: tuple[int, ...], carry_ends: tuple[bool, ...]
) -> None:
    """Otherwise one request or failing program a second would make the runner query every cluster without a pause."""
    now_s = [100.0]
    daemon = a_daemon(*requests)
    ends = SimpleNamespace(has_new_end=iter(carry_ends).__next__)
    vars(daemon).update(_is_dry=True, _clock=Clock(lambda: 0.0, lambda: now_s[0]), _programs=ends)

    assert daemon.should_start_cycle_early()  # nothing was asked of clusters just now
    with daemon.open_cycle():
        now_s[0] += 3.0
    begins = []
    for _ in range(2):
        now_s[0] += 3.0
        begins.append(daemon.should_start_cycle_early())
    with daemon.open_cycle():
        pass
    now_s[0] += 9.0

    assert begins == [False, True]
    assert not daemon.should_start_cycle_early()
