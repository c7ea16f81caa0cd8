"""Chooses the queues and the parallel environment of a campaign's array."""

from gridbridge.model.fixed_paths import PUBLISHED
from gridbridge.model.job_request import JobSpec
from gridbridge.privileged.owner import JobNeverAcceptedByCluster
from gridbridge.state import published_file_formats


def choose_array_parallel_env(spec: JobSpec, cluster: str, folder: str = PUBLISHED) -> JobSpec:
    """Set a parallel environment that gives an array its slots on each host.

    Raises JobNeverAcceptedByCluster if no environment does: the slots would be on arbitrary hosts.
    """
    nodes, per_host = spec.request.groups[0] if spec.request.groups else (0, 0)
    if spec.pe or spec.slots == 1 or not nodes:
        return spec
    words = published_file_formats.read_offered_names(cluster, folder)
    if words is None:
        return spec
    from gridbridge.model import names_offered_by_cluster

    environment = names_offered_by_cluster.decode_offered_names(words).environment(nodes, per_host)
    if not environment:
        raise JobNeverAcceptedByCluster(names_offered_by_cluster.missing_parallel_env_reason(nodes, per_host))
    return spec if environment == names_offered_by_cluster.ANY else spec.but(pe=environment)


def keep_array_off_transfer_queues(spec: JobSpec, cluster: str, folder: str = PUBLISHED) -> JobSpec:
    """Keep an array off the cluster's transfer queues.

    Raises JobNeverAcceptedByCluster if no other queue exists.
    """
    published = published_file_formats.read_non_forwarding_queues(cluster, folder)
    if not published:
        return spec
    from gridbridge.model import names_offered_by_cluster  # few clusters need this import

    request = names_offered_by_cluster.decode_non_forwarding_queues(published).only(spec.request)
    if request is None:
        raise JobNeverAcceptedByCluster(f"queue {spec.request.targets} is a transfer queue or missing")
    return spec.but(request=request)
