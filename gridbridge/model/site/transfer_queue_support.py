"""Whether a site can have transfer queues: that depends on its own cluster."""

from gridbridge.model.cluster import ClusterKind

HOMES = (ClusterKind.GRIDENGINE, ClusterKind.EMBEDDED)


def why_none(cluster: str, kind: str | None) -> str:
    """Say why a site with that cluster can have none; empty when it can.

    No kind: the cluster has no section, so the site has no batch system.
    """
    if kind in HOMES:
        return ""
    home = f"{cluster} is of kind {kind}" if kind else f"there is no [cluster.{cluster}]"
    return f"a transfer queue needs a Grid Engine home, and {home}"
