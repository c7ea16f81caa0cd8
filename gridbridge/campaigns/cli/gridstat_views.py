"""Prints gridstat's views of campaigns, of one campaign's tasks, and of one task."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gridbridge.campaigns.cli import campaign_table
from gridbridge.campaigns.cli import gridevents as happened
from gridbridge.campaigns.cli.campaign_table import HEAD, SUMMARY_HEAD, campaign_summary_row, cigri_campaign_line
from gridbridge.campaigns.store.campaign_files import ForeignOrMissingCampaignFile
from gridbridge.campaigns.tools import campaign_client, published_events_and_tasks
from gridbridge.cli import output
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import is_task_cancelled_by_owner
from gridbridge.model.campaigns.published_campaigns import ShownCampaign
from gridbridge.model.campaigns.published_tasks import PublishedCampaignTask
from gridbridge.model.status_report import replace_control_characters
from gridbridge.state.published_json import to_json_types

MOST_BYTES = 16 << 20  # most bytes printed of a task's output
LAST_BYTES, LAST_LINES = 2000, 5  # end of a failed task's standard error
MOST_FAILED = 1000  # most failed tasks whose standard error is read


class UnknownCampaignOrTask(GridbridgeError):
    """The campaign or task does not exist."""


class NoEndedTaskToPlot(GridbridgeError):
    """No task of the campaign has ended yet, so there is nothing to plot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridstatOutputOptions:
    """Output options of gridstat: the folder to read, the header line, JSON or CSV."""

    folder: str
    is_headless: bool = False
    is_json: bool = False
    is_csv: bool = False


def show_campaigns(campaigns: Sequence[ShownCampaign], view: GridstatOutputOptions, *, is_summary: bool) -> None:
    """Print one line for each campaign, or the summary table, as text, JSON or CSV."""
    if view.is_json:
        output.print_json([_plain(campaign) for campaign in campaigns])
    elif view.is_csv:
        as_csv = campaign_table.print_campaign_summary_csv if is_summary else campaign_table.print_campaigns_csv
        as_csv(campaigns, view.is_headless)
    elif is_summary:
        output.print_table(
            SUMMARY_HEAD, [campaign_summary_row(campaign) for campaign in campaigns], numbers=SUMMARY_HEAD[4:]
        )
    else:
        for line in ([] if view.is_headless else [HEAD]) + [cigri_campaign_line(campaign) for campaign in campaigns]:
            output.print_line(line)


def show_campaign_with_clusters(campaign: ShownCampaign, view: GridstatOutputOptions) -> None:
    """Print one campaign; except for scripts (-H, CSV) also its progress by cluster."""
    campaign = published_events_and_tasks.campaign_with_cluster_progress(campaign, view.folder)
    show_campaigns([campaign], view, is_summary=False)
    if not (view.is_json or view.is_csv or view.is_headless):
        head = campaign_table.CLUSTER_HEAD
        output.print_table(head, campaign_table.cluster_progress_rows(campaign), numbers=head[1:])


def _plain(campaign: ShownCampaign) -> dict[str, object]:
    """Return a campaign's JSON fields, including its number of running tasks."""
    fields = to_json_types(campaign)
    assert isinstance(fields, dict)
    return fields | {"running": campaign.tasks_running}


def show_campaign_with_tasks(campaign: ShownCampaign, first: int, view: GridstatOutputOptions) -> None:
    """Print a campaign and its tasks, beginning with task number `first`."""
    parameters = published_events_and_tasks.own_task_parameters(campaign.number)
    tasks = published_events_and_tasks.list_published_tasks(campaign, first, view.folder)
    counted = published_events_and_tasks.campaign_with_cluster_progress(campaign, view.folder)
    if view.is_json:
        output.print_json(_plain(counted) | {"jobs": [campaign_table.task_json(task, parameters) for task in tasks]})
    elif view.is_csv:
        campaign_table.print_tasks_csv(tasks, parameters, view.is_headless)
    else:
        show_campaign_with_clusters(campaign, view)
        output.print_line(campaign_table.campaign_end_forecast_text(counted))
        if campaign.state.is_alive and (errors := campaign_client.published_forecast_errors(view.folder)):
            output.print_line(campaign_table.end_forecast_error_text(errors))
        campaign_table.print_task_lines(tasks, parameters, view.is_headless)


