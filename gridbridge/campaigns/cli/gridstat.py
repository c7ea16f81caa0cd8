"""gridstat: shows campaigns and tasks from the files that the service publishes."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import click

from gridbridge.campaigns.cli import (
    REFUSED,
    campaign_explanation,
    campaign_table,
    command_relay_and_runner_wait,
    gridevents,
)
from gridbridge.campaigns.cli.campaign_table import HEAD, SUMMARY_HEAD, campaign_summary_row, cigri_campaign_line
from gridbridge.campaigns.store import campaign_client
from gridbridge.campaigns.store.campaign_files_of_owners import ForeignOrMissingCampaignFile
from gridbridge.cli import output_and_errors, plot_files
from gridbridge.cli.command_groups_and_options import FIXED_PATHS, FOLDER, VERSION
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import is_task_cancelled_by_owner
from gridbridge.model.campaigns.campaign_predecessors import describe_unmet_predecessor
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaign, PublishedCampaignTask
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.model.published_status_and_reports import replace_control_characters
from gridbridge.state.published_json import to_json_types

MOST_BYTES = 16 << 20  # at most this many bytes of a task's output are printed
LAST_BYTES, LAST_LINES = 2000, 5  # at most this many last bytes and lines of a failed task's standard error
MOST_FAILED = 1000  # the standard error of at most this many failed tasks is read


class NoSuchCampaignOrTask(GridbridgeError):
    """The campaign or task does not exist, or the campaign to plot has no ended task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridstatOutputFormat:
    paths: FixedPaths
    folder: str  # folder of the published files
    is_headless: bool = False
    is_json: bool = False
    is_csv: bool = False


def _print_campaigns(campaigns: Sequence[PublishedCampaign], view: GridstatOutputFormat, *, is_summary: bool) -> None:
    if view.is_json:
        output_and_errors.print_json([_campaign_as_json(campaign) for campaign in campaigns])
    elif view.is_csv:
        campaign_table.print_campaigns_csv(campaigns, view.is_headless, is_summary=is_summary)
    elif is_summary:
        output_and_errors.print_table(
            SUMMARY_HEAD, [campaign_summary_row(campaign) for campaign in campaigns], numbers=SUMMARY_HEAD[4:]
        )
    elif output_and_errors.is_terminal_narrower_than(len(HEAD)):
        output_and_errors.print_table(
            campaign_table.TITLES, [campaign_table.campaign_cells(shown) for shown in campaigns]
        )
    else:
        for line in (*([] if view.is_headless else [HEAD]), *map(cigri_campaign_line, campaigns)):
            output_and_errors.print_line(line)


def _print_campaign_with_clusters(campaign: PublishedCampaign, view: GridstatOutputFormat) -> None:
    campaign = campaign_client.campaign_with_cluster_progress(campaign, view.folder)
    _print_campaigns([campaign], view, is_summary=False)
    if not (view.is_json or view.is_csv or view.is_headless):
        head = campaign_table.CLUSTER_HEAD
        output_and_errors.print_table(head, campaign_table.cluster_progress_rows(campaign), numbers=head[1:])
        for predecessor in campaign.unmet:
            output_and_errors.print_line(describe_unmet_predecessor(predecessor))
        for line in campaign_explanation.describe_nightly_waits_of_campaign(campaign.number, view.folder):
            output_and_errors.print_line(line)


def _campaign_as_json(campaign: PublishedCampaign) -> dict[str, object]:
    fields = to_json_types(campaign)
    assert isinstance(fields, dict)
    return fields | {"running": campaign.tasks_running}


def _print_campaign_with_tasks(campaign: PublishedCampaign, first: int, view: GridstatOutputFormat) -> None:
    parameters = campaign_client.own_task_parameters(campaign.number, view.paths.campaigns)
    tasks = campaign_client.list_published_tasks(campaign, first, view.folder)
    counted = campaign_client.campaign_with_cluster_progress(campaign, view.folder)
    if view.is_json:
        output_and_errors.print_json(
            _campaign_as_json(counted) | {"jobs": [campaign_table.task_json(task, parameters) for task in tasks]}
        )
    elif view.is_csv:
        campaign_table.print_tasks_csv(tasks, parameters, view.is_headless)
    else:
        _print_campaign_with_clusters(campaign, view)
        output_and_errors.print_line(campaign_table.campaign_end_forecast_text(counted))
        if campaign.state.is_alive and (errors := campaign_client.published_forecast_errors(view.folder)):
            output_and_errors.print_line(campaign_table.end_forecast_error_text(errors))
        campaign_table.print_task_lines(tasks, parameters, view.is_headless)


