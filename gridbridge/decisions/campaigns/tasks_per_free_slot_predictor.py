"""Predict job ratios: the number of a campaign's tasks that a cluster gets for each free slot.

The CiGri scheduler specification has three laws: slow-start, two-way adaptive, and adaptive-down with
exponential-up. The law `measured` is gridbridge's own. The job ratios follow from counts of sent, waiting and
running tasks (steps 7 and 8 of the specification).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import floor

from gridbridge.decisions.campaigns.cluster_blacklist_and_successes import STARTED_OUTCOMES
from gridbridge.decisions.campaigns.remaining_cluster_capacity import (
    ROUNDING,
    FreeClusterSlots,
    max_waiting_tasks,
    may_multislot_task_wait,
)
from gridbridge.model.campaigns.campaign import Campaign, CampaignCluster, CampaignState, map_arrays_to_clusters
from gridbridge.model.campaigns.campaign_sections import JobRatioRule
from gridbridge.model.campaigns.cycle_plan import (
    CampaignCycleSituation,
    ClusterCapacityForCampaigns,
    JobRatio,
    JobRatioInputs,
    JobRatioUpdate,
    ListedCampaignTaskCounts,
    PlannedCampaignTaskSend,
)
from gridbridge.model.campaigns.jdl import CampaignType, JdlClusterSettings
from gridbridge.model.published_status_and_reports import number_with_noun

MAX_RATIO = 4.0  # in tasks per free slot; CiGri's specification has no limit
RATIO_STEP = 0.25  # step of the law `measured`, in tasks per free slot

RatioChange = Callable[[float, JobRatioInputs], float]


def initial_job_ratio(law: JobRatioRule, slots: float, max_slots: int) -> float:
    """Return a campaign's first job ratio at a cluster, for one task or for all tasks that fit."""
    return 1 / max(1, max_slots, slots) if law is JobRatioRule.SLOW_START else 1 / slots


def next_job_ratio(law: JobRatioRule, terms: JobRatioInputs) -> float:
    """Return the next job ratio of a campaign at a cluster.

    The ratio decreases if too many tasks wait. The ratio increases only when all sent tasks have had time to start.
    """
    old = terms.old * terms.slots
    if terms.waiting > terms.allowed:
        new = DECREASES[law](old, terms)
    else:
        new = old if terms.fresh else INCREASES[law](old, terms)
    low = 0.0 if law is JobRatioRule.TWO_WAY else _one_a_cluster(terms)
    high = 1.0 if law is JobRatioRule.MEASURED else MAX_RATIO
    return max(low, min(high, new)) / terms.slots


def is_known_if_sent_tasks_start(terms: JobRatioInputs) -> bool:
    """Say whether all tasks that were sent last have had time to start, or too many tasks wait."""
    return terms.waiting > terms.allowed or not terms.fresh


def count_tasks_by_job_ratio(ratio: float, free_slots: int, slots: float) -> int:
    """Return how many tasks the job ratio allows for free slots: at least one task if one task fits.

    A job ratio of 0 sends no task.
    """
    if ratio <= 0 or free_slots < slots:
        return 0
    return max(1, floor(ratio * free_slots + ROUNDING))


def _one_a_cluster(terms: JobRatioInputs) -> float:
    return min(1.0, terms.slots / max(1, terms.max_slots))


def _kept_share(terms: JobRatioInputs) -> float:
    """Return (S - E) / S for S submitted tasks, of which E tasks wait above the allowed number."""
    if not terms.submitted:
        return 0.0
    excess = terms.waiting - terms.allowed
    return max(0.0, (terms.submitted - excess) / terms.submitted)


def _nearly_nothing(_: float, terms: JobRatioInputs) -> float:
    return _one_a_cluster(terms)


def _adapted(_: float, terms: JobRatioInputs) -> float:
    return _kept_share(terms)


def _in_proportion(old: float, terms: JobRatioInputs) -> float:
    return old * _kept_share(terms) if terms.submitted else old


def _doubled(old: float, terms: JobRatioInputs) -> float:
    return 2 * max(old, _one_a_cluster(terms)) if terms.submitted else old


def _by_those_that_run(old: float, terms: JobRatioInputs) -> float:
    """Return how many submitted tasks there are for each running task.

    Ended tasks have freed slots for more tasks. Running tasks that were submitted earlier are left out.
    """
    if old == 0:
        return 1.0
    if not terms.submitted:
        return old
    running = min(terms.running, terms.submitted)
    return terms.submitted / running if running else 2 * old


def _one_step_up(old: float, terms: JobRatioInputs) -> float:
    """Return the next higher job ratio if a slot is free and tasks start, else the old job ratio.

    The ratio stays the same while tasks of any campaign wait although slots look free, or while nikita deletes waiting
    tasks: more tasks would only be sent and deleted in turn.
    """
    does_begin = terms.running or terms.ended
    is_held = terms.waiting or terms.others or terms.is_wiped
    return old + RATIO_STEP if terms.free and does_begin and not is_held else old


