"""Explains from the runner's last cycle why a campaign or task waits, and what would end the wait."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import datetime

from gridbridge.campaigns.store import campaign_client, published_campaign_files
from gridbridge.decisions.campaigns.task_retries_and_deciding_attempts import NEVER_STARTED_OUTCOMES
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_events import (
    SUBMISSION_EVENTS,
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
)
from gridbridge.model.campaigns.campaign_predecessors import describe_unmet_predecessor
from gridbridge.model.campaigns.checkpoint_statistics import CheckpointCarryState
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    PublishedCampaign,
    PublishedCampaignTask,
    TaskCheckpoint,
)
from gridbridge.model.campaigns.send_reasons import (
    CampaignPrecedenceReason,
    PublishedTaskSendExplanations,
    TaskSendExplanation,
    TaskSentOrUnsentCause,
)
from gridbridge.model.published_status_and_reports import number_with_noun

SENTENCES = {
    TaskSentOrUnsentCause.SENT: "{sent_there}{in_jobs}; {were_free}{ratio}",
    TaskSentOrUnsentCause.NO_ANSWER: "the cluster did not answer{since}; tasks are sent after the cluster answers",
    TaskSentOrUnsentCause.DROPPED: "gridbridge.toml no longer has this cluster, so no task is sent there",
    TaskSentOrUnsentCause.CLOSED: "the cluster is closed to the campaign by {code}{what}; {cure}",
    TaskSentOrUnsentCause.PREPARING: ("the campaign's prologue or epilogue must end there before tasks are sent"),
    TaskSentOrUnsentCause.DRAINED: ("the cluster is drained, so no task is sent there (gridbridge status says why)"),
    TaskSentOrUnsentCause.STRESSED: ("{stressed}; tasks are sent there while the number is below {stress_limit:g}"),
    TaskSentOrUnsentCause.NIGHT: "{night}",
    TaskSentOrUnsentCause.TRIED: "the test campaign has sent its one task to this cluster",
    TaskSentOrUnsentCause.MAX_JOBS: "{listed_there}, and max_jobs is {max_jobs}; a task there must end first",
    TaskSentOrUnsentCause.FIRST_TASKS: (
        "{succeeded} of the first tasks have succeeded; the remaining tasks are sent after {first_tasks} (first_tasks)"
    ),
    TaskSentOrUnsentCause.MAX_PARALLEL: (
        "the campaign has max_parallel = {max_parallel} tasks at clusters; a task must end first"
    ),
    TaskSentOrUnsentCause.FILE_SERVER: "{load_of_server}, and {at_server} there; {cure_of_server}",
    TaskSentOrUnsentCause.MAX_ARRAYS: (
        "the cluster accepts no further array (max_u_jobs, max_jobs) until an array there ends"
    ),
    TaskSentOrUnsentCause.TOO_LARGE: (
        "a task needs {slots_each}, and the whole cluster has {all_slots}; request fewer slots"
    ),
    TaskSentOrUnsentCause.KEPT_OFF: (
        "the remaining tasks failed at this cluster, and wait for other clusters; if no other cluster is open,"
        " the tasks return to this cluster, except tasks that overran their walltime"
        " (griddel -j CAMPAIGN.TASK cancels a task)"
    ),
    TaskSentOrUnsentCause.FULL: (
        "{were_free}, and a task needs {slots}; a job must end first ({others_wait}, and {may_wait} more may wait)"
    ),
    TaskSentOrUnsentCause.INPUTS_TRAVEL: (
        "half of the tasks that a file server allows wait for their input files; more are sent when files have arrived"
    ),
    TaskSentOrUnsentCause.FIRST_CARRY: (
        "the first task's input files are being carried to the cluster; more tasks are sent after this carry"
    ),
    TaskSentOrUnsentCause.INPUTS_ELSEWHERE: (
        "carrying a task's input files to the cluster takes {carry_s:.0f} s, and other clusters start the tasks sooner"
    ),
    TaskSentOrUnsentCause.WAITING_THERE: (
        "{were_free}, but {others_wait} ({waiting} of this campaign); when these tasks start, this campaign is next"
    ),
    TaskSentOrUnsentCause.JOB_RATIO: ("{were_free}{ratio}, so {enough}; the job ratio rises when these tasks start"),
    TaskSentOrUnsentCause.ELSEWHERE: "all tasks that could be sent went to other clusters",
    TaskSentOrUnsentCause.OTHERS_FIRST: "{were_free}, but {others}",
}
ORDERS = {
    CampaignPrecedenceReason.TEST: "{before} came first: test campaigns go first, then this campaign",
    CampaignPrecedenceReason.TESTS: (
        "{before} came first: up to {theirs:g} test campaigns of each person go first there;"
        " when one of these ends, this campaign is next"
    ),
    CampaignPrecedenceReason.AFFINITY: (
        "{before} came first, whose owners have an affinity to {cluster}; this campaign gets the remaining slots"
    ),
    CampaignPrecedenceReason.SHARE: (
        "{before} came first, whose owner has used {theirs:.0f} slot-seconds, and this campaign's owner {own:.0f};"
        " when the usage is equal, this campaign is next"
    ),
    CampaignPrecedenceReason.PRIORITY: (
        "{before} came first, with priority {theirs:g} above {own:g}; this campaign gets the remaining slots"
    ),
    CampaignPrecedenceReason.AGE: "{before} came first, which {are} older; this campaign gets the remaining slots",
}
NOT_TAKEN = "{sent_to_it} to be sent there, and the cluster accepted none: event {refusal} says why"
STATES = {
    CampaignState.PAUSED: "{who} is paused; griddel -r resumes the campaign",
    CampaignState.TERMINATED: "{who} has ended",
    CampaignState.CANCELLED: "{who} is cancelled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignExplanation:
    campaign: PublishedCampaign
    task: PublishedCampaignTask | None = None
    at: datetime | None = None  # time of the runner's last cycle; None if no task waits for a cycle
    reasons: tuple[TaskSendExplanation, ...] = ()
    sentences: tuple[str, ...] = ()


def explain_campaign_or_task(text: str, folder: str) -> CampaignExplanation | None:
    """Explain CAMPAIGN or CAMPAIGN.TASK; None if the campaign or task does not exist."""
    is_task = "." in text
    try:
        campaign, number = campaign_client.parse_cigri_job_id(text if is_task else f"{text}.0")
    except ValueError:
        return None
    shown = campaign_client.find_published_campaign(campaign, folder) if os.path.isdir(folder) else None
    if not shown or not is_task:
        return _explain_campaign(shown, folder) if shown else None
    task = campaign_client.find_published_task(shown, number, folder)
    return _explain_task(shown, task, folder) if task else None


def _explain_campaign(campaign: PublishedCampaign, folder: str) -> CampaignExplanation:
    sent = max(0, campaign.tasks - campaign.ended - campaign.waiting) if campaign.state.is_alive else 0
    are = number_with_noun(sent, "is at a cluster or on its way", "are at clusters or on their way")
    sent_text = f"{are} there, " if sent else ""
    wait = number_with_noun(campaign.waiting, "waits to be sent", "wait to be sent")
    head = f"{campaign.ended} of {number_with_noun(campaign.tasks, 'task')} ended, {sent_text}{wait}"
    explanation = _explain_waiting_from_last_cycle(campaign, None, head, folder, does_wait=bool(campaign.waiting))
    return replace(explanation, sentences=(*explanation.sentences, *_describe_failed_tasks(campaign, folder)))


def _explain_task(campaign: PublishedCampaign, task: PublishedCampaignTask, folder: str) -> CampaignExplanation:
    explanation = _explain_waiting_from_last_cycle(
        campaign, task, _describe_task_state(task), folder, does_wait=task.is_waiting
    )
    return replace(explanation, sentences=(*explanation.sentences, *_describe_task_attempts(campaign, task)))


def _describe_failed_tasks(campaign: PublishedCampaign, folder: str) -> Iterator[str]:
    published = campaign_client.published_events(folder)
    events = [event for event in published if event.campaign == campaign.number and not event.closed_at]
    is_open = any(event.kind is CampaignEventSubject.TASK for event in events)
    if campaign.failed and (is_open or campaign.state is CampaignState.TERMINATED):
        again = f", and gridsub --retry-failed {campaign.number} submits them as a new campaign"
        if is_open:
            again = f", and gridevents -c {campaign.number} -r retries them"
        if any(event.code is CampaignEventCode.FILE_REFUSED for event in events):
            again = ""
        failed_tasks = number_with_noun(campaign.failed, "task")
        yield f"{failed_tasks} failed: gridstat {campaign.number} --failed shows how{again}"


def _explain_waiting_from_last_cycle(
    campaign: PublishedCampaign, task: PublishedCampaignTask | None, head: str, folder: str, *, does_wait: bool
) -> CampaignExplanation:
    events = tuple(event for event in campaign_client.published_events(folder) if not event.closed_at)
    if not does_wait or campaign.state is not CampaignState.IN_TREATMENT:
        subject = f"campaign {campaign.number}" if task else "the campaign"
        places = ", ".join(campaign.ending_at)
        ending = f"{subject} is being cancelled: tasks at {places} have not ended yet" if places else ""
        state = ending or STATES.get(campaign.state, "").format(who=subject)
        is_good = task is not None and task.has_ended and not task.has_failed
        clusters = ("", task.cluster) if task and task.has_ended else None
        about = [event for event in events if clusters is None or event.cluster in clusters]
        sentences = (head, state, *(() if is_good else _describe_open_events(campaign, about)))
        return CampaignExplanation(campaign=campaign, task=task, sentences=tuple(filter(None, sentences)))
    last = published_campaign_files.read_published_campaign_value(PublishedTaskSendExplanations, folder)
    published = last.reasons if last else ()
    reasons = tuple(reason for reason in published if reason.campaign == campaign.number)
    waits = tuple(map(describe_unmet_predecessor, campaign.unmet))
    decided = (
        () if campaign.is_held_back else _describe_reasons_of_waiting_tasks(reasons, events, is_explained=bool(waits))
    )
    sentences = (head, *waits, *decided, *_describe_open_events(campaign, events))
    at = last.at if last else None
    return CampaignExplanation(campaign=campaign, task=task, at=at, reasons=reasons, sentences=sentences)


def _describe_reasons_of_waiting_tasks(
    reasons: tuple[TaskSendExplanation, ...], events: tuple[CampaignEvent, ...], *, is_explained: bool
) -> Iterator[str]:
    for reason in reasons:
        refusal = _number_of_submission_refusal_event(reason, events)
        words = NOT_TAKEN if refusal else SENTENCES[reason.cause]
        yield f"{reason.cluster}: {words.format(**_format_fields_of_send_reason(reason, events), refusal=refusal)}"
    if not reasons and not is_explained:
        yield "the runner's next cycle decides about the waiting tasks"


def _number_of_submission_refusal_event(reason: TaskSendExplanation, events: tuple[CampaignEvent, ...]) -> int:
    """Return the number of the open event about the refusal of the last arrays; 0 without such an event."""
    if reason.cause is not TaskSentOrUnsentCause.SENT:
        return 0
    pair = reason.campaign, reason.cluster
    refused = (event for event in events if event.code in SUBMISSION_EVENTS)
    return next((event.number for event in refused if event.identity[1:3] == pair), 0)


def _format_fields_of_send_reason(reason: TaskSendExplanation, events: tuple[CampaignEvent, ...]) -> dict[str, object]:
    numbers = {field.name: getattr(reason, field.name) for field in fields(reason)}
    silent = (event for event in events if event.identity[:3] == (CampaignEventCode.GET_JOBS, 0, reason.cluster))
    since = next((f" since {event.opened_at:%Y-%m-%d %H:%M} UTC" for event in silent), "")
    closing = (reason.code, reason.campaign, reason.cluster)
    number = next((event.number for event in events if event.identity[:3] == closing), 0)
    stressed = f"the cluster's stress script prints {'no number' if reason.stress is None else f'{reason.stress:g}'}"
    ratio = "" if reason.job_ratio is None else f", and the job ratio is {reason.job_ratio:.3g}"
    cure = (
        f"the runner tries one task after {reason.until:%Y-%m-%d %H:%M:%S} UTC"
        if reason.until
        else f"gridevents -e {number} -f opens the cluster again"
    )
    closing_event = f", event {number}" if number else ""
    server = _describe_limit_of_file_server(reason)
    texts = {
        "load_of_server": server,
        "cure_of_server": _describe_cure_of_file_server_limit(reason),
        "night": describe_wait_for_night(reason),
        "since": since,
        "what": closing_event,
        "stressed": stressed,
        "ratio": ratio,
        "cure": cure,
    }
    texts |= {"in_jobs": f" in {number_with_noun(reason.jobs, 'job')}" if 0 < reason.jobs < reason.sent else ""}
    return numbers | texts | _format_reason_counts(reason) | {"others": _describe_campaigns_served_first(reason)}


def describe_nightly_waits_of_campaign(campaign: int, folder: str) -> list[str]:
    """Return a line for each cluster at which a campaign's nightly tasks wait for the next night."""
    last = published_campaign_files.read_published_campaign_value(PublishedTaskSendExplanations, folder)
    reasons = (reason for reason in (last.reasons if last else ()) if reason.campaign == campaign)
    return [
        f"{reason.cluster}: {describe_wait_for_night(reason)}"
        for reason in reasons
        if reason.cause is TaskSentOrUnsentCause.NIGHT
    ]


