"""Decide how the site's hosts are powered off and on, and which power requests of OAR are unfinished.

Only closed and idle hosts, and hosts that did not boot, are powered off.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gridbridge.model.elastic.elastic_nodes import (
    BalancerNodeAct,
    BalancerNodesSnapshot,
    BalancerOwnedNode,
    BusyOrSilentHostState,
    DueNodeAct,
    ElasticNodeState,
    HostJoinStep,
    NodeStateCause,
    ProviderMachine,
    ProviderMachineState,
    is_host_reporting,
)
from gridbridge.model.elastic.standby_and_wake_plan import (
    STANDBY_AUTO,
    HostStandbyOrWakeStep,
    HostTagsAndMovableTasks,
    OarPowerRequest,
    OarRequestedPowerState,
    StandbyOrWakePlan,
    StandbyOrWakePlanCause,
    StandbyOrWakeStepKind,
    has_standby_tag,
    tags_of_host,
)
from gridbridge.model.published_status_and_reports import number_with_noun


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerManagedHostFacts:
    node: BalancerOwnedNode
    machine: ProviderMachine | None  # the host as its power control reports it; None: the host is no longer configured
    host: BusyOrSilentHostState | None  # state of the host in the cell; None: the cell does not have the host
    now: datetime
    boot_s: float  # how long a power-on or a power-off may take
    is_any_closed: bool = False  # True: some queue is disabled by hand on all hosts

    @property
    def has_state_timed_out(self) -> bool:
        """Whether the host has been in its state for longer than `boot_s`."""
        return (self.now - self.node.since).total_seconds() > self.boot_s

    @property
    def does_host_daemon_report(self) -> bool:
        """Whether the cell lists the host's daemon as reporting; after a power-off the list may be outdated."""
        return is_host_reporting(self.host)

    @property
    def is_host_up(self) -> bool:
        """Whether the host's daemon reports, and the provider does not report the host as off."""
        return self.does_host_daemon_report and not self.does_provider_report_off

    @property
    def does_provider_report_off(self) -> bool:
        return self.machine is not None and self.machine.state is ProviderMachineState.STOPPED

    @property
    def is_host_off(self) -> bool:
        """Whether the provider reports the host as off, and the host's daemon does not report."""
        return self.does_provider_report_off and not self.does_host_daemon_report

    def node_in_state(self, state: ElasticNodeState, cause: NodeStateCause = NodeStateCause.NONE) -> BalancerOwnedNode:
        return self.node.with_state(state, self.now, cause)


def due_act_of_powered_host(case: PowerManagedHostFacts) -> DueNodeAct | None:
    """Return the act that is due for one of the site's own hosts; None if no act is due.

    A host that is no longer configured is forgotten; if it is being powered on or off, it is reopened first.
    """
    if case.machine is not None:
        rule = RULES.get(case.node.state)
        return rule(case) if rule else None
    if is_host_changing_power_state(case.node) and case.host is not None:
        return act_to_release_powered_host(case.node, case.now)
    return DueNodeAct(node=case.node_in_state(ElasticNodeState.GONE, NodeStateCause.NOT_SWITCHED), is_over=True)


def hosts_in_unclear_power_state(world: BalancerNodesSnapshot) -> frozenset[str]:
    """Return the site's own hosts with an unclear power state, on which no round acts."""
    listed = (machine for pool in world.switched for machine in world.machines.get(pool, ()))
    states = {machine.id: machine.state for machine in listed}
    own = (node for node in world.kept if node.pool in world.switched)

    def is_power_state_unclear(node: BalancerOwnedNode) -> bool:
        state = states.get(node.machine)
        if state is ProviderMachineState.RUNNING:
            return node.state is ElasticNodeState.STANDBY
        is_on = node.state is ElasticNodeState.STANDBY and is_host_reporting(world.host_state(node.name))
        return state is ProviderMachineState.UNKNOWN and (is_on or node.state is ElasticNodeState.READY)

    return frozenset(node.name for node in own if is_power_state_unclear(node))


