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


def listed(found: Sequence[ShownCampaign], view: DisplayOptions, *, is_summary: bool) -> None:
    """Show campaigns, a line each."""
    if view.is_json:
        output.as_json([_plain(one) for one in found])
    elif view.is_csv:
        as_csv = campaign_table.summary_as_csv if is_summary else campaign_table.as_csv
        as_csv(found, view.is_headless)
    elif is_summary:
        output.table(SUMMARY_HEAD, [summary(one) for one in found], numbers=SUMMARY_HEAD[4:])
    else:
        for line in ([] if view.is_headless else [HEAD]) + [row(one) for one in found]:
            output.line(line)


def whole(campaign: ShownCampaign, view: DisplayOptions) -> None:
    """Show one campaign, and its progress by cluster unless a script reads (-H, CSV)."""
    campaign = task_views.with_ends(campaign, view.folder)
    listed([campaign], view, is_summary=False)
    if not (view.is_json or view.is_csv or view.is_headless):
        head = campaign_table.CLUSTER_HEAD
        output.table(head, campaign_table.by_cluster(campaign), numbers=head[1:])


def _plain(one: ShownCampaign) -> dict[str, object]:
    """Return a campaign as JSON shows it, with the summary's number of tasks that run."""
    known = plain(one)
    assert isinstance(known, dict)
    return known | {"running": one.tasks_running}


def full(one: ShownCampaign, first: int, view: DisplayOptions) -> None:
    """Show a campaign with its tasks from one number on."""
    parameters = task_views.parameters(one.number)
    tasks = task_views.tasks(one, first, view.folder)
    counted = task_views.with_ends(one, view.folder)
    if view.is_json:
        output.as_json(
            _plain(counted) | {"jobs": [campaign_table.plain(task, parameters) for task in tasks]}
        )
    elif view.is_csv:
        campaign_table.tasks_as_csv(tasks, parameters, view.is_headless)
    else:
        whole(one, view)
        output.line(campaign_table.forecast(counted))
        if one.state.is_alive and (known := campaign_client.errors(view.folder)):
            output.line(campaign_table.errors(known))
        campaign_table.tasks(tasks, parameters, view.is_headless)


def failed(one: ShownCampaign, view: DisplayOptions) -> None:
    """Show the tasks that failed, to their owner with the last lines of their standard error."""
    bad = task_views.failed(one, view.folder)
    found = tuple(each for each in bad if not is_cancelled(each.outcome, one.state))
    parameters = task_views.parameters(one.number)
    texts, problems = _errors(one.number, found[:MOST_FAILED])
    if view.is_json:
        rows = [campaign_table.plain(task, parameters) for task in found]
        ends = [{"stderr": texts.get(task.number)} for task in found]
        output.as_json([each | end for each, end in zip(rows, ends, strict=True)])
    elif view.is_csv:
        campaign_table.tasks_as_csv(found, parameters, view.is_headless)
    else:
        _print_failed(found, parameters, texts, view)
    for problem in problems:
        output.complain(f"gridstat: {problem}")


def events(one: ShownCampaign, view: DisplayOptions) -> None:
    """Show the events of a campaign that are open."""
    seen = event_commands.seen(view.folder)
    found = event_commands.chosen(seen, one.number, None, is_global=False, is_all=False)
    happened.show(found, {one.number: one.state}, view.is_json)


def job(
    number: int, task: int, view: DisplayOptions, is_there: bool, is_output: bool, is_error: bool
) -> int:
    """Show one task, or its output to its owner."""
    one = task_views.find(number, view.folder)
    found = task_views.task(one, task, view.folder) if one else None
    if not found:
        raise UnknownCampaign(f"no job {number}.{task}")
    if (is_there or is_output or is_error) and not found.job_id:
        raise UnknownCampaign(
            f"job {number}.{task} was not sent to a cluster, or is not known there yet"
        )
    if is_output or is_error:
        return _stream(number, found, is_error=is_error)
    parameters = task_views.parameters(number)
    if view.is_json:
        output.as_json(campaign_table.plain(found, parameters))
    elif view.is_csv:
        campaign_table.tasks_as_csv([found], parameters, view.is_headless)
    elif is_there:
        output.line(f"{found.cluster}: job {found.job_id}, task {found.place}")
    else:
        campaign_table.tasks([found], parameters, view.is_headless)
    return 0


def picture(one: ShownCampaign, path: str, view: DisplayOptions) -> None:
    """Draw how a campaign's tasks ended."""
    ends = task_views.ends(one, view.folder)
    if not ends:
        raise NothingEnded(f"campaign {one.number}: none of its tasks has ended yet")
    from gridbridge.campaigns.cli import campaign_plot as campaign  # half a second

    band = (one.p50_at, one.p90_at) if one.p50_at and one.p90_at else ()
    campaign.draw(one, ends, datetime.now(UTC), band, path)
    output.line(path)


def _stream(number: int, task: PublishedTask, *, is_error: bool) -> int:
    from gridbridge.campaigns.tools import campaign_outputs  # batch systems are slow to load

    stream = campaign_outputs.ERR if is_error else campaign_outputs.OUT
    places = campaign_outputs.places(number)
    texts, problems = campaign_outputs.ends_of([task], stream, MOST_BYTES, places)
    for problem in problems:
        output.complain(f"gridstat: {problem}")
    if not texts and not problems:
        path = f"{places[task.cluster].folder}/{campaign_outputs.name_of(task, stream)}"
        none = f"no {path} at {task.cluster}: it has not begun there, or the file was removed"
        output.complain(f"gridstat: job {number}.{task.number}: {none}")
    for text in filter(None, texts.values()):
        output.line(text.removesuffix("\n"))
    return 0 if texts else 1


def _errors(number: int, tasks: Sequence[PublishedTask]) -> tuple[dict[int, str], list[str]]:
    from gridbridge.campaigns.tools import campaign_outputs

    try:
        places = campaign_outputs.places(number)
    except NotTheirs:
        return {}, []
    return campaign_outputs.ends_of(tasks, campaign_outputs.ERR, LAST_BYTES, places)


def _print_failed(
    found: Sequence[PublishedTask],
    parameters: Sequence[str],
    texts: dict[int, str],
    view: DisplayOptions,
) -> None:
    if not view.is_headless:
        output.line(campaign_table.TASK_HEAD)
    for task in found:
        output.line(campaign_table.task_row(task, parameters))
        for line in texts.get(task.number, "").splitlines()[-LAST_LINES:]:
            output.line(f"    {printable(line)}")