def _print_failed_tasks(campaign: PublishedCampaign, view: GridstatOutputFormat) -> None:
    bad = campaign_client.finally_failed_tasks(campaign, view.folder)
    tasks = tuple(task for task in bad if not is_task_cancelled_by_owner(task.outcome, campaign.state))
    parameters = campaign_client.own_task_parameters(campaign.number, view.paths.campaigns)
    texts, problems = _read_last_lines_of_standard_error(campaign.number, tasks[:MOST_FAILED], view.paths)
    if view.is_json:
        rows = [campaign_table.task_json(task, parameters) | {"stderr": texts.get(task.number)} for task in tasks]
        output_and_errors.print_json(rows)
    elif view.is_csv:
        campaign_table.print_tasks_csv(tasks, parameters, view.is_headless)
    else:
        if not view.is_headless:
            output_and_errors.print_line(campaign_table.TASK_HEAD)
        for task in tasks:
            output_and_errors.print_line(campaign_table.format_task_for_display(task, parameters))
            for line in texts.get(task.number, "").splitlines()[-LAST_LINES:]:
                output_and_errors.print_line(f"    {replace_control_characters(line)}")
    for problem in problems:
        output_and_errors.print_error(f"gridstat: {problem}")


def _print_open_events(campaign: PublishedCampaign, view: GridstatOutputFormat) -> None:
    published = campaign_client.published_events(view.folder)
    chosen = campaign_client.select_published_events(published, campaign.number, None, is_global=False, is_all=False)
    gridevents.print_events(chosen, {campaign.number: campaign.state}, view.is_json, view.paths.campaigns)


def _print_task_or_task_output(
    number: int, task: int, view: GridstatOutputFormat, is_there: bool, is_output: bool, is_error: bool
) -> int:
    campaign = campaign_client.find_published_campaign(number, view.folder)
    published_task = campaign_client.find_published_task(campaign, task, view.folder) if campaign else None
    if not published_task:
        raise NoSuchCampaignOrTask(f"no job {number}.{task}")
    if (is_there or is_output or is_error) and not published_task.job_id:
        raise NoSuchCampaignOrTask(f"task {number}.{task} has no job at a cluster yet")
    if is_output or is_error:
        return _print_task_output(number, published_task, view.paths, is_error=is_error)
    parameters = campaign_client.own_task_parameters(number, view.paths.campaigns)
    if view.is_json:
        output_and_errors.print_json(campaign_table.task_json(published_task, parameters))
    elif view.is_csv:
        campaign_table.print_tasks_csv([published_task], parameters, view.is_headless)
    elif is_there:
        output_and_errors.print_line(
            f"{published_task.cluster}: job {published_task.job_id}, task {published_task.place}"
        )
    else:
        campaign_table.print_task_lines([published_task], parameters, view.is_headless)
    return 0


def _plot_campaign_task_ends(published_campaign: PublishedCampaign, path: str, view: GridstatOutputFormat) -> None:
    ends = campaign_client.task_end_times_and_clusters(published_campaign, view.folder)
    if not ends:
        raise NoSuchCampaignOrTask(f"campaign {published_campaign.number}: no task has ended yet")
    band = (
        (published_campaign.p50_at, published_campaign.p90_at)
        if published_campaign.p50_at and published_campaign.p90_at
        else ()
    )
    _import_progress_display().write_campaign_progress_plot(published_campaign, ends, datetime.now(UTC), band, path)
    output_and_errors.print_line(path)


def _import_progress_display() -> ModuleType:
    from gridbridge.campaigns.cli import campaign_progress_display  # this import takes half a second

    return campaign_progress_display


def _print_task_output(number: int, task: PublishedCampaignTask, paths: FixedPaths, *, is_error: bool) -> int:
    from gridbridge.campaigns.cli import task_output_reading_and_fetching  # this import is slow

    stream = task_output_reading_and_fetching.ERR if is_error else task_output_reading_and_fetching.OUT
    locations = task_output_reading_and_fetching.own_campaign_output_folders(number, paths)
    texts, problems = task_output_reading_and_fetching.read_task_output_tails([task], stream, MOST_BYTES, locations)
    for problem in problems:
        output_and_errors.print_error(f"gridstat: {problem}")
    if not texts and not problems:
        path = (
            f"{locations[task.cluster].folder}/{task_output_reading_and_fetching.task_output_file_name(task, stream)}"
        )
        none = f"no {path} at {task.cluster}: the task has not started, or the file was removed"
        output_and_errors.print_error(f"gridstat: job {number}.{task.number}: {none}")
    for text in filter(None, texts.values()):
        output_and_errors.print_line(text.removesuffix("\n"))
    return 0 if texts else 1