def node_of_adopted_powered_host(
    machine: ProviderMachine,
    pool: str,
    host: BusyOrSilentHostState | None,
    now: datetime,
    tags: Mapping[str, tuple[str, ...]],
) -> BalancerOwnedNode | None:
    """Return a new node for a host of the site that has none; None if the host's power state is unclear.

    A silent host with power may be in use by a person. A reporting host with a squeeze's standby tag is reopened.
    """
    node = BalancerOwnedNode(name=machine.name, pool=pool, machine=machine.id, state=ElasticNodeState.READY, since=now)
    if machine.state is ProviderMachineState.STOPPED:
        return None if is_host_reporting(host) else replace(node, state=ElasticNodeState.STANDBY)
    if machine.state is ProviderMachineState.RUNNING and is_host_reporting(host):
        is_ours = STANDBY_AUTO in tags_of_host(machine.name, tags)
        state = ElasticNodeState.JOINING if is_ours else ElasticNodeState.READY
        return replace(node, state=state, up_since=now)
    return None


def act_to_put_host_on_standby(
    node: BalancerOwnedNode, now: datetime, *, is_busy: bool, is_moved: bool = False
) -> DueNodeAct:
    """Return the act that powers a host off once the host's tasks have ended or moved."""
    cause = NodeStateCause.MOVED if is_moved else NodeStateCause.CONDENSED if is_busy else NodeStateCause.RESTS
    draining = node.with_state(ElasticNodeState.DRAINING, now, cause)
    return DueNodeAct(node=draining, before=node, act=BalancerNodeAct.REST)


def act_to_wake_host(node: BalancerOwnedNode, now: datetime) -> DueNodeAct:
    booting = replace(node.with_state(ElasticNodeState.BOOTING, now), idle_since=None)
    return DueNodeAct(node=booting, before=node, act=BalancerNodeAct.WAKE)


def is_host_changing_power_state(node: BalancerOwnedNode) -> bool:
    """Say whether a host is being powered on or off, and therefore has closed queues."""
    return node.state not in (ElasticNodeState.READY, ElasticNodeState.STANDBY)


def act_to_release_powered_host(node: BalancerOwnedNode, now: datetime) -> DueNodeAct:
    """Return the act that reopens a host that the balancer no longer powers on and off."""
    if node.state is not ElasticNodeState.JOINING:
        node = node.with_state(ElasticNodeState.JOINING, now)
    return DueNodeAct(node=node, act=BalancerNodeAct.OPEN)


def add_standby_tag_to_act(due_: DueNodeAct, tags: Mapping[str, tuple[str, ...]]) -> DueNodeAct:
    """Add a missing standby tag to a power-off act, unless an administrator drained the host."""
    if due_.act is not BalancerNodeAct.REST or due_.node.cause is NodeStateCause.DRAINED:
        return due_
    return due_ if has_standby_tag(due_.node.name, tags) else replace(due_, tag=STANDBY_AUTO)


def _act_of_ready_host(case: PowerManagedHostFacts) -> DueNodeAct | None:
    """Record the start of a host's idle time, or that a person powered the host off.

    A closed host is reopened, unless a queue is disabled on all hosts.
    """
    if case.is_host_off:
        return _act_to_record_standby(case)
    if case.node.step is HostJoinStep.CLOSED and case.does_host_daemon_report and not case.is_any_closed:
        return DueNodeAct(node=case.node, act=BalancerNodeAct.OPEN)
    is_idle = case.does_host_daemon_report and case.host is not None and not case.host.is_busy
    idle = (case.node.idle_since or case.now) if is_idle else None
    node = replace(case.node, idle_since=idle)
    return DueNodeAct(node=node) if node != case.node else None


def _act_of_draining_host(case: PowerManagedHostFacts) -> DueNodeAct | None:
    """Repeat the power-off until the host is off."""
    if case.is_host_off:
        return _act_to_record_standby(case, case.node.cause)
    return DueNodeAct(node=case.node, act=BalancerNodeAct.REST)


