"""Plan one cycle of the runner for all campaigns, and split the plan into short transactions of the state file."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Set
from dataclasses import dataclass, replace
from itertools import groupby

from gridbridge.decisions.campaigns import tasks_per_free_slot_predictor
from gridbridge.decisions.campaigns.campaign_event_rules import update_events_and_success_records
from gridbridge.decisions.campaigns.checkpoint_carries import allow_carries_in_situation, plan_checkpoint_carries
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import (
    ClusterClosureOrProbe,
    OpenCampaignEventsInCycle,
    derive_cluster_blacklist,
    hide_blacklisted_clusters,
    may_retry_array_submission,
    record_cluster_probes,
)
from gridbridge.decisions.campaigns.event_texts_and_notifications import format_campaign_event_for_log
from gridbridge.decisions.campaigns.file_server_task_limits import (
    RemainingTasksByLimit,
    add_sent_tasks_to_limits,
    describe_file_server_limits,
)
from gridbridge.decisions.campaigns.nightly_task_starts import campaigns_waiting_for_night
from gridbridge.decisions.campaigns.predecessor_conditions import (
    apply_predecessor_conditions,
    list_campaigns_to_cancel,
    update_predecessor_failure_events,
)
from gridbridge.decisions.campaigns.prologue_and_epilogue_starts import PrologueAndEpilogueProgress
from gridbridge.decisions.campaigns.slot_distribution_to_campaigns import distribute_slots_to_campaigns
from gridbridge.decisions.campaigns.speculative_attempt_planning import plan_speculative_attempts
from gridbridge.decisions.campaigns.task_group_sizes import tasks_for_running_jobs
from gridbridge.decisions.campaigns.task_retries_and_deciding_attempts import (
    AttemptsByTask,
    assign_retry_numbers_above_attempts,
    find_superseded_attempts,
    group_attempts_by_task,
    is_unreleased_array_unwanted,
    mark_ended_attempts_as_copies,
    plan_task_retries,
    select_final_task_ends,
)
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    AttemptOutcomeAtCluster,
    Campaign,
    CampaignArray,
    CampaignCluster,
    CampaignState,
    TaskAttempt,
    TaskAttemptOutcome,
    pair_attempts_with_clusters,
)
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan, CampaignCycleSituation, TaskRetry
from gridbridge.model.campaigns.campaign_events import FailureEventsChangedInCycle
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.speculative_attempts import SupersededAttempts
from gridbridge.model.published_status_and_reports import number_with_noun

INTENDED = ArraySubmissionState.INTENDED
BEGUN = (INTENDED, ArraySubmissionState.SUBMITTED)  # states of arrays whose submission is unfinished


@dataclass(frozen=True, slots=True, kw_only=True)
class _EndedTasksAndRetries:
    seen: CampaignCycleSituation  # the situation with all outcomes, but without prologues and epilogues
    steps: PrologueAndEpilogueProgress
    rivals: AttemptsByTask
    again: tuple[TaskRetry, ...]
    over: Counter[int]  # {campaign: number of tasks that ended and do not run again}
    reached: tuple[CampaignArray, ...]  # unfinished arrays at clusters that answered
    busy: frozenset[int]  # campaigns that may have a live task
    lost: tuple[SupersededAttempts, ...]


def plan_campaign_cycle(situation: CampaignCycleSituation) -> CampaignCyclePlan:
    """Plan one cycle of the runner; the same situation gives the same plan."""
    observed, situation = situation, apply_predecessor_conditions(situation)
    ends = _decide_outcomes_and_retries(situation)
    steps, situation = ends.steps, ends.seen
    at_end = _list_campaigns_that_end(ends)
    finished, after = steps.end_campaigns_or_start_epilogues(at_end)
    winding_up = (campaign.number for campaign in situation.campaigns if campaign.awaits_epilogues_after_cancel)
    wound_up, epilogues = steps.end_campaigns_or_start_epilogues(
        number for number in winding_up if number not in ends.busy
    )
    book = steps.update_prologue_and_epilogue_events(OpenCampaignEventsInCycle(situation.events))
    update_predecessor_failure_events(book, observed)
    records, usages = update_events_and_success_records(situation, ends.again, (*finished, *wound_up), book)
    unsent = tuple(array for array in steps.unsubmitted_unneeded_prologues(at_end) if array in ends.reached)
    sending = _plan_task_sends(ends, book, unsent)
    deleted = tuple(array for array in ends.reached if not steps.must_array_still_run(array))
    ending = {(attempt.campaign, attempt.array) for attempt in situation.ended}
    return replace(
        sending,
        ended=situation.ended,
        arrays=tuple(array for array in situation.arrays if array.campaign_and_array_number in ending),
        again=ends.again,
        over=situation.over,
        finished=finished,
        wound_up=wound_up,
        cancelled=tuple(list_campaigns_to_cancel(observed)),
        deleted=deleted,
        unneeded=steps.waiting_unneeded_prologues(at_end),
        unsent=unsent,
        gone=_count_arrays_without_listed_tasks(deleted, situation),
        losers=ends.lost,
        stepped=situation.stepped,
        steps=(*sending.steps, *after, *epilogues),
        missed=situation.missed,
        changes=FailureEventsChangedInCycle(events=book.changed_events, records=records, usages=usages),
        measured=situation.measured,
        behind=situation.behind,
    )


def _decide_outcomes_and_retries(situation: CampaignCycleSituation) -> _EndedTasksAndRetries:
    rivals, steps = group_attempts_by_task(situation.rivals), PrologueAndEpilogueProgress(situation)
    lasting, alive = situation.unfinished_arrays, situation.uncancelled_campaigns
    tasks = steps.exclude_prologue_and_epilogue_arrays(situation.arrays)
    situation = replace(situation, ended=mark_ended_attempts_as_copies(situation.ended, rivals), arrays=tasks)
    reached = tuple(array for array in lasting if array.cluster in situation.room)
    living = (array for array in steps.exclude_prologue_and_epilogue_arrays(reached) if array.campaign in alive)
    again = assign_retry_numbers_above_attempts(_plan_retries_of_ended_tasks(situation, alive), rivals)
    return _EndedTasksAndRetries(
        seen=situation,
        steps=steps,
        rivals=rivals,
        again=again,
        over=Counter(attempt.campaign for attempt in select_final_task_ends(situation.ended, again)),
        reached=reached,
        busy=frozenset(array.campaign for array in steps.exclude_prologue_and_epilogue_arrays(lasting)),
        lost=find_superseded_attempts(situation.ended, rivals, living),
    )


def _plan_task_sends(
    ends: _EndedTasksAndRetries, book: OpenCampaignEventsInCycle, unsent: Container[CampaignArray]
) -> CampaignCyclePlan:
    situation, steps = ends.seen, ends.steps
    barred = derive_cluster_blacklist(book.open_events, situation.at, situation.failures)
    predicted = tasks_per_free_slot_predictor.predict_job_ratios(situation)
    waiting_for_night = campaigns_waiting_for_night(situation.campaigns, situation.nights, situation.at)
    closed_by_day = dict.fromkeys(waiting_for_night, ClusterClosureOrProbe.CLOSED)
    reachable = hide_blacklisted_clusters(
        situation, barred | steps.clusters_running_prologue_or_epilogue() | closed_by_day
    )
    resumed = tuple(
        array
        for array in _list_interrupted_submissions_to_resume(ends, waiting_for_night)
        if array not in unsent and may_retry_array_submission(array, book.open_events, situation.at, situation.failures)
    )
    begun = steps.exclude_prologue_and_epilogue_arrays(resumed)
    limits = RemainingTasksByLimit(situation)
    carries = plan_checkpoint_carries(situation, reachable.campaigns)
    reachable = allow_carries_in_situation(reachable, carries)
    allotted = distribute_slots_to_campaigns(reachable, predicted, limits, situation.campaigns, begun, barred)
    record_cluster_probes(allotted, situation, barred, book)
    sent, before = steps.split_sends_by_prologue(allotted)
    closed = barred.keys() | steps.clusters_that_need_prologue()
    copies = tuple(plan_speculative_attempts(reachable, sent, ends.over, ends.again, ends.rivals, closed, limits))
    going, tasks = Counter[str](), Counter[int]()
    for send in sent:
        going[send.cluster] += send.jobs
        tasks[send.campaign] += send.tasks
    for copy in copies:
        going[copy.cluster] += len(copy.tasks)
    return CampaignCyclePlan(
        resumed=resumed,
        sends=sent,
        steps=before,
        copies=copies,
        added=tasks_for_running_jobs(reachable, tasks, closed),
        carries=carries,
        predicted=tasks_per_free_slot_predictor.select_changed_ratios(predicted, situation.ratios, sent),
        server_limits=add_sent_tasks_to_limits(limits.of_servers, situation.servers.rules, going),
    )


def _list_interrupted_submissions_to_resume(
    ends: _EndedTasksAndRetries, waiting_for_night: Container[CampaignCluster]
) -> Iterator[CampaignArray]:
    """Yield the arrays whose interrupted submission continues; a paused campaign submits only epilogues."""
    situation = ends.seen
    paused = {campaign.number for campaign in situation.campaigns if campaign.state is CampaignState.PAUSED}
    closed = {name for name, room in situation.room.items() if room.is_closed}
    dropped = {loser.array.campaign_and_array_number for loser in ends.lost if is_unreleased_array_unwanted(loser)}
    for array in ends.reached:
        is_wanted = ends.steps.must_array_still_run(array) and array.campaign_and_array_number not in dropped
        is_begin = array.state is INTENDED and not ends.steps.is_epilogue_array(array)
        is_closed = array.cluster in closed or (array.campaign, array.cluster) in waiting_for_night
        is_held_back = is_begin and (array.campaign in paused or is_closed)
        if is_wanted and array.state in BEGUN and not is_held_back:
            yield array


def _list_campaigns_that_end(ends: _EndedTasksAndRetries) -> tuple[int, ...]:
    """Return the campaigns that end now; a silent cluster must not delay a campaign's end."""
    runs = {retry.campaign for retry in ends.again}
    succeeded = {attempt.campaign for attempt in ends.seen.ended if attempt.outcome is TaskAttemptOutcome.SUCCESS}
    with_outputs = ends.seen.unbrought | succeeded  # campaigns whose outputs are, or will be, brought home
    return tuple(
        campaign.number
        for campaign in ends.seen.campaigns
        if campaign.state.is_alive
        and campaign.number not in runs
        and _are_all_tasks_sent(campaign, ends.seen)
        and not (campaign.jdl.outputs_to and campaign.number in with_outputs)
        and (campaign.number not in ends.busy or campaign.ended + ends.over[campaign.number] >= campaign.tasks)
    )