def _read_last_lines_of_standard_error(
    number: int, tasks: Sequence[PublishedCampaignTask], paths: FixedPaths
) -> tuple[dict[int, str], list[str]]:
    from gridbridge.campaigns.cli import task_output_reading_and_fetching

    try:
        locations = task_output_reading_and_fetching.own_campaign_output_folders(number, paths)
    except ForeignOrMissingCampaignFile:
        return {}, []
    return task_output_reading_and_fetching.read_task_output_tails(
        tasks, task_output_reading_and_fetching.ERR, LAST_BYTES, locations
    )


OF_ONE = "-f, -e, -J, --failed"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("number", metavar="[ID]", type=int, required=False)
@click.option("-c", "--campaign", metavar="ID", type=int, help="Show this campaign; the same as argument ID.")
@click.option("-u", "--username", "user", metavar="USER", help="Show only campaigns of this user.")
@click.option("--cluster", metavar="NAME", help="Show only campaigns that may use this cluster.")
@click.option("-H", "--headerless", "is_headless", is_flag=True, help="Omit the header line.")
@click.option("-d", "--json", "--dump", "is_json", is_flag=True, help="Print JSON.")
@click.option(*("-p", "--pretty"), is_flag=True, expose_value=False, help="No effect: JSON is always indented.")
@click.option("--csv", "is_csv", is_flag=True, help="Print comma-separated values.")
@click.option("-f", "--full", "is_full", is_flag=True, help="Show a campaign with its tasks.")
@click.option("-o", "--offset", metavar="TASK", type=click.IntRange(0), help="With -f: the first task to show.")
@click.option("-e", "--events", "is_events", is_flag=True, help="Show the campaign's open events.")
@click.option("-s", "range_", metavar="ID|n-m|n-*|*-n|*-*", help="Show a summary of these campaigns.")
@click.option("-j", "--job", metavar="JOB", help="Show the task with this CIGRI_JOB_ID, such as 12.0.")
@click.option("-C", "--cinfos", "is_there", is_flag=True, help="With -j: show the task's job at the cluster.")
@click.option(
    "-O", "--stdout", "is_output", is_flag=True, help="With -j: print the task's standard output; only for its owner."
)
@click.option(
    "-E", "--stderr", "is_error", is_flag=True, help="With -j: print the task's standard error; only for its owner."
)
@click.option("-J", "--jdl", "is_jdl", is_flag=True, help="Show the campaign's JDL to the owner.")
@click.option("--failed", "is_failed", is_flag=True, help="Show the failed tasks and why they failed.")
@click.option("--watch", "is_watch", is_flag=True, help="Show the progress until the campaigns have ended.")
@click.option(
    "--plot",
    "picture",
    metavar="FILE",
    callback=plot_files.require_image_file_suffix,
    help="Plot when the campaign's tasks ended; FILE ends in .png, .svg ...",
)
@FOLDER
@VERSION
@FIXED_PATHS
@click.pass_context
def gridstat(
    context: click.Context,
    paths: FixedPaths,
    /,
    number: int | None,
    campaign: int | None,
    user: str | None,
    cluster: str | None,
    is_headless: bool,
    is_json: bool,
    is_csv: bool,
    range_: str | None,
    job: str | None,
    is_there: bool,
    is_output: bool,
    is_error: bool,
    folder: str,
    **_: object,  # further options are read from the context
) -> int:
    """Show all campaigns, or the campaign with this id.

    Progress counts tasks that have finally ended. States are R running, W waiting for another campaign, P paused, C
    cancelled and T terminated; an e after the state means open events. Only the owner sees a campaign's parameters, JDL
    and outputs. Exit status: 0; 1 the campaign or task does not exist, or is owned by another user; 2 wrong usage, or
    the published files can't be read: a line on standard error says why.

    \b
    Example:
      gridstat
      gridstat -u alice --cluster beta
      gridstat 12 --json
      gridstat 12 -e
      gridstat 12 --failed
      gridstat 12 --plot sweep.png
      gridstat -j 12.0 -E
      gridstat -s 10-*
    """
    view = GridstatOutputFormat(paths=paths, folder=folder, is_headless=is_headless, is_json=is_json, is_csv=is_csv)
    chosen = number if campaign is None else campaign
    if problem := _find_conflict_of_gridstat_options(context.params):
        raise click.UsageError(problem)
    try:
        is_in = campaign_table.parse_campaign_range(range_ or "*-*")
    except ValueError as error:
        raise click.UsageError(f"-s {error}") from error

    def read_campaigns() -> list[PublishedCampaign]:
        return [
            shown
            for shown in campaign_client.published_campaigns(folder)
            if chosen in (None, shown.number) and user in (None, shown.owner) and is_in(shown.number)
            if cluster is None or cluster in shown.clusters
        ]

    campaign_client.require_published_files(folder)
    try:
        if job is not None:
            return _print_task_or_task_output(*parse_campaign_dot_task(job), view, is_there, is_output, is_error)
        _print_view_chosen_by_options(context.params, read_campaigns, chosen, view)
    except (ForeignOrMissingCampaignFile, NoSuchCampaignOrTask) as error:
        output_and_errors.print_error(f"gridstat: {error}")
        return REFUSED
    return 0


