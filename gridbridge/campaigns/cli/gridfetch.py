"""gridfetch: fetches the outputs of a campaign's ended tasks to this host."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import click

from gridbridge.campaigns.cli import REFUSED, command_relay_and_runner_wait
from gridbridge.campaigns.store import campaign_client
from gridbridge.campaigns.store.campaign_files_of_owners import ForeignOrMissingCampaignFile
from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import FIXED_PATHS, FOLDER, VERSION
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.model.published_status_and_reports import number_with_noun


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("number", metavar="ID", type=int)
@click.argument("to", metavar="[DIR]", required=False)
@FOLDER
@VERSION
@FIXED_PATHS
def gridfetch(paths: FixedPaths, number: int, to: str | None, folder: str) -> int:
    """Copy standard output and error of the ended tasks from every cluster.

    Outputs that the JDL declares are copied too, for tasks that succeeded. All files are read with your permissions,
    and copied into DIR or the folder campaign.ID, which must be yours. Unchanged files are not copied again, and no
    symlink in the folder is followed. For a black hole (SINK, see gridevents) a line has the number of tasks that
    succeeded at the cluster. Exit status: 0; 1 a cluster could not be read, which is reported while other files are
    copied, or the campaign does not exist, or is owned by another user; 2 wrong usage, or DIR can't be written, or the
    published files can't be read.

    \b
    Example:
      gridfetch 12
      gridfetch 12 ~/results
    """
    from gridbridge.campaigns.cli import task_output_reading_and_fetching  # this import is slow

    campaign_client.require_published_files(folder)
    campaign = campaign_client.find_published_campaign(number, folder)
    if not campaign:
        output_and_errors.print_error(f"gridfetch: no campaign {number}")
        return REFUSED
    ended = [task for task in campaign_client.list_published_tasks(campaign, 0, folder) if task.has_ended]
    try:
        locations = task_output_reading_and_fetching.own_campaign_output_folders(number, paths)
        folder_here = to or f"campaign.{number}"
        results = task_output_reading_and_fetching.fetch_task_outputs(ended, folder_here, locations, is_chosen=bool(to))
    except ForeignOrMissingCampaignFile as error:
        output_and_errors.print_error(f"gridfetch: {error}")
        return REFUSED
    for result in results:
        output_and_errors.print_line(f"{result.cluster}: {number_with_noun(result.files, 'file')}")
        if result.problem:
            output_and_errors.print_error(f"gridfetch: {result.cluster}: {result.problem}")
    if not to:
        output_and_errors.print_line(f"the files are in campaign.{number}")
    for cluster, tasks in sorted(Counter(task.cluster for task in ended if task.is_suspect).items()):
        output_and_errors.print_error(
            f"gridfetch: {cluster} is a black hole (SINK): check the results of its {number_with_noun(tasks, 'task')}"
            f" (gridstat {number} -f marks them; if the results are right: gridevents -c {number} -f)"
        )
    return REFUSED if any(result.problem for result in results) else 0


def _relayed_output_files(
    options: Mapping[str, Any], _: Sequence[str]
) -> command_relay_and_runner_wait.RelayedCommandOutputFiles:
    number, to = options["number"], options["to"]
    return command_relay_and_runner_wait.RelayedCommandOutputFiles(
        words=(str(number), "out"), to=to or f"campaign.{number}", is_chosen=bool(to)
    )


def main() -> None:
    command_relay_and_runner_wait.run_here_or_on_transfer_host(gridfetch, "gridfetch", writes=_relayed_output_files)