def show_failed_tasks(campaign: ShownCampaign, view: GridstatOutputOptions) -> None:
    """Print a campaign's failed tasks; its owner also sees the end of their standard error."""
    bad = published_events_and_tasks.finally_failed_tasks(campaign, view.folder)
    tasks = tuple(task for task in bad if not is_task_cancelled_by_owner(task.outcome, campaign.state))
    parameters = published_events_and_tasks.own_task_parameters(campaign.number)
    texts, problems = _errors(campaign.number, tasks[:MOST_FAILED])
    if view.is_json:
        rows = [campaign_table.task_json(task, parameters) for task in tasks]
        ends = [{"stderr": texts.get(task.number)} for task in tasks]
        output.print_json([row | end for row, end in zip(rows, ends, strict=True)])
    elif view.is_csv:
        campaign_table.print_tasks_csv(tasks, parameters, view.is_headless)
    else:
        _print_failed(tasks, parameters, texts, view)
    for problem in problems:
        output.print_error(f"gridstat: {problem}")


def show_open_events(campaign: ShownCampaign, view: GridstatOutputOptions) -> None:
    """Print the open events of a campaign."""
    published = published_events_and_tasks.published_events(view.folder)
    chosen = published_events_and_tasks.select_published_events(
        published, campaign.number, None, is_global=False, is_all=False
    )
    happened.print_events(chosen, {campaign.number: campaign.state}, view.is_json)


def show_task_or_its_output(
    number: int, task: int, view: GridstatOutputOptions, is_there: bool, is_output: bool, is_error: bool
) -> int:
    """Print one task, its remote job, or, for its owner, its output."""
    campaign = published_events_and_tasks.find_published_campaign(number, view.folder)
    published_task = published_events_and_tasks.find_published_task(campaign, task, view.folder) if campaign else None
    if not published_task:
        raise UnknownCampaignOrTask(f"no job {number}.{task}")
    if (is_there or is_output or is_error) and not published_task.job_id:
        raise UnknownCampaignOrTask(f"job {number}.{task} was not sent to a cluster, or is not known there yet")
    if is_output or is_error:
        return _stream(number, published_task, is_error=is_error)
    parameters = published_events_and_tasks.own_task_parameters(number)
    if view.is_json:
        output.print_json(campaign_table.task_json(published_task, parameters))
    elif view.is_csv:
        campaign_table.print_tasks_csv([published_task], parameters, view.is_headless)
    elif is_there:
        output.print_line(f"{published_task.cluster}: job {published_task.job_id}, task {published_task.place}")
    else:
        campaign_table.print_task_lines([published_task], parameters, view.is_headless)
    return 0


def plot_campaign_task_ends(shown: ShownCampaign, path: str, view: GridstatOutputOptions) -> None:
    """Plot when the tasks of a campaign ended, into a file."""
    ends = published_events_and_tasks.task_end_times_and_clusters(shown, view.folder)
    if not ends:
        raise NoEndedTaskToPlot(f"campaign {shown.number}: none of its tasks has ended yet")
    from gridbridge.campaigns.cli import campaign_plot  # takes half a second to load

    band = (shown.p50_at, shown.p90_at) if shown.p50_at and shown.p90_at else ()
    campaign_plot.write_campaign_progress_plot(shown, ends, datetime.now(UTC), band, path)
    output.print_line(path)


def _stream(number: int, task: PublishedCampaignTask, *, is_error: bool) -> int:
    from gridbridge.campaigns.tools import own_task_outputs  # its imports are slow

    stream = own_task_outputs.ERR if is_error else own_task_outputs.OUT
    locations = own_task_outputs.own_campaign_output_folders(number)
    texts, problems = own_task_outputs.read_task_output_tails([task], stream, MOST_BYTES, locations)
    for problem in problems:
        output.print_error(f"gridstat: {problem}")
    if not texts and not problems:
        path = f"{locations[task.cluster].folder}/{own_task_outputs.task_output_file_name(task, stream)}"
        none = f"no {path} at {task.cluster}: it has not begun there, or the file was removed"
        output.print_error(f"gridstat: job {number}.{task.number}: {none}")
    for text in filter(None, texts.values()):
        output.print_line(text.removesuffix("\n"))
    return 0 if texts else 1


def _errors(number: int, tasks: Sequence[PublishedCampaignTask]) -> tuple[dict[int, str], list[str]]:
    from gridbridge.campaigns.tools import own_task_outputs

    try:
        locations = own_task_outputs.own_campaign_output_folders(number)
    except ForeignOrMissingCampaignFile:
        return {}, []
    return own_task_outputs.read_task_output_tails(tasks, own_task_outputs.ERR, LAST_BYTES, locations)


def _print_failed(
    tasks: Sequence[PublishedCampaignTask],
    parameters: Sequence[str],
    texts: dict[int, str],
    view: GridstatOutputOptions,
) -> None:
    if not view.is_headless:
        output.print_line(campaign_table.TASK_HEAD)
    for task in tasks:
        output.print_line(campaign_table.task_line(task, parameters))
        for line in texts.get(task.number, "").splitlines()[-LAST_LINES:]:
            output.print_line(f"    {replace_control_characters(line)}")
