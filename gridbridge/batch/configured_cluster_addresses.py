"""Converts the configuration into cluster addresses for adapters and routes for starters."""

import os
import pwd
from collections.abc import Callable
from dataclasses import fields
from typing import cast

from gridbridge.batch.oar import oar_commands
from gridbridge.errors import ConfigError
from gridbridge.model import transfer_route
from gridbridge.model.config_key_descriptions import QueueDefaultRequests
from gridbridge.model.fixed_paths import CONFIG, PYTHON
from gridbridge.model.site_configuration import ClusterKind, ClusterSection, JobClaimKind, JobEndPushKind, Policy
from gridbridge.model.transfer.request_mapping_rules import (
    ANY,
    EVERY_JOB,
    PROJECT,
    QUEUE,
    RESOURCE,
    TYPE,
    RequestMapping,
    RequestMappingRule,
)
from gridbridge.model.transfer.transfer_config_sections import AnyRule, JobIdVariableSource, Rules, TransferQueueSection
from gridbridge.shell import ssh


def configured_cluster_address(policy: Policy, name: str) -> transfer_route.Away:
    if name not in policy.clusters:  # an administrator may have removed the cluster's section
        raise ConfigError((f"{CONFIG} has no [cluster.{name}]",))
    return REACHED[policy.clusters[name].kind](policy, name)


def configured_home_address(policy: Policy, name: str) -> transfer_route.Home:
    """Return the address of a home cluster: a configured Grid Engine or embedded cluster."""
    return cast(
        "transfer_route.Home", configured_cluster_address(policy, name)
    )  # no OAR server gets here, because callers check policy.why_no_queues first


def _oar_server_address(policy: Policy, name: str) -> transfer_route.OarServerAccess:
    cluster = policy.clusters[name]
    return transfer_route.OarServerAccess(
        binaries=cluster.binaries,
        timeout_s=cluster.command_timeout_s,
        login=_ssh_login_to_cluster(policy, cluster),
        ends=oar_job_end_fifo_path(policy, cluster),
    )


def _embedded_cluster_address(policy: Policy, name: str) -> transfer_route.EmbeddedClusterAccess:
    cluster = policy.clusters[name]
    return transfer_route.EmbeddedClusterAccess(path=cluster.folder, python=PYTHON, timeout_s=cluster.command_timeout_s)


def oar_job_end_fifo_path(policy: Policy, cluster: ClusterSection) -> str:
    """Return the frontend's FIFO that ended OAR jobs write to; empty unless key `push` is `oar`."""
    if cluster.push is not JobEndPushKind.OAR:
        return ""
    account = cluster.users.remote_account_of_user(policy.site.service_account)
    return f"/tmp/gridbridge.{account}/ends"  # noqa: S108 - the folder belongs to the account


def _grid_engine_cell_address(policy: Policy, name: str) -> transfer_route.GridEngineCellAccess:
    cluster = policy.clusters[name]
    return transfer_route.GridEngineCellAccess(
        root=cluster.root,
        cell=cluster.cell,
        qmaster_port=str(cluster.qmaster_port),
        execd_port=str(cluster.execd_port),
        binaries=cluster.binaries,
        timeout_s=cluster.command_timeout_s,
        login=_ssh_login_to_cluster(policy, cluster),
    )


def _ssh_login_to_cluster(policy: Policy, cluster: ClusterSection) -> transfer_route.SshLogin | None:
    """Return the ssh login to a cluster; root gets the service account's login."""
    uid = os.geteuid()
    person = pwd.getpwuid(uid).pw_name if uid else policy.site.service_account
    return transfer_route.parse_ssh_login_address(
        cluster.ssh, cluster.users.remote_account_of_user(person), "" if uid else person
    )


def keep_ssh_connections_open(policy: Policy) -> None:
    """Keep one open ssh connection for each remote login; a repeated call changes nothing."""
    if any(cluster.ssh for cluster in policy.clusters.values()) and not ssh.uses_persistent_ssh():
        from gridbridge.shell.ssh_connections_shared_by_threads import LazyKeptSshConnections

        ssh.set_ssh_request_carrier(LazyKeptSshConnections())


def log_in_to_ssh_clusters(policy: Policy) -> None:
    """Log in to all ssh clusters at once, for a short program with a few queries."""
    candidates = (_ssh_login_to_cluster(policy, cluster) for cluster in policy.clusters.values())
    if (logins := [login for login in candidates if login]) and not ssh.uses_persistent_ssh():
        from gridbridge.shell.ssh_connections_shared_by_threads import IdleSshSessions

        pool = IdleSshSessions()
        for login in logins:
            pool.begin_ssh_login(login)
        ssh.set_ssh_request_carrier(pool)


