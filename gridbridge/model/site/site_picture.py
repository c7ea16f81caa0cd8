"""What `gridbridge top` shows: a picture of the site, and tables made from the picture."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaign
from gridbridge.model.published_status_and_reports import SiteStatusReport

SortValue = int | float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInPicture:
    """A cluster's slots and work; None stands for an unknown number."""

    name: str
    answers: bool
    slots: int | None = None
    used: int | None = None
    free: int | None = None
    waiting: int | None = None  # number of waiting tasks of all users that may start
    jobs: int = 0  # number of open transfers to the cluster
    tasks_running: int = 0  # number of running campaign tasks
    tasks_waiting: int = 0  # number of campaign tasks in the cluster's queues
    reason: str = ""  # most important reason why the cluster gets no new jobs and tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePicture:
    """Clusters, open transfers and campaigns, as published for all users at one moment."""

    read_at: datetime
    published_at: datetime | None = None  # when the poller last published; None: never
    home: str = ""  # home cluster
    status: SiteStatusReport
    clusters: tuple[ClusterInPicture, ...] = ()
    campaigns: tuple[PublishedCampaign, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastGoodPicture:
    """The newest complete picture, and the trouble that a later reading met."""

    picture: SitePicture | None = None
    trouble: str = ""  # why the published files can't be read now; empty: they can


class PictureTable(StrEnum):
    JOBS = "jobs"
    CAMPAIGNS = "campaigns"
    CLUSTERS = "clusters"


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureColumn:
    title: str
    rank: int  # a narrow screen leaves out the columns with the highest ranks
    is_number: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureRow:
    """A row of a table; `cells` and `sort_values` have the order of the table's columns."""

    key: str  # job, campaign or cluster; the key of a part also has the part's cluster
    cells: tuple[str, ...]
    sort_values: tuple[SortValue, ...]
    user: str = ""  # owner; empty: nobody's
    clusters: frozenset[str] = frozenset()
    campaign: int | None = None
    mood: str = ""  # ok, note, warning or broken; chooses the colour
    parts: tuple["PictureRow", ...] = ()  # a campaign's rows at its clusters


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureChoice:
    """Which rows a table shows, and in which order."""

    user: str = ""  # login name or pattern such as a*; empty: everybody
    cluster: str = ""
    campaign: int | None = None
    text: str = ""  # shown rows contain this text, in any case of letters
    sort_titles: dict[PictureTable, str] = field(default_factory=dict)  # column by which a table is sorted
    is_reversed: bool = False
    has_parts: bool = False  # whether each campaign is followed by its rows at clusters
