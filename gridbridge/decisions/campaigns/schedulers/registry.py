"""Which scheduler a campaign has: a new one has its line here."""

from collections.abc import Mapping

from gridbridge.decisions.campaigns.schedulers import test, workqueue
from gridbridge.decisions.campaigns.schedulers.protocol import Scheduler
from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.campaigns.jdl import Type

BY_TYPE: Mapping[Type, Scheduler] = {Type.TEST: test, Type.DEFAULT: workqueue}


def scheduler_of(campaign: Campaign) -> Scheduler:
    """Return the scheduler of a campaign."""
    return BY_TYPE[campaign.jdl.type]
