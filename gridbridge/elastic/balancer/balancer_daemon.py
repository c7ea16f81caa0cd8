"""Runs gridbridge-balance: one round for cron, or rounds until SIGTERM."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from math import ceil
from tempfile import TemporaryDirectory

from gridbridge.batch.batch_adapter_table import ADAPTERS, BatchSystemAdapter
from gridbridge.decisions.elastic import balancer_round_reports, node_and_master_lifecycle
from gridbridge.decisions.elastic.node_costs_and_pool_choice import hourly_cost_of_nodes
from gridbridge.elastic import host_membership_and_tags
from gridbridge.elastic.balancer import balance_situation_sources, balancer_statistics_and_publication
from gridbridge.elastic.balancer.administrator_alerts_and_requests import describe_nodes_without_provider
from gridbridge.elastic.balancer.balancer_round_decision import (
    BalancerRoundPlan,
    BalancerRoundSituation,
    SiteBalancerSettings,
)
from gridbridge.elastic.balancer.balancer_round_runner import AT_ONCE, BalancerRoundRunner
from gridbridge.elastic.balancer.balancer_statistics_and_publication import BalancerStatisticsPaths
from gridbridge.elastic.balancer_state_file import BalancerStateRows
from gridbridge.elastic.host_membership_and_tags import home_cluster_host_membership
from gridbridge.elastic.node_and_power_acts import NodeActRunner
from gridbridge.elastic.providers import provider_registry
from gridbridge.errors import ClusterStateUnknown, ConfigError
from gridbridge.model.elastic.balancer_config_sections import BalanceSection, DemandPolicySection, ProviderKind
from gridbridge.model.elastic.elastic_nodes import MASTER_TAG, NodeStateCause, short_host_name
from gridbridge.model.fixed_paths import (
    BALANCE_ACCOUNT,
    BALANCE_ENDS,
    BALANCE_LOCK,
    BALANCE_PUBLISHED,
    BALANCE_SET_UP,
    BALANCE_STATE,
    CONFIG,
)
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer_route import AnyClusterAccessSettings
from gridbridge.program import service_cycle
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_startup import drop_root_to_account, switch_process_to_account
from gridbridge.shell.service_signals_and_heartbeat import BEGIN_S, ServiceHeartbeat
from gridbridge.state.decision_journal import DecisionJournalEntry
from gridbridge.state.state_file import StateFile

NAME, LOCKED = "gridbridge-balance", 3

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerRunOptions:
    policy: Policy
    rules: BalanceSection
    demand: DemandPolicySection
    is_faithful: bool = False
    is_acting: bool = False
    kills_master: bool = False
    lookback: timedelta = balancer_round_reports.LOOKBACK
    stats: str = ""  # statistics file that gets a row each round; empty: none
    after: Callable[[], None] = lambda: None  # called after each round, for instance to draw plots
    tell: Callable[[BalancerRoundPlan], None] = lambda _: None


def require_balancer_can_act(options: BalancerRunOptions) -> None:
    """Raise ConfigError if the balancer could never add nodes, for lack of a limit or a provider."""
    if not options.rules.max_nodes:
        raise ConfigError((f"{CONFIG}: [balance] max_nodes is 0: nothing is added or removed",))
    policy = options.policy
    if (
        (adapter := _home_batch_adapter(policy))
        and adapter.has_fixed_nodes
        and (pool_names := [name for name, pool in policy.pools.items() if pool.provider])
    ):
        words = f"[pool.{pool_names[0]}] provider: nodes of an OAR server are never created"
        raise ConfigError((f"{CONFIG}: {words}",))
    if not policy.powered and not any(pool.provider for pool in policy.pools.values()):
        words = "no [pool.NAME] has a provider, and there is no [power.HOST]; expected a source of nodes"
        warnings = describe_nodes_without_provider(
            balance_situation_sources.read_stored_balancer_nodes(BALANCE_STATE),
            home_cluster_host_membership(policy).command_to_reopen_host,
        )
        raise ConfigError((f"{CONFIG}: {words}", *warnings))
    if clashes := sorted(policy.pools.keys() & _names_of_power_providers(policy)):
        words = f"[pool.{clashes[0]}] has the name of a provider of hosts; expected another name"
        raise ConfigError((f"{CONFIG}: {words}",))


def _home_batch_adapter(policy: Policy) -> BatchSystemAdapter[AnyClusterAccessSettings] | None:
    home = policy.home_cluster_section
    return ADAPTERS[home.kind] if home else None


def _names_of_power_providers(policy: Policy) -> frozenset[str]:
    sections = policy.providers.items()
    return frozenset(name for name, section in sections if section.kind is ProviderKind.POWER)


def run_one_balancer_round(options: BalancerRunOptions) -> BalancerRoundPlan:
    """Run one round, which is dry unless acts are permitted.

    Raises ClusterStateUnknown if the cluster or all providers give no answer.
    """
    clock = Clock()
    if options.is_acting:
        start_acting_balancer(options)
    else:
        drop_root_to_account(BALANCE_ACCOUNT)
    with BalancerDaemon(options, clock).open_cycle() as balancer:
        return service_cycle.run_cycle_once(balancer, _log.debug, is_dry=not options.is_acting)


def start_acting_balancer(options: BalancerRunOptions) -> None:
    """Switch to the balancer's account, open the log, and take the lock that excludes a second balancer."""
    require_balancer_can_act(options)
    switch_process_to_account(BALANCE_ACCOUNT, BALANCE_SET_UP)
    if (adapter := _home_batch_adapter(options.policy)) and adapter.require_power_control:
        adapter.require_power_control()
    os.chdir("/")
    service_cycle.start_service_log_on_stderr(options.policy)
    service_cycle.take_program_lock(BALANCE_LOCK, NAME, LOCKED)


