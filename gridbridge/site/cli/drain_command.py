"""gridbridge drain and undrain: close a cluster to new jobs and tasks, and reopen the cluster."""

from datetime import UTC, datetime

import click

from gridbridge.cli.command_groups_and_options import FOLDER
from gridbridge.site import cluster_draining


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
    cluster_draining.drain_cluster(cluster, reason, datetime.now(UTC), folder)


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
    cluster_draining.undrain_cluster(cluster, folder)
