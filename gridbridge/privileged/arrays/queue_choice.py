"""Chooses the queues and the parallel environment of a campaign's array."""

from gridbridge.model.places import PUBLISHED
from gridbridge.model.request import JobSpec
from gridbridge.privileged.owner import RefusedThere
from gridbridge.state import published_values


def on_their_hosts(spec: JobSpec, cluster: str, folder: str = PUBLISHED) -> JobSpec:
    """Set the parallel environment that gives each host of an array the wanted slots.

    Raises RefusedThere if the cluster has none: the slots would be on arbitrary hosts.
    """
    nodes, per_host = spec.request.groups[0] if spec.request.groups else (0, 0)
    if spec.pe or spec.slots == 1 or not nodes:
        return spec
    words = published_values.read_vocabulary(cluster, folder)
    if words is None:
        return spec
    from gridbridge.model import vocabulary

    environment = vocabulary.decode(words).environment(nodes, per_host)
    if not environment:
        raise RefusedThere(vocabulary.no_environment(nodes, per_host))
    return spec if environment == vocabulary.ANY else spec.but(pe=environment)


def kept_there(spec: JobSpec, cluster: str, folder: str = PUBLISHED) -> JobSpec:
    """Keep an array off the cluster's transfer queues; RefusedThere if no queue is left."""
    published = published_values.read_stay(cluster, folder)
    if not published:
        return spec
    from gridbridge.model import vocabulary  # few clusters have transfer queues

    request = vocabulary.decode_queues(published).only(spec.request)
    if request is None:
        raise RefusedThere(f"queue {spec.request.targets} is a transfer queue or missing")
    return spec.but(request=request)
