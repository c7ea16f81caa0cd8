"""The tasks of a campaign as people see them: states for all, parameters for their owner alone."""

from collections.abc import Iterator
from dataclasses import replace

from gridbridge.campaigns.store import campaign_files, published_task_files
from gridbridge.campaigns.store.campaign_files import HIGHEST, NotTheirs
from gridbridge.campaigns.store.published_task_files import A_FILE
from gridbridge.campaigns.submission.jdl_writer import as_jdl
from gridbridge.campaigns.tools import campaign_client
from gridbridge.decisions.campaigns import progress_counts
from gridbridge.model.campaigns.campaign import CampaignState, TaskOutcome
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.campaigns.published_campaigns import ShownCampaign
from gridbridge.model.campaigns.published_tasks import DROPPED, PublishedTask, TaskEndTimes
from gridbridge.model.places import CAMPAIGNS, PUBLISHED
from gridbridge.program.encoding import decode

MOST_DIGITS = 1000  # that are read as a number


def find(number: int, folder: str = PUBLISHED) -> ShownCampaign | None:
    """Look a campaign up."""
    return next(
        (
            campaign
            for campaign in campaign_client.published_campaigns(folder)
            if campaign.number == number
        ),
        None,
    )


def tasks(
    campaign: ShownCampaign, first: int = 0, folder: str = PUBLISHED
) -> Iterator[PublishedTask]:
    """Give the tasks of a campaign from one number on, those too that were never sent."""
    for part in range(first // A_FILE, (campaign.tasks - 1) // A_FILE + 1):
        sent = published_task_files.read(campaign.number, part, folder)
        low, high = part * A_FILE, min(campaign.tasks, (part + 1) * A_FILE)
        for number in range(max(first, low), high):
            task = sent.get(number) or _never_sent(campaign, number)
            is_suspect = task.outcome is TaskOutcome.SUCCESS and task.cluster in campaign.sinks
            yield replace(task, is_suspect=True) if is_suspect else task


def task(campaign: ShownCampaign, number: int, folder: str = PUBLISHED) -> PublishedTask | None:
    """Look a task up."""
    return next(tasks(campaign, number, folder), None) if number < campaign.tasks else None


def failed(campaign: ShownCampaign, folder: str = PUBLISHED) -> tuple[PublishedTask, ...]:
    """Return the tasks that ended for good without success.

    Of a campaign that ended by itself those too that were never sent: root refused its file.
    """
    is_over = campaign.state is CampaignState.TERMINATED
    all_tasks = tasks(campaign, 0, folder)
    return tuple(
        task for task in all_tasks if task.has_failed or (is_over and task.word == DROPPED)
    )


def with_ends(campaign: ShownCampaign, folder: str = PUBLISHED) -> ShownCampaign:
    """Return a campaign with its ended tasks at each cluster."""
    return progress_counts.with_ends(campaign, ends(campaign, folder))


def ends(campaign: ShownCampaign, folder: str = PUBLISHED) -> tuple[TaskEndTimes, ...]:
    """Return when tasks of a campaign ended, and where."""
    return published_task_files.ends(campaign.number, folder)


def parameters(number: int, folder: str = CAMPAIGNS) -> list[str]:
    """Return the parameters of our own campaign's tasks, of another's none."""
    try:
        return campaign_files.brought(number, folder)[1]
    except NotTheirs:
        return []


def jdl(number: int, folder: str = CAMPAIGNS) -> object:
    """Return the JDL of our own campaign with all of its tasks; NotTheirs for another's."""
    header, parameters = campaign_files.brought(number, folder)
    return as_jdl(decode(header, Jdl), parameters)


def read_job(text: str) -> tuple[int, int]:
    """Return the campaign and task of a CIGRI_JOB_ID, 12.0; ValueError for anything else."""
    campaign, dot, number = text.partition(".")
    if not dot or not all(part.isascii() and part.isdigit() for part in (campaign, number)):
        raise ValueError(f"{text!r:.40} is not CAMPAIGN.TASK, as 12.0")
    return number_of(campaign), number_of(number)


def number_of(digits: str) -> int:
    """Return a number that was typed; one of very many digits is one that nothing has."""
    return int(digits) if len(digits) <= MOST_DIGITS else HIGHEST + 1


def _never_sent(campaign: ShownCampaign, number: int) -> PublishedTask:
    return PublishedTask(number=number, is_waiting=campaign.state.is_alive)
