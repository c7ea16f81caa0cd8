"""gridbridge drain and undrain: close a cluster to new jobs and tasks, and reopen the cluster."""

import os
import pwd
from datetime import UTC, datetime

import click

from gridbridge.campaigns.store import campaign_client
from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import FOLDER
from gridbridge.errors import GridbridgeError
from gridbridge.model.published_status_and_reports import PublishedClusterDrain
from gridbridge.state import drains, published_json

MAX_CHARACTERS = 500


@click.command()
@click.argument("cluster", required=False)
@click.option("--all", "is_site_wide", is_flag=True, help="Drain every cluster that is not drained yet.")
@click.option(
    "--reason", metavar="TEXT", required=True, help="The reason, which `gridbridge status` shows to all users."
)
@FOLDER
def drain(cluster: str | None, is_site_wide: bool, reason: str, folder: str) -> None:
    """Send no more jobs and tasks to a cluster, or to any cluster.

    The transfer queues to the cluster close within a few seconds, and campaigns send nothing to the cluster from the
    next cycle on, until `gridbridge undrain`, even after restarts. Present jobs and tasks continue to their end. A
    cluster without a transfer queue, such as the home cluster, is closed to campaigns only. For root and the service
    account. Exit status: 0 done; 2 an error.

    \b
    Example:
      gridbridge drain beta --reason "maintenance on Monday"
      gridbridge drain --all --reason "the file server moves"
    """
    _require_cluster_or_all(cluster, is_site_wide)
    clusters = _clusters_that_may_be_drained(folder)
    if not clusters or (cluster and cluster not in clusters):
        names = ", ".join(clusters) or "none, because no poller or runner has published a cluster yet"
        raise GridbridgeError(f"{cluster or '--all'!r}: nothing is sent to this cluster; expected one of: {names}")
    if not reason.isprintable() or not 0 < len(reason) <= MAX_CHARACTERS:
        raise GridbridgeError(f"--reason: expected one line of at most {MAX_CHARACTERS} characters")
    by = pwd.getpwuid(os.getuid()).pw_name
    wish = PublishedClusterDrain(by=by, at=datetime.now(UTC), reason=reason, is_site_wide=is_site_wide)
    present = drains.read_cluster_drains(folder) if is_site_wide else {}
    for name in [cluster] if cluster else clusters:
        if name in present and not present[name].is_site_wide:
            output_and_errors.print_line(f"{name}: already drained by {present[name].by}: {present[name].reason}")
        else:
            drains.drain_cluster(name, wish, folder)


def _require_cluster_or_all(cluster: str | None, is_site_wide: bool) -> None:
    if bool(cluster) == is_site_wide:
        raise click.UsageError("expected either one CLUSTER or --all")


def _clusters_that_may_be_drained(folder: str) -> list[str]:
    service = published_json.read_all_published_files(folder).service
    queues = {route.cluster for route in service.routes} if service else set()
    return sorted(queues | {row.name for row in campaign_client.published_campaign_clusters(folder)})


@click.command()
@click.argument("cluster", required=False)
@click.option("--all", "is_site_wide", is_flag=True, help="Undrain the clusters that `drain --all` drained.")
@FOLDER
def undrain(cluster: str | None, is_site_wide: bool, folder: str) -> None:
    """Send jobs and tasks to a drained cluster again.

    `undrain --all` ends `drain --all`; a cluster that was drained by its name stays drained, and is named. For root and
    the service account. Exit status: 0 done; 2 an error, such as a cluster that is not drained.

    \b
    Example:
      gridbridge undrain beta
      gridbridge undrain --all
    """
    _require_cluster_or_all(cluster, is_site_wide)
    is_undrained = drains.undrain_cluster(cluster, folder) if cluster else _undrain_site_wide(folder)
    if not is_undrained:
        drained = ", ".join(sorted(drains.list_drained_clusters(folder))) or "none"
        what = f"{cluster}: not drained" if cluster else "--all: no cluster is drained by drain --all"
        raise GridbridgeError(f"{what}; drained clusters: {drained}")


def _undrain_site_wide(folder: str) -> bool:
    present = drains.read_cluster_drains(folder)
    undrained = [drains.undrain_cluster(name, folder) for name, drain in present.items() if drain.is_site_wide]
    for name, drain in present.items() if undrained else ():
        if not drain.is_site_wide:
            output_and_errors.print_line(f"{name}: still drained by {drain.by}: {drain.reason}")
    return any(undrained)
