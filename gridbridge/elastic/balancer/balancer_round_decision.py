"""Decides a balancer round: the policy's plan and the squeeze, described in one sentence."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from gridbridge.decisions.elastic import balancer_round_reports, node_acts_from_balance_plan
from gridbridge.decisions.elastic.demand import demand_policy
from gridbridge.decisions.elastic.nodes_needing_administrator import manual_machine_removal_command
from gridbridge.decisions.elastic.site_host_power_lifecycle import describe_standby_or_wake_plan
from gridbridge.decisions.elastic.standby_host_policy import wakeable_standby_nodes
from gridbridge.decisions.elastic.starcluster_policy import plan_balance_by_starcluster
from gridbridge.model.elastic import balancer_config_sections, elastic_nodes
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalancePlanReason,
    BalancePolicyName,
    BalanceSituation,
    NodeAddOrRemoveRefusal,
    NodeAddOrRemoveRefusalCause,
)
from gridbridge.model.elastic.grid_engine_cell import TaskResourceRequests
from gridbridge.model.elastic.published_balance import BalancePlanReport, NewNodeOrRemovalRefusalReport
from gridbridge.model.elastic.standby_and_wake_plan import HostTagsAndMovableTasks, StandbyOrWakePlan

USUAL_DEMAND = balancer_config_sections.DemandPolicySection()
NO_POOLS: Mapping[str, balancer_config_sections.NodePoolSection] = {}
UNSAID = {
    BalancePlanReason.SPARE: BalancePlanReason.NO_NEED,
    BalancePlanReason.IDLE: BalancePlanReason.NONE_IDLE,
}  # {reason of a plan: its reason once all its removals were dropped}


def decide_and_report_balance(
    situation: BalanceSituation,
    rules: balancer_config_sections.BalanceSection,
    demand: balancer_config_sections.DemandPolicySection = USUAL_DEMAND,
    pools: Mapping[str, balancer_config_sections.NodePoolSection] = NO_POOLS,
    *,
    is_faithful: bool = False,
) -> BalancePlanReport:
    return balance_plan_report(
        decide_balance_plan(situation, rules, demand, pools, is_faithful=is_faithful), rules, demand
    )


def decide_balance_plan(
    situation: BalanceSituation,
    rules: balancer_config_sections.BalanceSection,
    demand: balancer_config_sections.DemandPolicySection = USUAL_DEMAND,
    pools: Mapping[str, balancer_config_sections.NodePoolSection] = NO_POOLS,
    *,
    is_faithful: bool = False,
) -> BalancePlan:
    if rules.policy is BalancePolicyName.DEMAND and not is_faithful:
        return demand_policy.plan_balance_by_demand(situation, rules, demand, pools)
    return plan_balance_by_starcluster(situation, rules, is_faithful=is_faithful)


def balance_plan_report(
    plan: BalancePlan,
    rules: balancer_config_sections.BalanceSection,
    demand: balancer_config_sections.DemandPolicySection = USUAL_DEMAND,
    *,
    is_alone: bool = True,
    ended_machine_id: str = "",
) -> BalancePlanReport:
    """Return a plan's report; `ended_machine_id` is the id of the master's machine if the round destroys it."""
    return BalancePlanReport(
        add=plan.add,
        pool=plan.pool or None,
        remove=plan.remove,
        sentence=balancer_round_reports.describe_balance_plan(
            plan, rules, demand, is_alone=is_alone, ended_machine_id=ended_machine_id
        ),
        refused=tuple(
            NewNodeOrRemovalRefusalReport(
                job=refusal.job,
                host=refusal.host,
                reason=balancer_round_reports.explain_no_new_node_or_removal(refusal, rules),
            )
            for refusal in plan.refused
        ),
    )


def restrict_squeeze_to_own_hosts(situation: BalanceSituation, own: Set[str], retry_s: float) -> BalanceSituation:
    """Return the situation for a squeeze, which may switch only hosts of the site.

    A host that failed to wake is not tried again for `retry_s` seconds. Other nodes stay in the situation, because a
    host without a node counts as working.
    """
    return replace(
        situation,
        nodes=tuple(_node_as_squeeze_may_switch_it(node, own, situation, retry_s) for node in situation.nodes),
    )


def _node_as_squeeze_may_switch_it(
    node: elastic_nodes.ElasticNode, own: Set[str], situation: BalanceSituation, retry_s: float
) -> elastic_nodes.ElasticNode:
    if node.state is not elastic_nodes.ElasticNodeState.STANDBY:
        return node if node.name in own else replace(node, is_kept=True)
    since = node.failed_at
    is_failed = since is not None and (situation.now - since).total_seconds() < retry_s
    return replace(node, is_drained=node.is_drained or is_failed or node.name not in own)


def list_wakeable_own_hosts(
    situation: BalanceSituation, own: Set[str], retry_s: float, tags: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Return hosts of the site that may be woken now, in the order of waking."""
    nodes = restrict_squeeze_to_own_hosts(situation, own, retry_s).nodes
    return tuple(node.name for node in wakeable_standby_nodes(nodes, HostTagsAndMovableTasks(tags=tags)))


