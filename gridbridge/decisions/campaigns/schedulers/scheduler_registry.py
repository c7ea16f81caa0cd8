"""Which scheduler a campaign has: a new one has its line here."""

from collections.abc import Mapping

from gridbridge.decisions.campaigns.schedulers import speculative, test_campaigns, workqueue
from gridbridge.decisions.campaigns.schedulers.scheduler_protocol import Scheduler, TailScheduler
from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.campaigns.jdl import CampaignType

BY_TYPE: Mapping[CampaignType, Scheduler] = {
    CampaignType.TEST: test_campaigns,
    CampaignType.DEFAULT: workqueue,
}
AT_THE_END: Mapping[CampaignType, TailScheduler] = {
    CampaignType.DEFAULT: speculative
}  # others have no copies


def scheduler_of(campaign: Campaign) -> Scheduler:
    """Return the scheduler of a campaign."""
    return BY_TYPE[campaign.jdl.type]


def finalizer_of(campaign: Campaign) -> TailScheduler | None:
    """Return what copies a campaign's tasks at its end; None where nothing does."""
    return AT_THE_END.get(campaign.jdl.type) if campaign.jdl.may_be_copied else None
