"""Chooses the queues and the parallel environment of a campaign's array."""

from gridbridge.model.places import PUBLISHED
from gridbridge.model.request import JobSpec
from gridbridge.privileged.owner import RefusedByCluster
from gridbridge.state import published_values


def request_slots_per_host(spec: JobSpec, cluster: str, folder: str = PUBLISHED) -> JobSpec:
    """Set the parallel environment that gives each host of an array the wanted slots.

    Raises RefusedByCluster if the cluster has none: the slots would be on arbitrary hosts.
    """
    nodes, per_host = spec.request.groups[0] if spec.request.groups else (0, 0)
    if spec.pe or spec.slots == 1 or not nodes:
        return spec
    words = published_values.read_vocabulary(cluster, folder)
    if words is None:
        return spec
    from gridbridge.model import vocabulary

    environment = vocabulary.decode_vocabulary(words).environment(nodes, per_host)
    if not environment:
        raise RefusedByCluster(vocabulary.missing_environment_reason(nodes, per_host))
    return spec if environment == vocabulary.ANY else spec.but(pe=environment)


def restrict_to_own_queues(spec: JobSpec, cluster: str, folder: str = PUBLISHED) -> JobSpec:
    """Keep an array off the cluster's transfer queues; RefusedByCluster if no queue is left."""
    published = published_values.read_local_only_queues(cluster, folder)
    if not published:
        return spec
    from gridbridge.model import vocabulary  # few clusters have transfer queues

    request = vocabulary.decode_local_queues(published).only(spec.request)
    if request is None:
        raise RefusedByCluster(f"queue {spec.request.targets} is a transfer queue or missing")
    return spec.but(request=request)
