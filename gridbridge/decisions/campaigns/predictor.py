"""The predictor's step of a cycle, right after the updator: a job ratio a campaign and cluster.

(CiGri scheduler specification, steps 7 and 8, placed as its note on step 7 says.)
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from gridbridge.decisions.campaigns.failures.event_rules import BEGAN
from gridbridge.decisions.campaigns.free_slots import FreeSlots
from gridbridge.decisions.campaigns.job_ratio_predictor import (
    allowed_to_wait,
    first_ratio,
    is_learnt,
    next_ratio,
    wide_may_wait,
)
from gridbridge.model.campaigns.campaign import Campaign, CampaignState, clusters_of
from gridbridge.model.campaigns.cycle_plan import (
    ClusterRoom,
    ClusterView,
    CycleSituation,
    TaskSend,
)
from gridbridge.model.campaigns.jdl import AtCluster, CampaignType
from gridbridge.model.campaigns.job_ratio import (
    JobRatio,
    JobRatioPrediction,
    JobRatioRule,
    RatioTerms,
)
from gridbridge.model.status_report import count

Pair = tuple[int, str]  # a campaign and a cluster
NONE = ClusterView(campaign=0, cluster="", waiting=0, listed=0)


def predict(seen: CycleSituation) -> dict[Pair, JobRatioPrediction]:
    """Return the ratio of each campaign with tasks to send at each cluster of its that answered.

    Tests have none: a cluster gets one task of them.
    """
    looked = _Looked(seen)
    return {
        (campaign.number, cluster): looked.predict((campaign.number, cluster), wish)
        for campaign in seen.campaigns
        if _is_sent(campaign, seen)
        for cluster, wish in campaign.jdl.clusters.items()
        if cluster in seen.room
    }


def _is_sent(campaign: Campaign, seen: CycleSituation) -> bool:
    is_usual = campaign.jdl.type is not CampaignType.TEST
    is_going = campaign.state is CampaignState.IN_TREATMENT
    return is_usual and is_going and campaign.number in seen.waiting


def kept(
    predicted: Mapping[Pair, JobRatioPrediction],
    before: Iterable[JobRatio],
    sends: Iterable[TaskSend],
) -> tuple[JobRatioPrediction, ...]:
    """Return what has to be kept for the next cycle: what was used, or has changed."""
    sent = {(one.campaign, one.cluster): one.tasks for one in sends}
    known = {(one.campaign, one.cluster): one for one in before}
    return tuple(
        replace(one, submitted=one.submitted + sent[pair]) if pair in sent else one
        for pair, one in predicted.items()
        if pair in sent or (pair in known and _differs(one, known[pair]))
    )


def sentences(predicted: Iterable[JobRatioPrediction]) -> list[str]:
    """Tell each ratio that changed, with the numbers that led to it."""
    return [
        f"campaign {one.campaign} at {one.cluster}: job ratio {one.terms.old:.3g} -> "
        f"{one.ratio:.3g} ({one.law}: {count(one.terms.free, 'slot')} free, "
        f"{one.terms.submitted} sent, {one.terms.running} run, {one.terms.waiting} wait, "
        f"{one.terms.allowed} may)"
        for one in predicted
        if one.ratio != one.terms.old
    ]


class _Looked:
    """What a cycle sees of tasks at the clusters, by campaign and cluster."""

    def __init__(self, seen: CycleSituation) -> None:
        self._seen = seen
        self._free = FreeSlots(seen.room)
        self._kept = {(one.campaign, one.cluster): one for one in seen.ratios}
        self._there = {(one.campaign, one.cluster): one for one in seen.there}
        self._settled: Counter[str] = Counter()
        tests = seen.tests
        for one in seen.there:
            if one.campaign not in tests:
                self._settled[one.cluster] += one.able - one.fresh
        where = clusters_of(seen.arrays)
        self._ended = Counter(
            (one.campaign, where.get((one.campaign, one.array), ""))
            for one in seen.ended
            if one.outcome in BEGAN
        )

    def predict(self, pair: Pair, wish: AtCluster) -> JobRatioPrediction:
        """Return a campaign's ratio at a cluster."""
        room, before = self._seen.room[pair[1]], self._kept.get(pair)
        terms = self._terms(pair, wish, room, before)
        return JobRatioPrediction(
            campaign=pair[0],
            cluster=pair[1],
            law=room.law,
            terms=terms,
            ratio=next_ratio(room.law, terms) if before else terms.old,
            submitted=0 if is_learnt(terms) else terms.submitted,
        )

    def _terms(
        self, pair: Pair, wish: AtCluster, room: ClusterRoom, before: JobRatio | None
    ) -> RatioTerms:
        there = self._there.get(pair, NONE)
        slots = (
            there.slots if room.law is JobRatioRule.MEASURED and there.slots else float(wish.slots)
        )
        waiting = there.able - there.fresh
        others = self._settled[pair[1]] - waiting
        return RatioTerms(
            old=before.ratio if before else first_ratio(room.law, slots, room.max_slots),
            slots=slots,
            max_slots=room.max_slots,
            free=self._free.of(pair[1], wish),
            submitted=before.submitted if before else 0,
            running=there.listed - there.waiting,
            waiting=waiting,
            allowed=_allowed(wish, room, others),
            fresh=there.fresh,
            others=others,
            ended=self._ended[pair],
            is_wiped=pair in self._seen.wiped,
        )


def _allowed(wish: AtCluster, room: ClusterRoom, others: int) -> int:
    """Return how many tasks of a campaign may wait; `measured` counts what others let wait, too."""
    all_may = allowed_to_wait(room.max_slots, room.flood_rate)
    left = max(0, all_may - others) if room.law is JobRatioRule.MEASURED else all_may
    return max(left, int(wide_may_wait(room.max_slots, room.flood_rate, wish.slots)))


def _differs(one: JobRatioPrediction, before: JobRatio) -> bool:
    return (one.ratio, one.submitted) != (before.ratio, before.submitted)
