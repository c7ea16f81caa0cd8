"""Runs a balancer round: queries cell and machines, decides, records the plan, and acts.

No round waits for a boot. After a kill the next round continues from the state file and new reports.
"""

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

from gridbridge.decisions.elastic import clock_step_correction, machine_list_reconciliation, node_acts_from_balance_plan
from gridbridge.decisions.elastic.balancer_node_and_job_counts import are_too_many_hosts_unready
from gridbridge.decisions.elastic.demand.free_capacity import queues_closed_by_hand
from gridbridge.decisions.elastic.demand.new_nodes_each_pool_could_give import is_pool_paused_after_failure
from gridbridge.decisions.elastic.node_and_master_lifecycle import NodeLifecycleTimeouts, master_machine_to_terminate
from gridbridge.decisions.elastic.node_costs_and_pool_choice import (
    choose_pool_for_new_nodes,
    node_costs_since_last_round,
    pools_closed_to_new_nodes,
    update_pool_failure_records,
)
from gridbridge.decisions.elastic.site_host_power_lifecycle import (
    hosts_in_unclear_power_state,
    is_host_changing_power_state,
)
from gridbridge.decisions.elastic.standby_host_policy import plan_hosts_to_sleep_or_wake
from gridbridge.elastic.balancer import balance_journal, balance_situation_sources, balancer_round_decision
from gridbridge.elastic.balancer.administrator_alerts_and_requests import log_alerts_for_administrators
from gridbridge.elastic.balancer.balancer_round_decision import (
    BalancerRoundPlan,
    BalancerRoundSituation,
    SiteBalancerSettings,
)
from gridbridge.elastic.balancer_state_file import BalancerStateRows
from gridbridge.elastic.node_and_power_acts import NodeActRunner
from gridbridge.elastic.providers.provider_protocol_and_validation import MachineLister
from gridbridge.errors import ClusterStateUnknown, GridbridgeError
from gridbridge.model.elastic import elastic_nodes, standby_and_wake_plan
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation, WaitingJobsHistory
from gridbridge.model.elastic.balancer_config_sections import StandbyNodeSelection
from gridbridge.model.elastic.grid_engine_cell import TaskResourceRequests
from gridbridge.shell import local_host_facts
from gridbridge.shell.clock import Clock
from gridbridge.state.decision_journal import DecisionJournal, DecisionJournalEntry

AT_ONCE = 16  # limit of nodes or providers handled in parallel
KEPT = timedelta(days=90)  # age limit of journalled decisions

_log = logging.getLogger(__name__)


