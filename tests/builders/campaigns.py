"""Builders of campaigns, arrays and snapshots."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gridbridge.model.campaigns.campaign import ArraySubmissionState, Campaign, CampaignArray, CampaignState
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation
from gridbridge.model.campaigns.campaign_events import CampaignEvent
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot
from gridbridge.model.job_and_queue_states import JobState, JobStateFact
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import ClusterSection, Policy
from gridbridge.state.state_file import StateFile

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUNNING, WAITING = JobState([JobStateFact.RUNNING]), JobState([JobStateFact.WAITING])
HELD = JobState([JobStateFact.WAITING, JobStateFact.HELD])


def made_campaign(*clusters: str, **other: Any) -> Campaign:
    """Return alice's unfinished campaign of one task for `clusters`, by default for beta."""
    jdl = Jdl(name="sweep", clusters={name: JdlSettingsAtCluster(exec_file="run") for name in clusters or ("beta",)})
    known = {"number": 0, "uid": 1000, "owner": "alice", "state": CampaignState.IN_TREATMENT, "submitted_at": NOON}
    return Campaign(**known | {"tasks": 1, "digest": "", "jdl": jdl} | other)


def released_array(**other: Any) -> CampaignArray:
    known = {"campaign": 1, "number": 1, "cluster": "beta", "state": ArraySubmissionState.RELEASED, "intended_at": NOON}
    return CampaignArray(**known | other)


def made_snapshot(**other: Any) -> ClusterSnapshot:
    known = {"cluster": "beta", "taken_at": NOON, "queues": (), "jobs": {}, "pending": 0, "free_slots": 0}
    return ClusterSnapshot(**known | other)


def job_row(places: range, state: JobState = WAITING, **other: Any) -> ClusterJobListRow:
    """Return a row of a cluster's job list: tasks of alice's array 7 of campaign 1."""
    known = {"job_id": 7, "tasks": (places,), "name": "campaign.1", "owner": "alice"}
    return ClusterJobListRow(**known | {"state": state} | other)


def made_event(**other: Any) -> CampaignEvent:
    return CampaignEvent(**{"opened_at": NOON, "last_at": NOON} | other)


def made_policy(*clusters: str, **other: Any) -> Policy:
    known = {"site": SiteSection(cluster="alpha"), "clusters": {name: ClusterSection() for name in clusters}}
    return Policy(**known | {"queues": {}} | other)


def made_situation(**other: Any) -> CampaignCycleSituation:
    """Return the input of a campaign cycle without campaigns and clusters."""
    return CampaignCycleSituation(
        **{"campaigns": (), "waiting": {}, "arrays": (), "room": {}, "max_tasks": 100} | other
    )


POSTGRESQL = pytest.param("postgresql", marks=[pytest.mark.root])
SELDOM_POSTGRESQL = pytest.param("postgresql", marks=[pytest.mark.root, pytest.mark.long])


def site_fixture(kind: Callable[[Path], Any], *engines: Any) -> object:
    """Return a fixture `site`: an object of this kind, whose database is closed after the test.

    The tests run with a state file, and again with PostgreSQL, if not said otherwise among the tests that take long.
    """

    @pytest.fixture(name="site", params=engines or ["sqlite", SELDOM_POSTGRESQL])
    def _site(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        if request.param == "postgresql":
            replaced_by_postgresql(request.getfixturevalue("postgresql").new, monkeypatch)
        site = kind(tmp_path)
        yield site
        site.database.close()

    return _site


def replaced_by_postgresql(new: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Store the contents of each state file that a test opens in a database of its own at a PostgreSQL server."""
    urls = defaultdict[str, str](new)
    opened = StateFile.open
    monkeypatch.setattr(StateFile, "open", lambda url, **options: opened(urls[url], **options))