def _set_under_tasks_cause(case: PowerManagedHostFacts, node: BalancerOwnedNode) -> BalancerOwnedNode:
    """Set or clear cause UNDER_TASKS of a powered-off host; keep a cause that prevents waking."""
    if node.cause is NodeStateCause.DRAINED or node.cause.is_boot_failure:
        return node
    if case.host is not None and case.host.is_busy:
        return replace(node, cause=NodeStateCause.UNDER_TASKS)
    return replace(node, cause=NodeStateCause.NONE) if node.cause is NodeStateCause.UNDER_TASKS else node


def _act_to_record_standby(case: PowerManagedHostFacts, cause: NodeStateCause = NodeStateCause.NONE) -> DueNodeAct:
    """Record that a host is off, without its start time, so that a person's power-on is noticed later."""
    return DueNodeAct(
        node=replace(_set_under_tasks_cause(case, case.node_in_state(ElasticNodeState.STANDBY, cause)), up_since=None)
    )


def _act_of_standby_host(case: PowerManagedHostFacts) -> DueNodeAct | None:
    """Reopen a powered-off host that a person powered on; repeat a power-off that had no effect.

    Both acts first wait for the time that a power-off may take. No other silent host with power is touched, because a
    person may use the host.
    """
    if case.does_provider_report_off:
        node = replace(_set_under_tasks_cause(case, case.node) if case.is_host_off else case.node, up_since=None)
        return DueNodeAct(node=node) if node != case.node else None
    if case.has_state_timed_out and case.is_host_up:
        return DueNodeAct(node=case.node_in_state(ElasticNodeState.JOINING), act=BalancerNodeAct.OPEN)
    has_power = case.machine is not None and case.machine.state is ProviderMachineState.RUNNING
    if case.has_state_timed_out and has_power and case.node.up_since is not None:
        return DueNodeAct(node=case.node, act=BalancerNodeAct.STOP)
    return None


def _act_of_booting_host(case: PowerManagedHostFacts) -> DueNodeAct | None:
    """Open a host once its daemon reports; power off a host whose daemon never reports.

    A power-on may be lost, so it is repeated. After the boot time only the daemon's report counts.
    """
    if case.is_host_up or (case.has_state_timed_out and case.does_host_daemon_report):
        return DueNodeAct(node=case.node_in_state(ElasticNodeState.JOINING), act=BalancerNodeAct.OPEN)
    if case.has_state_timed_out:
        return DueNodeAct(
            node=case.node_in_state(ElasticNodeState.FAILED, NodeStateCause.NEVER_BOOTED), act=BalancerNodeAct.STOP
        )
    return DueNodeAct(node=case.node, act=BalancerNodeAct.WAKE) if case.does_provider_report_off else None


def _act_of_joining_host(case: PowerManagedHostFacts) -> DueNodeAct | None:
    """Repeat the opening of a host's queues, unless the host is powered off meanwhile."""
    if case.is_host_off:
        return _act_to_record_standby(case)
    return DueNodeAct(node=case.node, act=BalancerNodeAct.OPEN)


def _act_of_failed_host(case: PowerManagedHostFacts) -> DueNodeAct | None:
    """Repeat the power-off of a failed host, unless the host's daemon reports by now."""
    if case.is_host_up:
        return DueNodeAct(node=case.node_in_state(ElasticNodeState.JOINING), act=BalancerNodeAct.OPEN)
    return DueNodeAct(node=case.node, act=BalancerNodeAct.STOP)


RULES: Mapping[ElasticNodeState, Callable[[PowerManagedHostFacts], DueNodeAct | None]] = {
    ElasticNodeState.READY: _act_of_ready_host,
    ElasticNodeState.DRAINING: _act_of_draining_host,
    ElasticNodeState.STANDBY: _act_of_standby_host,
    ElasticNodeState.BOOTING: _act_of_booting_host,
    ElasticNodeState.JOINING: _act_of_joining_host,
    ElasticNodeState.FAILED: _act_of_failed_host,
}


NO_TAGS = HostTagsAndMovableTasks()