def _count_arrays_without_listed_tasks(arrays: Iterable[CampaignArray], situation: CampaignCycleSituation) -> int:
    listed = {view.campaign_and_cluster for view in situation.there}
    steps = {(phase.campaign, phase.array) for phase in situation.steps}
    return sum(
        array.state is ArraySubmissionState.RELEASED
        and array.cluster in situation.room
        and (array.campaign, array.cluster) not in listed
        and array.campaign_and_array_number not in steps
        for array in arrays
    )


def _plan_retries_of_ended_tasks(situation: CampaignCycleSituation, alive: Set[int]) -> tuple[TaskRetry, ...]:
    """Return the tasks to retry; lost tasks may still run, so only campaigns that allow speculation retry them."""
    twice = {campaign.number for campaign in situation.campaigns if campaign.jdl.allows_speculative_attempts}
    clusters = {
        campaign.number: {
            name
            for name, request in campaign.jdl.clusters.items()
            if name not in situation.room or not situation.room[name].has_too_few_slots(request.slots)
        }
        for campaign in situation.campaigns
        if campaign.number in alive and campaign.jdl.type is not CampaignType.TEST
    }
    surely = (attempt for attempt in situation.ended if not attempt.forgotten_job or attempt.campaign in twice)
    placed = pair_attempts_with_clusters(surely, situation.arrays)
    ended = tuple(AttemptOutcomeAtCluster.from_attempt(attempt, cluster) for attempt, cluster in placed)
    return plan_task_retries(ended, situation.earlier, clusters, situation.failures)


