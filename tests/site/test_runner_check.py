"""`gridbridge check` warns of campaigns while no runner works."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.campaigns.store.campaign_files_of_owners import encode_campaign_file, write_campaign_file_to_inbox
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaignList
from gridbridge.model.campaigns.send_reasons import PublishedTaskSendExplanations
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from gridbridge.shell.clock import Clock
from gridbridge.site.storage_provider_and_runner_checks import check_runner_activity
from tests.site.cli.test_check_command import SWEEP, publish

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Look = Callable[[], list[tuple[FindingSeverity, str]]]


@pytest.fixture(name="look")
def _look(tmp_path: Path) -> Look:
    """Return a function that judges the runner at noon."""
    (tmp_path / "brought").mkdir()

    def look() -> list[tuple[FindingSeverity, str]]:
        clock = Clock(NOON.timestamp)
        found = check_runner_activity(clock, str(tmp_path), str(tmp_path / "brought"))
        return [(one.state, one.found) for one in found]

    return look


def show(published: Path, state: CampaignState) -> None:
    publish(PublishedCampaignList(at=NOON, campaigns=(replace(SWEEP, state=state),)), published)


@pytest.mark.parametrize(
    ("minutes", "state", "when"),
    [
        (None, FindingSeverity.WARNING, "never"),
        (12, FindingSeverity.WARNING, "12 min ago"),
        (1, FindingSeverity.OK, "1 min ago"),
    ],
)
def test_an_old_last_cycle_is_a_warning_while_campaigns_are_unfinished(
    tmp_path: Path, look: Look, minutes: int | None, state: FindingSeverity, when: str
) -> None:
    show(tmp_path, CampaignState.IN_TREATMENT)
    if minutes is not None:
        publish(PublishedTaskSendExplanations(at=NOON - timedelta(minutes=minutes)), tmp_path)

    assert look() == [(state, f"1 unfinished; last cycle of gridbridge-runner: {when}")]


@pytest.mark.parametrize("state", [CampaignState.TERMINATED, CampaignState.PAUSED])
def test_ended_or_paused_campaigns_need_no_runner(tmp_path: Path, look: Look, state: CampaignState) -> None:
    show(tmp_path, state)

    assert look() == []


def test_a_submitted_file_that_no_runner_accepted_is_a_warning(tmp_path: Path, look: Look) -> None:
    write_campaign_file_to_inbox(encode_campaign_file({"name": "n"}, ("a",)), str(tmp_path / "brought"))

    assert look() == [
        (FindingSeverity.WARNING, "0 unfinished and 1 file not accepted yet; last cycle of gridbridge-runner: never")
    ]
