"""Explain to users why a cycle sent tasks of a campaign to a cluster or sent none, with the cycle's numbers."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import floor

from gridbridge.decisions.campaigns.campaign_order_and_fairshare import explain_campaign_order
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import (
    ClusterClosureOrProbe,
    derive_cluster_blacklist,
)
from gridbridge.decisions.campaigns.file_server_task_limits import (
    RemainingTasksByLimit,
    count_succeeded_tasks,
    exhausted_limits_by_cluster,
)
from gridbridge.decisions.campaigns.input_carry_limits import InputCarryLimits
from gridbridge.decisions.campaigns.nightly_task_starts import campaigns_waiting_for_night, next_night_for_task
from gridbridge.decisions.campaigns.predecessor_conditions import apply_predecessor_conditions
from gridbridge.decisions.campaigns.prologue_and_epilogue_starts import PrologueAndEpilogueProgress
from gridbridge.decisions.campaigns.remaining_cluster_capacity import FreeClusterSlots, semi_besteffort_slots_left
from gridbridge.decisions.campaigns.scheduler_task_counts import SchedulerTaskCounter
from gridbridge.decisions.campaigns.tasks_per_free_slot_predictor import predict_job_ratios
from gridbridge.decisions.campaigns.unsent_task_backlog import UnsentTaskBacklog
from gridbridge.model.campaigns.campaign import Campaign, CampaignCluster, CampaignState
from gridbridge.model.campaigns.campaign_cycle_plan import NO_TASKS, CampaignCyclePlan, CampaignCycleSituation
from gridbridge.model.campaigns.campaign_events import BLACKLISTING_EVENTS, CampaignEvent
from gridbridge.model.campaigns.jdl import CampaignType, JdlSettingsAtCluster
from gridbridge.model.campaigns.send_reasons import TaskSendExplanation, TaskSentOrUnsentCause

MAX_NAMED_CAMPAIGNS = 3


def explain_campaign_task_sends(
    situation: CampaignCycleSituation, plan: CampaignCyclePlan
) -> tuple[TaskSendExplanation, ...]:
    situation = apply_predecessor_conditions(situation)
    cycle = _TaskSendExplainer(situation, plan)
    return tuple(
        cycle.explain_task_send(campaign, cluster, request)
        for campaign in situation.campaigns
        if campaign.state is CampaignState.IN_TREATMENT and situation.waiting.get(campaign.number)
        for cluster, request in campaign.jdl.clusters.items()
    )


class _TaskSendExplainer:
    def __init__(self, situation: CampaignCycleSituation, plan: CampaignCyclePlan) -> None:
        self._situation = situation
        self._free = FreeClusterSlots(situation.room, semi_besteffort_slots_left(situation))
        self._predicted = predict_job_ratios(situation)
        self._matching = SchedulerTaskCounter(situation, self._predicted, RemainingTasksByLimit(situation))
        self._carries = InputCarryLimits(situation)
        self._succeeded = count_succeeded_tasks(situation)
        self._waiting_for_night = campaigns_waiting_for_night(situation.campaigns, situation.nights, situation.at)
        self._servers = exhausted_limits_by_cluster(plan.server_limits, situation.servers.rules)
        self._views = {view.campaign_and_cluster: view for view in situation.there}
        self._waiting = Counter[str]()
        for view in situation.there:
            self._waiting[view.cluster] += view.startable_task_count
        self._sent = {(send.campaign, send.cluster): send.tasks for send in plan.sends}
        self._jobs = {(send.campaign, send.cluster): send.jobs for send in plan.sends}
        self._to_send = Counter(situation.waiting)
        self._served = defaultdict[str, list[Campaign]](list)
        campaigns = {campaign.number: campaign for campaign in situation.campaigns}
        for send in plan.sends:
            self._to_send[send.campaign] -= send.tasks
            self._matching.left.tasks.take_tasks(send.campaign, send.cluster, send.jobs)
            self._served[send.cluster].append(campaigns[send.campaign])
        by_identity = {event.identity: event for event in (*situation.events, *plan.changes.events)}
        events = [event for event in by_identity.values() if not event.closed_at]
        self._bars = derive_cluster_blacklist(events, situation.at, situation.failures)
        self._unsent = UnsentTaskBacklog(situation, self._bars)
        self._barring = _events_closing_clusters_longest(events)
        self._preparing = PrologueAndEpilogueProgress(situation).clusters_running_prologue_or_epilogue().keys() | {
            (step.campaign, step.cluster) for step in plan.steps
        }

    def explain_task_send(self, campaign: Campaign, cluster: str, request: JdlSettingsAtCluster) -> TaskSendExplanation:
        pair, room = (campaign.number, cluster), self._situation.room.get(cluster)
        reason = self._collect_numbers_for_send_explanation(campaign, cluster, request)
        if room is None:
            is_dropped = cluster in self._situation.dropped
            return replace(reason, cause=TaskSentOrUnsentCause.DROPPED) if is_dropped else reason
        if reason.sent:
            return replace(reason, cause=TaskSentOrUnsentCause.SENT)
        if (barred := self._barring.get(pair)) and self._bars.get(pair) is ClusterClosureOrProbe.CLOSED:
            return replace(reason, cause=TaskSentOrUnsentCause.CLOSED, code=barred.code, until=barred.until)
        if pair in self._preparing:
            return replace(reason, cause=TaskSentOrUnsentCause.PREPARING)
        if room.is_drained:
            return replace(reason, cause=TaskSentOrUnsentCause.DRAINED)
        if room.is_stressed:
            return replace(
                reason, cause=TaskSentOrUnsentCause.STRESSED, stress=room.stress, stress_limit=room.stress_limit
            )
        reason = replace(reason, cause=self._find_cause_why_no_task_is_sent(reason, campaign, request))
        if reason.cause is TaskSentOrUnsentCause.FILE_SERVER:
            return self._add_file_server_to_explanation(reason)
        return (
            self._add_campaigns_served_first_to_explanation(reason, campaign)
            if reason.cause is TaskSentOrUnsentCause.OTHERS_FIRST
            else reason
        )

    def _collect_numbers_for_send_explanation(
        self, campaign: Campaign, cluster: str, request: JdlSettingsAtCluster
    ) -> TaskSendExplanation:
        pair, room = (campaign.number, cluster), self._situation.room.get(cluster)
        view, predicted = self._views.get(pair, NO_TASKS), self._predicted.get(pair)
        nights = self._situation.nights.get(cluster, ()) if pair in self._waiting_for_night else ()
        start = next_night_for_task(nights, request.walltime_s, self._situation.at)
        return TaskSendExplanation(
            campaign=campaign.number,
            cluster=cluster,
            cause=TaskSentOrUnsentCause.NO_ANSWER,
            sent=self._sent.get(pair, 0),
            jobs=self._jobs.get(pair, 0),
            free_slots=max(0, self._free.free_slots_for_request(cluster, request)),
            slots=request.slots,
            all_slots=room.slots if room else 0,
            listed=view.listed,
            waiting=view.waiting,
            max_jobs=request.max_jobs,
            max_parallel=campaign.jdl.max_parallel,
            first_tasks=campaign.jdl.first_tasks,
            succeeded=self._succeeded[campaign.number],
            job_ratio=predicted.ratio if predicted else None,
            starts_from=start.begins_at if start else None,
            starts_until=start.ends_at if start else None,
            carry_s=self._carries.carry_s(*pair),
            waiting_there=self._waiting[cluster],
            may_wait=max(0, self._matching.left.may_wait.get(cluster, 0)),
        )

    def _find_cause_why_no_task_is_sent(
        self, reason: TaskSendExplanation, campaign: Campaign, request: JdlSettingsAtCluster
    ) -> TaskSentOrUnsentCause:
        cluster, cause, matching = reason.cluster, TaskSentOrUnsentCause, self._matching
        unsent = self._to_send[campaign.number]
        worth = self._carries.max_tasks_worth_carrying(campaign, cluster, unsent)
        is_at_limit = matching.left.tasks.is_task_limit_reached(campaign.number)
        are_travelling = matching.left.tasks.is_carry_limit_reached(campaign.number, cluster)
        is_tried = cluster in self._situation.tried.get(campaign.number, ())
        causes = (
            ((campaign.number, cluster) in self._waiting_for_night, cause.NIGHT),
            (campaign.jdl.type is CampaignType.TEST and is_tried, cause.TRIED),
            (0 < reason.max_jobs <= reason.listed, cause.MAX_JOBS),
            (cluster in self._servers, cause.FILE_SERVER),
            (is_at_limit and reason.succeeded < reason.first_tasks, cause.FIRST_TASKS),
            (is_at_limit, cause.MAX_PARALLEL),
            (are_travelling, cause.INPUTS_TRAVEL),
            (not matching.max_arrays_for_cluster(campaign, cluster), cause.MAX_ARRAYS),
            (0 < reason.all_slots < reason.slots, cause.TOO_LARGE),
            (not self._unsent.count_tasks_for_cluster(campaign.number, cluster), cause.KEPT_OFF),
            (reason.free_slots < reason.slots, cause.FULL),
            (unsent <= 0, cause.ELSEWHERE),
            (not worth and self._carries.is_first_carry_awaited(campaign, cluster), cause.FIRST_CARRY),
            (not worth, cause.INPUTS_ELSEWHERE),
            (matching.left.free.free_slots_for_request(cluster, request) < reason.slots, cause.WAITING_THERE),
            (not matching.count_startable_tasks(campaign, cluster), cause.JOB_RATIO),
        )
        return next((why for is_so, why in causes if is_so), cause.OTHERS_FIRST)

    def _add_file_server_to_explanation(self, reason: TaskSendExplanation) -> TaskSendExplanation:
        rule, limit = self._servers[reason.cluster]
        return replace(
            reason,
            storage=rule.storage,
            load=limit.load,
            load_at=limit.load_at,
            load_target=rule.target if rule.has_load else None,
            server_tasks=limit.tasks,
            server_limit=floor(limit.limit),
        )

    def _add_campaigns_served_first_to_explanation(
        self, reason: TaskSendExplanation, campaign: Campaign
    ) -> TaskSendExplanation:
        if not (served := self._served[reason.cluster]):
            return reason
        why, own, theirs = explain_campaign_order(served[0], campaign, reason.cluster, self._situation)
        before = tuple(earlier.number for earlier in served[:MAX_NAMED_CAMPAIGNS])
        return replace(reason, before=before, order=why, own=own, theirs=theirs)


def _events_closing_clusters_longest(events: Iterable[CampaignEvent]) -> Mapping[CampaignCluster, CampaignEvent]:
    closing: dict[CampaignCluster, CampaignEvent] = {}
    for event in events:
        last = closing.setdefault((event.campaign, event.cluster), event) if event.code in BLACKLISTING_EVENTS else None
        if last and last.until and (event.until is None or event.until > last.until):
            closing[event.campaign, event.cluster] = event
    return closing
