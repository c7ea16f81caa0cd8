"""Previews a balancer round for the live cluster or for a saved folder, and explains jobs and hosts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gridbridge.decisions.elastic.node_acts_from_balance_plan import node_with_idle_time
from gridbridge.decisions.elastic.nodes_needing_administrator import explain_how_to_wake_host, is_site_owned_host
from gridbridge.decisions.elastic.standby_host_policy import plan_hosts_to_sleep_or_wake
from gridbridge.elastic import host_membership_and_tags
from gridbridge.elastic.balancer import balance_situation_sources, balancer_round_decision
from gridbridge.errors import ClusterStateUnknown, ConfigError
from gridbridge.model.elastic.balance_plan import BalancePolicyName, BalanceSituation
from gridbridge.model.elastic.balancer_config_sections import BalanceSection, DemandPolicySection
from gridbridge.model.elastic.elastic_nodes import BalancerOwnedNode, ElasticNodeState, is_same_host
from gridbridge.model.elastic.published_balance import BalancePlanReport, BalancerJobOrHostExplanation
from gridbridge.model.elastic.standby_and_wake_plan import HostTagsAndMovableTasks, tags_by_short_host_name
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT, CONFIG
from gridbridge.model.grid_engine_amounts import HOUR_S
from gridbridge.model.site_configuration import Policy
from gridbridge.program import configuration_in_force
from gridbridge.shell.program_startup import drop_root_to_account

_OF_OTHERS = "a host that is no node of the balancer is never removed"
NODES_UNSEEN = "only root and gridbridge-admin see the balancer's nodes"
SQUEEZE_UNSEEN = (
    "this plan lacks the squeeze, because only root and gridbridge-admin see switched-off hosts:"
    " a round may also wake hosts or switch hosts off"
)
LISTS_UNASKED = "providers are not queried: only root and gridbridge-admin may query providers"
_OF_HIDDEN = "only root and gridbridge-admin see whether the host is a node of the balancer"


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceRuleOverrides:
    """Command-line options that replace rules of gridbridge.toml; None keeps the file's rule."""

    policy: str | None = None
    max_nodes: int | None = None
    min_nodes: int | None = None
    add_nodes_per_iteration: int | None = None
    job_wait_time_s: float | None = None
    kill_after_min: int | None = None
    stabilization_s: float | None = None
    is_faithful: bool = False


def preview_balance_plan(
    options: BalanceRuleOverrides, now: datetime, folder: str = "", path: str = CONFIG
) -> BalancePlanReport:
    """Report what a balancer round would do, without acts; `folder` has saved inputs for the plan.

    With `folder`, gridbridge.toml is read only if `path` names a file. Raises ClusterStateUnknown or ParseError
    for incomplete inputs, and ConfigError for contradicting limits.
    """
    policy = configuration_in_force.load_config_of_folder_or_site(folder, path)
    situation = _load_or_observe_situation(policy, folder, now)
    if folder:
        return _decide_live_or_saved_round(situation, policy, options, is_live=False)
    silent, unasked = _pools_without_machine_list(policy)
    pool_names = {name for name, pool in policy.pools.items() if pool.provider}
    if silent and silent.keys() == pool_names and not policy.squeeze.enabled:
        whys = "; ".join(f"pool {name}: {why}" for name, why in silent.items())
        raise ClusterStateUnknown(f"no provider gave a whole list of its machines: {whys}")
    nodes = (replace(node, is_unreachable=node.pool in silent) for node in situation.nodes)
    failed = {**situation.failed, **dict.fromkeys(silent, situation.now)}
    situation = replace(situation, nodes=tuple(nodes), failed=failed)
    report = _decide_live_or_saved_round(situation, policy, options, is_live=True)
    if report.pool in silent:
        report = replace(report, add=0)
    lists = (
        f"pool {pool}: the provider gives no list of machines, so no node of the pool is added or removed: {why}"
        for pool, why in silent.items()
    )
    return replace(report, unseen=(*report.unseen, *unasked, *lists))


