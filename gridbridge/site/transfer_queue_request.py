"""Completes a request for a transfer queue from the configuration and the remote cluster's size."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.decisions.site.transfer_queue_findings import queue_slots_and_pending_limit
from gridbridge.errors import ConfigError
from gridbridge.model.config_key_descriptions import OBJECT_NAME
from gridbridge.model.fixed_paths import CONFIG, PYTHON
from gridbridge.model.qconf_attribute_parser import is_transfer_queue
from gridbridge.model.site.setup_findings_and_edits import TransferQueuePlan, queue_runs_gridbridge_starter
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfer_config_sections import (
    MAX_SLOTS,
    PeMappingRule,
    ResourceMappingRule,
    TransferQueueSection,
)
from gridbridge.model.transfer_route import AnyClusterAccessSettings
from gridbridge.shell import local_host_facts

if TYPE_CHECKING:
    from gridbridge.batch.optional_adapter_protocols import RemoteClusterSetupReader, TransferQueueSetupReader

QUARTER, TENTH = 4, 10  # divisors of the remote cluster's slots, from the Transfer Queues how-to, section Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQueueOptions:
    """The transfer queue requested on the command line; setup chooses values that are None."""

    cluster: str
    queue: str | None = None
    host: str | None = None
    slots: int | None = None
    pending_limit: int | None = None
    short_jobs: bool = False


def complete_queue_request(
    policy: Policy, options: TransferQueueOptions, must_exist: bool = False
) -> TransferQueuePlan:
    """Fill in the missing values: from gridbridge.toml, an existing queue, or the remote cluster's size."""
    refuse_setup_of_embedded_site(policy)
    if policy.why_no_transfer_queues:
        raise ConfigError((f"{CONFIG}: {policy.why_no_transfer_queues}",))
    named = [name for name, queue in policy.queues.items() if queue.cluster == options.cluster]
    name = options.queue or (named[0] if len(named) == 1 else f"transfer-{options.cluster}")
    section = policy.queues.get(name)
    _refuse_invalid_queue_request(policy, options, name, section)
    if must_exist and section is None:
        section = TransferQueueSection(cluster=options.cluster, slots=1, pending_limit=0)
    if section and (must_exist or not options.short_jobs):
        slots = options.slots or section.slots
        limit = section.pending_limit if options.pending_limit is None else options.pending_limit
    else:
        slots, limit = _default_slots_and_limit(policy, _request_like_existing_queue(policy, options, name))
    far, service = policy.clusters[options.cluster], policy.site.service_account
    setup_adapter = remote_setup_adapter(configured_cluster_access(policy, options.cluster))
    rules = [(name, rule) for (_, name), rule in policy.maps.get(options.cluster, {}).items()]
    pe_rules = {
        name: rule for name, rule in rules if isinstance(rule, PeMappingRule) and setup_adapter.HAS_ENVIRONMENTS
    }
    return TransferQueuePlan(
        home=policy.site.cluster,
        remote=options.cluster,
        queue=name,
        host=options.host or local_host_facts.this_host_name(),
        slots=slots,
        pending_limit=limit,
        service_account=service,
        has_operators=setup_adapter.HAS_OPERATORS,
        remote_usage=section is None or section.remote_usage,
        far_account=far.users.remote_account_of_user(service) if far.ssh else "",
        renamed={name: rule.to for name, rule in pe_rules.items() if rule.to},
        rejected={name: rule.reject for name, rule in pe_rules.items() if rule.reject},
        people=tuple(person for person in far.users if person != service),
        resources=tuple(name for name, rule in rules if isinstance(rule, ResourceMappingRule) and not rule.reject),
    )


def _request_like_existing_queue(policy: Policy, options: TransferQueueOptions, name: str) -> TransferQueueOptions:
    if options.short_jobs:
        return options
    home = configured_cluster_access(policy, policy.site.cluster)
    queue = home_queue_setup_adapter(home).query_queue_settings(home).get(name, {})
    if name in policy.queues or not (is_transfer_queue(queue) or queue_runs_gridbridge_starter(queue)):
        return options
    host = options.host or local_host_facts.this_host_name()
    slots, limit = queue_slots_and_pending_limit(queue, options.cluster, host)
    limit = limit if options.pending_limit is None else options.pending_limit
    return replace(options, slots=options.slots or slots, pending_limit=limit)


def refuse_setup_of_embedded_site(policy: Policy) -> None:
    """Raise ConfigError at a site of embedded clusters, where the site's user makes the queues."""
    if policy.is_single_user_site:
        folder = policy.clusters[policy.site.cluster].folder
        make = f"{PYTHON} -I -m gridbridge.batch.embedded {folder} queue NAME ..."
        raise ConfigError((f"{policy.site.cluster}: an embedded cluster needs only a queue; expected {make}",))


def require_configured_cluster(policy: Policy, cluster: str) -> None:
    if cluster not in policy.clusters:
        raise ConfigError((f"{CONFIG}: no [cluster.{cluster}]; expected one of: {', '.join(policy.clusters)}",))


def _refuse_invalid_queue_request(
    policy: Policy, options: TransferQueueOptions, queue: str, section: TransferQueueSection | None
) -> None:
    require_configured_cluster(policy, options.cluster)
    if options.cluster == policy.site.cluster:
        raise ConfigError((f"{options.cluster}: the local cluster; expected a remote cluster",))
    if section and section.cluster != options.cluster:
        raise ConfigError((f"{CONFIG}: [queue.{queue}] leads to {section.cluster}; expected another --queue",))
    for name in (queue, options.host):
        if name is not None and not OBJECT_NAME.holds(name):
            raise ConfigError((f"{name!r}: wrong name; expected {OBJECT_NAME.right}",))


def _default_slots_and_limit(policy: Policy, options: TransferQueueOptions) -> tuple[int, int]:
    """Return slots and pending limit: by default 1/4 and 1/10 of the cluster's slots; for short jobs 1/10 and 0."""

    def fraction_of_batch_slots(divisor: int) -> int:
        return max(1, min(MAX_SLOTS, count_remote_batch_slots(policy, options.cluster) // divisor))

    slots = options.slots or fraction_of_batch_slots(TENTH if options.short_jobs else QUARTER)
    limit = 0 if options.short_jobs else options.pending_limit
    return slots, fraction_of_batch_slots(TENTH) if limit is None else limit


def count_remote_batch_slots(policy: Policy, cluster: str) -> int:
    """Return a remote cluster's batch slots, without the slots of its own transfer queues."""
    remote = configured_cluster_access(policy, cluster)
    return remote_setup_adapter(remote).count_batch_slots(remote)


def remote_setup_adapter(cluster: AnyClusterAccessSettings) -> "RemoteClusterSetupReader[AnyClusterAccessSettings]":
    """Return the adapter's functions that set up a remote cluster; raise ConfigError if there are none."""
    if ability := batch_adapter_of_cluster(cluster).sets_up:
        return ability
    raise ConfigError((f"setup changes nothing at a cluster of kind {cluster.kind}",))


def home_queue_setup_adapter(home: AnyClusterAccessSettings) -> "TransferQueueSetupReader[AnyClusterAccessSettings]":
    """Return the adapter's functions that make transfer queues; raise ConfigError if there are none."""
    if ability := batch_adapter_of_cluster(home).makes_queues:
        return ability
    raise ConfigError((f"setup makes no transfer queues in a cluster of kind {home.kind}",))
