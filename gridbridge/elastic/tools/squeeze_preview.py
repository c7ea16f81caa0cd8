"""What a squeeze of the site's own cluster would do now, and which hosts it may wake."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gridbridge.decisions.elastic import node_inventory_check, round_acts
from gridbridge.elastic.acts import host_tags
from gridbridge.elastic.acts.membership import membership_of
from gridbridge.elastic.balancer import cell_observer, plan_preview, squeeze_round
from gridbridge.elastic.providers import provider_registry
from gridbridge.elastic.providers.power_provider import Untold
from gridbridge.errors import ConfigError
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.balance_sections import SqueezableNodes
from gridbridge.model.elastic.cell import TaskShape
from gridbridge.model.elastic.elastic_nodes import ElasticNode
from gridbridge.model.elastic.owned_nodes import BalancerNodesSnapshot
from gridbridge.model.elastic.standby_hosts import (
    STANDBY,
    HostStandbyStep,
    StandbyHostFacts,
    tags_by_host,
)
from gridbridge.model.places import BALANCE_ACCOUNT, CONFIG
from gridbridge.model.policy import Policy
from gridbridge.program import users_configuration
from gridbridge.shell.account import leave_root

NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldSite:
    """What would be done, and why."""

    off: tuple[str, ...]
    on: tuple[str, ...]
    sentence: str
    deeds: tuple[HostStandbyStep, ...]
    untold: tuple[tuple[str, str], ...] = ()  # hosts that don't tell their power, and why
    lacking: tuple[str, ...] = ()  # without what no round would do it


def plan(
    now: datetime,
    *,
    folder: str = "",
    path: str = CONFIG,
    minimal: float | None = None,
    target: float | None = None,
) -> ToldSite:
    """Decide as a round would, and do nothing; a folder is decided about without a cell.

    Raises NotSeen or ParseError when what is looked at is no whole answer, ConfigError for a
    minimum above the target.
    """
    policy = users_configuration.about(folder, path)
    rules = policy.squeeze
    rules = replace(
        rules,
        minimal_reserve=rules.minimal_reserve if minimal is None else minimal,
        target_reserve=rules.target_reserve if target is None else target,
    )
    if rules.minimal_reserve > rules.target_reserve:
        raise ConfigError(
            (
                f"the minimal reserve is {rules.minimal_reserve:g}; expected at most the target"
                f" ({rules.target_reserve:g})",
            )
        )
    untold = dict[str, str]()
    if folder:
        situation = cell_observer.look_at(folder, policy.balance.queue)
    else:
        leave_root(BALANCE_ACCOUNT)  # whose files the providers need
        situation = _with_own(cell_observer.look(policy, now), policy, untold.__setitem__)
    tags = {} if folder else tags_by_host(host_tags.tags(policy))
    standby = squeeze_round.standby_of(
        situation, {node.name for node in situation.nodes}, policy.demand.retry_s, tags
    )
    situation = replace(situation, standby=standby)
    planned = plan_preview.planned(situation, policy.balance, policy.demand, policy.pools)
    facts = StandbyHostFacts(tags=tags, movable={} if folder else movable(policy, situation))
    standby_plan, steps, sentence = squeeze_round.decide(
        situation, planned, policy.balance, rules, facts
    )
    return ToldSite(
        off=standby_plan.off,
        on=standby_plan.on,
        sentence=sentence,
        deeds=steps,
        untold=tuple(sorted(untold.items())),
        lacking=() if folder else tuple(lacking(policy)),
    )


def lacking(policy: Policy) -> Iterator[str]:
    """Say what the configuration lacks for hosts to rest."""
    if not policy.squeeze.enabled:
        yield "[squeeze] enabled is false: the balancer switches no host off or on"
    if not policy.powered:
        yield "no host has a section [power.NAME]: none can be switched off or on"


def movable(policy: Policy, situation: BalanceSituation) -> Mapping[str, tuple[TaskShape, ...]]:
    """Return the tasks that a squeeze may start again elsewhere, by host."""
    if policy.squeeze.restriction is not SqueezableNodes.RERUNNABLE or not situation.nodes:
        return {}
    return membership_of(policy).movable(node.name for node in situation.nodes)


def _with_own(situation: BalanceSituation, policy: Policy, note_untold: Untold) -> BalanceSituation:
    """Return a situation with the hosts that are switched on and off, as if long idle."""
    providers = provider_registry.switched(policy, note_untold)
    world = BalancerNodesSnapshot(
        now=situation.now,
        cluster=policy.site.cluster,
        kept=(),
        machines={name: provider.machines() for name, provider in providers.items()},
        hosts=round_acts.host_states_from_cell(situation),
        switched=frozenset(providers),
    )
    nodes = (
        _idle(host.node, world) for host in node_inventory_check.newly_adopted_site_hosts(world)
    )
    return replace(situation, nodes=tuple(nodes))


def _idle(node: ElasticNode, world: BalancerNodesSnapshot) -> ElasticNode:
    host = world.host_of(node.name)
    return replace(node, idle_since=None if host is None or host.is_busy else NEVER)


def tag(host: str, suffix: str, *, is_wanted: bool, path: str = CONFIG) -> tuple[str, ...]:
    """Give a host a standby tag, or take it; return its tags.

    Raises Mistyped for a host that the cluster does not have, NotSeen, CommandFailed.
    """
    policy = users_configuration.with_own_cluster(path)
    host_tags.require_host(policy, host)
    return host_tags.change(policy, host, f"{STANDBY}{suffix}", is_wanted=is_wanted)
