"""Looks up published campaigns and tasks; only owners see their tasks' parameters."""

from collections.abc import Iterator
from dataclasses import replace

from gridbridge.campaigns.store import campaign_files, published_task_files
from gridbridge.campaigns.store.campaign_files import HIGHEST, CampaignFileNotOwned
from gridbridge.campaigns.store.published_task_files import A_FILE
from gridbridge.campaigns.submission.jdl_writer import write_jdl
from gridbridge.campaigns.tools import campaign_client
from gridbridge.decisions.campaigns import progress_counts
from gridbridge.model.campaigns.campaign import CampaignState, TaskOutcome
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.campaigns.published_campaigns import ShownCampaign
from gridbridge.model.campaigns.published_tasks import DROPPED, PublishedTask, TaskEndTimes
from gridbridge.model.places import CAMPAIGNS, PUBLISHED
from gridbridge.program.encoding import decode_model_value

MOST_DIGITS = 1000  # that are read as a number


def find_campaign(number: int, folder: str = PUBLISHED) -> ShownCampaign | None:
    """Return a published campaign; None if it does not exist."""
    return next(
        (
            campaign
            for campaign in campaign_client.published_campaigns(folder)
            if campaign.number == number
        ),
        None,
    )


def list_tasks(
    campaign: ShownCampaign, first: int = 0, folder: str = PUBLISHED
) -> Iterator[PublishedTask]:
    """Return a campaign's tasks from a number on, including tasks that were never sent."""
    for part in range(first // A_FILE, (campaign.tasks - 1) // A_FILE + 1):
        sent = published_task_files.read_published_campaign_tasks(campaign.number, part, folder)
        low, high = part * A_FILE, min(campaign.tasks, (part + 1) * A_FILE)
        for number in range(max(first, low), high):
            task = sent.get(number) or _never_sent(campaign, number)
            is_suspect = task.outcome is TaskOutcome.SUCCESS and task.cluster in campaign.sinks
            yield replace(task, is_suspect=True) if is_suspect else task


def find_task(
    campaign: ShownCampaign, number: int, folder: str = PUBLISHED
) -> PublishedTask | None:
    """Return a task of a campaign; None if it does not exist."""
    return next(list_tasks(campaign, number, folder), None) if number < campaign.tasks else None


def failed_tasks(campaign: ShownCampaign, folder: str = PUBLISHED) -> tuple[PublishedTask, ...]:
    """Return the tasks that have failed for good."""
    is_over = campaign.state is CampaignState.TERMINATED
    all_tasks = list_tasks(campaign, 0, folder)
    return tuple(
        task for task in all_tasks if task.has_failed or (is_over and task.word == DROPPED)
    )


def with_cluster_progress(campaign: ShownCampaign, folder: str = PUBLISHED) -> ShownCampaign:
    """Return a campaign with its number of ended tasks at each cluster."""
    return progress_counts.add_ended_task_counts(campaign, task_end_times(campaign, folder))


def task_end_times(campaign: ShownCampaign, folder: str = PUBLISHED) -> tuple[TaskEndTimes, ...]:
    """Return when and at which cluster the tasks of a campaign ended."""
    return published_task_files.read_published_task_ends(campaign.number, folder)


def own_task_parameters(number: int, folder: str = CAMPAIGNS) -> list[str]:
    """Return the parameters of the caller's campaign; empty for another user's campaign."""
    try:
        return campaign_files.read_own_campaign_file(number, folder)[1]
    except CampaignFileNotOwned:
        return []


def own_jdl(number: int, folder: str = CAMPAIGNS) -> object:
    """Return the JDL of the caller's campaign; CampaignFileNotOwned for another user's."""
    header, parameters = campaign_files.read_own_campaign_file(number, folder)
    return write_jdl(decode_model_value(header, Jdl), parameters)


def parse_cigri_job_id(text: str) -> tuple[int, int]:
    """Parse CAMPAIGN.TASK, a CIGRI_JOB_ID such as 12.0; ValueError for other texts."""
    campaign, dot, number = text.partition(".")
    if not dot or not all(part.isascii() and part.isdigit() for part in (campaign, number)):
        raise ValueError(f"{text!r:.40} is not CAMPAIGN.TASK, as 12.0")
    return parse_campaign_number(campaign), parse_campaign_number(number)


def parse_campaign_number(digits: str) -> int:
    """Parse a campaign's number; digits beyond the maximum give a number that no campaign has."""
    return int(digits) if len(digits) <= MOST_DIGITS else HIGHEST + 1


def _never_sent(campaign: ShownCampaign, number: int) -> PublishedTask:
    return PublishedTask(number=number, is_waiting=campaign.state.is_alive)
