"""Why a campaign or a task of it waits: the numbers of the last cycle, and what would change it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.reasons import Cause, Reason
from gridbridge.model.campaigns.shown import ShownCampaign
from gridbridge.model.campaigns.task import ShownTask
from gridbridge.model.places import PUBLISHED
from gridbridge.services.tools import campaign_tasks
from gridbridge.state import campaigns_shown

SENTENCES = {
    Cause.SENT: "{sent} of its tasks were sent there; {free_slots} slots were free",
    Cause.NO_ANSWER: "it did not answer; nothing is sent there until it does",
    Cause.TRIED: "it has had its task: a test sends one to each cluster",
    Cause.FULL: "{free_slots} slots were free, and a task needs {slots}; a job has to end there",
    Cause.MAX_JOBS: "{listed} of its tasks are there, and max_jobs is {max_jobs}; one has to end",
    Cause.OTHERS_FIRST: (
        "{free_slots} slots were free, which go to campaigns before it and to tasks that wait there"
        " ({waiting} of its own); when those have started, it is its turn"
    ),
}
STATES = {
    CampaignState.PAUSED: "it is paused; griddel -r lets it go on",
    CampaignState.TERMINATED: "it has ended",
    CampaignState.CANCELLED: "it is cancelled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is told of a campaign, and of one of its tasks when that was asked for."""

    campaign: ShownCampaign
    task: ShownTask | None = None
    at: datetime | None = None  # of the last cycle; None when nothing waits for one
    reasons: tuple[Reason, ...] = ()
    sentences: tuple[str, ...] = ()


def why(asked: str, folder: str = PUBLISHED) -> Told | None:
    """Tell about CAMPAIGN or CAMPAIGN.TASK; None where there is none of that number."""
    is_task = "." in asked
    try:
        campaign, number = campaign_tasks.read_job(asked if is_task else f"{asked}.0")
    except ValueError:
        return None
    one = campaign_tasks.find(campaign, folder) if os.path.isdir(folder) else None
    if not one or not is_task:
        return _of_campaign(one, folder) if one else None
    task = campaign_tasks.task(one, number, folder)
    return _of_task(one, task, folder) if task else None


def _of_campaign(one: ShownCampaign, folder: str) -> Told:
    head = f"{one.ended} of {one.tasks} tasks ended, {one.waiting} wait to be sent"
    return _told(one, None, head, folder, does_wait=bool(one.waiting))


def _of_task(one: ShownCampaign, task: ShownTask, folder: str) -> Told:
    return _told(one, task, _state(task), folder, does_wait=task.is_waiting)


def _told(
    one: ShownCampaign, task: ShownTask | None, head: str, folder: str, *, does_wait: bool
) -> Told:
    if not does_wait or one.state is not CampaignState.IN_TREATMENT:
        state = STATES.get(one.state, "")
        return Told(campaign=one, task=task, sentences=tuple(filter(None, (head, state))))
    last = campaigns_shown.read_cycle(folder)
    found = tuple(each for each in last.reasons if each.campaign == one.number) if last else ()
    return Told(
        campaign=one,
        task=task,
        at=last.at if last else None,
        reasons=found,
        sentences=(head, *_sentences(found)),
    )


def _sentences(reasons: tuple[Reason, ...]) -> Iterator[str]:
    for each in reasons:
        numbers = {name: getattr(each, name) for name in ("sent", "free_slots", "slots", "listed")}
        numbers |= {"waiting": each.waiting, "max_jobs": each.max_jobs}
        yield f"{each.cluster}: {SENTENCES[each.cause].format(**numbers)}"
    if not reasons:
        yield "no cycle has looked at it yet"


def _state(task: ShownTask) -> str:
    """Say where a task is."""
    again = f" (attempt {task.attempt} ended as {task.outcome})" if task.attempt else ""
    if task.is_waiting:
        return f"it waits to be sent{again}"
    if not task.attempt:
        return "it was dropped: the campaign ended before it was sent"
    place = f"job {task.job_id}, task {task.place}" if task.job_id else "not submitted yet"
    if not task.has_ended:
        return f"it was sent to {task.cluster}: {place}"
    ended = f", exit status {task.exit_status}" if task.exit_status is not None else ""
    return f"it ended at {task.cluster} ({place}): {task.outcome}{ended}"
