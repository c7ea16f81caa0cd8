"""What the page of `gridbridge page` shows: the published values as read, and the rows made from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gridbridge.model.campaigns.campaign_events import CampaignEvent
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    CampaignTaskEndCounts,
    PublishedCampaign,
    PublishedClusterSlots,
)
from gridbridge.model.elastic.published_balance import PublishedBalancerFigures, PublishedNodeHistory
from gridbridge.model.published_status_and_reports import PublishedFilesSnapshot
from gridbridge.model.rebalance.published_rebalance_rounds import PublishedStorageAreas


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSite:
    """Everything published at one moment; a file that is missing or unreadable is left out."""

    status: PublishedFilesSnapshot = field(default_factory=PublishedFilesSnapshot)
    cycle_at: datetime | None = None  # last cycle of the campaign runner
    campaigns: tuple[PublishedCampaign, ...] = ()
    ends: Mapping[int, tuple[CampaignTaskEndCounts, ...]] = field(default_factory=dict)  # by number of campaign
    slots: tuple[PublishedClusterSlots, ...] = ()
    events: tuple[CampaignEvent, ...] = ()
    balance: PublishedBalancerFigures | None = None
    nodes: PublishedNodeHistory | None = None
    areas: PublishedStorageAreas | None = None
    late: tuple[str, ...] = ()  # sentences about rebalancing rounds that are late or paused
    troubles: tuple[str, ...] = ()  # errors of published files that could not be read


class PageTone(StrEnum):
    """How urgent a state is; each value is a class of the style sheet."""

    GOOD = "good"
    BUSY = "busy"
    WARNING = "warning"
    BAD = "bad"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageBadge:
    tone: PageTone
    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageBarPart:
    kind: str  # a class of the style sheet
    start: float  # percent of the bar
    width: float  # percent of the bar


PageBar = tuple[PageBarPart, ...]  # the parts side by side; what they leave of the bar is the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTile:
    anchor: str
    title: str
    figure: str
    note: str
    tone: PageTone


@dataclass(frozen=True, slots=True, kw_only=True)
class PageClusterRow:
    name: str
    role: str
    badge: PageBadge
    bar: PageBar | None
    slots: str
    tasks: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageQueueRow:
    name: str
    cluster: str
    badge: PageBadge
    bar: PageBar | None
    slots: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTransferRow:
    job: str
    queue: str
    cluster: str
    badge: PageBadge
    since: str
    waits_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCurve:
    """Ended tasks over time, as paths in a box of 100 by 100 with the origin at the top left."""

    area: str
    line: str
    forecast: str  # empty: no forecast
    begin: str
    end: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCampaignRow:
    number: int
    name: str
    owner: str
    badge: PageBadge
    bar: PageBar | None
    percent: int
    tasks: str
    forecast: str
    clusters: str
    notes: tuple[str, ...]
    curve: PageCurve | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageChart:
    """A figure over the last days, as paths in a box of 100 by 100 with the origin at the top left."""

    title: str
    kind: str  # a class of the style sheet
    areas: tuple[str, ...]  # one path for each span without a gap
    lines: tuple[str, ...]
    most: int  # value at the top of the box
    now: int
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageDay:
    start: float  # percent of the chart's width
    middle: float
    weekday: str  # empty: the day is too narrow for a name
    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageNodes:
    charts: tuple[PageChart, ...] = ()
    days: tuple[PageDay, ...] = ()
    pools: tuple[tuple[str, str], ...] = ()  # name of a pool, and its nodes in words
    sentence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStorageRow:
    name: str
    clusters: str
    badge: PageBadge
    bar: PageBar | None
    room: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEventRow:
    number: int
    code: str
    subject: str
    text: str
    since: str
    badge: PageBadge


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePage:
    """The whole page; each `more_` counts the rows that are left out."""

    home: str
    version: str
    made_at: datetime
    notices: tuple[str, ...]
    tiles: tuple[PageTile, ...]
    clusters: tuple[PageClusterRow, ...]
    queues: tuple[PageQueueRow, ...]
    transfer_counts: tuple[tuple[PageBadge, int], ...]
    transfers: tuple[PageTransferRow, ...]
    more_transfers: int
    campaigns: tuple[PageCampaignRow, ...]
    more_campaigns: int
    nodes: PageNodes | None
    areas: tuple[PageStorageRow, ...]
    areas_measured: str
    events: tuple[PageEventRow, ...]
    more_events: int
