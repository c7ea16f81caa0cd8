"""Predict job ratios: how many of a campaign's tasks a cluster gets for each free slot.

All laws except `measured` are CiGri's (scheduler specification, steps 7 and 8).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import floor

from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import STARTED_OUTCOMES
from gridbridge.decisions.campaigns.remaining_cluster_capacity import (
    ROUNDING,
    FreeClusterSlots,
    max_waiting_tasks,
    may_multislot_task_wait,
    semi_besteffort_slots_left,
)
from gridbridge.model.campaigns.campaign import CampaignCluster, CampaignState, pair_attempts_with_clusters
from gridbridge.model.campaigns.campaign_configuration_sections import JobRatioRule
from gridbridge.model.campaigns.campaign_cycle_plan import (
    NO_TASKS,
    CampaignCycleSituation,
    ClusterCapacityForCampaigns,
    JobRatio,
    PlannedCampaignTaskSend,
    TasksPerFreeSlotInputs,
    TasksPerFreeSlotUpdate,
)
from gridbridge.model.campaigns.jdl import CampaignType, JdlSettingsAtCluster
from gridbridge.model.published_status_and_reports import number_with_noun

MAX_RATIO = 4.0  # tasks per free slot; CiGri's specification has no upper limit
RATIO_STEP = 0.25  # the law `measured` raises the job ratio by this number of tasks per free slot

RatioChange = Callable[[float, TasksPerFreeSlotInputs], float]


def initial_job_ratio(law: JobRatioRule, slots: float, max_slots: int) -> float:
    """Return a campaign's first job ratio at a cluster: enough for one task (slow-start), or for all tasks that fit."""
    return 1 / max(1, max_slots, slots) if law is JobRatioRule.SLOW_START else 1 / slots


def next_job_ratio(law: JobRatioRule, terms: TasksPerFreeSlotInputs) -> float:
    """Return the next job ratio: lower if too many tasks wait, higher once all sent tasks could start."""
    old = terms.old * terms.slots
    if terms.waiting > terms.allowed:
        new = DECREASES[law](old, terms)
    else:
        new = old if terms.fresh else INCREASES[law](old, terms)
    low = 0.0 if law is JobRatioRule.TWO_WAY else _job_ratio_for_one_task_at_cluster(terms)
    high = 1.0 if law is JobRatioRule.MEASURED else MAX_RATIO
    return max(low, min(high, new)) / terms.slots


def can_last_sent_tasks_be_judged(terms: TasksPerFreeSlotInputs) -> bool:
    """Say whether the last sent tasks can be judged: all had time to start, or too many wait."""
    return terms.waiting > terms.allowed or not terms.fresh


def count_tasks_by_job_ratio(ratio: float, free_slots: int, slots: float) -> int:
    """Return how many tasks the job ratio allows: at least one if a task fits and the ratio is not 0."""
    return 0 if ratio <= 0 or free_slots < slots else max(1, floor(ratio * free_slots + ROUNDING))


def _job_ratio_for_one_task_at_cluster(terms: TasksPerFreeSlotInputs) -> float:
    return min(1.0, terms.slots / max(1, terms.max_slots))


def _share_of_submitted_tasks_within_limit(_: float, terms: TasksPerFreeSlotInputs) -> float:
    """Return (S - E) / S: S tasks were submitted, and E more tasks wait than the limit allows."""
    excess = terms.waiting - terms.allowed
    return max(0.0, (terms.submitted - excess) / terms.submitted) if terms.submitted else 0.0


def _double_job_ratio(old: float, terms: TasksPerFreeSlotInputs) -> float:
    return 2 * max(old, _job_ratio_for_one_task_at_cluster(terms)) if terms.submitted else old


def _submitted_tasks_per_running_task(old: float, terms: TasksPerFreeSlotInputs) -> float:
    if old == 0 or not terms.submitted:
        return old or 1.0
    running = min(terms.running, terms.submitted)  # running tasks of earlier submissions do not count
    return terms.submitted / running if running else 2 * old


def _raise_job_ratio_by_step(old: float, terms: TasksPerFreeSlotInputs) -> float:
    """Raise the job ratio by a step if a slot is free, tasks start and no task of any campaign waits."""
    does_begin = terms.running or terms.ended
    is_held = terms.waiting or terms.others or terms.is_wiped
    return old + RATIO_STEP if terms.free and does_begin and not is_held else old


DECREASES: Mapping[JobRatioRule, RatioChange] = {
    JobRatioRule.MEASURED: lambda old, terms: (
        old * _share_of_submitted_tasks_within_limit(old, terms) if terms.submitted else old
    ),
    JobRatioRule.SLOW_START: lambda _, terms: _job_ratio_for_one_task_at_cluster(terms),
    JobRatioRule.TWO_WAY: _share_of_submitted_tasks_within_limit,
    JobRatioRule.ADAPTIVE: _share_of_submitted_tasks_within_limit,
}
INCREASES: Mapping[JobRatioRule, RatioChange] = {
    JobRatioRule.MEASURED: _raise_job_ratio_by_step,
    JobRatioRule.SLOW_START: _double_job_ratio,
    JobRatioRule.TWO_WAY: _submitted_tasks_per_running_task,
    JobRatioRule.ADAPTIVE: _double_job_ratio,
}


