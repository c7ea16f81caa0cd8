"""Publishes campaigns, clusters and events, writes campaign files, and runs the grid commands of tests."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from click import Command
from click.testing import CliRunner, Result

from gridbridge.campaigns.store.campaign_files_of_owners import encode_campaign_file
from gridbridge.campaigns.store.published_campaign_files import publish_campaign_value
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_events import (
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
    PublishedCampaignEvents,
)
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    PublishedCampaign,
    PublishedCampaignList,
    PublishedClusterSlots,
    PublishedClusterSlotsList,
)
from gridbridge.model.fixed_paths import FixedPaths
from tests.builders.campaigns import NOON


def run_command(command: Command, *words: str, stdin: str | None = None, paths: FixedPaths | None = None) -> Result:
    return CliRunner().invoke(command, words, input=stdin, obj=paths, standalone_mode=False)


def publish_campaigns(folder: object, *campaigns: PublishedCampaign, **values: Any) -> None:
    publish_campaign_value(PublishedCampaignList(at=NOON, campaigns=campaigns, **values), str(folder))


def publish_events(folder: object, *events: CampaignEvent) -> None:
    publish_campaign_value(PublishedCampaignEvents(at=NOON, events=events), str(folder))


def publish_clusters(folder: object, *clusters: PublishedClusterSlots) -> None:
    publish_campaign_value(PublishedClusterSlotsList(at=NOON, clusters=clusters), str(folder))


def jdl_for_beta(**values: Any) -> Jdl:
    return Jdl(**{"name": "sweep", "clusters": {"beta": JdlSettingsAtCluster(exec_file="run")}} | values)


def write_campaign_file(folder: Path, jdl: Jdl, *parameters: str) -> None:
    path = folder / "c.7"
    path.write_bytes(encode_campaign_file(asdict(jdl), parameters))
    path.chmod(0o640)


def make_shown_campaign(**values: Any) -> PublishedCampaign:
    usual: dict[str, Any] = {"number": 7, "name": "sweep", "owner": "alice", "submitted_at": NOON, "tasks": 2}
    usual |= {"type": CampaignType.DEFAULT, "state": CampaignState.IN_TREATMENT, "clusters": ("beta", "gamma")}
    return PublishedCampaign(**usual | {"ended": 0, "failed": 0} | values)


def make_event(number: int, kind: CampaignEventSubject, code: CampaignEventCode, **values: Any) -> CampaignEvent:
    return CampaignEvent(**{"number": number, "kind": kind, "code": code, "opened_at": NOON, "last_at": NOON} | values)