class BalancerRoundRunner:
    """One balancer round, in four steps: gather inputs, decide, write the journal, and act."""

    def __init__(
        self,
        site: SiteBalancerSettings,
        memory: BalancerStateRows,
        clock: Clock,
        look: Callable[[], BalanceSituation],
        providers: Mapping[str, MachineLister],
        act_runner: NodeActRunner,
        tags: Callable[[], Mapping[str, tuple[str, ...]]] = dict,
        address_of: Callable[[str], str] = local_host_facts.resolve_host_address,
    ) -> None:
        self._site = site
        self._address_of = address_of
        self._tags = tags
        self._memory = memory
        self._clock = clock
        self._look = look
        self._providers = providers
        self._acts = act_runner
        self.journal = DecisionJournal(memory.database)
        self.done: tuple[elastic_nodes.DueNodeAct, ...] = ()  # acts of this round, with the nodes in their new states

    @property
    def node_lifecycle_timeouts(self) -> NodeLifecycleTimeouts:
        rules = self._site.rules
        return NodeLifecycleTimeouts(
            boot_s=self._site.demand.boot_timeout_s,
            join_s=rules.join_timeout_s,
            silent_s=rules.silent_timeout_s,
            needs_key=self._site.needs_key,
        )

    def gather(self) -> BalancerRoundSituation:
        """Gather a round's inputs; raises ClusterStateUnknown if the cell or all providers do not answer."""
        cell = self._look()
        world, requests = self._collect_nodes_snapshot(cell), self._memory.administrator_requests()
        wished = [
            node_acts_from_balance_plan.apply_administrator_node_request(node, world, requests) for node in world.kept
        ]
        wished += machine_list_reconciliation.nodes_adopted_this_round(world)
        remembered = balance_situation_sources.add_stored_balancer_facts(
            cell, self._memory, self._site.rules, self._site.demand
        )
        situation = replace(
            remembered,
            nodes=node_acts_from_balance_plan.elastic_nodes_for_policies(wished, world),
            failed={**remembered.failed, **dict.fromkeys(pools_closed_to_new_nodes(world), cell.now)},
        )
        if self._site.squeeze is not None and self._site.switched:
            own, retry_s = self._own_hosts_of_clear_power_state(world), self._site.demand.retry_s
            standby = balancer_round_decision.list_wakeable_own_hosts(situation, own, retry_s, world.tags)
            situation = replace(situation, standby=standby)
        closed = queues_closed_by_hand(situation)
        world = replace(world, is_unready=are_too_many_hosts_unready(situation), closed=closed)
        log_alerts_for_administrators(
            world,
            self._site,
            self._providers.keys() | self._site.released,
            self._memory.nodes.load_all_nodes(),
            self._acts.membership,
            self.node_lifecycle_timeouts.silent_s,
        )
        return BalancerRoundSituation(
            situation=situation, world=world, asked=requests, movable=self._query_rerunnable_tasks(world)
        )

    def _query_rerunnable_tasks(
        self, world: elastic_nodes.BalancerNodesSnapshot
    ) -> Mapping[str, tuple[TaskResourceRequests, ...]]:
        """Return the rerunnable tasks of each host; empty if the squeeze moves no tasks."""
        squeeze, switched = self._site.squeeze, self._site.switched
        if squeeze is None or squeeze.restriction is not StandbyNodeSelection.RERUNNABLE:
            return {}
        hosts = [node.name for node in world.kept if node.pool in switched and node.idle_since is None]
        try:
            return self._acts.membership.query_rerunnable_tasks(hosts) if hosts else {}
        except GridbridgeError as error:
            _log.warning("event=no_movable why=%r", str(error))
            return {}

    def _collect_nodes_snapshot(self, cell: BalanceSituation) -> elastic_nodes.BalancerNodesSnapshot:
        """Return all facts about nodes; each host with power control is a node."""
        world = elastic_nodes.BalancerNodesSnapshot(
            now=cell.now,
            cluster=self._site.cluster,
            kept=tuple(
                clock_step_correction.map_record_times(node, clock_step_correction.future_time_limiter(cell.now))
                for node in self._memory.nodes.load_all_nodes()
                if node.pool not in self._site.released or is_host_changing_power_state(node)
            ),
            machines=self._query_machine_lists_of_pools(),
            hosts=node_acts_from_balance_plan.busy_or_silent_state_by_host(cell),
            pools=frozenset(self._site.pools),
            providers={name: pool.provider for name, pool in self._site.pools.items()},
            switched=self._site.switched,
            released=self._site.released,
            tags=standby_and_wake_plan.tags_by_short_host_name(self._tags()) if self._site.switched else {},
            last_round=clock_step_correction.limit_time_to_now(self._memory.last_round_time(), cell.now),
        )
        world = replace(world, kept=(*world.kept, *machine_list_reconciliation.newly_adopted_site_hosts(world)))
        addresses = {
            machine.name: self._address_of(machine.name)
            for machine in machine_list_reconciliation.machines_without_node_named_as_hosts(world)
        }
        world = replace(world, addresses=addresses)
        return replace(
            world,
            unlisted=machine_list_reconciliation.machine_missing_since_by_node(
                world, self._memory.machine_missing_times()
            ),
            silent=machine_list_reconciliation.silent_since_by_host(world, self._memory.silence_start_times()),
        )

    def decide(self, view: BalancerRoundSituation) -> BalancerRoundPlan:
        site = self._site
        plan = balancer_round_decision.decide_balance_plan(
            view.situation, site.rules, site.demand, site.pools, is_faithful=site.is_faithful
        )
        standby_plan = self._plan_squeeze_of_own_hosts(plan, view)
        plan = self._limit_plan_to_available_pools(
            balancer_round_decision.drop_acts_replaced_by_squeeze(
                plan, standby_plan, self._names_of_own_hosts(view.world)
            ),
            view,
        )
        dues = node_acts_from_balance_plan.plan_due_node_acts(
            view.world, plan, site.rules, self.node_lifecycle_timeouts, view.asked, standby_plan
        )
        is_alone = not any(due.is_act_or_deletion for due in dues)
        ended = None
        if site.kills_master:
            ended = master_machine_to_terminate(view.situation, view.world, plan, site.rules)
        machine = ended[1].id if ended else ""
        decided = balancer_round_decision.balance_plan_report(
            plan, site.rules, site.demand, is_alone=is_alone, ended_machine_id=machine
        )
        report = balancer_round_decision.append_squeeze_sentence(decided, standby_plan)
        return BalancerRoundPlan(plan=plan, dues=dues, told=report, ended=ended, rest=standby_plan)

    def _plan_squeeze_of_own_hosts(
        self, plan: BalancePlan, view: BalancerRoundSituation
    ) -> standby_and_wake_plan.StandbyOrWakePlan | None:
        site = self._site
        if site.squeeze is None or not site.switched:
            return None
        facts = standby_and_wake_plan.HostTagsAndMovableTasks(tags=view.world.tags, movable=view.movable)
        free = self._own_hosts_of_clear_power_state(view.world)
        situation = balancer_round_decision.restrict_squeeze_to_own_hosts(view.situation, free, site.demand.retry_s)
        stay = self._names_of_own_hosts(view.world) - free  # hosts with an unclear power state, which no policy removes
        plan = replace(plan, remove=tuple(name for name in plan.remove if name not in stay))
        return plan_hosts_to_sleep_or_wake(situation, plan, site.rules, site.squeeze, facts)

    def _names_of_own_hosts(self, world: elastic_nodes.BalancerNodesSnapshot) -> Set[str]:
        switched = self._site.switched
        return {node.name for node in world.kept if node.pool in switched}

    def _own_hosts_of_clear_power_state(self, world: elastic_nodes.BalancerNodesSnapshot) -> Set[str]:
        """Return the hosts with power control that may be switched off or on now."""
        return self._names_of_own_hosts(world) - hosts_in_unclear_power_state(world)

    def journal_entry(self, view: BalancerRoundSituation, plan: BalancerRoundPlan) -> DecisionJournalEntry | None:
        return balance_journal.balancer_round_journal_entry(
            view.world, plan, self._site.rules, self.node_lifecycle_timeouts, view.asked
        )

    def apply(self, view: BalancerRoundSituation, plan: BalancerRoundPlan) -> None:
        """Record the intended states, act on the nodes in parallel, and record the outcomes."""
        with self._memory.database.transaction():
            dues = node_acts_from_balance_plan.reopen_nodes_asked_to_be_kept(
                plan.dues, self._memory.administrator_requests().kept
            )
            meant = _nodes_after_acts(view.world.kept, dues)
            self._memory.nodes.replace_all_nodes(meant)
            self._memory.delete_administrator_requests(
                node_acts_from_balance_plan.fulfilled_administrator_requests(view.asked, meant)
            )
        for name in node_acts_from_balance_plan.nodes_with_late_keep_request(view.asked, meant):
            _log.warning("event=kept_too_late node=%s", name)
        acts = replace(self._acts, closed=view.world.closed)
        with ThreadPoolExecutor(AT_ONCE, "node") as threads:
            self.done = tuple(threads.map(lambda due: _try_node_act(due, acts), dues))
        nodes = _nodes_after_acts(view.world.kept, self.done)
        after = [node for node in nodes if node.state is not elastic_nodes.ElasticNodeState.GONE]
        changes = [(due.before, due.node) for due in self.done]
        is_changed = bool(plan.plan.add or plan.plan.remove) or any(map(_does_act_switch_host_power, dues))
        self._store_balancer_round_results(view, after, changes, plan.plan.watched, is_changed=is_changed)
        _log_node_changes(changes)
        if plan.ended:
            pool, machine = plan.ended  # the master's machine, on which this program runs
            _log.warning("event=master_ended machine=%s", machine.id)
            self._acts.destroy_machine(pool, machine)

    def _query_machine_lists_of_pools(self) -> Mapping[str, tuple[elastic_nodes.ProviderMachine, ...]]:
        """Return the machines of pools with a complete list; raises ClusterStateUnknown if no pool has one."""
        with ThreadPoolExecutor(AT_ONCE, "provider") as threads:
            lists = zip(
                self._providers,
                threads.map(_query_machine_list, self._providers.keys(), self._providers.values()),
                strict=True,
            )
            machines = {pool: listed for pool, listed in lists if listed is not None}
        if self._providers and not machines:
            raise ClusterStateUnknown("no provider gave a whole list of its machines")
        return machines

    def _limit_plan_to_available_pools(self, plan: BalancePlan, view: BalancerRoundSituation) -> BalancePlan:
        now, left_out = view.world.now, view.situation.failed
        if not plan.pool and not self._site.pools:
            return replace(plan, add=0)  # no provider could create a node
        retry_s = self._site.demand.retry_s
        silent = {name for name, at in left_out.items() if is_pool_paused_after_failure(at, now, retry_s)}
        usable = set(view.world.machines) - silent - self._site.switched
        local = view.situation.local_now
        nodes = (*view.world.kept, *machine_list_reconciliation.nodes_adopted_this_round(view.world))
        possible = choose_pool_for_new_nodes(plan, self._site.pools, usable, nodes, local)
        if possible.add < plan.add:
            _log.warning("event=no_pool pool=%s nodes=%s", plan.pool, plan.add - possible.add)
        return possible

    def _store_balancer_round_results(
        self,
        view: BalancerRoundSituation,
        after: Sequence[elastic_nodes.BalancerOwnedNode],
        changes: Sequence[tuple[elastic_nodes.BalancerOwnedNode | None, elastic_nodes.BalancerOwnedNode]],
        watched: Mapping[int, WaitingJobsHistory],
        *,
        is_changed: bool,
    ) -> None:
        now = view.world.now
        learnt = update_pool_failure_records(self._memory.pool_failure_records(now), changes, now)
        pools = self._site.pools.keys() | self._site.switched
        records = {pool: record for pool, record in learnt.items() if pool in pools}
        changed = now if is_changed else view.situation.last_change
        with self._memory.database.transaction():
            self._memory.nodes.replace_all_nodes(
                node for node in after if node.state is not elastic_nodes.ElasticNodeState.GONE
            )
            self._memory.store_pool_failure_records(records)
            self._memory.store_job_eligible_times(view.situation.eligible_since)
            self._memory.store_waiting_job_histories(watched)
            self._memory.store_machine_missing_times(view.world.unlisted)
            self._memory.store_silence_start_times(view.world.silent)
            before = self._memory.last_round_time()
            if before is None or before.hour != now.hour:
                self.journal.delete_old_decisions(now - KEPT)
            self._memory.store_round_time_and_cost(now, changed, self._month_cost_after_round(view, after))

    def _month_cost_after_round(
        self, view: BalancerRoundSituation, after: Sequence[elastic_nodes.BalancerOwnedNode]
    ) -> float:
        now, site = view.world.now, self._site
        cost = node_costs_since_last_round(
            self._memory.last_round_time() or now,
            now,
            view.world.kept,
            after,
            site.pools,
            site.demand.billing_s,
            view.situation.local_now,
        )
        return self._memory.month_cost(now) + cost


