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
    return next((one for one in campaign_client.seen(folder) if one.number == number), None)


def tasks(one: ShownCampaign, first: int = 0, folder: str = PUBLISHED) -> Iterator[PublishedTask]:
    """Give the tasks of a campaign from one number on, those too that were never sent."""
    for part in range(first // A_FILE, (one.tasks - 1) // A_FILE + 1):
        sent = published_task_files.read(one.number, part, folder)
        low, high = part * A_FILE, min(one.tasks, (part + 1) * A_FILE)
        for number in range(max(first, low), high):
            found = sent.get(number) or _never_sent(one, number)
            is_suspect = found.outcome is TaskOutcome.SUCCESS and found.cluster in one.sinks
            yield replace(found, is_suspect=True) if is_suspect else found


def task(one: ShownCampaign, number: int, folder: str = PUBLISHED) -> PublishedTask | None:
    """Look a task up."""
    return next(tasks(one, number, folder), None) if number < one.tasks else None


def failed(one: ShownCampaign, folder: str = PUBLISHED) -> tuple[PublishedTask, ...]:
    """Return the tasks that ended for good without success.

    Of a campaign that ended by itself those too that were never sent: root refused its file.
    """
    is_over = one.state is CampaignState.TERMINATED
    every = tasks(one, 0, folder)
    return tuple(each for each in every if each.has_failed or (is_over and each.word == DROPPED))


def with_ends(campaign: ShownCampaign, folder: str = PUBLISHED) -> ShownCampaign:
    """Return a campaign with its ended tasks at each cluster."""
    return progress_counts.with_ends(campaign, ends(campaign, folder))


def ends(one: ShownCampaign, folder: str = PUBLISHED) -> tuple[TaskEndTimes, ...]:
    """Return when tasks of a campaign ended, and where."""
    return published_task_files.ends(one.number, folder)


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
    if not dot or not all(each.isascii() and each.isdigit() for each in (campaign, number)):
        raise ValueError(f"{text!r:.40} is not CAMPAIGN.TASK, as 12.0")
    return number_of(campaign), number_of(number)


def number_of(digits: str) -> int:
    """Return a number that was typed; one of very many digits is one that nothing has."""
    return int(digits) if len(digits) <= MOST_DIGITS else HIGHEST + 1


def _never_sent(one: ShownCampaign, number: int) -> PublishedTask:
    return PublishedTask(number=number, is_waiting=one.state.is_alive)