DECREASES: Mapping[JobRatioRule, RatioChange] = {
    JobRatioRule.MEASURED: _in_proportion,
    JobRatioRule.SLOW_START: _nearly_nothing,
    JobRatioRule.TWO_WAY: _adapted,
    JobRatioRule.ADAPTIVE: _adapted,
}
INCREASES: Mapping[JobRatioRule, RatioChange] = {
    JobRatioRule.MEASURED: _one_step_up,
    JobRatioRule.SLOW_START: _doubled,
    JobRatioRule.TWO_WAY: _by_those_that_run,
    JobRatioRule.ADAPTIVE: _doubled,
}


NO_LISTED_TASKS = ListedCampaignTaskCounts(campaign=0, cluster="", waiting=0, listed=0)


def predict_job_ratios(situation: CampaignCycleSituation) -> dict[CampaignCluster, JobRatioUpdate]:
    """Return the job ratio of each campaign with unsent tasks at each cluster that answered.

    Test campaigns have no job ratio, since they send one task to each cluster.
    """
    looked = _CyclePredictor(situation)
    return {
        (campaign.number, cluster): looked.predict((campaign.number, cluster), request)
        for campaign in situation.campaigns
        if _is_sent(campaign, situation)
        for cluster, request in campaign.jdl.clusters.items()
        if cluster in situation.room
    }


def _is_sent(campaign: Campaign, situation: CampaignCycleSituation) -> bool:
    is_usual = campaign.jdl.type is not CampaignType.TEST
    is_going = campaign.state is CampaignState.IN_TREATMENT
    return is_usual and is_going and campaign.number in situation.waiting


def select_changed_ratios(
    predicted: Mapping[CampaignCluster, JobRatioUpdate],
    before: Iterable[JobRatio],
    sends: Iterable[PlannedCampaignTaskSend],
) -> tuple[JobRatioUpdate, ...]:
    """Return the job ratios that the state file must store: ratios that were used or have changed."""
    sent = {(send.campaign, send.cluster): send.tasks for send in sends}
    previous = {(ratio.campaign, ratio.cluster): ratio for ratio in before}
    return tuple(
        replace(prediction, submitted=prediction.submitted + sent[pair]) if pair in sent else prediction
        for pair, prediction in predicted.items()
        if pair in sent or (pair in previous and _differs(prediction, previous[pair]))
    )


def describe_job_ratio_changes(predicted: Iterable[JobRatioUpdate]) -> list[str]:
    """Describe each changed job ratio, with the numbers that led to the change."""
    return [
        f"campaign {prediction.campaign} at {prediction.cluster}: job ratio "
        f"{prediction.terms.old:.3g} -> {prediction.ratio:.3g} ({prediction.law}: "
        f"{number_with_noun(prediction.terms.free, 'slot')} free, {prediction.terms.submitted} sent, "
        f"{prediction.terms.running} run, {prediction.terms.waiting} wait, "
        f"{prediction.terms.allowed} may wait)"
        for prediction in predicted
        if prediction.ratio != prediction.terms.old
    ]


class _CyclePredictor:
    def __init__(self, situation: CampaignCycleSituation) -> None:
        self._situation = situation
        self._free = FreeClusterSlots(situation.room)
        self._ratios = {(ratio.campaign, ratio.cluster): ratio for ratio in situation.ratios}
        self._views = {(view.campaign, view.cluster): view for view in situation.there}
        self._settled: Counter[str] = Counter()
        tests = situation.tests
        for view in situation.there:
            if view.campaign not in tests:
                self._settled[view.cluster] += view.able - view.fresh
        where = map_arrays_to_clusters(situation.arrays)
        self._ended = Counter(
            (attempt.campaign, where.get((attempt.campaign, attempt.array), ""))
            for attempt in situation.ended
            if attempt.outcome in STARTED_OUTCOMES
        )

    def predict(self, pair: CampaignCluster, request: JdlClusterSettings) -> JobRatioUpdate:
        room, before = self._situation.room[pair[1]], self._ratios.get(pair)
        terms = self._terms(pair, request, room, before)
        return JobRatioUpdate(
            campaign=pair[0],
            cluster=pair[1],
            law=room.law,
            terms=terms,
            ratio=next_job_ratio(room.law, terms) if before else terms.old,
            submitted=0 if is_known_if_sent_tasks_start(terms) else terms.submitted,
        )

    def _terms(
        self,
        pair: CampaignCluster,
        request: JdlClusterSettings,
        room: ClusterCapacityForCampaigns,
        before: JobRatio | None,
    ) -> JobRatioInputs:
        view = self._views.get(pair, NO_LISTED_TASKS)
        slots = view.slots if room.law is JobRatioRule.MEASURED and view.slots else float(request.slots)
        waiting = view.able - view.fresh
        waiting_of_others = self._settled[pair[1]] - waiting
        return JobRatioInputs(
            old=before.ratio if before else initial_job_ratio(room.law, slots, room.max_slots),
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


def _allowed(request: JdlClusterSettings, room: ClusterCapacityForCampaigns, waiting_of_others: int) -> int:
    all_may = max_waiting_tasks(room.max_slots, room.flood_rate)
    most = max(0, all_may - waiting_of_others) if room.law is JobRatioRule.MEASURED else all_may
    return max(most, int(may_multislot_task_wait(room.max_slots, room.flood_rate, request.slots)))


def _differs(prediction: JobRatioUpdate, before: JobRatio) -> bool:
    return (prediction.ratio, prediction.submitted) != (before.ratio, before.submitted)