def _pools_without_machine_list(policy: Policy) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return, by pool, why a machine list is missing, and a note if no provider was queried."""
    if not any(pool.provider for pool in policy.pools.values()):
        return {}, ()
    from gridbridge.elastic.balancer import machine_list_queries  # imports all providers

    drop_root_to_account(BALANCE_ACCOUNT)  # the account owns the providers' secret files
    if not machine_list_queries.may_query_providers():
        return {}, (LISTS_UNASKED,)
    return {pool: why for pool, why in machine_list_queries.query_machine_list_failures(policy).items() if why}, ()


def _decide_live_or_saved_round(
    situation: BalanceSituation, policy: Policy, options: BalanceRuleOverrides, *, is_live: bool
) -> BalancePlanReport:
    rules, demand = apply_command_line_rules(policy, options)
    switched = {host.provider for host in policy.powered.values()}
    unseen: tuple[str, ...] = (NODES_UNSEEN,) if is_live and may_not_read_balancer_nodes() else ()
    if unseen and policy.squeeze.enabled and policy.powered:
        unseen = (NODES_UNSEEN, SQUEEZE_UNSEEN)
    if not (is_live and policy.squeeze.enabled and switched) or unseen:
        report = balancer_round_decision.decide_and_report_balance(
            situation, rules, demand, policy.pools, is_faithful=options.is_faithful
        )
        return replace(report, unseen=unseen)
    # imports all providers
    from gridbridge.elastic.balancer.squeeze_preview import query_tasks_squeeze_may_move

    own = {node.name for node in situation.nodes if node.pool in switched}
    tags = tags_by_short_host_name(host_membership_and_tags.query_home_cluster_host_tags(policy))
    standby = balancer_round_decision.list_wakeable_own_hosts(situation, own, demand.retry_s, tags)
    situation = replace(situation, standby=standby)
    planned = balancer_round_decision.decide_balance_plan(
        situation, rules, demand, policy.pools, is_faithful=options.is_faithful
    )
    facts = HostTagsAndMovableTasks(tags=tags, movable=query_tasks_squeeze_may_move(policy, situation))
    mine = balancer_round_decision.restrict_squeeze_to_own_hosts(situation, own, demand.retry_s)
    standby_plan = plan_hosts_to_sleep_or_wake(mine, planned, rules, policy.squeeze, facts)
    decision = balancer_round_decision.balance_plan_report(
        balancer_round_decision.drop_acts_replaced_by_squeeze(planned, standby_plan, own),
        rules,
        demand,
        is_alone=not (standby_plan.on or standby_plan.off),
    )
    return balancer_round_decision.append_squeeze_sentence(decision, standby_plan)


def apply_command_line_rules(
    policy: Policy, options: BalanceRuleOverrides
) -> tuple[BalanceSection, DemandPolicySection]:
    at_once, pause_s = options.add_nodes_per_iteration, options.stabilization_s
    balance: dict[str, Any] = {  # the values have different types
        "policy": BalancePolicyName(options.policy) if options.policy else None,
        "max_nodes": options.max_nodes,
        "min_nodes": options.min_nodes,
        "add_nodes_per_iteration": at_once,
        "job_wait_time_s": options.job_wait_time_s,
        "kill_after_min": options.kill_after_min,
        "stabilization_s": pause_s,
    }
    demand: dict[str, Any] = {
        "add_at_once": at_once,
        "wait_s": options.job_wait_time_s,
        "grow_pause_s": pause_s,
        "shrink_pause_s": pause_s,
    }
    if options.kill_after_min is not None:
        demand |= {"billing_s": HOUR_S, "billing_window": 1 - options.kill_after_min * 60 / HOUR_S}
    rules = replace(policy.balance, **{key: word for key, word in balance.items() if word is not None})
    if 0 < rules.max_nodes < rules.min_nodes:
        raise ConfigError((f"min_nodes is {rules.min_nodes}; expected at most max_nodes ({rules.max_nodes})",))
    return rules, replace(policy.demand, **{key: word for key, word in demand.items() if word is not None})


def save_balance_snapshot(folder: str, now: datetime, path: str = CONFIG) -> None:
    """Save a round's inputs.

    Raises ClusterStateUnknown, or StandardOutputUnwritable for an unwritable folder.
    """
    policy = configuration_in_force.load_config_with_home_cluster(path)
    balance_situation_sources.save_balancer_round_inputs(policy, folder, now)


def may_not_read_balancer_nodes() -> bool:
    return balance_situation_sources.is_balancer_state_unreadable()


def explain_balance_of_job_or_host(
    subject: str, now: datetime, nodes: tuple[BalancerOwnedNode, ...] = (), folder: str = "", path: str = CONFIG
) -> BalancerJobOrHostExplanation:
    """Explain what a round would do about a job or host; `nodes` is empty if the nodes are unreadable."""
    policy = configuration_in_force.load_config_of_folder_or_site(folder, path)
    situation = _load_or_observe_situation(policy, folder, now)
    if nodes and not folder:
        situation = replace(situation, nodes=tuple(node_with_idle_time(node, situation.now) for node in nodes))
    decision = _decide_live_or_saved_round(situation, policy, BalanceRuleOverrides(), is_live=not folder)
    if subject.isascii() and subject.isdecimal():
        return _explain_job(int(subject), situation, decision)
    explanation = _explain_host(
        subject, nodes, situation, decision, is_unseen=not folder and may_not_read_balancer_nodes()
    )
    if explanation.node and explanation.node.state is ElasticNodeState.STANDBY and is_site_owned_host(explanation.node):
        tags = tags_by_short_host_name(
            host_membership_and_tags.query_home_cluster_host_tags(
                configuration_in_force.load_config_with_home_cluster(path)
            )
        )
        return replace(explanation, reason=explain_how_to_wake_host(explanation.node, tags))
    return explanation


def _explain_job(job: int, situation: BalanceSituation, report: BalancePlanReport) -> BalancerJobOrHostExplanation:
    of_job = (refusal.reason for refusal in report.refused if refusal.job == job and not refusal.host)
    refused = next(of_job, "")
    waits = any(job in row.jobs for row in situation.cell.waiting)
    reason = refused or (
        "the job counts as demand" if waits else "the job does not wait: the job runs, has ended, or never existed"
    )
    return BalancerJobOrHostExplanation(
        what=f"job {job}",
        is_known=waits or bool(refused),
        reason=reason,
        sentence=report.sentence,
        unseen=report.unseen,
    )


def _explain_host(
    host: str,
    nodes: tuple[BalancerOwnedNode, ...],
    situation: BalanceSituation,
    report: BalancePlanReport,
    *,
    is_unseen: bool,
) -> BalancerJobOrHostExplanation:
    node = next((node for node in nodes if is_same_host(node.name, host)), None)
    is_node = any(is_same_host(node.name, host) for node in situation.nodes)
    is_listed = any(is_same_host(listed.name, host) for listed in situation.cell.hosts)
    refused = next((refusal.reason for refusal in report.refused if is_same_host(refusal.host, host)), "")
    if any(is_same_host(name, host) for name in report.remove):
        refused = "the plan removes the node"
    if not is_node:
        refused = _OF_HIDDEN if is_unseen else _OF_OTHERS
        refused = refused if is_listed else "no such host"
    return BalancerJobOrHostExplanation(
        what=host,
        is_known=is_node or is_listed,
        node=node,
        reason=refused or "nothing is planned for the host",
        sentence=report.sentence,
        unseen=report.unseen,
    )


def _load_or_observe_situation(policy: Policy, folder: str, now: datetime) -> BalanceSituation:
    if folder:
        return balance_situation_sources.load_saved_balance_situation(folder, policy.balance.queue)
    return balance_situation_sources.add_saved_balancer_state(
        balance_situation_sources.observe_balanced_cluster(policy, now), policy
    )
