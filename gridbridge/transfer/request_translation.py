"""Translate a job's request for its remote cluster, for starters and `gridbridge explain`."""

from collections.abc import Container

from gridbridge.decisions.transfer.request_mapping import (
    MappableJobRequest,
    drop_unoffered_soft_requests,
    map_request_to_remote_cluster,
)
from gridbridge.model import names_offered_by_cluster
from gridbridge.model.fixed_paths import PUBLISHED
from gridbridge.model.job_request import JobSpec, is_home_only_resource
from gridbridge.model.names_offered_by_cluster import NamesOfferedByCluster
from gridbridge.model.transfer import request_mapping_rules
from gridbridge.model.transfer.request_mapping_rules import RequestMapping
from gridbridge.model.transfer_route import TransferRoute
from gridbridge.state import published_file_formats


def translate_request_for_queue(
    queue: str, route: TransferRoute, spec: JobSpec, folder: str = PUBLISHED
) -> tuple[JobSpec, tuple[str, ...]]:
    """Translate a job's request with the mapping and names published for a queue's cluster."""
    rules = RequestMapping({})
    if route.remote_mapped:
        published = published_file_formats.read_request_mapping(queue, folder)
        rules = request_mapping_rules.decode_request_mapping(published)
    offered = read_names_offered_by_cluster(route.remote, folder)
    own_queues = published_file_formats.list_queues_with_routes(folder)
    return translate_request_for_cluster(spec, rules, offered, route.remote, own_queues)


def read_names_offered_by_cluster(cluster: str, folder: str = PUBLISHED) -> NamesOfferedByCluster | None:
    published = published_file_formats.read_offered_names(cluster, folder)
    return None if published is None else names_offered_by_cluster.decode_offered_names(published)


def translate_request_for_cluster(
    spec: JobSpec, rules: RequestMapping, offered: NamesOfferedByCluster | None, remote: str, own_queues: Container[str]
) -> tuple[JobSpec, tuple[str, ...]]:
    """Translate a job's request for a remote cluster; return the request and notes on omitted soft requests.

    `offered` has the cluster's names (None: unknown). No mapping rule applies to the transfer queues in `own_queues`.
    Raises UnmappableRequest.
    """
    request = spec.request
    names = (name.partition("@")[0] for name in request.owner_requested_queues.split(","))
    mapped = MappableJobRequest(
        hard=tuple(pair for pair in request.hard if not is_home_only_resource(pair[0])),
        soft=tuple(pair for pair in request.soft if not is_home_only_resource(pair[0])),
        pe=spec.pe,
        slots=spec.slots,
        project=request.project,
        queues=tuple(name for name in names if name not in ("", "*") and name not in own_queues),
    )
    remote_request = map_request_to_remote_cluster(mapped, rules, remote)
    if offered is not None:
        remote_request = drop_unoffered_soft_requests(remote_request, offered, remote)
    asks = request.with_changes(
        hard=remote_request.hard,
        soft=remote_request.soft,
        project=remote_request.project,
        targets=",".join(remote_request.queues),
        types=remote_request.types,
        groups=_node_groups_of_request(remote_request, len(offered.node) if offered else 0),
    )
    return spec.with_changes(request=asks, pe=remote_request.pe, slots=remote_request.slots), tuple(
        remote_request.notes
    )


def _node_groups_of_request(remote_request: MappableJobRequest, nodes: int) -> tuple[tuple[int, int], ...]:
    if not remote_request.spread:
        return ()
    # a slow import that few jobs need
    from gridbridge.decisions.transfer.request_mapping import spread_slots_over_nodes

    return spread_slots_over_nodes(remote_request.slots, remote_request.spread, nodes)
