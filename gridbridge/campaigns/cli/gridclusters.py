"""gridclusters: shows the clusters that campaigns may use."""

from dataclasses import asdict
from datetime import datetime

import click

from gridbridge.campaigns.cli import command_relay_and_runner_wait
from gridbridge.campaigns.cli.campaign_table import MOMENT
from gridbridge.campaigns.store import campaign_client
from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import FOLDER, VERSION
from gridbridge.cli.table_lines import slot_bar
from gridbridge.model.campaigns.campaign_events import CampaignEvent
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedClusterSlots
from gridbridge.model.published_status_and_reports import PublishedClusterDrain
from gridbridge.state import drains
from gridbridge.state.published_json import to_json_types

BAR = 80  # width of a bar in columns, as in CiGri
USED, OURS, FREE, AWAY = "#", "o", ".", "x"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-i", "--infos", "is_infos", is_flag=True, help="Show kind and free slots of each cluster.")
@click.option("-I", "--more-infos", "--more_infos", "is_more", is_flag=True, help="Show all values and open events.")
@click.option("-u", "--usage", "is_usage", is_flag=True, help="Show the used slots of each cluster.")
@click.option("-b", "--bars", "is_bars", is_flag=True, help="Show the used slots of each cluster as bars.")
@click.option("--cluster", "only", metavar="NAME", help="Show only this cluster.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
@FOLDER
@VERSION
def gridclusters(
    is_infos: bool, is_more: bool, is_usage: bool, is_bars: bool, only: str | None, is_json: bool, folder: str
) -> int:
    """Show the clusters that campaigns may use, as the last cycle of the runner found them.

    The runner queries no cluster without campaigns; the values of such a cluster come from gridbridge-poller, if it
    queries the cluster. A bar is 80 columns wide: # slots of other jobs, o slots of campaign tasks, . free slots, x
    slots that accept no job. After the values stands one reason why campaigns send nothing to the cluster. Best-effort
    tasks may use the free slots. With -I, free_for_normal is the number of slots for ordinary tasks, which preempt
    best-effort tasks. -I also shows the open events of each cluster. Exit status: 0; 2 wrong usage, or the published
    files can't be read.

    \b
    Example:
      gridclusters -i
      gridclusters -b --cluster beta
    """
    campaign_client.require_published_files(folder)
    published, events = campaign_client.published_campaign_clusters(folder), campaign_client.published_events(folder)
    clusters = tuple(cluster for cluster in published if only in (None, cluster.name))
    if published and not clusters:
        raise click.UsageError(f"no cluster {only!r}; known: {', '.join(cluster.name for cluster in published)}")
    if not clusters:
        output_and_errors.print_error("gridclusters: gridbridge-runner has published no cluster yet")
    if is_json:
        output_and_errors.print_json(to_json_types(clusters))
        return 0
    drained = drains.read_cluster_drains(folder)
    is_infos = is_infos or is_more or is_usage or is_bars
    for number, cluster in enumerate(clusters, start=1):
        info = _describe_cluster(cluster, events, drained.get(cluster.name)) if is_infos else ""
        output_and_errors.print_line(f"{number}: {cluster.name}{info}")
        if is_more:
            _print_indented_values(asdict(cluster))
            _print_open_cluster_events(cluster.name, events)
        if is_bars:
            output_and_errors.print_line(_cluster_usage_bar(cluster))
        elif is_usage:
            _print_indented_values(_cluster_slot_usage(cluster))
    return 0


def _describe_cluster(
    cluster: PublishedClusterSlots, events: tuple[CampaignEvent, ...], drain: PublishedClusterDrain | None
) -> str:
    is_down, numbers = campaign_client.cluster_outage_and_blacklisted_campaigns(events, cluster.name)
    words = [cluster.kind, f"free:{_format_published_value(cluster.free)}/{_format_published_value(cluster.slots)}"]
    words += ["BLACKLISTED"] if is_down else []
    words += ["not queried, because no campaign uses the cluster"] if cluster.slots is None and not is_down else []
    words += ["drained"] if drain else []
    words += [f"closed to campaigns {','.join(map(str, numbers))}"] if numbers else []
    reason = _why_campaigns_send_nothing(cluster.name, events, drain)
    return f" ({', '.join(words)}){': ' if reason else ''}{reason}"


def _why_campaigns_send_nothing(
    cluster: str, events: tuple[CampaignEvent, ...], drain: PublishedClusterDrain | None
) -> str:
    """Return the drain's reason, or the first open event of a cluster that concerns all campaigns."""
    if drain:
        return f"drained by {drain.by}: {drain.reason}"
    open_events = campaign_client.select_published_events(events, None, None, is_global=True, is_all=False)
    mine = (campaign_client.describe_event_to_user(event, {}) for event in open_events if event.cluster == cluster)
    return next(mine, "")


def _cluster_slot_usage(cluster: PublishedClusterSlots) -> dict[str, object]:
    unavailable = None if cluster.slots is None else cluster.slots - (cluster.used or 0) - (cluster.free or 0)
    return {
        "max_resources": cluster.slots,
        "used_resources": cluster.used,
        "used_by_cigri": cluster.used_by_campaigns,
        "unavailable_resources": None if unavailable is None else max(0, unavailable),
    }


def _cluster_usage_bar(cluster: PublishedClusterSlots) -> str:
    if not cluster.slots:
        return ""
    sizes = slot_bar(cluster.slots, cluster.used, cluster.free, cluster.used_by_campaigns, BAR)
    return "".join(mark * size for mark, size in zip((USED, OURS, FREE, AWAY), sizes, strict=True))


def _print_indented_values(values: dict[str, object]) -> None:
    for key, value in values.items():
        output_and_errors.print_line(f"    {key}: {_format_published_value(value)}")


def _print_open_cluster_events(cluster: str, events: tuple[CampaignEvent, ...]) -> None:
    for event in events:
        if event.cluster == cluster and not event.closed_at:
            owner = f"campaign {event.campaign}: " if event.campaign else ""
            text = campaign_client.describe_event_to_user(event, {})
            output_and_errors.print_line(f"    event {event.number}, {event.code}: {owner}{text}")


def _format_published_value(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone().strftime(MOMENT)
    return "unknown" if value is None else str(value)


def main() -> None:
    command_relay_and_runner_wait.run_here_or_on_transfer_host(gridclusters, "gridclusters")
