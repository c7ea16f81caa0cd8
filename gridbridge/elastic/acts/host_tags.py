"""Read and write the tags that the site's own cluster keeps for its hosts."""

from collections.abc import Mapping

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_routes import configured_cluster_address
from gridbridge.errors import ClusterStateUnknown, CommandLineMistake, ConfigError, GridbridgeError
from gridbridge.model.elastic.elastic_nodes import is_same_host
from gridbridge.model.policy import Policy


def query_home_cluster_host_tags(policy: Policy) -> Mapping[str, tuple[str, ...]]:
    """Return the tags of each tagged host.

    Raise ClusterStateUnknown when the cell does not answer.
    """
    cluster = configured_cluster_address(policy, _own(policy))
    keeps = batch_adapter_of_cluster(cluster).keeps_tags
    if keeps is None:
        return {}
    try:
        return keeps.query_host_tags(cluster)
    except GridbridgeError as error:
        raise ClusterStateUnknown(f"{policy.site.cluster}: {error}") from error


def require_home_execution_host(policy: Policy, host: str) -> None:
    """Raise CommandLineMistake for a host that is no execution host of the site's own cluster.

    Raises ClusterStateUnknown when the cell does not answer.
    """
    cluster = configured_cluster_address(policy, _own(policy))
    keeps = batch_adapter_of_cluster(cluster).keeps_tags
    if keeps is None:
        return
    try:
        hosts = keeps.list_taggable_hosts(cluster)
    except GridbridgeError as error:
        raise ClusterStateUnknown(f"{policy.site.cluster}: {error}") from error
    if not any(is_same_host(name, host) for name in hosts):
        raise CommandLineMistake((f"{host}: cluster {policy.site.cluster} has no such execution host",))


def change_home_cluster_host_tag(policy: Policy, host: str, tag: str, *, is_wanted: bool) -> tuple[str, ...]:
    """Add a tag to a host, or remove it; return the host's tags afterwards.

    Raises ClusterStateUnknown when the cell does not answer, and CommandFailed when the cell
    refuses the change.
    """
    cluster = configured_cluster_address(policy, _own(policy))
    keeps = batch_adapter_of_cluster(cluster).keeps_tags
    if keeps is None:
        name = policy.site.cluster
        raise ConfigError((f"[cluster.{name}] kind: an embedded cluster keeps no tags",))
    host_tags = query_home_cluster_host_tags(policy)
    name = next((listed for listed in host_tags if is_same_host(listed, host)), host)
    before = host_tags.get(name, ())
    remaining = tuple(existing for existing in before if existing != tag)
    new_tags = (*remaining, tag) if is_wanted else remaining
    if set(new_tags) != set(before):
        keeps.replace_host_tags(cluster, name, new_tags)
    return new_tags


def _own(policy: Policy) -> str:
    if not policy.site.cluster:
        raise ConfigError(("[site] cluster is empty: no cluster is the site's own",))
    return policy.site.cluster
