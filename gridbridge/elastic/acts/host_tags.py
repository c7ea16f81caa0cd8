"""The tags of the site's own hosts: read from their cell, and written there."""

from collections.abc import Mapping

from gridbridge.batch.adapters import adapter_of
from gridbridge.batch.clusters import away
from gridbridge.errors import ConfigError, GridbridgeError, NotSeen, UsageMistake
from gridbridge.model.elastic.node import is_same_host
from gridbridge.model.policy import Policy


def tags(policy: Policy) -> Mapping[str, tuple[str, ...]]:
    """Return the tags of all hosts that have some; NotSeen when the cell does not answer."""
    cluster = away(policy, _own(policy))
    keeps = adapter_of(cluster).keeps_tags
    if keeps is None:
        return {}
    try:
        return keeps.tags(cluster)
    except GridbridgeError as error:
        raise NotSeen(f"{policy.site.cluster}: {error}") from error


def require_host(policy: Policy, host: str) -> None:
    """Raise Mistyped for a host that the site's own cluster does not have; NotSeen."""
    cluster = away(policy, _own(policy))
    keeps = adapter_of(cluster).keeps_tags
    if keeps is None:
        return
    try:
        known = keeps.hosts(cluster)
    except GridbridgeError as error:
        raise NotSeen(f"{policy.site.cluster}: {error}") from error
    if not any(is_same_host(one, host) for one in known):
        raise UsageMistake((f"{host}: cluster {policy.site.cluster} has no such execution host",))


def change(policy: Policy, host: str, tag: str, *, is_wanted: bool) -> tuple[str, ...]:
    """Give a host a tag or take it; return its tags then. NotSeen, CommandFailed."""
    cluster = away(policy, _own(policy))
    keeps = adapter_of(cluster).keeps_tags
    if keeps is None:
        name = policy.site.cluster
        raise ConfigError((f"[cluster.{name}] kind: an embedded cluster keeps no tags",))
    found = tags(policy)
    name = next((one for one in found if is_same_host(one, host)), host)
    before = found.get(name, ())
    others = tuple(one for one in before if one != tag)
    wanted = (*others, tag) if is_wanted else others
    if set(wanted) != set(before):
        keeps.set_tags(cluster, name, wanted)
    return wanted


def _own(policy: Policy) -> str:
    if not policy.site.cluster:
        raise ConfigError(("[site] cluster is empty: no cluster is the site's own",))
    return policy.site.cluster
