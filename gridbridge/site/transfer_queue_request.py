"""Completes a request for a transfer queue from the configuration and the remote cluster's size."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_routes import configured_cluster_address
from gridbridge.decisions.site.transfer_queue_findings import queue_slots_and_pending_limit
from gridbridge.errors import ConfigError
from gridbridge.model.fixed_paths import CONFIG, PYTHON
from gridbridge.model.key_settings import OBJECT_NAME
from gridbridge.model.qconf_attributes import is_transfer_queue
from gridbridge.model.site.setup_findings_and_edits import WantedTransferQueue, queue_runs_gridbridge_starter
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfer_config_sections import (
    MAX_SLOTS,
    PeMappingRule,
    ResourceMappingRule,
    TransferQueueSection,
)
from gridbridge.model.transfer_route import Away
from gridbridge.shell import local_host_facts

if TYPE_CHECKING:
    from gridbridge.batch.optional_adapter_protocols import TransferQueueMaker, TransferRemoteClusterSetup

QUARTER, TENTH = 4, 10  # shares of slots, from the Transfer Queues how-to, section Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQueueRequest:
    """The transfer queue requested on the command line; setup chooses values that are None."""

    cluster: str
    queue: str | None = None
    host: str | None = None
    slots: int | None = None
    pending_limit: int | None = None
    short_jobs: bool = False


def complete_queue_request(
    policy: Policy, options: TransferQueueRequest, must_exist: bool = False
) -> WantedTransferQueue:
    """Complete a request from gridbridge.toml, else from an existing transfer queue.

    Values that are set nowhere follow from the remote cluster's size.
    """
    refuse_setup_of_embedded_site(policy)
    if policy.why_no_queues:
        raise ConfigError((f"{CONFIG}: {policy.why_no_queues}",))
    name = options.queue or _default_queue(policy, options.cluster)
    section = policy.queues.get(name)
    _refuse(policy, options, name, section)
    if must_exist and section is None:
        section = TransferQueueSection(cluster=options.cluster, slots=1, pending_limit=0)
    if section and (must_exist or not options.short_jobs):
        slots = options.slots or section.slots
        limit = section.pending_limit if options.pending_limit is None else options.pending_limit
    else:
        slots, limit = _share(policy, _like_standing(policy, options, name))
    return WantedTransferQueue(
        home=policy.site.cluster,
        remote=options.cluster,
        queue=name,
        host=options.host or local_host_facts.this_host_name(),
        slots=slots,
        pending_limit=limit,
        service_account=policy.site.service_account,
        has_operators=remote_setup_adapter(configured_cluster_address(policy, options.cluster)).HAS_OPERATORS,
        remote_usage=section is None or section.remote_usage,
        far_account=_far_account(policy, options.cluster),
        renamed={name: rule.to for name, rule in _pe_rules(policy, options.cluster) if rule.to},
        rejected={name: rule.reject for name, rule in _pe_rules(policy, options.cluster) if rule.reject},
        people=_people(policy, options.cluster),
        resources=tuple(
            name
            for (_, name), rule in policy.maps.get(options.cluster, {}).items()
            if isinstance(rule, ResourceMappingRule) and not rule.reject
        ),
    )


def _like_standing(policy: Policy, options: TransferQueueRequest, name: str) -> TransferQueueRequest:
    if options.short_jobs:
        return options
    home = configured_cluster_address(policy, policy.site.cluster)
    queue = home_queue_setup_adapter(home).query_queue_settings(home).get(name, {})
    if name in policy.queues or not (is_transfer_queue(queue) or queue_runs_gridbridge_starter(queue)):
        return options
    slots, limit = queue_slots_and_pending_limit(
        queue, options.cluster, options.host or local_host_facts.this_host_name()
    )
    return replace(
        options,
        slots=options.slots or slots,
        pending_limit=limit if options.pending_limit is None else options.pending_limit,
    )


def _pe_rules(policy: Policy, cluster: str) -> Iterator[tuple[str, PeMappingRule]]:
    for (_, name), rule in policy.maps.get(cluster, {}).items():
        if (
            isinstance(rule, PeMappingRule)
            and remote_setup_adapter(configured_cluster_address(policy, cluster)).HAS_ENVIRONMENTS
        ):
            yield name, rule


def _people(policy: Policy, cluster: str) -> tuple[str, ...]:
    return tuple(person for person in policy.clusters[cluster].users if person != policy.site.service_account)


def refuse_setup_of_embedded_site(policy: Policy) -> None:
    """Raise ConfigError at a site of embedded clusters, because the site's user makes the queues."""
    if policy.is_personal:
        folder = policy.clusters[policy.site.cluster].folder
        make = f"{PYTHON} -I -m gridbridge.batch.embedded {folder} queue NAME ..."
        raise ConfigError((f"{policy.site.cluster}: an embedded cluster needs only a queue; expected {make}",))