def _query_machine_list(pool: str, provider: MachineLister) -> tuple[elastic_nodes.ProviderMachine, ...] | None:
    try:
        return provider.list_machines()
    except GridbridgeError as error:
        _log.warning("event=no_list pool=%s why=%r", pool, str(error))
        return None


def _try_node_act(due_act: elastic_nodes.DueNodeAct, act_runner: NodeActRunner) -> elastic_nodes.DueNodeAct:
    """Carry out an act; a node whose act failed keeps the intended state."""
    try:
        return replace(due_act, node=act_runner.carry_out_node_act(due_act))
    except GridbridgeError as error:
        act = due_act.act.value if due_act.act else ""
        _log.warning("event=not_done node=%s act=%s why=%r", due_act.node.name, act, str(error))
        return due_act


def _does_act_switch_host_power(due_act: elastic_nodes.DueNodeAct) -> bool:
    is_new = due_act.before is not None and due_act.before.state is not due_act.node.state
    return is_new and due_act.act in (elastic_nodes.BalancerNodeAct.REST, elastic_nodes.BalancerNodeAct.WAKE)


def _nodes_after_acts(
    nodes: Sequence[elastic_nodes.BalancerOwnedNode], dues: Sequence[elastic_nodes.DueNodeAct]
) -> list[elastic_nodes.BalancerOwnedNode]:
    """Return all nodes with their states after the acts; nodes deleted from the state file are left out."""
    touched = {due.before for due in dues}
    untouched = [node for node in nodes if node not in touched]
    return untouched + [due.node for due in dues if not due.is_over]


def _log_node_changes(
    changes: Sequence[tuple[elastic_nodes.BalancerOwnedNode | None, elastic_nodes.BalancerOwnedNode]],
) -> None:
    for before, node in changes:
        if before is None or (before.state, before.cause) != (node.state, node.cause):
            level = logging.WARNING if node.cause.is_boot_failure else logging.INFO
            words = f" why={str(node.cause)!r}" if node.cause is not elastic_nodes.NodeStateCause.NONE else ""
            _log.log(level, "event=node name=%s state=%s%s", node.name, node.state.value, words)
