"""From the configuration to what the adapters and the starters need: cells and routes."""

import os
import pwd
from dataclasses import Field, fields

from gridbridge.model.mapping import ANY, PROJECT, QUEUE, Mapping, Rule
from gridbridge.model.policy import Cluster, Policy
from gridbridge.model.route import Cell, Route, login
from gridbridge.model.rules import AnyRule
from gridbridge.shell import ssh


def cell(policy: Policy, name: str) -> Cell:
    """Return how to reach a configured Grid Engine cluster.

    By ssh as ourselves; root has no account elsewhere, so it asks as the service's account does.
    """
    cluster, uid = policy.clusters[name], os.geteuid()
    person = pwd.getpwuid(uid).pw_name if uid else policy.site.service_account
    return Cell(
        root=cluster.root,
        cell=cluster.cell,
        qmaster_port=str(cluster.qmaster_port),
        execd_port=str(cluster.execd_port),
        binaries=cluster.binaries,
        timeout_s=cluster.command_timeout_s,
        login=login(cluster.ssh, cluster.users.account_of(person), "" if uid else person),
    )


def keep_connections(policy: Policy) -> None:
    """Have this process keep one connection a login, if there is a cluster by ssh."""
    if any(cluster.ssh for cluster in policy.clusters.values()):
        from gridbridge.shell.connection import Connections  # 200 ms

        ssh.carry_by(Connections())


def route(policy: Policy, queue: str) -> Route:
    """Return what the starters of a transfer queue must know."""
    remote = policy.queues[queue].cluster
    cluster = policy.clusters[remote]
    return Route(
        cluster=policy.site.cluster,
        remote=remote,
        remote_mapped="yes" if mapping(policy, remote).rules else "",
        remote_shell=cluster.shell,
        remote_spool=cluster.remote_spool_dir if cluster.spool_shared else "",
        remote_ssh=cluster.ssh,
        remote_users=" ".join(f"{person}={user}" for person, user in cluster.users.items()),
        **_side("local", policy.local),
        **_side("remote", cluster),
    )


def mapping(policy: Policy, cluster: str) -> Mapping:
    """Return how requests are translated for a remote cluster; no rules: they are not."""
    rules = policy.maps.get(cluster, {})
    if all(rule == type(rule)() for rule in rules.values()):
        return Mapping({})
    return Mapping({(kind, name): _rule(kind, name, rule) for (kind, name), rule in rules.items()})


def _rule(kind: str, name: str, rule: AnyRule) -> Rule:
    """Return a rule in the programs' form: text, empty where it says nothing.

    One that says nothing at all still keeps its name from the rule for all.
    """
    values = {key.name: getattr(rule, key.name) for key in fields(rule) if _says(rule, key)}
    if not values and kind == QUEUE:
        values = {"drop": True}
    elif not values and kind == PROJECT and name != ANY:
        values = {"to": name}
    return Rule(**{key: "yes" if value is True else str(value) for key, value in values.items()})


def _says(rule: AnyRule, key: "Field[object]") -> bool:
    return bool(getattr(rule, key.name) != key.default)


def _side(side: str, cluster: Cluster) -> dict[str, str]:
    return {
        f"{side}_root": cluster.root,
        f"{side}_cell": cluster.cell,
        f"{side}_qmaster_port": str(cluster.qmaster_port),
        f"{side}_execd_port": str(cluster.execd_port),
        f"{side}_binaries": cluster.binaries,
        f"{side}_timeout_s": str(cluster.command_timeout_s),
    }