def _are_all_tasks_sent(campaign: Campaign, situation: CampaignCycleSituation) -> bool:
    tried = situation.tried.get(campaign.number, frozenset())
    is_tried = campaign.jdl.type is CampaignType.TEST and tried >= campaign.jdl.clusters.keys()
    return is_tried or not (situation.waiting.get(campaign.number) or situation.awaiting.get(campaign.number))


def describe_campaign_cycle_plan(plan: CampaignCyclePlan) -> list[str]:
    plan = replace(
        plan,
        sends=tuple(send for send in plan.sends if send.campaign not in plan.behind),
        steps=tuple(step for step in plan.steps if step.campaign not in plan.behind),
        copies=tuple(copies for copies in plan.copies if copies.campaign not in plan.behind),
        added=tuple(tasks for tasks in plan.added if tasks.campaign not in plan.behind),
    )
    sent = ", ".join(
        f"{number_with_noun(send.tasks, 'task')} of campaign {send.campaign} to {send.cluster}"
        + (f" in {number_with_noun(send.jobs, 'job')}" if send.group.tasks > 1 else "")
        + (f" ({send.ordinary} as ordinary jobs)" if send.ordinary else "")
        for send in plan.sends
    )
    lines = [
        f"campaign {number}: arrays in root's ledger are missing in the state file and are restored"
        for number in plan.behind
    ]
    lines += _describe_ended_tasks(plan)
    undeleted = len(plan.deleted) - plan.gone
    lines += [number_with_noun(undeleted, "array is deleted", "arrays are deleted") if undeleted else ""]
    lines += tasks_per_free_slot_predictor.describe_job_ratio_changes(plan.predicted)
    lines += [
        f"campaign {carry.campaign}: the checkpoint of task {carry.task} at {carry.source} may be carried to"
        f" {carry.cluster} in {carry.carry_s:.0f} s, because otherwise {carry.lost_s:.0f} s would be lost"
        for carry in plan.carries
    ]
    lines += [f"sent: {sent}" if sent else ""]
    lines += [
        f"{number_with_noun(more.tasks, 'further task')} of campaign {more.campaign} to a running job at {more.cluster}"
        for more in plan.added
    ]
    lines += [f"{step.step} of campaign {step.campaign} at {step.cluster} begins" for step in plan.steps]
    lines += [
        f"copied to {copies.cluster}: {number_with_noun(len(copies.tasks), 'task')} of campaign"
        f" {copies.campaign} with a run time above {copies.beyond_s} s"
        for copies in plan.copies
    ]
    lines += [
        f"not sent, because no task is left: the prologue of campaign {array.campaign} at {array.cluster}"
        for array in plan.unsent
    ]
    lines += [f"campaign {number} is cancelled, because a predecessor has failed" for number in plan.cancelled]
    lines += [f"campaign {number} has ended" for number in plan.finished]
    lines += [format_campaign_event_for_log(event) for event in plan.changes.events]
    lines = [line for line in lines if line]
    return lines + describe_file_server_limits(plan.server_limits) if lines else []


