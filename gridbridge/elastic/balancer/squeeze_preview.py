"""Previews a squeeze of the home cluster, and tags hosts that a squeeze may wake."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gridbridge.decisions.elastic import node_acts_from_balance_plan, site_host_power_lifecycle
from gridbridge.decisions.elastic.machine_list_reconciliation import newly_adopted_site_hosts
from gridbridge.decisions.elastic.standby_host_policy import plan_hosts_to_sleep_or_wake
from gridbridge.elastic import host_membership_and_tags
from gridbridge.elastic.balancer import balance_situation_sources, balancer_round_decision
from gridbridge.elastic.host_membership_and_tags import home_cluster_host_membership
from gridbridge.elastic.providers import provider_registry
from gridbridge.elastic.providers.host_power_provider import ReportUnknownPower
from gridbridge.errors import ConfigError
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.balancer_config_sections import SqueezeSection, StandbyNodeSelection
from gridbridge.model.elastic.elastic_nodes import BalancerNodesSnapshot
from gridbridge.model.elastic.grid_engine_cell import TaskResourceRequests
from gridbridge.model.elastic.standby_and_wake_plan import (
    STANDBY,
    HostStandbyOrWakeStep,
    HostTagsAndMovableTasks,
    tags_by_short_host_name,
)
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT, CONFIG
from gridbridge.model.site_configuration import Policy
from gridbridge.program import configuration_in_force
from gridbridge.shell.program_startup import drop_root_to_account

NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqueezePreview:
    off: tuple[str, ...]
    on: tuple[str, ...]
    sentence: str
    deeds: tuple[HostStandbyOrWakeStep, ...]
    untold: tuple[tuple[str, str], ...] = ()  # hosts with an unknown power state, each with the reason
    lacking: tuple[str, ...] = ()  # settings that are missing for a squeeze


def preview_squeeze(
    now: datetime, *, folder: str = "", path: str = CONFIG, minimal: float | None = None, target: float | None = None
) -> SqueezePreview:
    """Decide as a squeeze would, without acts; with `folder`, decide about saved inputs.

    Raises ClusterStateUnknown or ParseError for bad inputs, ConfigError for a minimal reserve above the target.
    """
    policy = configuration_in_force.load_config_of_folder_or_site(folder, path)
    rules = _squeeze_section_with_overrides(policy, minimal, target)
    untold = dict[str, str]()
    if folder:
        situation = balance_situation_sources.load_saved_balance_situation(folder, policy.balance.queue)
    else:
        drop_root_to_account(BALANCE_ACCOUNT)  # the account owns the providers' secret files
        observed = balance_situation_sources.observe_balanced_cluster(policy, now)
        situation = _add_own_hosts_as_nodes(observed, policy, untold.__setitem__)
    tags = {} if folder else tags_by_short_host_name(host_membership_and_tags.query_home_cluster_host_tags(policy))
    standby = balancer_round_decision.list_wakeable_own_hosts(
        situation, {node.name for node in situation.nodes}, policy.demand.retry_s, tags
    )
    situation = replace(situation, standby=standby)
    planned = balancer_round_decision.decide_balance_plan(situation, policy.balance, policy.demand, policy.pools)
    movable = {} if folder else query_tasks_squeeze_may_move(policy, situation)
    facts = HostTagsAndMovableTasks(tags=tags, movable=movable)
    standby_plan = plan_hosts_to_sleep_or_wake(situation, planned, policy.balance, rules, facts)
    return SqueezePreview(
        off=standby_plan.off,
        on=standby_plan.on,
        sentence=site_host_power_lifecycle.describe_standby_or_wake_plan(standby_plan),
        deeds=site_host_power_lifecycle.standby_and_wake_steps_of_plan(standby_plan, facts),
        untold=tuple(sorted(untold.items())),
        lacking=() if folder else tuple(missing_squeeze_settings(policy)),
    )


def _squeeze_section_with_overrides(policy: Policy, minimal: float | None, target: float | None) -> SqueezeSection:
    minimal = policy.squeeze.minimal_reserve if minimal is None else minimal
    target = policy.squeeze.target_reserve if target is None else target
    if minimal > target:
        raise ConfigError((f"the minimal reserve is {minimal:g}; expected at most the target ({target:g})",))
    return replace(policy.squeeze, minimal_reserve=minimal, target_reserve=target)


def missing_squeeze_settings(policy: Policy) -> Iterator[str]:
    if not policy.squeeze.enabled:
        yield "[squeeze] enabled is false: the balancer switches no host off or on"
    if not policy.powered:
        yield "no host has a section [power.NAME]: no host can be switched off or on"


def query_tasks_squeeze_may_move(
    policy: Policy, situation: BalanceSituation
) -> Mapping[str, tuple[TaskResourceRequests, ...]]:
    if policy.squeeze.restriction is not StandbyNodeSelection.RERUNNABLE or not situation.nodes:
        return {}
    return home_cluster_host_membership(policy).query_rerunnable_tasks(node.name for node in situation.nodes)


def _add_own_hosts_as_nodes(
    situation: BalanceSituation, policy: Policy, note_untold: ReportUnknownPower
) -> BalanceSituation:
    """Add all hosts under power control as nodes; idle hosts count as long idle."""
    providers = provider_registry.make_power_controls_or_raise(policy, note_untold)
    world = BalancerNodesSnapshot(
        now=situation.now,
        cluster=policy.site.cluster,
        kept=(),
        machines={name: provider.list_machines() for name, provider in providers.items()},
        hosts=node_acts_from_balance_plan.busy_or_silent_state_by_host(situation),
        switched=frozenset(providers),
    )
    own = [
        (host.as_elastic_node, world.host_state(host.as_elastic_node.name)) for host in newly_adopted_site_hosts(world)
    ]
    nodes = (replace(node, idle_since=None if host is None or host.is_busy else NEVER) for node, host in own)
    return replace(situation, nodes=tuple(nodes))


def change_standby_tag(host: str, suffix: str, *, is_wanted: bool, path: str = CONFIG) -> tuple[str, ...]:
    """Add or remove a standby tag; return all tags of the host.

    Raises CommandLineMistake for an unknown host.
    """
    policy = configuration_in_force.load_config_with_home_cluster(path)
    host_membership_and_tags.require_home_execution_host(policy, host)
    return host_membership_and_tags.change_home_cluster_host_tag(
        policy, host, f"{STANDBY}{suffix}", is_wanted=is_wanted
    )
