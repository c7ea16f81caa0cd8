"""Converts the configuration into access settings for adapters and routes for starters."""

import os
import pwd
from dataclasses import fields
from typing import cast

from gridbridge.errors import ConfigError
from gridbridge.model import transfer_route
from gridbridge.model.config_key_descriptions import QueueDefaultRequests
from gridbridge.model.fixed_paths import CONFIG
from gridbridge.model.site_configuration import ClusterSection, JobClaimKind, JobEndPushKind, Policy
from gridbridge.model.transfer.request_mapping_rules import (
    ANY,
    PROJECT,
    QUEUE,
    RESOURCE,
    MappingRules,
    RequestMapping,
    RequestMappingRule,
)
from gridbridge.model.transfer.transfer_config_sections import AnyRule, JobIdVariableSource
from gridbridge.shell import ssh


def configured_cluster_access(policy: Policy, name: str) -> transfer_route.AnyClusterAccessSettings:
    if name not in policy.clusters:  # an administrator may have removed the cluster's section
        raise ConfigError((f"{CONFIG} has no [cluster.{name}]",))
    cluster = policy.clusters[name]
    settings = {key.name: getattr(cluster, key.name) for key in fields(cluster)}
    settings["ends"] = pushed_job_ends_fifo_path(policy, cluster)
    if cluster.api:
        service = cluster.users.remote_account_of_user(policy.site.service_account)
        settings |= {"api_login": cluster.api_reader, "api_account": service}
    login = _ssh_login_to_cluster(policy, cluster)
    return transfer_route.access_to_cluster(settings, cluster.command_timeout_s, login)


def configured_home_cluster_access(policy: Policy, name: str) -> transfer_route.HomeClusterAccessSettings:
    """Return the access settings of a home cluster: a configured Grid Engine or embedded cluster."""
    return cast(
        "transfer_route.HomeClusterAccessSettings", configured_cluster_access(policy, name)
    )  # no OAR server gets here, because callers check policy.why_no_queues first


def pushed_job_ends_fifo_path(policy: Policy, cluster: ClusterSection) -> str:
    """Return the cluster's FIFO that ended jobs write to; empty unless key `push` is `oar`."""
    if cluster.push is not JobEndPushKind.OAR:
        return ""
    account = cluster.users.remote_account_of_user(policy.site.service_account)
    return f"/tmp/gridbridge.{account}/ends"  # noqa: S108 - the folder belongs to the account


def _ssh_login_to_cluster(policy: Policy, cluster: ClusterSection) -> transfer_route.SshLogin | None:
    """Return the ssh login to a cluster; root gets the service account's login."""
    if not cluster.ssh:
        return None
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
        remote_ends=pushed_job_ends_fifo_path(policy, cluster),
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
    from gridbridge.batch.batch_adapter_table import ADAPTERS  # imports all adapters; access settings need none

    rules, own = policy.maps.get(cluster, {}), policy.queues.get(queue)
    asks = own.asks if own else QueueDefaultRequests()  # the queue may have been removed from gridbridge.toml
    texts = {(kind, name): _mapping_rule_as_text(kind, name, rule) for (kind, name), rule in rules.items()}
    if complete_rules := ADAPTERS[policy.clusters[cluster].kind].complete_mapping_rules:
        texts = complete_rules(cluster, texts, own)
    elif not asks and all(rule == type(rule)() for rule in rules.values()):
        return RequestMapping({})
    return RequestMapping(_add_default_requests_to_rules(texts, asks))


def _add_default_requests_to_rules(rules: MappingRules, asks: QueueDefaultRequests) -> MappingRules:
    for name, value in asks.items():
        rule = rules.setdefault((RESOURCE, name), RequestMappingRule())
        rule.default, rule.require = value, ""
    return rules


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
