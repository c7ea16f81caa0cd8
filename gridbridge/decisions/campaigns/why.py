"""Why each campaign that has tasks to send sent so many or none, from the rows of the decision.

It looks at what the decision looked at, so that its numbers are those of that moment.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gridbridge.decisions.campaigns.slots import FreeSlots
from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.jdl import AtCluster, Type
from gridbridge.model.campaigns.plan import Plan, Seen, There
from gridbridge.model.campaigns.reasons import Cause, Reason

Sent = Mapping[tuple[int, str], int]


def reasons(seen: Seen, plan: Plan) -> tuple[Reason, ...]:
    """Return a reason for each cluster of each campaign that has tasks left."""
    there = {(one.campaign, one.cluster): one for one in seen.there}
    sent = {(one.campaign, one.cluster): one.tasks for one in plan.sends}
    whose = (
        (campaign, cluster, wish)
        for campaign in _with_tasks(seen)
        for cluster, wish in campaign.jdl.clusters.items()
    )
    return tuple(
        _judged(
            _known((one.number, name), wish, there.get((one.number, name)), sent, seen), one, seen
        )
        for one, name, wish in whose
    )


def _with_tasks(seen: Seen) -> Iterator[Campaign]:
    for one in seen.campaigns:
        if one.state is CampaignState.IN_TREATMENT and seen.waiting.get(one.number):
            yield one


def _known(
    whose: tuple[int, str], wish: AtCluster, there: There | None, sent: Sent, seen: Seen
) -> Reason:
    room = seen.room.get(whose[1])
    free = max(0, FreeSlots(seen.room).of(whose[1], wish))
    return Reason(
        campaign=whose[0],
        cluster=whose[1],
        cause=Cause.SENT if room else Cause.NO_ANSWER,
        sent=sent.get(whose, 0),
        free_slots=free,
        slots=wish.slots,
        listed=there.listed if there else 0,
        waiting=there.waiting if there else 0,
        max_jobs=wish.max_jobs,
    )


def _judged(known: Reason, campaign: Campaign, seen: Seen) -> Reason:
    if known.cause is Cause.NO_ANSWER:
        return known
    return replace(known, cause=_cause(known, campaign, seen))


def _cause(known: Reason, campaign: Campaign, seen: Seen) -> Cause:
    if known.sent:
        return Cause.SENT
    if campaign.jdl.type is Type.TEST and known.cluster in seen.tried.get(campaign.number, ()):
        return Cause.TRIED
    if known.max_jobs and known.listed >= known.max_jobs:
        return Cause.MAX_JOBS
    return Cause.FULL if known.free_slots < known.slots else Cause.OTHERS_FIRST
