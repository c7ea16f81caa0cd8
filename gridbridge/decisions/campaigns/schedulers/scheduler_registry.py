"""The scheduler of each campaign type; a new scheduler is registered in this module."""

from collections.abc import Mapping

from gridbridge.decisions.campaigns.schedulers import speculative, test_campaigns, workqueue
from gridbridge.decisions.campaigns.schedulers.scheduler_protocol import CampaignScheduler, SpeculationScheduler
from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.campaigns.jdl import CampaignType

BY_TYPE: Mapping[CampaignType, CampaignScheduler] = {CampaignType.TEST: test_campaigns, CampaignType.DEFAULT: workqueue}
AT_THE_END: Mapping[CampaignType, SpeculationScheduler] = {
    CampaignType.DEFAULT: speculative
}  # campaigns of other types get no speculative attempts


def scheduler_of_campaign(campaign: Campaign) -> CampaignScheduler:
    """Return the scheduler module of a campaign's type."""
    return BY_TYPE[campaign.jdl.type]


def speculation_scheduler_of(campaign: Campaign) -> SpeculationScheduler | None:
    """Return the module that chooses a campaign's speculative attempts; None for no speculation."""
    return AT_THE_END.get(campaign.jdl.type) if campaign.jdl.may_be_copied else None