def build_transfer_queue_route(policy: Policy, queue: str) -> transfer_route.TransferRoute:
    section, local = policy.queues[queue], policy.clusters[policy.site.cluster]
    remote = section.cluster
    cluster = policy.clusters[remote]
    return transfer_route.TransferRoute(
        cluster=policy.site.cluster,
        remote=remote,
        remote_kind=cluster.kind.value,
        remote_mapped="yes" if build_request_mapping(policy, remote, queue).rules else "",
        remote_shell=cluster.shell,
        remote_spool=cluster.remote_spool_dir if cluster.spool_shared else "",
        remote_ssh=cluster.ssh,
        remote_ends=oar_job_end_fifo_path(policy, cluster),
        remote_stage_dir=cluster.stage_dir,
        remote_claim=_format_claim_settings(policy, cluster),
        identity="" if section.identity is JobIdVariableSource.HOME else section.identity.value,
        staged="yes" if section.staged and cluster.ssh else "",
        stage_in=section.stage_in,
        stage_out=section.stage_out,
        remote_users=" ".join(f"{person}={user}" for person, user in cluster.users.items()),
        local_kind=local.kind.value,
        **_route_fields_of_cluster("local", local),
        **_route_fields_of_cluster("remote", cluster),
    )


def _format_claim_settings(policy: Policy, cluster: ClusterSection) -> str:
    if cluster.claim is not JobClaimKind.GRANT:
        return "" if cluster.claim is JobClaimKind.NONE else cluster.claim.value
    account = cluster.users.remote_account_of_user(policy.site.service_account)
    return f"{cluster.claim.value} {cluster.claim_wait_s:.0f} {account}"


def build_request_mapping(policy: Policy, cluster: str, queue: str) -> RequestMapping:
    rules, own = policy.maps.get(cluster, {}), policy.queues.get(queue)
    asks = own.asks if own else QueueDefaultRequests()  # the queue may have been removed from gridbridge.toml
    if policy.clusters[cluster].kind is ClusterKind.OAR:
        return RequestMapping(
            _add_default_requests_to_rules(_oar_mapping_rules(cluster, rules), asks)
            | (_oar_queue_and_type_rules(own) if own else {})
        )
    if not asks and all(rule == type(rule)() for rule in rules.values()):
        return RequestMapping({})
    return RequestMapping(_add_default_requests_to_rules(_mapping_rules_as_text(rules), asks))


def _add_default_requests_to_rules(
    rules: dict[tuple[str, str], RequestMappingRule], asks: QueueDefaultRequests
) -> dict[tuple[str, str], RequestMappingRule]:
    for name, value in asks.items():
        rule = rules.setdefault((RESOURCE, name), RequestMappingRule())
        rule.default, rule.require = value, ""
    return rules


def _oar_queue_and_type_rules(queue: TransferQueueSection) -> dict[tuple[str, str], RequestMappingRule]:
    kinds = queue.oar_type.split()
    rules = {(TYPE, str(number)): RequestMappingRule(to=kind) for number, kind in enumerate(kinds)}
    if queue.oar_queue:
        rules[QUEUE, EVERY_JOB] = RequestMappingRule(to=queue.oar_queue)
    return rules


def _mapping_rules_as_text(rules: Rules) -> dict[tuple[str, str], RequestMappingRule]:
    return {(kind, name): _mapping_rule_as_text(kind, name, rule) for (kind, name), rule in rules.items()}


def _oar_mapping_rules(cluster: str, rules: Rules) -> dict[tuple[str, str], RequestMappingRule]:
    """Return the mapping rules for an OAR server; resources without a rule are rejected."""
    missing = f"[map.{cluster}.resource.NAME] has to name the remote resource"
    oar_rules = {(RESOURCE, oar_commands.WALLTIME): RequestMappingRule()}
    oar_rules |= _mapping_rules_as_text(rules)
    for (kind, name), rule in oar_rules.items():
        remote_name = rule.to or name
        if kind == RESOURCE and remote_name == oar_commands.WALLTIME:
            rule.to = remote_name  # a rule without keys would not be published, so `to` is set
        elif kind == RESOURCE and not remote_name.startswith(oar_commands.LEVEL):
            rule.relation = rule.relation or "="
    return {**oar_rules, (RESOURCE, ANY): RequestMappingRule(reject=missing)}


def _mapping_rule_as_text(kind: str, name: str, rule: AnyRule) -> RequestMappingRule:
    """Return a rule as text fields; a field is empty if the configuration does not set the key.

    A rule without keys exempts its resource, project or queue from the rule named `*`.
    """
    values = {key.name: getattr(rule, key.name) for key in fields(rule) if getattr(rule, key.name) != key.default}
    if not values and kind == QUEUE:
        values = {"drop": True}
    elif not values and kind == PROJECT and name != ANY:
        values = {"to": name}
    return RequestMappingRule(**{key: "yes" if value is True else str(value) for key, value in values.items()})


def _route_fields_of_cluster(side: str, cluster: ClusterSection) -> dict[str, str]:
    return {
        f"{side}_root": cluster.folder or cluster.root,
        f"{side}_cell": cluster.cell,
        f"{side}_qmaster_port": str(cluster.qmaster_port),
        f"{side}_execd_port": str(cluster.execd_port),
        f"{side}_binaries": cluster.binaries,
        f"{side}_timeout_s": str(cluster.command_timeout_s),
    }


REACHED: "dict[ClusterKind, Callable[[Policy, str], transfer_route.Away]]" = {
    ClusterKind.GRIDENGINE: _grid_engine_cell_address,
    ClusterKind.OAR: _oar_server_address,
    ClusterKind.EMBEDDED: _embedded_cluster_address,
}
