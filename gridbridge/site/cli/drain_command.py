"""gridbridge drain and undrain: close a cluster to new jobs and tasks, and reopen the cluster."""

import os
import pwd
from datetime import UTC, datetime

import click

from gridbridge.campaigns.store import campaign_client
from gridbridge.cli.command_groups_and_options import FOLDER
from gridbridge.errors import GridbridgeError
from gridbridge.model.published_status_and_reports import PublishedClusterDrain
from gridbridge.state import drains, published_json

MAX_CHARACTERS = 500


@click.command()
@click.argument("cluster")
@click.option(
    "--reason", metavar="TEXT", required=True, help="The reason, which `gridbridge status` shows to all users."
)
@FOLDER
def drain(cluster: str, reason: str, folder: str) -> None:
    """Send no more jobs and tasks to a cluster.

    The transfer queues to the cluster close within a few seconds, and campaigns send nothing to the cluster from the
    next cycle on, until `gridbridge undrain`, even after restarts. Present jobs and tasks continue to their end. A
    cluster without a transfer queue, such as the home cluster, is closed to campaigns only. For root and the service
    account. Exit status: 0 done; 2 an error.

    \b
    Example:
      gridbridge drain beta --reason "maintenance on Monday"
    """
    service = published_json.read_all_published_files(folder).service
    queues = {route.cluster for route in service.routes} if service else set()
    clusters = sorted(queues | {row.name for row in campaign_client.published_campaign_clusters(folder)})
    if cluster not in clusters:
        names = ", ".join(clusters) or "none, because no poller or runner has published a cluster yet"
        raise GridbridgeError(f"{cluster!r}: nothing is sent to this cluster; expected one of: {names}")
    if not reason.isprintable() or not 0 < len(reason) <= MAX_CHARACTERS:
        raise GridbridgeError(f"--reason: expected one line of at most {MAX_CHARACTERS} characters")
    by = pwd.getpwuid(os.getuid()).pw_name
    drains.drain_cluster(cluster, PublishedClusterDrain(by=by, at=datetime.now(UTC), reason=reason), folder)


@click.command()
@click.argument("cluster")
@FOLDER
def undrain(cluster: str, folder: str) -> None:
    """Send jobs and tasks to a drained cluster again.

    For root and the service account. Exit status: 0 done; 2 an error, such as a cluster that is not drained.

    \b
    Example:
      gridbridge undrain beta
    """
    if not drains.undrain_cluster(cluster, folder):
        drained = ", ".join(sorted(drains.list_drained_clusters(folder))) or "none"
        raise GridbridgeError(f"{cluster}: not drained; drained clusters: {drained}")