def balancer_watchdog_limit_s(options: BalancerRunOptions) -> float:
    """Return the seconds after which a round counts as hung, and the watchdog stops it.

    A node may need three provider calls or all bootstrap steps; 16 nodes are handled in parallel, but Libcloud's calls
    run one after another.
    """
    policy, sections = options.policy, options.policy.providers.values()
    most = max(1, options.rules.max_nodes)
    lists_s = max((section.timeout_s for section in sections), default=0.0)
    parallel = {ProviderKind.LIBCLOUD: 1}  # calls of Libcloud run one after another
    calls_s = max(
        (3 * section.timeout_s * ceil(most / parallel.get(section.kind, AT_ONCE)) for section in sections), default=0.0
    )
    steps_s = len(policy.bootstrap.steps.split()) * policy.bootstrap.timeout_s
    return BEGIN_S + lists_s + calls_s + ceil(most / AT_ONCE) * steps_s


class BalancerDaemon:
    def __init__(self, options: BalancerRunOptions, clock: Clock, life_sign: ServiceHeartbeat | None = None) -> None:
        self._wanted = options
        self._clock = clock
        self._life_sign = life_sign
        self._database: StateFile | None = None
        self._unknown: TemporaryDirectory[str] | None = None  # folder of a dry run's empty state file

    @property
    def pause_s(self) -> float:
        return self._wanted.rules.interval_s

    @contextmanager
    def open_cycle(self) -> Iterator["PublishedBalancerRoundRunner"]:
        """Begin a round, with a watchdog limit that allows for slow providers and machines."""
        if self._life_sign:
            self._life_sign.announce_long_step(balancer_watchdog_limit_s(self._wanted))
        memory = BalancerStateRows(self._open_state_file())
        if self._wanted.is_acting:
            self._shift_stored_times_by_clock_step(memory)
        reported = PublishedBalancerRoundRunner(self._wanted, self._clock, memory)
        try:
            yield reported
        except ClusterStateUnknown as error:
            if self._wanted.is_acting:
                cluster, now = self._wanted.policy.site.cluster, self._clock.now()
                balancer_statistics_and_publication.publish_round_without_cell_answer(
                    cluster, now, str(error), BALANCE_PUBLISHED
                )
            raise
        reported.publish_round_results()

    def _shift_stored_times_by_clock_step(self, memory: BalancerStateRows) -> None:
        by = memory.shift_times_to_clock(self._clock.read_host_clocks())
        if by:
            _log.warning("event=clock_moved by_s=%.0f", by.total_seconds())

    def should_start_cycle_early(self) -> bool:
        """Return False, because the balancer has no inbox."""
        return False

    def recover(self) -> None:
        """Do nothing, because each round reads the state file."""

    def release(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _open_state_file(self) -> StateFile:
        """Open the state file; a dry run that may not read the file gets an empty state file."""
        if self._database is None:
            is_dry = not self._wanted.is_acting
            if is_dry and not os.access(BALANCE_STATE, os.R_OK):
                self._unknown = TemporaryDirectory()
                url, is_dry = f"sqlite:///{self._unknown.name}/state.db", False
            else:
                url = f"sqlite:///{BALANCE_STATE}"
            self._database = StateFile.open(url, is_unchanged=is_dry)
        return self._database


class PublishedBalancerRoundRunner(BalancerRoundRunner):
    def __init__(self, options: BalancerRunOptions, clock: Clock, memory: BalancerStateRows) -> None:
        policy = options.policy
        own = frozenset(host.provider for host in policy.powered.values() if policy.squeeze.enabled)
        makers = provider_registry.make_machine_providers_by_pool(policy)
        supplies = provider_registry.make_power_controls_by_provider(policy, own)
        acts = NodeActRunner(
            cluster=policy.site.cluster,
            pools=policy.pools,
            providers=makers,
            supplies=supplies,
            membership=home_cluster_host_membership(policy),
            now=clock.now,
            tag=lambda host, tag, is_wanted: host_membership_and_tags.change_home_cluster_host_tag(
                policy, host, tag, is_wanted=is_wanted
            ),
            fill_first=options.rules.fill_first,
        )
        site = SiteBalancerSettings(
            cluster=policy.site.cluster,
            rules=options.rules,
            demand=options.demand,
            pools=policy.pools,
            sections=policy.providers,
            needs_key=bool(policy.bootstrap.steps),
            is_faithful=options.is_faithful,
            kills_master=options.kills_master,
            squeeze=policy.squeeze if policy.squeeze.enabled else None,
            switched=own,
            released=_names_of_power_providers(policy) - own,
            own_hosts=frozenset(map(short_host_name, policy.powered)),
        )
        super().__init__(
            site,
            memory,
            clock,
            lambda: balance_situation_sources.observe_cluster_on_qmaster_host(
                policy, clock.now(), is_acting=options.is_acting
            ),
            {**makers, **supplies},
            acts,
            partial(host_membership_and_tags.query_home_cluster_host_tags, policy),
        )
        self._wanted = options
        self._began_s = clock.steady_s()
        self._decided: tuple[BalancerRoundSituation, BalancerRoundPlan] | None = None

    def gather(self) -> BalancerRoundSituation:
        """Gather a round's inputs.

        With --kill-master, raises ConfigError unless exactly one machine has the master's tag.
        """
        view = super().gather()
        is_checked = self._wanted.kills_master and view.world.machines.keys() == self._providers.keys()
        if is_checked and len(node_and_master_lifecycle.machines_tagged_as_master(view.world)) != 1:
            tag = f"{MASTER_TAG} = {view.world.cluster}"
            raise ConfigError((f"{tag}: --kill-master needs exactly one machine with this tag",))
        return view

    def journal_entry(self, view: BalancerRoundSituation, plan: BalancerRoundPlan) -> DecisionJournalEntry | None:
        """Return the round's journal entry; None for a dry run."""
        return super().journal_entry(view, plan) if self._wanted.is_acting else None

    def apply(self, view: BalancerRoundSituation, plan: BalancerRoundPlan) -> None:
        """Carry out the plan, unless this is a dry run."""
        if self._wanted.is_acting:
            super().apply(view, plan)

    def decide(self, view: BalancerRoundSituation) -> BalancerRoundPlan:
        """Decide the plan of a round, and store the plan for the report."""
        plan = super().decide(view)
        self._decided = view, plan
        return plan

    def publish_round_results(self) -> None:
        """Write the statistics row, publish the round, and call the callbacks of the run options."""
        if self._decided is None:
            return
        policy, (view, plan) = self._wanted.policy, self._decided
        local = policy.clusters[policy.site.cluster]
        statistics = BalancerStatisticsPaths(
            accounting=balancer_statistics_and_publication.local_accounting_file_path(local, policy.site.cluster),
            kept=BALANCE_ENDS,
            lookback=self._wanted.lookback,
            stats=self._wanted.stats,
        )
        numbers = balancer_statistics_and_publication.record_balancer_statistics(
            view.situation, self._wanted.rules.queue, statistics
        )
        if self._wanted.is_acting:
            balancer_statistics_and_publication.publish_balancer_round(
                policy.site.cluster,
                view.situation,
                plan.plan,
                numbers,
                self._count_node_changes_of_round(view, plan),
                BALANCE_PUBLISHED,
            )
        self._wanted.tell(plan)
        self._wanted.after()

    def _count_node_changes_of_round(
        self, view: BalancerRoundSituation, plan: BalancerRoundPlan
    ) -> balancer_round_reports.BalancerRoundNodeChanges:
        """Return the round's node changes, and the present hourly cost of all nodes, failed nodes included."""
        pools = (
            owned.pool for owned in view.world.kept if owned.machine and owned.as_elastic_node.counts_towards_limits
        )
        so_far = balancer_round_reports.BalancerRoundNodeChanges(
            took_s=self._clock.steady_s() - self._began_s,
            sentence=plan.decision_sentence,
            is_acting=self._wanted.is_acting,
            min_nodes=self._wanted.rules.min_nodes,
            max_nodes=self._wanted.rules.max_nodes,
            cost_hour=hourly_cost_of_nodes(pools, self._wanted.policy.pools, view.situation.local_now),
        )
        ours = (due for due in self.done if due.node.cause is not NodeStateCause.ANOTHERS)
        return balancer_round_reports.count_node_changes_by_pool(((due.before, due.node) for due in ours), so_far)