def describe_wait_for_night(reason: TaskSendExplanation) -> str:
    if not (reason.starts_from and reason.starts_until):
        return "no night of the cluster is as long as the walltime of the nightly tasks; request a shorter walltime"
    until = f"{reason.starts_until:%Y-%m-%d %H:%M} UTC, to end in the night"
    return f"nightly tasks start from {reason.starts_from:%Y-%m-%d %H:%M} until {until}"


def _describe_limit_of_file_server(reason: TaskSendExplanation) -> str:
    if reason.load_target is None:
        return f"max_jobs of the storage area {reason.storage} is {reason.server_limit}"
    limit = f"so the limit at the area's clusters is {number_with_noun(reason.server_limit, 'task')}"
    if reason.load is not None:
        load = f"the load of the storage area {reason.storage} is {reason.load:g}"
        return f"{load}, the target is {reason.load_target:g}, {limit}"
    since = f" since {reason.load_at:%Y-%m-%d %H:%M:%S} UTC" if reason.load_at else ""
    return f"load_command of the storage area {reason.storage} has printed no load{since}, {limit}"


def _describe_cure_of_file_server_limit(reason: TaskSendExplanation) -> str:
    if reason.load_target is not None and not reason.server_tasks:
        return "the load must fall first" if reason.load is not None else "the program must print a load first"
    return "a task there must end first"


