"""gridstat: shows campaigns, their progress, and the state of their tasks."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from gridbridge.campaigns.cli import REFUSED, campaign_table, gridstat_views, relay_to_transfer_host
from gridbridge.campaigns.cli.gridstat_views import GridstatOutputOptions, NoEndedTaskToPlot, UnknownCampaignOrTask
from gridbridge.campaigns.store.campaign_files import ForeignOrMissingCampaignFile
from gridbridge.campaigns.tools import campaign_client, published_events_and_tasks
from gridbridge.cli import output, plot_files
from gridbridge.cli.shared_options import FOLDER, VERSION
from gridbridge.model.campaigns.published_campaigns import ShownCampaign

OF_ONE = "-f, -e, -J, --failed"
OF_CAMPAIGN = ("is_full", "is_events", "is_jdl", "is_failed", "picture")
OF_TASK = ("is_there", "is_output", "is_error")
NO_TABLE = ("is_events", "is_jdl", "picture")
Look = Callable[[], list[ShownCampaign]]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("number", metavar="[ID]", type=int, required=False)
@click.option("-c", "--campaign", metavar="ID", type=int, help="The campaign of this id, as ID.")
@click.option("-u", "--username", "user", metavar="USER", help="Of this user alone.")
@click.option("-H", "--headerless", "is_headless", is_flag=True, help="Without the first line.")
@click.option("-d", "--json", "--dump", "is_json", is_flag=True, help="As JSON.")
@click.option(*("-p", "--pretty"), is_flag=True, expose_value=False, help="With -d: indented, as it always is.")
@click.option("--csv", "is_csv", is_flag=True, help="As comma-separated values.")
@click.option("-f", "--full", "is_full", is_flag=True, help="With its tasks.")
@click.option("-o", "--offset", metavar="TASK", type=click.IntRange(0), help="With -f: from here.")
@click.option("-e", "--events", "is_events", is_flag=True, help="The events of it that are open.")
@click.option("-s", "range_", metavar="ID|n-m|n-*|*-n|*-*", help="A summary of these campaigns.")
@click.option("-j", "--job", metavar="JOB", help="One task, by its CIGRI_JOB_ID: 12.0.")
@click.option("-C", "--cinfos", "is_there", is_flag=True, help="With -j: its job at the cluster.")
@click.option("-O", "--stdout", "is_output", is_flag=True, help="With -j, to its owner.")
@click.option("-E", "--stderr", "is_error", is_flag=True, help="With -j, to its owner.")
@click.option("-J", "--jdl", "is_jdl", is_flag=True, help="Its JDL, to its owner.")
@click.option("--failed", "is_failed", is_flag=True, help="The tasks that failed, and why.")
@click.option("--watch", "is_watch", is_flag=True, help="Go on until the campaigns have ended.")
@click.option(
    "--plot",
    "picture",
    metavar="FILE",
    callback=plot_files.require_image_file_suffix,
    help="Draw how its tasks ended: .png, .svg ...",
)
@FOLDER
@VERSION
@click.pass_context
def gridstat(
    context: click.Context,
    /,
    number: int | None,
    campaign: int | None,
    user: str | None,
    is_headless: bool,
    is_json: bool,
    is_csv: bool,
    range_: str | None,
    job: str | None,
    is_there: bool,
    is_output: bool,
    is_error: bool,
    folder: str,
    **_: object,  # further options, for _show and _problem
) -> int:
    """Show campaigns: every one, or the one of that id.

    Progress is of tasks that ended for good. The letters: R it runs, P paused, C cancelled, T
    terminated; e follows where events are open. A campaign's parameters, JDL and outputs are shown
    to its owner alone. Exit status: 0; 1 there is no such campaign or task, or it is another's;
    2 usage, or what is published can't be read: a line on standard error says why.

    \b
    Example:
      gridstat
      gridstat 12 --json
      gridstat 12 -e
      gridstat 12 --failed
      gridstat 12 --plot sweep.png
      gridstat -j 12.0 -E
      gridstat -s 10-*
    """
    view = GridstatOutputOptions(folder=folder, is_headless=is_headless, is_json=is_json, is_csv=is_csv)
    chosen = number if campaign is None else campaign
    if problem := _problem(context.params):
        raise click.UsageError(problem)

    def look() -> list[ShownCampaign]:
        campaigns = (
            campaign for campaign in campaign_client.published_campaigns(folder) if chosen in (None, campaign.number)
        )
        return [campaign for campaign in campaigns if user in (None, campaign.owner) and is_in(campaign.number)]

    is_in = _range(range_)
    campaign_client.require_published_files(folder)
    try:
        if job is not None:
            return gridstat_views.show_task_or_its_output(
                *parse_campaign_dot_task(job), view, is_there, is_output, is_error
            )
        _show(context.params, look, chosen, view)
    except (ForeignOrMissingCampaignFile, NoEndedTaskToPlot, UnknownCampaignOrTask) as error:
        output.print_error(f"gridstat: {error}")
        return REFUSED
    return 0


def _watch(look: Look) -> None:
    from gridbridge.campaigns.cli import progress_bars  # rich is slow to load

    progress_bars.watch_campaigns_until_end(look)


def _show(options: Mapping[str, Any], look: Look, chosen: int | None, view: GridstatOutputOptions) -> None:
    """Show the view that the options choose; UnknownCampaignOrTask for a missing campaign."""
    campaigns, range_ = look(), options["range_"]
    if chosen is not None and not campaigns:
        raise UnknownCampaignOrTask(f"no campaign {chosen}")
    if range_ and range_.isdigit() and not campaigns:
        raise UnknownCampaignOrTask(f"no campaign {range_}")
    picture, offset = options["picture"], options["offset"]
    acts: tuple[tuple[object, Callable[[], None]], ...] = (
        (options["is_watch"], lambda: _watch(look)),
        (picture, lambda: gridstat_views.plot_campaign_task_ends(campaigns[0], picture, view)),
        (options["is_jdl"], lambda: output.print_json(published_events_and_tasks.read_own_jdl(campaigns[0].number))),
        (options["is_failed"], lambda: gridstat_views.show_failed_tasks(campaigns[0], view)),
        (options["is_full"], lambda: gridstat_views.show_campaign_with_tasks(campaigns[0], offset or 0, view)),
        (options["is_events"], lambda: gridstat_views.show_open_events(campaigns[0], view)),
        (chosen is not None and range_ is None, lambda: gridstat_views.show_campaign_with_clusters(campaigns[0], view)),
        (True, lambda: gridstat_views.show_campaigns(campaigns, view, is_summary=range_ is not None)),
    )
    next(act for is_wanted, act in acts if is_wanted)()


def _problem(options: Mapping[str, Any]) -> str:
    """Say which options can't be combined; empty if all can."""
    numbers = {options["number"], options["campaign"]} - {None}
    of_task = sum(options[option] for option in OF_TASK)
    of_one = sum(bool(options[option]) for option in OF_CAMPAIGN)
    is_table = options["is_json"] or options["is_csv"]
    has_no_table = of_task or any(options[option] for option in NO_TABLE)
    wrong = (
        (len(numbers) > 1, "give one campaign: ID or -c ID"),
        (of_task and options["job"] is None, "-C, -O and -E are of one task: gridstat -j 12.0 -O"),
        (of_task > 1, "give one of -C, -O and -E, not several"),
        (of_one and not numbers, f"{OF_ONE} and --plot are of one campaign: gridstat 12 -f"),
        (of_one + options["is_watch"] > 1, f"give one of {OF_ONE}, --plot and --watch, not several"),
        (options["is_watch"] and is_table, "--watch goes without --json and --csv"),
        (options["is_csv"] and has_no_table, "--csv goes without -e, -J, --plot, -C, -O and -E"),
        (options["picture"] and options["is_json"], "--plot goes without --json"),
        (options["is_csv"] and options["is_json"], "one of --json and --csv"),
        (options["offset"] is not None and not options["is_full"], "-o goes with -f"),
    )
    return next((message for is_wrong, message in wrong if is_wrong), "")


def _range(text: str | None) -> Callable[[int], bool]:
    try:
        return campaign_table.parse_campaign_range(text or "*-*")
    except ValueError as error:
        raise click.UsageError(f"-s {error}") from error


def _picture(
    options: Mapping[str, Any], words: Sequence[str]
) -> relay_to_transfer_host.RelayedCommandOutputFiles | None:
    """Return the files of the plot on the transfer host and on this host."""
    folder, name = os.path.split(options["picture"] or "")
    if not name:
        return None
    drawn = (*words, "--plot", f"out/{name}")  # the last of repeated options counts
    return relay_to_transfer_host.RelayedCommandOutputFiles(words=drawn, to=folder or ".", says=options["picture"])


def main() -> None:
    """Run gridstat, here or relayed to the transfer host."""
    relay_to_transfer_host.run_here_or_on_transfer_host(gridstat, "gridstat", writes=_picture)


def parse_campaign_dot_task(text: str) -> tuple[int, int]:
    """Parse `-j CAMPAIGN.TASK` (a CIGRI_JOB_ID); UsageError for any other text."""
    try:
        return published_events_and_tasks.parse_cigri_job_id(text)
    except ValueError as error:
        raise click.UsageError(f"-j {error}") from error
