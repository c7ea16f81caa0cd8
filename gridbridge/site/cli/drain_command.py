"""gridbridge drain and undrain: close a cluster to new jobs and tasks, and reopen it."""

from datetime import UTC, datetime

import click

from gridbridge.cli.command_groups_and_options import FOLDER
from gridbridge.site import cluster_draining


@click.command()
@click.argument("cluster")
@click.option("--reason", metavar="TEXT", required=True, help="Why; `gridbridge status` shows it to all.")
@FOLDER
def drain(cluster: str, reason: str, folder: str) -> None:
    """Let no more jobs and tasks go to a cluster.

    Its transfer queues close within a few seconds, and campaigns send it nothing from their next
    cycle on, until `gridbridge undrain`, over restarts too. What is there already goes on to its
    end. A cluster that no transfer queue leads to, as the site's own, is closed to campaigns
    alone. For root and the service account. Exit status: 0, 2 for an error.

    \b
    Example:
      gridbridge drain beta --reason "maintenance on Monday"
    """
    cluster_draining.drain_cluster(cluster, reason, datetime.now(UTC), folder)


@click.command()
@click.argument("cluster")
@FOLDER
def undrain(cluster: str, folder: str) -> None:
    """Let jobs and tasks go to a drained cluster again.

    For root and the service account. Exit status: 0, 2 for an error, such as a cluster
    that is not drained.

    \b
    Example:
      gridbridge undrain beta
    """
    cluster_draining.undrain_cluster(cluster, folder)