def _format_reason_counts(reason: TaskSendExplanation) -> dict[str, object]:
    nouns = {
        "sent_there": (
            reason.sent,
            "of the campaign's tasks was sent there",
            "of the campaign's tasks were sent there",
        ),
        "sent_to_it": (reason.sent, "of the campaign's tasks was", "of the campaign's tasks were"),
        "listed_there": (reason.listed, "of the campaign's tasks is there", "of the campaign's tasks are there"),
        "slots_each": (reason.slots, "slot", "slots"),
        "at_server": (reason.server_tasks, "task of campaigns is", "tasks of campaigns are"),
        "were_free": (reason.free_slots, "slot was free", "slots were free"),
        "others_wait": (reason.waiting_there, "task of campaigns waits there", "tasks of campaigns wait there"),
        "enough": (reason.waiting, "task that waits there is enough", "tasks that wait there are enough"),
    }
    return {key: number_with_noun(*words) for key, words in nouns.items()}


def _describe_campaigns_served_first(reason: TaskSendExplanation) -> str:
    if not reason.order:
        return "other campaigns come first; when those have enough slots, this campaign is next"
    several, are = ("campaigns", "are") if len(reason.before) > 1 else ("campaign", "is")
    numbers = {"own": reason.own, "theirs": reason.theirs}
    before = f"{several} {', '.join(map(str, reason.before))}"
    return ORDERS[reason.order].format(before=before, are=are, cluster=reason.cluster, **numbers)


