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


def predict(situation: CycleSituation) -> dict[Pair, JobRatioPrediction]:
    """Return the ratio of each campaign with tasks to send at each cluster of its that answered.

    Tests have none: a cluster gets one task of them.
    """
    looked = _Looked(situation)
    return {
        (campaign.number, cluster): looked.predict((campaign.number, cluster), request)
        for campaign in situation.campaigns
        if _is_sent(campaign, situation)
        for cluster, request in campaign.jdl.clusters.items()
        if cluster in situation.room
    }


def _is_sent(campaign: Campaign, situation: CycleSituation) -> bool:
    is_usual = campaign.jdl.type is not CampaignType.TEST
    is_going = campaign.state is CampaignState.IN_TREATMENT
    return is_usual and is_going and campaign.number in situation.waiting


def changed_ratios(
    predicted: Mapping[Pair, JobRatioPrediction],
    before: Iterable[JobRatio],
    sends: Iterable[TaskSend],
) -> tuple[JobRatioPrediction, ...]:
    """Return what has to be kept for the next cycle: what was used, or has changed."""
    sent = {(send.campaign, send.cluster): send.tasks for send in sends}
    previous = {(ratio.campaign, ratio.cluster): ratio for ratio in before}
    return tuple(
        replace(prediction, submitted=prediction.submitted + sent[pair])
        if pair in sent
        else prediction
        for pair, prediction in predicted.items()
        if pair in sent or (pair in previous and _differs(prediction, previous[pair]))
    )


def sentences(predicted: Iterable[JobRatioPrediction]) -> list[str]:
    """Tell each ratio that changed, with the numbers that led to it."""
    return [
        f"campaign {prediction.campaign} at {prediction.cluster}: job ratio "
        f"{prediction.terms.old:.3g} -> {prediction.ratio:.3g} ({prediction.law}: "
        f"{count(prediction.terms.free, 'slot')} free, {prediction.terms.submitted} sent, "
        f"{prediction.terms.running} run, {prediction.terms.waiting} wait, "
        f"{prediction.terms.allowed} may)"
        for prediction in predicted
        if prediction.ratio != prediction.terms.old
    ]


class _Looked:
    """What a cycle sees of tasks at the clusters, by campaign and cluster."""

    def __init__(self, situation: CycleSituation) -> None:
        self._situation = situation
        self._free = FreeSlots(situation.room)
        self._ratios = {(ratio.campaign, ratio.cluster): ratio for ratio in situation.ratios}
        self._views = {(view.campaign, view.cluster): view for view in situation.there}
        self._settled: Counter[str] = Counter()
        tests = situation.tests
        for view in situation.there:
            if view.campaign not in tests:
                self._settled[view.cluster] += view.able - view.fresh
        where = clusters_of(situation.arrays)
        self._ended = Counter(
            (attempt.campaign, where.get((attempt.campaign, attempt.array), ""))
            for attempt in situation.ended
            if attempt.outcome in BEGAN
        )

    def predict(self, pair: Pair, request: AtCluster) -> JobRatioPrediction:
        """Return a campaign's ratio at a cluster."""
        room, before = self._situation.room[pair[1]], self._ratios.get(pair)
        terms = self._terms(pair, request, room, before)
        return JobRatioPrediction(
            campaign=pair[0],
            cluster=pair[1],
            law=room.law,
            terms=terms,
            ratio=next_ratio(room.law, terms) if before else terms.old,
            submitted=0 if is_learnt(terms) else terms.submitted,
        )

    def _terms(
        self, pair: Pair, request: AtCluster, room: ClusterRoom, before: JobRatio | None
    ) -> RatioTerms:
        view = self._views.get(pair, NONE)
        slots = (
            view.slots if room.law is JobRatioRule.MEASURED and view.slots else float(request.slots)
        )
        waiting = view.able - view.fresh
        waiting_of_others = self._settled[pair[1]] - waiting
        return RatioTerms(
            old=before.ratio if before else first_ratio(room.law, slots, room.max_slots),
            slots=slots,
            max_slots=room.max_slots,
            free=self._free.of(pair[1], request),
            submitted=before.submitted if before else 0,
            running=view.listed - view.waiting,
            waiting=waiting,
            allowed=_allowed(request, room, waiting_of_others),
            fresh=view.fresh,
            others=waiting_of_others,
            ended=self._ended[pair],
            is_wiped=pair in self._situation.wiped,
        )


def _allowed(request: AtCluster, room: ClusterRoom, waiting_of_others: int) -> int:
    """Return how many tasks of a campaign may wait; `measured` counts what others let wait, too."""
    all_may = allowed_to_wait(room.max_slots, room.flood_rate)
    most = max(0, all_may - waiting_of_others) if room.law is JobRatioRule.MEASURED else all_may
    return max(most, int(wide_may_wait(room.max_slots, room.flood_rate, request.slots)))


def _differs(prediction: JobRatioPrediction, before: JobRatio) -> bool:
    return (prediction.ratio, prediction.submitted) != (before.ratio, before.submitted)