def _print_view_chosen_by_options(
    options: Mapping[str, Any],
    read_campaigns: Callable[[], list[PublishedCampaign]],
    campaign_number: int | None,
    view: GridstatOutputFormat,
) -> None:
    campaigns, range_ = read_campaigns(), options["range_"]
    if not campaigns and (campaign_number is not None or (range_ and range_.isdigit())):
        raise NoSuchCampaignOrTask(f"no campaign {range_ if campaign_number is None else campaign_number}")
    picture, offset = options["picture"], options["offset"]
    acts: tuple[tuple[object, Callable[[], None]], ...] = (
        (options["is_watch"], lambda: _import_progress_display().watch_campaigns_until_end(read_campaigns)),
        (picture, lambda: _plot_campaign_task_ends(campaigns[0], picture, view)),
        (options["is_jdl"], lambda: _print_own_jdl(campaigns[0].number, view.paths.campaigns)),
        (options["is_failed"], lambda: _print_failed_tasks(campaigns[0], view)),
        (options["is_full"], lambda: _print_campaign_with_tasks(campaigns[0], offset or 0, view)),
        (options["is_events"], lambda: _print_open_events(campaigns[0], view)),
        (campaign_number is not None and range_ is None, lambda: _print_campaign_with_clusters(campaigns[0], view)),
        (True, lambda: _print_campaigns(campaigns, view, is_summary=range_ is not None)),
    )
    next(act for is_wanted, act in acts if is_wanted)()


def _print_own_jdl(number: int, folder: str) -> None:
    output_and_errors.print_json(campaign_client.read_own_jdl(number, folder))


def _find_conflict_of_gridstat_options(options: Mapping[str, Any]) -> str:
    numbers = {options["number"], options["campaign"]} - {None}
    of_task = sum(options[option] for option in ("is_there", "is_output", "is_error"))
    of_one = sum(bool(options[option]) for option in ("is_full", "is_events", "is_jdl", "is_failed", "picture"))
    is_table = options["is_json"] or options["is_csv"]
    has_no_table = of_task or any(options[option] for option in ("is_events", "is_jdl", "picture"))
    wrong = (
        (len(numbers) > 1, "give one campaign: ID or -c ID"),
        (of_task and options["job"] is None, "-C, -O and -E need one task: gridstat -j 12.0 -O"),
        (of_task > 1, "give one of -C, -O and -E, not several"),
        (of_one and not numbers, f"{OF_ONE} and --plot need one campaign: gridstat 12 -f"),
        (of_one + options["is_watch"] > 1, f"give one of {OF_ONE}, --plot and --watch, not several"),
        (options["is_watch"] and is_table, "--watch excludes --json and --csv"),
        (options["is_csv"] and has_no_table, "--csv excludes -e, -J, --plot, -C, -O and -E"),
        (options["picture"] and options["is_json"], "--plot excludes --json"),
        (options["is_csv"] and options["is_json"], "--csv excludes --json"),
        (options["offset"] is not None and not options["is_full"], "-o needs -f"),
    )
    return next((message for is_wrong, message in wrong if is_wrong), "")


def _relayed_plot_request(
    options: Mapping[str, Any], words: Sequence[str]
) -> command_relay_and_runner_wait.RelayedCommandOutputFiles | None:
    folder, name = os.path.split(options["picture"] or "")
    if not name:
        return None
    drawn = (*words, "--plot", f"out/{name}")  # click uses the last value of a repeated option
    return command_relay_and_runner_wait.RelayedCommandOutputFiles(
        words=drawn, to=folder or ".", says=options["picture"]
    )


def main() -> None:
    command_relay_and_runner_wait.run_here_or_on_transfer_host(gridstat, "gridstat", writes=_relayed_plot_request)


def parse_campaign_dot_task(text: str) -> tuple[int, int]:
    """Parse `-j CAMPAIGN.TASK` (a CIGRI_JOB_ID); raises UsageError for any other text."""
    try:
        return campaign_client.parse_cigri_job_id(text)
    except ValueError as error:
        raise click.UsageError(f"-j {error}") from error
