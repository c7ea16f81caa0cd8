"""What gridstat shows of campaigns, of one campaign's tasks, and of one task."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gridbridge.campaigns.cli import campaign_table
from gridbridge.campaigns.cli import event_table as happened
from gridbridge.campaigns.cli.campaign_table import HEAD, SUMMARY_HEAD, row, summary
from gridbridge.campaigns.store.campaign_files import NotTheirs
from gridbridge.campaigns.tools import campaign_client, event_commands, task_views
from gridbridge.cli import output
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import is_cancelled
from gridbridge.model.campaigns.published_campaigns import ShownCampaign
from gridbridge.model.campaigns.published_tasks import PublishedTask
from gridbridge.model.status_report import printable
from gridbridge.state.published_json import plain

MOST_BYTES = 16 << 20  # of a task's output
LAST_BYTES, LAST_LINES = 2000, 5  # of the standard error of one that failed
MOST_FAILED = 1000  # whose standard error is looked for


class UnknownCampaign(GridbridgeError):
    """There is no such campaign or task."""


class NothingEnded(GridbridgeError):
    """A campaign has no picture before its first task has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayOptions:
    """How things are to be shown."""

    folder: str
    is_headless: bool = False
    is_json: bool = False
    is_csv: bool = False


def listed(campaigns: Sequence[ShownCampaign], view: DisplayOptions, *, is_summary: bool) -> None:
    """Show campaigns, a line each."""
    if view.is_json:
        output.as_json([_plain(campaign) for campaign in campaigns])
    elif view.is_csv:
        as_csv = campaign_table.summary_as_csv if is_summary else campaign_table.as_csv
        as_csv(campaigns, view.is_headless)
    elif is_summary:
        output.table(
            SUMMARY_HEAD, [summary(campaign) for campaign in campaigns], numbers=SUMMARY_HEAD[4:]
        )
    else:
        for line in ([] if view.is_headless else [HEAD]) + [
            row(campaign) for campaign in campaigns
        ]:
            output.line(line)


def whole(campaign: ShownCampaign, view: DisplayOptions) -> None:
    """Show one campaign, and its progress by cluster unless a script reads (-H, CSV)."""
    campaign = task_views.with_ends(campaign, view.folder)
    listed([campaign], view, is_summary=False)
    if not (view.is_json or view.is_csv or view.is_headless):
        head = campaign_table.CLUSTER_HEAD
        output.table(head, campaign_table.by_cluster(campaign), numbers=head[1:])


def _plain(campaign: ShownCampaign) -> dict[str, object]:
    """Return a campaign as JSON shows it, with the summary's number of tasks that run."""
    fields = plain(campaign)
    assert isinstance(fields, dict)
    return fields | {"running": campaign.tasks_running}


def full(campaign: ShownCampaign, first: int, view: DisplayOptions) -> None:
    """Show a campaign with its tasks from one number on."""
    parameters = task_views.parameters(campaign.number)
    tasks = task_views.tasks(campaign, first, view.folder)
    counted = task_views.with_ends(campaign, view.folder)
    if view.is_json:
        output.as_json(
            _plain(counted) | {"jobs": [campaign_table.plain(task, parameters) for task in tasks]}
        )
    elif view.is_csv:
        campaign_table.tasks_as_csv(tasks, parameters, view.is_headless)
    else:
        whole(campaign, view)
        output.line(campaign_table.forecast(counted))
        if campaign.state.is_alive and (errors := campaign_client.errors(view.folder)):
            output.line(campaign_table.errors(errors))
        campaign_table.tasks(tasks, parameters, view.is_headless)


def failed(campaign: ShownCampaign, view: DisplayOptions) -> None:
    """Show the tasks that failed, to their owner with the last lines of their standard error."""
    bad = task_views.failed(campaign, view.folder)
    tasks = tuple(task for task in bad if not is_cancelled(task.outcome, campaign.state))
    parameters = task_views.parameters(campaign.number)
    texts, problems = _errors(campaign.number, tasks[:MOST_FAILED])
    if view.is_json:
        rows = [campaign_table.plain(task, parameters) for task in tasks]
        ends = [{"stderr": texts.get(task.number)} for task in tasks]
        output.as_json([row | end for row, end in zip(rows, ends, strict=True)])
    elif view.is_csv:
        campaign_table.tasks_as_csv(tasks, parameters, view.is_headless)
    else:
        _print_failed(tasks, parameters, texts, view)
    for problem in problems:
        output.complain(f"gridstat: {problem}")


