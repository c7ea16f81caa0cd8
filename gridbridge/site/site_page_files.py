"""Reads the published files for the page, each for itself, and writes the page as one HTML file."""

import base64
import hashlib
import os
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined

from gridbridge.campaigns.store import campaign_client, published_campaign_files
from gridbridge.decisions.site.page_campaign_and_event_rows import MOST_CURVES, campaigns_on_page
from gridbridge.elastic.balancer import balancer_statistics_and_publication
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.campaigns.published_campaigns_and_tasks import CampaignTaskEndCounts, PublishedCampaign
from gridbridge.model.campaigns.send_reasons import PublishedTaskSendExplanations
from gridbridge.model.fixed_paths import BALANCE_PUBLISHED, ELSEWHERE, PUBLISHED
from gridbridge.model.published_status_and_reports import (
    PublishedClusterAnswer,
    PublishedFilesSnapshot,
    replace_control_characters,
)
from gridbridge.model.site.site_page_rows import PublishedSite, SitePage
from gridbridge.program.status_and_why_reports import overdue_rebalance_sentences
from gridbridge.shell import safe_files
from gridbridge.state import drains, published_json

NAME = "index.html"
TEMPLATE, STYLE = "site_page.html", "site_page.css"
Value = TypeVar("Value")
Default = TypeVar("Default")


class PublishedSiteReader:
    """Reads published files; the error of one file hides no other file."""

    def __init__(self, folder: str = PUBLISHED, balance: str = BALANCE_PUBLISHED) -> None:
        self._folder, self._balance = folder, balance
        self._troubles = list[str]()

    def read_site(self, now: datetime) -> PublishedSite:
        folder = self._folder
        if not os.path.isdir(folder):
            self._troubles.append(f"{folder}: no such folder; {ELSEWHERE}")
        campaigns = self._value_or(partial(campaign_client.published_campaigns, folder), ())
        cycle = self._value_or(
            partial(published_campaign_files.read_published_campaign_value, PublishedTaskSendExplanations, folder), None
        )
        return PublishedSite(
            status=self._status(),
            cycle_at=cycle.at if cycle else None,
            campaigns=campaigns,
            ends={campaign.number: self._ends(campaign) for campaign in _campaigns_with_curves(campaigns)},
            slots=self._value_or(partial(campaign_client.published_campaign_clusters, folder), ()),
            events=self._value_or(partial(campaign_client.published_events, folder), ()),
            balance=self._value_or(
                partial(balancer_statistics_and_publication.read_published_balance, self._balance), None
            ),
            nodes=self._value_or(
                partial(balancer_statistics_and_publication.read_published_node_history, self._balance), None
            ),
            areas=self._value_or(partial(published_json.read_published_storage_areas, folder), None),
            late=overdue_rebalance_sentences(now, folder),
            troubles=tuple(dict.fromkeys(self._troubles)),
        )

    def _status(self) -> PublishedFilesSnapshot:
        folder = self._folder
        breakers = self._value_or(partial(published_json.read_published_breakers, folder), None)
        return PublishedFilesSnapshot(
            service=self._value_or(partial(published_json.read_published_service_status, folder), None),
            load=self._value_or(partial(published_json.read_published_load_values, folder), None),
            clusters=self._clusters(),
            drained=self._value_or(partial(drains.read_cluster_drains, folder), {}),
            breakers={breaker.cluster: breaker for breaker in breakers.breakers} if breakers else {},
            transfers=self._value_or(partial(published_json.read_published_transfers, folder), ()),
        )

    def _clusters(self) -> dict[str, PublishedClusterAnswer]:
        paths = self._value_or(partial(published_json.list_published_cluster_files, self._folder), ())
        read = (
            self._value_or(partial(published_json.read_published_value, path, PublishedClusterAnswer), None)
            for path in paths
        )
        return {answer.cluster: answer for answer in read if answer}

    def _ends(self, campaign: PublishedCampaign) -> tuple[CampaignTaskEndCounts, ...]:
        return self._value_or(partial(campaign_client.task_end_times_and_clusters, campaign, self._folder), ())

    def _value_or(self, read: Callable[[], Value], otherwise: Default) -> Value | Default:
        try:
            return read()
        except (GridbridgeError, OSError) as error:
            self._troubles.append(str(error))
            return otherwise


def _campaigns_with_curves(campaigns: tuple[PublishedCampaign, ...]) -> tuple[PublishedCampaign, ...]:
    return tuple(campaign for campaign in campaigns_on_page(campaigns) if campaign.state.is_alive)[:MOST_CURVES]


def render_site_page(page: SitePage) -> str:
    """Return the page as one HTML file; every text is escaped, and the page may load and run nothing.

    Control characters are replaced, because some reverse the direction of the text around them.
    """
    environment = Environment(
        loader=PackageLoader("gridbridge.site", "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: replace_control_characters(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = environment.get_template(STYLE).render()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return environment.get_template(TEMPLATE).render(page=page, style_digest=digest)


def write_site_page(html: str, folder: str) -> None:
    """Replace the page in a folder; raise StateError for a missing or unwritable folder."""
    if not os.path.isdir(folder):
        raise StateError(f"{folder}: no such folder; expected a folder that this account may write")
    safe_files.replace_file_atomically(f"{os.path.abspath(folder)}/{NAME}", html.encode(), durable=False)
