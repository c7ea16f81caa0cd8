"""Returns the adapter that adds hosts to the home cluster and removes hosts, and changes the tags of hosts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gridbridge import errors
from gridbridge.batch.batch_adapter_table import ADAPTERS, batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.model.elastic import elastic_nodes
from gridbridge.model.site_configuration import Policy

if TYPE_CHECKING:
    from gridbridge.batch.optional_adapter_protocols import ExecutionHostMembership


def home_cluster_host_membership(policy: Policy) -> "ExecutionHostMembership":
    """Return the adapter that adds hosts to the home cluster; ConfigError for a kind without own hosts."""
    name = policy.site.cluster
    cluster = configured_cluster_access(policy, name)
    if changes_hosts := batch_adapter_of_cluster(cluster).changes_hosts:
        return changes_hosts.create_host_membership_adapter(policy.bootstrap, cluster)
    kinds = " or ".join(kind for kind, adapter in ADAPTERS.items() if adapter.changes_hosts)
    raise errors.ConfigError((f"[cluster.{name}] kind: {cluster.kind}; expected {kinds}",))


def query_home_cluster_host_tags(policy: Policy) -> Mapping[str, tuple[str, ...]]:
    """Return the tags of each tagged host; raises ClusterStateUnknown if the cell does not answer."""
    cluster = configured_cluster_access(policy, _require_home_cluster_name(policy))
    keeps = batch_adapter_of_cluster(cluster).keeps_tags
    if keeps is None:
        return {}
    try:
        return keeps.query_host_tags(cluster)
    except errors.GridbridgeError as error:
        raise errors.ClusterStateUnknown(f"{policy.site.cluster}: {error}") from error


def require_home_execution_host(policy: Policy, host: str) -> None:
    """Raise CommandLineMistake if the home cluster lacks the host, or ClusterStateUnknown if it is silent."""
    cluster = configured_cluster_access(policy, _require_home_cluster_name(policy))
    keeps = batch_adapter_of_cluster(cluster).keeps_tags
    if keeps is None:
        return
    try:
        hosts = keeps.list_execution_hosts(cluster)
    except errors.GridbridgeError as error:
        raise errors.ClusterStateUnknown(f"{policy.site.cluster}: {error}") from error
    if not any(elastic_nodes.is_same_host(name, host) for name in hosts):
        raise errors.CommandLineMistake((f"{host}: cluster {policy.site.cluster} has no such execution host",))


def change_home_cluster_host_tag(policy: Policy, host: str, tag: str, *, is_wanted: bool) -> tuple[str, ...]:
    """Add or remove a tag; return all tags of the host. Raises CommandFailed or ClusterStateUnknown."""
    cluster = configured_cluster_access(policy, _require_home_cluster_name(policy))
    keeps = batch_adapter_of_cluster(cluster).keeps_tags
    if keeps is None:
        raise errors.ConfigError((f"[cluster.{policy.site.cluster}] kind: {cluster.kind}: no host has tags",))
    host_tags = query_home_cluster_host_tags(policy)
    name = next((listed for listed in host_tags if elastic_nodes.is_same_host(listed, host)), host)
    before = host_tags.get(name, ())
    remaining = tuple(existing for existing in before if existing != tag)
    new_tags = (*remaining, tag) if is_wanted else remaining
    if set(new_tags) != set(before):
        keeps.replace_host_tags(cluster, name, new_tags)
    return new_tags


def _require_home_cluster_name(policy: Policy) -> str:
    if not policy.site.cluster:
        raise errors.ConfigError(("[site] cluster is empty; expected the name of the home cluster",))
    return policy.site.cluster