def drop_acts_replaced_by_squeeze(
    plan: BalancePlan, standby_plan: StandbyOrWakePlan | None, own: Set[str]
) -> BalancePlan:
    """Remove the acts that a squeeze replaces; no round both wakes hosts and adds nodes."""
    if standby_plan is None:
        return plan
    remaining = tuple(name for name in plan.remove if name not in own and name != standby_plan.last)
    refused = plan.refused
    if standby_plan.last:
        cause = NodeAddOrRemoveRefusalCause.LAST_AT_WORK
        refused = (*refused, NodeAddOrRemoveRefusal(host=standby_plan.last, cause=cause))
    verdict = plan.verdict if remaining else UNSAID.get(plan.verdict, plan.verdict)
    if verdict is BalancePlanReason.NO_NEED and plan.figures.tasks:
        verdict = BalancePlanReason.ALL_FIT
    return replace(plan, add=0 if standby_plan.on else plan.add, remove=remaining, verdict=verdict, refused=refused)


def append_squeeze_sentence(report: BalancePlanReport, standby_plan: StandbyOrWakePlan | None) -> BalancePlanReport:
    if standby_plan is None:
        return report
    return replace(report, sentence=f"{report.sentence}; squeeze: {describe_standby_or_wake_plan(standby_plan)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteBalancerSettings:
    cluster: str
    rules: balancer_config_sections.BalanceSection
    demand: balancer_config_sections.DemandPolicySection
    pools: Mapping[str, balancer_config_sections.NodePoolSection]
    needs_key: bool = False
    is_faithful: bool = False
    kills_master: bool = False  # whether to destroy the master's machine when the cluster is empty and idle
    squeeze: balancer_config_sections.SqueezeSection | None = (
        None  # None: hosts of the site are never switched off or on
    )
    switched: frozenset[str] = frozenset()  # pools of hosts with power control
    released: frozenset[str] = frozenset()  # pools of hosts with power control that a squeeze must not switch
    own_hosts: frozenset[str] = frozenset()  # short names of all hosts with power control
    sections: Mapping[str, balancer_config_sections.MachineProviderSection] = field(default_factory=dict)

    def provider_of_pool(self, pool: str) -> str:
        return self.pools.get(pool, balancer_config_sections.NodePoolSection()).provider

    def machine_removal_command(self, pool: str, machine: str) -> str:
        provider = self.provider_of_pool(pool)
        return manual_machine_removal_command(machine, provider, self.sections.get(provider))


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerRoundSituation:
    situation: BalanceSituation
    world: elastic_nodes.BalancerNodesSnapshot
    asked: node_acts_from_balance_plan.AdministratorNodeRequests
    movable: Mapping[str, tuple[TaskResourceRequests, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerRoundPlan:
    plan: BalancePlan
    dues: tuple[elastic_nodes.DueNodeAct, ...]
    told: BalancePlanReport
    ended: tuple[str, elastic_nodes.ProviderMachine] | None = (
        None  # pool and machine of the qmaster, if the round destroys this machine
    )
    rest: StandbyOrWakePlan | None = None  # the decision of the squeeze; None: squeeze is disabled

    @property
    def decision_sentence(self) -> str:
        return self.told.sentence

    @property
    def acts_in_words(self) -> tuple[str, ...]:
        return (*(due.act_in_words for due in self.dues if due.is_act_or_deletion), *self.master_destruction_in_words)

    @property
    def master_destruction_in_words(self) -> tuple[str, ...]:
        return (f"the master's machine {self.ended[1].id} is destroyed",) if self.ended else ()
