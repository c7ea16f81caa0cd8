"""The predictor's step of a cycle, right after the updator: a job ratio a campaign and cluster.

(CiGri scheduler specification, steps 7 and 8, placed as its note on step 7 says.)
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gridbridge.decisions.campaigns.jobratio import (
    allowed_to_wait,
    first_ratio,
    is_learnt,
    next_ratio,
    wide_may_wait,
)
from gridbridge.decisions.campaigns.slots import FreeSlots
from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.jdl import AtCluster, Type
from gridbridge.model.campaigns.jobratio import Law, Prediction, Ratio, Terms
from gridbridge.model.campaigns.plan import Room, Seen, Send, There

Pair = tuple[int, str]  # a campaign and a cluster
NONE = There(campaign=0, cluster="", waiting=0, listed=0)


def predict(seen: Seen) -> dict[Pair, Prediction]:
    """Return the ratio of each campaign with tasks to send at each cluster of its that answered.

    Tests have none: a cluster gets one task of them.
    """
    free = FreeSlots(seen.room)
    there = {(one.campaign, one.cluster): one for one in seen.there}
    kept = {(one.campaign, one.cluster): one for one in seen.ratios}
    return {
        (campaign.number, cluster): _predict(
            (campaign.number, cluster),
            wish,
            seen.room[cluster],
            free.of(cluster, wish),
            there.get((campaign.number, cluster), NONE),
            kept.get((campaign.number, cluster)),
        )
        for campaign in seen.campaigns
        if _is_sent(campaign, seen)
        for cluster, wish in campaign.jdl.clusters.items()
        if cluster in seen.room
    }


def _is_sent(campaign: Campaign, seen: Seen) -> bool:
    is_usual = campaign.jdl.type is not Type.TEST
    is_going = campaign.state is CampaignState.IN_TREATMENT
    return is_usual and is_going and campaign.number in seen.waiting


def kept(
    predicted: Mapping[Pair, Prediction], before: Iterable[Ratio], sends: Iterable[Send]
) -> tuple[Prediction, ...]:
    """Return what has to be kept for the next cycle: what was used, or has changed."""
    sent = {(one.campaign, one.cluster): one.tasks for one in sends}
    known = {(one.campaign, one.cluster): one for one in before}
    return tuple(
        replace(one, submitted=one.submitted + sent[pair]) if pair in sent else one
        for pair, one in predicted.items()
        if pair in sent or (pair in known and _differs(one, known[pair]))
    )


def sentences(predicted: Iterable[Prediction]) -> list[str]:
    """Tell each ratio that changed, with the numbers that led to it."""
    return [
        f"campaign {one.campaign} at {one.cluster}: job ratio {one.terms.old:.3g} -> "
        f"{one.ratio:.3g} ({one.law}: {one.terms.free} slots free, {one.terms.submitted} sent, "
        f"{one.terms.running} run, {one.terms.waiting} wait, {one.terms.allowed} may)"
        for one in predicted
        if one.ratio != one.terms.old
    ]


def _predict(
    pair: Pair, wish: AtCluster, room: Room, free: int, there: There, before: Ratio | None
) -> Prediction:
    is_measured = room.law is Law.MEASURED and there.slots > 0
    slots = there.slots if is_measured else float(wish.slots)
    may_wait = allowed_to_wait(room.max_slots, room.flood_rate)
    may_wide = wide_may_wait(room.max_slots, room.flood_rate, wish.slots)
    terms = Terms(
        old=before.ratio if before else first_ratio(room.law, slots, room.max_slots),
        slots=slots,
        max_slots=room.max_slots,
        free=free,
        submitted=before.submitted if before else 0,
        running=there.listed - there.waiting,
        waiting=there.waiting - there.fresh,
        allowed=max(may_wait, int(may_wide)),
        fresh=there.fresh,
    )
    return Prediction(
        campaign=pair[0],
        cluster=pair[1],
        law=room.law,
        terms=terms,
        ratio=next_ratio(room.law, terms) if before else terms.old,
        submitted=0 if is_learnt(terms) else terms.submitted,
    )


def _differs(one: Prediction, before: Ratio) -> bool:
    return (one.ratio, one.submitted) != (before.ratio, before.submitted)
