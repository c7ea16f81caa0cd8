"""Switches the nodes of an OAR server off and on; gridbridge never creates or removes OAR nodes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn

from gridbridge.batch.oar import oar_node_power_and_tags
from gridbridge.batch.oar.oar_node_power_and_tags import OarNodeState
from gridbridge.errors import CommandFailed, ConfigError, ProviderPermanentFailure
from gridbridge.model.elastic.balancer_config_sections import MachineBootstrapSection
from gridbridge.model.elastic.elastic_nodes import HostCheckBeforeRemoval, HostJoinStep, MachineToJoinCell
from gridbridge.model.elastic.grid_engine_cell import TaskResourceRequests
from gridbridge.model.fixed_paths import AS_ROOT
from gridbridge.model.transfer_route import OarServerAccessSettings
from gridbridge.shell.clock import Clock

SETTLED_S, PAUSE_S = 45.0, 0.5  # a scheduler pass may take SCHEDULER_TIMEOUT, 30 s


@dataclass(frozen=True, slots=True, kw_only=True)
class OarNodeMembership:
    """Closes, halts and opens nodes of the local OAR server."""

    look_at: Callable[[str], OarNodeState]
    root: Callable[..., None] = field(default=oar_node_power_and_tags.run_oar_node_verb_as_root)
    pause: Callable[[float], None] = field(default_factory=lambda: Clock().sleep)

    def join_host_to_cluster(self, node: MachineToJoinCell) -> HostJoinStep:
        """Raise ProviderPermanentFailure, because gridbridge never adds OAR nodes."""
        _refuse_to_add_or_remove_oar_node(node.name)

    def remove_host(self, host: str, *, is_dead: bool) -> str:
        """Raise ProviderPermanentFailure, because gridbridge never removes OAR nodes."""
        _refuse_to_add_or_remove_oar_node(host)

    def close_host_to_new_tasks(self, host: str) -> None:
        """Drain a node, and wait until no running scheduler pass can start a job on the node.

        OAR applies changes between passes. Once a change requested after the drain is applied, older passes have ended.
        """
        facts = self.look_at(host)
        if facts.is_halted or not facts.is_alive:
            return
        if not facts.is_drained:
            self.root("drain", host)
        self.root("settle", host)
        self._await_oar_node_change(host, lambda now: now.is_settled and now.is_drained)

    def check_host_before_removal(self, host: str) -> HostCheckBeforeRemoval:
        """Query a node's state; only a halted node, or a drained node in state Alive, is closed."""
        facts = self.look_at(host)
        is_closed = facts.is_settled and (facts.is_halted or (facts.is_alive and facts.is_drained))
        return HostCheckBeforeRemoval(is_idle=facts.is_idle, is_closed=is_closed, is_listed=facts.is_listed)

    def preempt_best_effort_tasks(self, host: str) -> bool:
        """Return True, because OAR itself ends and resubmits the best-effort jobs of a halted node."""
        return True

    def prepare_power_off(self, host: str) -> None:
        """Mark a closed node as halted and wakeable, so that oarsub accepts jobs for the node."""
        if not self.look_at(host).is_halted:
            self.root("halt", host)
            self._await_oar_node_change(host, lambda now: now.is_halted and now.is_settled)
        if self.look_at(host).is_drained:
            self.root("undrain", host)

    def open_host_to_tasks(self, host: str, closed: frozenset[str]) -> HostJoinStep:
        """Set a node Alive and undrain the node; OAR nodes have no queues, so `closed` is ignored."""
        facts = self.look_at(host)
        if facts.is_halted:
            self.root("open", host)
            self._await_oar_node_change(host, lambda now: now.is_alive and not now.is_drained)
        elif facts.is_drained:
            self.root("undrain", host)
        return HostJoinStep.JOINED

    def command_to_reopen_host(self, host: str) -> str:
        return " ".join(oar_node_power_and_tags.set_oar_node_state_command("open", host))

    def commands_to_end_host_tasks(self, host: str) -> str:
        return f"`oarnodes {host}` shows the jobs, `oardel JOB` ends a job"

    def commands_to_remove_host(self, host: str) -> str:
        return f"`oarremoveresource RESOURCE` for each resource that `oarnodes {host}` shows"

    def query_rerunnable_tasks(self, hosts: Iterable[str]) -> Mapping[str, tuple[TaskResourceRequests, ...]]:
        """Return no task, because OAR reruns no job on request."""
        return {}

    def reschedule_host_tasks(self, host: str) -> bool:
        """Return False, because OAR cannot reschedule the jobs of a node."""
        return False

    def _await_oar_node_change(self, host: str, is_so: Callable[[OarNodeState], bool]) -> None:
        """Poll a node until OAR has applied a change; raises CommandFailed after 45 s."""
        for _ in range(int(SETTLED_S / PAUSE_S)):
            if is_so(self.look_at(host)):
                return
            self.pause(PAUSE_S)
        why = f"{host}: OAR did not apply the change within {SETTLED_S:.0f} s"
        raise CommandFailed((AS_ROOT, "node"), 1, stderr=why.encode())


def create_host_membership_adapter(_: MachineBootstrapSection, server: OarServerAccessSettings) -> OarNodeMembership:
    return OarNodeMembership(look_at=partial(oar_node_power_and_tags.query_oar_node_state, server))


def require_oar_energy_saving_off(
    root: Callable[..., None] = oar_node_power_and_tags.run_oar_node_verb_as_root,
) -> None:
    """Raise ConfigError if OAR's own energy saving is on, because only one program may switch nodes."""
    try:
        root("owns")
    except CommandFailed as error:
        why = error.stderr.decode("utf-8", "replace").strip() or str(error)
        raise ConfigError((f"{why}; gridbridge squeeze only shows its decision",)) from error


def _refuse_to_add_or_remove_oar_node(host: str) -> NoReturn:
    raise ProviderPermanentFailure(f"{host}: nodes of an OAR server are switched on and off, never created")