def predict_job_ratios(situation: CampaignCycleSituation) -> dict[CampaignCluster, TasksPerFreeSlotUpdate]:
    """Return the job ratios of campaigns with unsent tasks, except test campaigns, at their clusters."""
    predictor = _JobRatioPredictor(situation)
    sending = (campaign for campaign in situation.campaigns if campaign.state is CampaignState.IN_TREATMENT)
    return {
        (campaign.number, cluster): predictor.predict_job_ratio((campaign.number, cluster), request)
        for campaign in sending
        if campaign.number in situation.waiting and campaign.jdl.type is not CampaignType.TEST
        for cluster, request in campaign.jdl.clusters.items()
        if cluster in situation.room
    }


def select_changed_ratios(
    predicted: Mapping[CampaignCluster, TasksPerFreeSlotUpdate],
    before: Iterable[JobRatio],
    sends: Iterable[PlannedCampaignTaskSend],
) -> tuple[TasksPerFreeSlotUpdate, ...]:
    """Return the job ratios that the state file must store, because they were used or have changed."""
    sent = {(send.campaign, send.cluster): send.jobs for send in sends}
    previous = {(ratio.campaign, ratio.cluster): (ratio.ratio, ratio.submitted) for ratio in before}
    return tuple(
        replace(prediction, submitted=prediction.submitted + sent[pair]) if pair in sent else prediction
        for pair, prediction in predicted.items()
        if pair in sent or (pair in previous and previous[pair] != (prediction.ratio, prediction.submitted))
    )


def describe_job_ratio_changes(predicted: Iterable[TasksPerFreeSlotUpdate]) -> list[str]:
    return [
        f"campaign {prediction.campaign} at {prediction.cluster}: job ratio "
        f"{prediction.terms.old:.3g} -> {prediction.ratio:.3g} ({prediction.law}: "
        f"{number_with_noun(prediction.terms.free, 'slot')} free, {prediction.terms.submitted} sent, "
        f"{prediction.terms.running} run, {prediction.terms.waiting} wait, "
        f"{prediction.terms.allowed} may wait)"
        for prediction in predicted
        if prediction.ratio != prediction.terms.old
    ]


class _JobRatioPredictor:
    def __init__(self, situation: CampaignCycleSituation) -> None:
        self._situation = situation
        self._free = FreeClusterSlots(situation.room, semi_besteffort_slots_left(situation))
        self._ratios = {(ratio.campaign, ratio.cluster): ratio for ratio in situation.ratios}
        self._views = {view.campaign_and_cluster: view for view in situation.there}
        self._settled: Counter[str] = Counter()
        tests = situation.test_campaigns
        for view in situation.there:
            if view.campaign not in tests:
                self._settled[view.cluster] += view.startable_task_count - view.fresh
        ended = pair_attempts_with_clusters(situation.ended, situation.arrays)
        jobs = {
            (attempt.campaign, cluster, attempt.array, attempt.place)
            for attempt, cluster in ended
            if attempt.outcome in STARTED_OUTCOMES
        }
        self._ended = Counter((campaign, cluster) for campaign, cluster, *_ in jobs)

    def predict_job_ratio(self, pair: CampaignCluster, request: JdlSettingsAtCluster) -> TasksPerFreeSlotUpdate:
        room, before, view = self._situation.room[pair[1]], self._ratios.get(pair), self._views.get(pair, NO_TASKS)
        slots = view.slots if room.law is JobRatioRule.MEASURED and view.slots else float(request.slots)
        waiting = view.startable_task_count - view.fresh
        waiting_of_others = self._settled[pair[1]] - waiting
        terms = TasksPerFreeSlotInputs(
            old=before.ratio if before else initial_job_ratio(room.law, slots, room.max_slots),
            slots=slots,
            max_slots=room.max_slots,
            free=self._free.free_slots_for_request(pair[1], request),
            submitted=before.submitted if before else 0,
            running=view.listed - view.waiting,
            waiting=waiting,
            allowed=_max_waiting_tasks_of_campaign(request, room, waiting_of_others),
            fresh=view.fresh,
            others=waiting_of_others,
            ended=self._ended[pair],
            is_wiped=pair in self._situation.wiped,
        )
        return TasksPerFreeSlotUpdate(
            campaign=pair[0],
            cluster=pair[1],
            law=room.law,
            terms=terms,
            ratio=next_job_ratio(room.law, terms) if before else terms.old,
            submitted=0 if can_last_sent_tasks_be_judged(terms) else terms.submitted,
        )


def _max_waiting_tasks_of_campaign(
    request: JdlSettingsAtCluster, room: ClusterCapacityForCampaigns, waiting_of_others: int
) -> int:
    all_may = max_waiting_tasks(room.max_slots, room.flood_rate)
    most = max(0, all_may - waiting_of_others) if room.law is JobRatioRule.MEASURED else all_may
    return max(most, int(may_multislot_task_wait(room.max_slots, room.flood_rate, request.slots)))
