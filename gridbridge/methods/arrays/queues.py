"""Keeps a campaign's tasks from the queues of a cluster that would send them to yet another one."""

from gridbridge.methods.owner import RefusedThere
from gridbridge.model.places import PUBLISHED
from gridbridge.model.request import JobSpec
from gridbridge.state import published


def kept_there(spec: JobSpec, cluster: str, folder: str = PUBLISHED) -> JobSpec:
    """Have an array ask for the others, where there are any; RefusedThere if it asks for none."""
    told = published.read_stay(cluster, folder)
    if not told:
        return spec
    from gridbridge.model import vocabulary  # few clusters have such queues

    request = vocabulary.decode_queues(told).only(spec.request)
    if request is None:
        raise RefusedThere(f"queue {spec.request.targets}: sends its jobs on, or is not there")
    return spec.but(request=request)