def _describe_open_events(campaign: PublishedCampaign, events: Iterable[CampaignEvent]) -> Iterator[str]:
    for event in events:
        is_dropped = event.code is CampaignEventCode.DROPPED and event.cluster in campaign.clusters
        if event.campaign == campaign.number or is_dropped:
            words = campaign_client.describe_event_to_user(event, {campaign.number: campaign.state})
            yield f"event {event.number}, {event.code}: {words}"


def _describe_task_state(task: PublishedCampaignTask) -> str:
    again = f" (attempt {task.attempt} ended as {task.outcome})" if task.attempt else ""
    if task.is_waiting:
        return f"the task waits to be sent{again}"
    if not task.attempt:
        return "the task was never sent: the campaign ended first"
    unknown = "never submitted" if task.has_ended else "not submitted yet"
    job = f"job {task.job_id}, task {task.place}" if task.job_id else unknown
    if not task.has_ended:
        return f"the task was sent to {task.cluster}: {job}"
    ended = f", exit status {task.exit_status}" if task.exit_status is not None else ""
    return f"the task ended at {task.cluster} ({job}): {task.state_word}{ended}"


def _describe_task_attempts(campaign: PublishedCampaign, task: PublishedCampaignTask) -> Iterator[str]:
    if task.beyond_s is not None:
        yield f"this attempt is a copy{_describe_run_time_before_copy(task.beyond_s)}"
    for copy in task.copies:
        kind = "another attempt" if copy.beyond_s is None else "a copy"
        state = f"is at {copy.cluster}" if copy.is_live else f"was at {copy.cluster}, and its result did not count"
        yield f"{kind} of the task {state} (attempt {copy.attempt}){_describe_run_time_before_copy(copy.beyond_s)}"
    for preemption in task.made_way:
        whom = f"job {preemption.job}, which lacked {', '.join(preemption.lacked)}"
        yield f"attempt {preemption.attempt} was preempted at {preemption.cluster} for {whom}"
    if checkpoint := task.checkpoint:
        yield from _describe_checkpoint(checkpoint, is_waiting=task.is_waiting)
    for move in task.moved:
        to = f"the next attempt went to {move.to}" if move.to else "the task is sent again"
        yield f"attempt {move.attempt} was moved from {move.cluster}, where it waited: {to}"
    if task.has_failed and task.outcome not in NEVER_STARTED_OUTCOMES and task.job_id:
        yield f"gridstat -j {campaign.number}.{task.number} -E shows the task's standard error to the owner"


CARRIES = {
    CheckpointCarryState.ALLOWED: "may be carried",
    CheckpointCarryState.CARRIED: "was carried",
    CheckpointCarryState.OVER: "was carried",
    CheckpointCarryState.FAILED: "could not be carried",
}


def _describe_checkpoint(left: TaskCheckpoint, *, is_waiting: bool) -> Iterator[str]:
    may_go = left.to and left.state is not CheckpointCarryState.FAILED
    where = f"this cluster or at {left.to}" if may_go else "this cluster"
    continues = f"the next attempt continues at {where}, and is sent before other tasks"
    continuation = continues if is_waiting else "the next attempt continued"
    yield f"attempt {left.attempt} left a checkpoint at {left.cluster}, from which {continuation}"
    if left.to:
        times = f"the carry takes about {left.carry_s} s, and without the carry about {left.lost_s} s are lost"
        yield f"the checkpoint {CARRIES[left.state]} to {left.to}: {times}"


def _describe_run_time_before_copy(beyond_s: int | None) -> str:
    return f", made after the task had run longer than {beyond_s} s" if beyond_s else ""