def standby_and_wake_steps_of_plan(
    plan: StandbyOrWakePlan, facts: HostTagsAndMovableTasks = NO_TAGS
) -> tuple[HostStandbyOrWakeStep, ...]:
    """Return the steps that power hosts off or on; a woken host loses only the tag that a squeeze wrote."""
    steps, tags = list[HostStandbyOrWakeStep](), facts.tags
    for host in plan.off:
        steps.append(HostStandbyOrWakeStep(host=host, doing=StandbyOrWakeStepKind.DRAIN))
        if not has_standby_tag(host, tags):
            steps.append(HostStandbyOrWakeStep(host=host, doing=StandbyOrWakeStepKind.TAG, tag=STANDBY_AUTO))
        steps.append(HostStandbyOrWakeStep(host=host, doing=StandbyOrWakeStepKind.STOP))
    for host in plan.on:
        steps.append(HostStandbyOrWakeStep(host=host, doing=StandbyOrWakeStepKind.START))
        steps.append(HostStandbyOrWakeStep(host=host, doing=StandbyOrWakeStepKind.OPEN))
        if STANDBY_AUTO in tags_of_host(host, tags):
            steps.append(HostStandbyOrWakeStep(host=host, doing=StandbyOrWakeStepKind.UNTAG, tag=STANDBY_AUTO))
    return tuple(steps)


def describe_standby_or_wake_plan(plan: StandbyOrWakePlan) -> str:
    room = (
        f"{number_with_noun(plan.reserve, 'standard request')} could start on"
        f" {number_with_noun(plan.working, 'host')}"
        f" (hosts are woken below {plan.least:g} per host, and powered off above {plan.target:g})"
    )
    asleep = "no host is powered off"
    if plan.untagged:
        lacks = f"{', '.join(plan.untagged)} {'have' if len(plan.untagged) > 1 else 'has'} no tag"
        asleep = f"no host may be woken: {lacks} (`gridbridge balance tag HOST SUFFIX`)"
    again = f"{', '.join(plan.on)} {'have' if len(plan.on) > 1 else 'has'} to be woken"
    outcome = {
        StandbyOrWakePlanCause.PLENTY: f"{', '.join(plan.off)} can be powered off",
        StandbyOrWakePlanCause.LACKING: again,
        StandbyOrWakePlanCause.ASKED: f"tasks wait, and {again}",
        StandbyOrWakePlanCause.BETWEEN: "no host is powered off or woken",
        StandbyOrWakePlanCause.NO_STANDBY: asleep,
        StandbyOrWakePlanCause.FULL: "no more nodes are allowed",
        StandbyOrWakePlanCause.NO_MAXIMUM: "max_nodes of [balance] is not set: no host is powered off or woken",
        StandbyOrWakePlanCause.UNREADY: "too many hosts are silent or in error: no host is powered off or woken",
    }[plan.cause]
    bound = f"; tasks on {', '.join(plan.bound)} have no room on other hosts" if plan.bound else ""
    return f"{room}: {outcome}{bound}"


STALE_S = 3600.0  # older requests are dropped, because OAR repeats each request


def latest_oar_power_request_by_node(
    notes: Iterable[OarPowerRequest], now_s: float
) -> Mapping[str, OarRequestedPowerState]:
    """Return the latest power request of OAR for each node, without requests older than an hour."""
    desired = dict[str, OarRequestedPowerState]()
    for note in sorted(notes, key=lambda note: (note.at_s, note.file)):
        if now_s - note.at_s <= STALE_S:
            desired.update(dict.fromkeys(note.hosts, note.wish))
    return desired


def unfinished_oar_power_requests(
    notes: Iterable[OarPowerRequest], unsettled: Mapping[str, OarRequestedPowerState], now_s: float
) -> tuple[OarPowerRequest, ...]:
    """Drop nodes from power requests if they have reached the state of their latest request."""
    unfinished = list[OarPowerRequest]()
    for note in notes:
        hosts = () if now_s - note.at_s > STALE_S else note.hosts
        unfinished.append(replace(note, hosts=tuple(host for host in hosts if unsettled.get(host) is note.wish)))
    return tuple(unfinished)
