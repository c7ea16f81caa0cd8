"""What everybody may see of campaigns: their states and numbers, never their parameters."""

from dataclasses import dataclass
from datetime import datetime

from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.jdl import Type


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCampaign:
    """One campaign."""

    number: int
    name: str
    owner: str
    submitted_at: datetime
    type: Type
    state: CampaignState
    clusters: tuple[str, ...]
    tasks: int
    ended: int  # for good
    failed: int  # of those
    waiting: int = 0  # not sent, or to be sent again


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCampaigns:
    """All of them, by number."""

    at: datetime
    campaigns: tuple[ShownCampaign, ...] = ()