def events(campaign: ShownCampaign, view: DisplayOptions) -> None:
    """Show the events of a campaign that are open."""
    published = event_commands.published_events(view.folder)
    chosen = event_commands.chosen(published, campaign.number, None, is_global=False, is_all=False)
    happened.show(chosen, {campaign.number: campaign.state}, view.is_json)


def job(
    number: int, task: int, view: DisplayOptions, is_there: bool, is_output: bool, is_error: bool
) -> int:
    """Show one task, or its output to its owner."""
    campaign = task_views.find(number, view.folder)
    published_task = task_views.task(campaign, task, view.folder) if campaign else None
    if not published_task:
        raise UnknownCampaign(f"no job {number}.{task}")
    if (is_there or is_output or is_error) and not published_task.job_id:
        raise UnknownCampaign(
            f"job {number}.{task} was not sent to a cluster, or is not known there yet"
        )
    if is_output or is_error:
        return _stream(number, published_task, is_error=is_error)
    parameters = task_views.parameters(number)
    if view.is_json:
        output.as_json(campaign_table.plain(published_task, parameters))
    elif view.is_csv:
        campaign_table.tasks_as_csv([published_task], parameters, view.is_headless)
    elif is_there:
        output.line(
            f"{published_task.cluster}: job {published_task.job_id}, task {published_task.place}"
        )
    else:
        campaign_table.tasks([published_task], parameters, view.is_headless)
    return 0


def picture(shown: ShownCampaign, path: str, view: DisplayOptions) -> None:
    """Draw how a campaign's tasks ended."""
    ends = task_views.ends(shown, view.folder)
    if not ends:
        raise NothingEnded(f"campaign {shown.number}: none of its tasks has ended yet")
    from gridbridge.campaigns.cli import campaign_plot  # half a second

    band = (shown.p50_at, shown.p90_at) if shown.p50_at and shown.p90_at else ()
    campaign_plot.draw(shown, ends, datetime.now(UTC), band, path)
    output.line(path)


def _stream(number: int, task: PublishedTask, *, is_error: bool) -> int:
    from gridbridge.campaigns.tools import campaign_outputs  # batch systems are slow to load

    stream = campaign_outputs.ERR if is_error else campaign_outputs.OUT
    locations = campaign_outputs.output_folders(number)
    texts, problems = campaign_outputs.ends_of([task], stream, MOST_BYTES, locations)
    for problem in problems:
        output.complain(f"gridstat: {problem}")
    if not texts and not problems:
        path = f"{locations[task.cluster].folder}/{campaign_outputs.name_of(task, stream)}"
        none = f"no {path} at {task.cluster}: it has not begun there, or the file was removed"
        output.complain(f"gridstat: job {number}.{task.number}: {none}")
    for text in filter(None, texts.values()):
        output.line(text.removesuffix("\n"))
    return 0 if texts else 1


def _errors(number: int, tasks: Sequence[PublishedTask]) -> tuple[dict[int, str], list[str]]:
    from gridbridge.campaigns.tools import campaign_outputs

    try:
        locations = campaign_outputs.output_folders(number)
    except NotTheirs:
        return {}, []
    return campaign_outputs.ends_of(tasks, campaign_outputs.ERR, LAST_BYTES, locations)


def _print_failed(
    tasks: Sequence[PublishedTask],
    parameters: Sequence[str],
    texts: dict[int, str],
    view: DisplayOptions,
) -> None:
    if not view.is_headless:
        output.line(campaign_table.TASK_HEAD)
    for task in tasks:
        output.line(campaign_table.task_row(task, parameters))
        for line in texts.get(task.number, "").splitlines()[-LAST_LINES:]:
            output.line(f"    {printable(line)}")