def _describe_ended_tasks(plan: CampaignCyclePlan) -> list[str]:
    copies = sum(attempt.outcome is TaskAttemptOutcome.COPY for attempt in plan.ended)
    tasks = len(plan.ended) - copies
    again = f", {number_with_noun(len(plan.again), 'of them runs', 'of them run')} again" if plan.again else ""
    lines = [f"{number_with_noun(tasks, 'task')} ended{again}" if tasks else ""]
    lines += [f"{number_with_noun(copies, 'surplus attempt')} ended" if copies else ""]
    return lines + [
        f"superseded: {number_with_noun(sum(map(len, loser.places)), 'attempt')} of campaign"
        f" {loser.array.campaign} at {loser.array.cluster}"
        for loser in plan.losers
    ]


ENDS_PER_TRANSACTION = 2000  # about this many ended attempts in a transaction, which then takes less than 0.1 s


def split_cycle_plan_by_transaction(
    plan: CampaignCyclePlan, most: int = ENDS_PER_TRANSACTION
) -> tuple[CampaignCyclePlan, ...]:
    """Split a plan into transactions of about `most` ended attempts; the last one has all other changes too."""
    again = {(retry.campaign, retry.task): retry for retry in plan.again}
    *first, last = [
        (
            group,
            tuple(again[task] for task in dict.fromkeys(map(_campaign_and_task_of_attempt, group)) if task in again),
        )
        for group in _group_attempts_by_transaction(plan.ended, most)
    ]
    earlier = (CampaignCyclePlan(ended=group, again=retries) for group, retries in first)
    return (*earlier, replace(plan, ended=last[0], again=last[1]))


def _group_attempts_by_transaction(attempts: Iterable[TaskAttempt], most: int) -> Iterator[tuple[TaskAttempt, ...]]:
    """Yield groups of about `most` attempts; all attempts of a task are in the same group."""
    group: list[TaskAttempt] = []
    for _, of_task in groupby(sorted(attempts, key=_campaign_and_task_of_attempt), key=_campaign_and_task_of_attempt):
        if len(group) >= most:
            yield tuple(group)
            group = []
        group += of_task
    yield tuple(group)


def _campaign_and_task_of_attempt(attempt: TaskAttempt) -> tuple[int, int]:
    return attempt.campaign, attempt.task
