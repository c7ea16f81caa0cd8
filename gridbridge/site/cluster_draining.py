"""Drains a cluster: no more jobs or tasks are sent to the cluster, and running jobs continue."""

import os
import pwd
from collections.abc import Iterable
from datetime import datetime

from gridbridge.campaigns.store import campaign_client
from gridbridge.errors import GridbridgeError
from gridbridge.model.fixed_paths import PUBLISHED
from gridbridge.model.published_status_and_reports import PublishedClusterDrain
from gridbridge.state import drains, published_json

MAX_CHARACTERS = 500


def drain_cluster(cluster: str, reason: str, now: datetime, folder: str = PUBLISHED) -> None:
    """Close a cluster to campaigns, and close the transfer queues that lead to the cluster.

    The poller and the runner apply the drain in their next cycles. Raises GridbridgeError if no transfer queue or
    campaign uses the cluster, and StateError for accounts other than root and the service account.
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
    drains.drain_cluster(cluster, PublishedClusterDrain(by=by, at=now, reason=reason), folder)


def undrain_cluster(cluster: str, folder: str = PUBLISHED) -> None:
    """Reopen a drained cluster; raise GridbridgeError for a cluster that is not drained."""
    if not drains.undrain_cluster(cluster, folder):
        drained = ", ".join(sorted(drains.list_drained_clusters(folder))) or "none"
        raise GridbridgeError(f"{cluster}: not drained; drained clusters: {drained}")


def require_queue_to_cluster(cluster: str, reached: Iterable[str]) -> None:
    """Raise GridbridgeError for a cluster that no transfer queue leads to."""
    clusters = sorted(set(reached))
    if cluster not in clusters:
        hint = f"expected one of: {', '.join(clusters)}" if clusters else "there is no transfer queue"
        raise GridbridgeError(f"no transfer queue leads to {cluster!r}; {hint}")
