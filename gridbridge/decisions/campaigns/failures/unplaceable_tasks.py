"""Which campaigns have tasks that may go nowhere, so that their owners are told.

A cluster that is away for a moment, or under stress, settles nothing: it may take them later.
"""

from collections.abc import Mapping

from gridbridge.decisions.campaigns.backlog import kinds
from gridbridge.decisions.campaigns.failures.blacklist import BlacklistEntry, Pair
from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.cycle_plan import CycleSituation


def is_stuck(
    campaign: Campaign, situation: CycleSituation, barred: Mapping[Pair, BlacklistEntry]
) -> bool | None:
    """Say whether tasks wait that none of their clusters takes; None: that is not known now."""
    if campaign.state is not CampaignState.IN_TREATMENT or not situation.waiting.get(
        campaign.number
    ):
        return False
    waiting = [kind for kind, tasks in kinds(situation, campaign.number).items() if tasks]
    clusters = campaign.jdl.clusters.keys()
    closed = {name for name in clusters if _is_closed(campaign, name, situation, barred)}
    taking = {name for name in clusters - closed if _takes(campaign, name, situation)}
    if any(clusters <= closed | {*kind.never} for kind in waiting):
        return True
    return False if all(taking.difference(kind.never) for kind in waiting) else None


def _is_closed(
    campaign: Campaign, name: str, situation: CycleSituation, barred: Mapping[Pair, BlacklistEntry]
) -> bool:
    """Say whether a cluster takes nothing of a campaign until somebody does something."""
    if (campaign.number, name) in barred:
        return True
    room = situation.room.get(name)
    slots = campaign.jdl.clusters[name].slots
    return room is not None and (room.is_drained or room.is_too_small(slots))


def _takes(campaign: Campaign, name: str, situation: CycleSituation) -> bool:
    room = situation.room.get(name)
    return room is not None and room.may_start(campaign.jdl.clusters[name].slots)
