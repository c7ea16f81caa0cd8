"""Why a campaign or a task of it waits: the numbers of the last cycle, and what would change it."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import datetime

from gridbridge.campaigns.store import published_campaign_files
from gridbridge.campaigns.tools import event_commands, task_views
from gridbridge.decisions.campaigns.failures.retries import NEVER_BEGAN
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_events import (
    OF_SUBMISSION,
    CampaignEvent,
    EventCode,
    EventKind,
)
from gridbridge.model.campaigns.published_campaigns import ShownCampaign
from gridbridge.model.campaigns.published_tasks import PublishedTask
from gridbridge.model.campaigns.send_reasons import (
    CampaignOrder,
    SendCause,
    SendReason,
    ShownCycle,
)
from gridbridge.model.places import PUBLISHED
from gridbridge.model.status_report import count

SENTENCES = {
    SendCause.SENT: "{sent_there}; {were_free}{ratio}",
    SendCause.NO_ANSWER: "it did not answer{since}; nothing is sent there until it does",
    SendCause.DROPPED: "gridbridge.toml has it no more; nothing is sent there",
    SendCause.CLOSED: "it is closed to it by {code}{what}; {cure}",
    SendCause.PREPARING: "its prologue or epilogue is to end there first; then its tasks are sent",
    SendCause.DRAINED: (
        "it is drained (gridbridge status says why): it gets nothing until that ends"
    ),
    SendCause.STRESSED: "{stressed}; nothing is sent there until that is below {stress_limit:g}",
    SendCause.TRIED: "it has had its task: a test sends one to each cluster",
    SendCause.MAX_JOBS: "{listed_there}, and max_jobs is {max_jobs}; one has to end",
    SendCause.MAX_ARRAYS: (
        "as many arrays are there as it takes from one person or from all (max_u_jobs, max_jobs);"
        " one has to end"
    ),
    SendCause.TOO_LARGE: (
        "a task needs {slots_each}, and all of the cluster has {all_slots}: none can start there;"
        " ask for fewer"
    ),
    SendCause.KEPT_OFF: (
        "its tasks that are left failed there before, and wait for a slot at a cluster that did not"
        " fail them; where none such is open they go there again, but for those that overran their"
        " walltime there (griddel -j CAMPAIGN.TASK gives one up)"
    ),
    SendCause.FULL: (
        "{were_free}, and a task needs {slots}; a job has to end there"
        " ({others_wait}, {may_wait} more may)"
    ),
    SendCause.WAITING_THERE: (
        "{were_free}, for which {others_wait}"
        " ({waiting} of its own); when those have started, it is its turn"
    ),
    SendCause.JOB_RATIO: ("{were_free}{ratio}, so {enough}; when they start, it rises"),
    SendCause.ELSEWHERE: "all of its tasks that could be sent went to other clusters",
    SendCause.OTHERS_FIRST: "{were_free}, which {others}",
}
ORDERS = {
    CampaignOrder.TEST: (
        "went to {before}: tests go first; when they have their tasks, it is its turn"
    ),
    CampaignOrder.TESTS: (
        "went to {before}: {theirs:g} tests of a person at a time go first there;"
        " when one of those has ended, it is its turn"
    ),
    CampaignOrder.AFFINITY: (
        "went to {before}, whose owners have an affinity to {cluster}; it gets what they leave"
    ),
    CampaignOrder.SHARE: (
        "went to {before}, who used less before: {theirs:.0f} slot-seconds against {own:.0f};"
        " when that evens out, it is its turn"
    ),
    CampaignOrder.PRIORITY: (
        "went to {before}, of priority {theirs:g} against {own:g}; it gets what they leave"
    ),
    CampaignOrder.AGE: "went to {before}, which {are} older; it gets what they leave",
}
NOT_TAKEN = "{sent_to_it} to be sent there, and it took none: event {refusal} says why"
OTHERS = "go to others before it; when they have what they want, it is its turn"
STATES = {
    CampaignState.PAUSED: "{who} is paused; griddel -r lets it go on",
    CampaignState.TERMINATED: "{who} has ended",
    CampaignState.CANCELLED: "{who} is cancelled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignExplanation:
    """What is told of a campaign, and of one of its tasks when that was asked for."""

    campaign: ShownCampaign
    task: PublishedTask | None = None
    at: datetime | None = None  # of the last cycle; None when nothing waits for one
    reasons: tuple[SendReason, ...] = ()
    sentences: tuple[str, ...] = ()


def why(asked: str, folder: str = PUBLISHED) -> CampaignExplanation | None:
    """Tell about CAMPAIGN or CAMPAIGN.TASK; None where there is none of that number."""
    is_task = "." in asked
    try:
        campaign, number = task_views.read_job(asked if is_task else f"{asked}.0")
    except ValueError:
        return None
    one = task_views.find(campaign, folder) if os.path.isdir(folder) else None
    if not one or not is_task:
        return _of_campaign(one, folder) if one else None
    task = task_views.task(one, number, folder)
    return _of_task(one, task, folder) if task else None


def _of_campaign(one: ShownCampaign, folder: str) -> CampaignExplanation:
    sent = max(0, one.tasks - one.ended - one.waiting) if one.state.is_alive else 0
    are = count(sent, "is at a cluster or on its way", "are at clusters or on their way")
    there = f"{are} there, " if sent else ""
    wait = count(one.waiting, "waits to be sent", "wait to be sent")
    head = f"{one.ended} of {count(one.tasks, 'task')} ended, {there}{wait}"
    told = _told(one, None, head, folder, does_wait=bool(one.waiting))
    return replace(told, sentences=(*told.sentences, *_of_failed(one, folder)))


def _of_task(one: ShownCampaign, task: PublishedTask, folder: str) -> CampaignExplanation:
    told = _told(one, task, _state(task), folder, does_wait=task.is_waiting)
    more = (*_of_copies(task), *_of_ways(task), *_of_moves(task), *_of_output(one, task))
    return replace(told, sentences=(*told.sentences, *more))


def _of_failed(one: ShownCampaign, folder: str) -> Iterator[str]:
    """Say how to look at tasks that failed, and how to run them again."""
    seen = event_commands.seen(folder)
    events = [each for each in seen if each.campaign == one.number and not each.closed_at]
    is_open = any(each.kind is EventKind.TASK for each in events)
    if one.failed and (is_open or one.state is CampaignState.TERMINATED):
        whose = count(one.failed, "task")
        if any(each.code is EventCode.FILE_REFUSED for each in events):
            yield f"{whose} failed: gridstat {one.number} --failed shows how"
            return
        again = (
            f"gridevents -c {one.number} -r has them tried again"
            if is_open
            else f"gridsub --retry-failed {one.number} submits them as another campaign"
        )
        yield f"{whose} failed: gridstat {one.number} --failed shows how, and {again}"


def _of_output(one: ShownCampaign, task: PublishedTask) -> Iterator[str]:
    """Say where the last words of a task that failed are."""
    if task.has_failed and task.outcome not in NEVER_BEGAN and task.job_id:
        yield f"gridstat -j {one.number}.{task.number} -E shows its owner its standard error"


def _told(
    one: ShownCampaign, task: PublishedTask | None, head: str, folder: str, *, does_wait: bool
) -> CampaignExplanation:
    events = tuple(each for each in event_commands.seen(folder) if not each.closed_at)
    if not does_wait or one.state is not CampaignState.IN_TREATMENT:
        who = f"campaign {one.number}" if task else "it"
        state = _ending(one, who) or STATES.get(one.state, "").format(who=who)
        is_good = task is not None and task.has_ended and not task.has_failed
        at = ("", task.cluster) if task and task.has_ended else None
        about = [each for each in events if at is None or each.cluster in at]
        told = (head, state, *(() if is_good else _open(one, about)))
        return CampaignExplanation(campaign=one, task=task, sentences=tuple(filter(None, told)))
    last = published_campaign_files.read(ShownCycle, folder)
    found = tuple(each for each in last.reasons if each.campaign == one.number) if last else ()
    return CampaignExplanation(
        campaign=one,
        task=task,
        at=last.at if last else None,
        reasons=found,
        sentences=(head, *_sentences(found, events), *_open(one, events)),
    )


def _ending(one: ShownCampaign, who: str) -> str:
    """Say where tasks of a cancelled campaign are still to end."""
    at = ", ".join(one.ending_at)
    return f"{who} is being cancelled: what of it is at {at} has not ended yet" if at else ""


def _sentences(reasons: tuple[SendReason, ...], events: tuple[CampaignEvent, ...]) -> Iterator[str]:
    for each in reasons:
        refusal = _refusal(each, events)
        words = NOT_TAKEN if refusal else SENTENCES[each.cause]
        yield f"{each.cluster}: {words.format(**_numbers(each, events), refusal=refusal)}"
    if not reasons:
        yield "the next cycle decides about what waits"


def _refusal(one: SendReason, events: tuple[CampaignEvent, ...]) -> int:
    """Return the event by which a cluster took nothing of what was meant for it; 0 for none.

    It is closed by the first array that the cluster takes.
    """
    if one.cause is not SendCause.SENT:
        return 0
    pair = one.campaign, one.cluster
    refused = (each for each in events if each.code in OF_SUBMISSION)
    return next((each.number for each in refused if each.what[1:3] == pair), 0)


def _numbers(one: SendReason, events: tuple[CampaignEvent, ...]) -> dict[str, object]:
    """Return what its sentence tells."""
    numbers = {each.name: getattr(one, each.name) for each in fields(one)}
    silent = (each for each in events if each.what[:3] == (EventCode.GET_JOBS, 0, one.cluster))
    since = next((f" since {each.opened_at:%Y-%m-%d %H:%M} UTC" for each in silent), "")
    number = next((each.number for each in events if _closes(each, one)), 0)
    stressed = (
        "its stress script does not tell how stressed it is"
        if one.stress is None
        else f"its stress script says {one.stress:g}"
    )
    ratio = "" if one.job_ratio is None else f", and its job ratio is {one.job_ratio:.3g}"
    cure = (
        f"one task is tried after {one.until:%Y-%m-%d %H:%M:%S} UTC"
        if one.until
        else f"gridevents -e {number} -f opens it again"
    )
    what = f", event {number}" if number else ""
    told = {"since": since, "what": what, "stressed": stressed, "ratio": ratio, "cure": cure}
    return numbers | told | _counted(one) | {"others": _others(one)}


def _counted(one: SendReason) -> dict[str, object]:
    """Return its numbers with their nouns and verbs."""
    of_its = "of its tasks"
    return {
        "sent_there": count(one.sent, f"{of_its} was sent there", f"{of_its} were sent there"),
        "sent_to_it": count(one.sent, f"{of_its} was", f"{of_its} were"),
        "listed_there": count(one.listed, f"{of_its} is there", f"{of_its} are there"),
        "slots_each": count(one.slots, "slot"),
        "were_free": count(one.free_slots, "slot was free", "slots were free"),
        "others_wait": count(
            one.waiting_there, "task of campaigns waits there", "tasks of campaigns wait there"
        ),
        "enough": count(
            one.waiting, "task that waits there is enough", "tasks that wait there are enough"
        ),
    }


def _closes(event: CampaignEvent, one: SendReason) -> bool:
    return event.what[:3] == (one.code, one.campaign, one.cluster)


def _others(one: SendReason) -> str:
    """Say who was served before a campaign, and why."""
    if not one.order:
        return OTHERS
    several = "campaigns" if len(one.before) > 1 else "campaign"
    before = f"{several} {', '.join(map(str, one.before))}"
    words = ORDERS[one.order]
    are = "are" if len(one.before) > 1 else "is"
    return words.format(before=before, are=are, cluster=one.cluster, own=one.own, theirs=one.theirs)


def _open(one: ShownCampaign, events: Iterable[CampaignEvent]) -> Iterator[str]:
    """Tell the open events of a campaign; those that close a cluster are told there, too."""
    for each in events:
        is_dropped = each.code is EventCode.DROPPED and each.cluster in one.clusters
        if each.campaign == one.number or is_dropped:
            told = event_commands.words(each, {one.number: one.state})
            yield f"event {each.number}, {each.code}: {told}"


def _state(task: PublishedTask) -> str:
    """Say where a task is."""
    again = f" (attempt {task.attempt} ended as {task.outcome})" if task.attempt else ""
    if task.is_waiting:
        return f"it waits to be sent{again}"
    if not task.attempt:
        return "it was dropped: the campaign ended before it was sent"
    unknown = "never submitted" if task.has_ended else "not submitted yet"
    place = f"job {task.job_id}, task {task.place}" if task.job_id else unknown
    if not task.has_ended:
        return f"it was sent to {task.cluster}: {place}"
    ended = f", exit status {task.exit_status}" if task.exit_status is not None else ""
    return f"it ended at {task.cluster} ({place}): {task.word}{ended}"


def _of_copies(task: PublishedTask) -> Iterator[str]:
    """Say which copies a task has or had, and why; other attempts beside them, too."""
    if task.beyond_s is not None:
        yield f"that is a copy{_made_for(task.beyond_s)}"
    for one in task.copies:
        what = "another attempt" if one.beyond_s is None else "a copy"
        state = (
            f"is at {one.cluster}" if one.is_live else f"was at {one.cluster}, and decided nothing"
        )
        yield f"{what} of it {state} (attempt {one.attempt}){_made_for(one.beyond_s)}"


def _of_ways(task: PublishedTask) -> Iterator[str]:
    """Say for which local jobs its attempts ended."""
    for one in task.made_way:
        whom = f"job {one.job}, which lacked {', '.join(one.lacked)}"
        yield f"attempt {one.attempt} made way at {one.cluster} for {whom}"


def _of_moves(task: PublishedTask) -> Iterator[str]:
    """Say which attempts rebalancing took from where they waited, and where the next one went."""
    for one in task.moved:
        to = f"the next one went to {one.to}" if one.to else "it is sent anew"
        yield f"attempt {one.attempt} was moved from {one.cluster}, where it waited: {to}"


def _made_for(beyond_s: int | None) -> str:
    return f": when it was made, the task had run longer than {beyond_s} s" if beyond_s else ""