def _far_account(policy: Policy, cluster: str) -> str:
    far = policy.clusters[cluster]
    return far.users.account_of(policy.site.service_account) if far.ssh else ""


def _default_queue(policy: Policy, cluster: str) -> str:
    named = [name for name, queue in policy.queues.items() if queue.cluster == cluster]
    return named[0] if len(named) == 1 else f"transfer-{cluster}"


def _refuse(policy: Policy, options: TransferQueueRequest, queue: str, section: TransferQueueSection | None) -> None:
    if options.cluster not in policy.clusters:
        defined = ", ".join(policy.clusters)
        raise ConfigError((f"{CONFIG}: no [cluster.{options.cluster}]; there are {defined}",))
    if options.cluster == policy.site.cluster:
        raise ConfigError((f"{options.cluster}: the local cluster; expected a remote cluster",))
    if section and section.cluster != options.cluster:
        raise ConfigError((f"{CONFIG}: [queue.{queue}] leads to {section.cluster}; expected another --queue",))
    for name in (queue, options.host):
        if name is not None and not OBJECT_NAME.holds(name):
            raise ConfigError((f"{name!r}: wrong name; expected {OBJECT_NAME.right}",))


def _share(policy: Policy, options: TransferQueueRequest) -> tuple[int, int]:
    """Return slots and pending limit, by default 1/4 and 1/10 of the cluster's slots (for short jobs 1/10 and 0)."""
    if options.short_jobs:
        return options.slots or _part(policy, options, TENTH), 0
    slots = options.slots or _part(policy, options, QUARTER)
    limit = options.pending_limit
    return slots, _part(policy, options, TENTH) if limit is None else limit


def _part(policy: Policy, options: TransferQueueRequest, divisor: int) -> int:
    return max(1, min(MAX_SLOTS, count_remote_batch_slots(policy, options.cluster) // divisor))


def count_remote_batch_slots(policy: Policy, cluster: str) -> int:
    """Return a remote cluster's batch slots, without slots of the remote cluster's own transfer queues."""
    remote = configured_cluster_address(policy, cluster)
    return remote_setup_adapter(remote).count_batch_slots(remote)


def remote_setup_adapter(cluster: Away) -> "TransferRemoteClusterSetup[Away]":
    """Return the adapter's functions that set up a remote cluster; raise ConfigError if there are none."""
    if ability := batch_adapter_of_cluster(cluster).sets_up:
        return ability
    raise ConfigError((f"setup changes nothing at a cluster of kind {cluster.kind}",))


def home_queue_setup_adapter(home: Away) -> "TransferQueueMaker[Away]":
    """Return the adapter's functions that make transfer queues; raise ConfigError if there are none."""
    if ability := batch_adapter_of_cluster(home).makes_queues:
        return ability
    raise ConfigError((f"setup makes no transfer queues in a cluster of kind {home.kind}",))
