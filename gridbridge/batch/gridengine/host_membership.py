"""Adds machines to a cell as execution hosts, and removes hosts."""

import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock

from gridbridge import errors
from gridbridge.batch.gridengine import cell_configuration_reader, execution_hosts, task_rescheduling
from gridbridge.batch.gridengine.execution_hosts import HostQueueInstance
from gridbridge.batch.gridengine.machine_bootstrap import NewMachineBootstrap
from gridbridge.batch.privileged_helper_calls import run_gridbridge_as_root
from gridbridge.model.elastic import elastic_nodes
from gridbridge.model.elastic.balancer_config_sections import MachineBootstrapSection
from gridbridge.model.elastic.grid_engine_cell import TaskResourceRequests
from gridbridge.model.fixed_paths import AS_ROOT
from gridbridge.model.transfer_route import GridEngineCellAccessSettings
from gridbridge.shell.clock import Clock
from gridbridge.shell.local_host_facts import resolve_host_address

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridEngineHostMembership:
    cell: GridEngineCellAccessSettings
    preparing: NewMachineBootstrap
    root: Callable[..., None] = field(default=run_gridbridge_as_root)
    clock: Clock = field(default_factory=Clock)
    turn: Lock = field(default_factory=Lock)  # serializes changes of queues

    def join_host_to_cluster(self, node: elastic_nodes.MachineToJoinCell) -> elastic_nodes.HostJoinStep:
        """Do the missing steps by which a machine joins the cell; return the last completed step.

        The bootstrap comes first, so a machine with a wrong host key never enters the cell. Raises
        NewMachineAddressInUse for another host's address, and NewHostInNoQueue for a host that would run no task.
        """
        admitted = execution_hosts.list_execution_hosts(self.cell)
        is_up = node.name in admitted and execution_hosts.is_execd_up(self.cell, node.name)
        if not is_up:
            self._require_unused_address(node, admitted)
        self._give_name_to_address(node)
        if not is_up:
            self.root("export", node.name)
            self.preparing.run_bootstrap_steps(node, admitted)
        self._add_host_to_cell_and_queues(node)
        if not is_up:
            self.close_host_to_new_tasks(node.name)
            self.preparing.start_execution_daemon(node)
            return elastic_nodes.HostJoinStep.ADMITTED
        instances = execution_hosts.query_host_queue_instances(self.cell, node.name)
        if not instances:
            raise errors.NewHostInNoQueue(node.name, node.hostgroups)
        usual = tuple(instance.queue for instance in instances if not instance.is_best_effort)
        with self.turn:
            for queue in node.queues or usual:
                execution_hosts.set_queue_slots(self.cell, node.name, queue, node.slots)
            if node.is_filled_last:
                execution_hosts.place_host_last_in_queues(self.cell, node.name, node.queues or usual)
        return self.open_host_to_tasks(node.name, node.closed)

    def close_host_to_new_tasks(self, host: str) -> None:
        """Disable all queues of a host; a host that is not in the cell counts as closed."""
        execution_hosts.disable_host_queues(self.cell, host)

    def open_host_to_tasks(self, host: str, closed: frozenset[str]) -> elastic_nodes.HostJoinStep:
        """Enable a host's queues, except queues that somebody disabled on all hosts."""
        closed_queues = execution_hosts.enable_host_queues(self.cell, host, closed)
        if closed_queues:
            command = f"qmod -e {' '.join(closed_queues)}"
            words = "event=left_closed node=%s queues=%r command=%r"
            _log.info(words, host, " ".join(closed_queues), command)
        return elastic_nodes.HostJoinStep.CLOSED if closed_queues else elastic_nodes.HostJoinStep.JOINED

    def command_to_reopen_host(self, host: str) -> str:
        return f"qmod -e '*@{host}'"

    def commands_to_end_host_tasks(self, host: str) -> str:
        queues = f"'*@{host}'"
        return (
            f"`qmod -rq {queues}` reruns rerunnable tasks elsewhere,"
            f" `qstat -u '*' -s rs -q {queues}` shows other tasks, `qdel -f JOB.TASK` ends a task"
        )

    def commands_to_remove_host(self, host: str) -> str:
        cell = (
            f"`qconf -purge queue '*' QUEUE@{host}` for each queue with own values for this host,"
            f" `qconf -dattr hostgroup hostlist {host} @GROUP` for each host group with this host,"
            f" `qconf -de {host}`, `qconf -dh {host}`"
        )
        return f"{cell}, and as root `{AS_ROOT} unexport {host}`, `{AS_ROOT} unname {host}`"

    def check_host_before_removal(self, host: str) -> elastic_nodes.HostCheckBeforeRemoval:
        """Query whether a host is closed, in the cell's list, and idle except for best-effort tasks."""
        instances = execution_hosts.query_host_queue_instances(self.cell, host)
        promised = [
            instance.rpartition("@")[2]
            for instance in cell_configuration_reader.query_advance_reserved_slots(self.cell)
        ]
        used = any(instance.is_used for instance in instances if not instance.is_best_effort)
        return elastic_nodes.HostCheckBeforeRemoval(
            is_idle=not used and not any(elastic_nodes.is_same_host(name, host) for name in promised),
            is_closed=all(instance.is_disabled for instance in instances),
            is_listed=bool(instances) or host in execution_hosts.list_execution_hosts(self.cell),
        )

    def preempt_best_effort_tasks(self, host: str) -> bool:
        return not self._empty_host_or_say_what_is_in_use(host, is_dead=False)

    def prepare_power_off(self, host: str) -> None:
        """Do nothing, because Grid Engine needs no notice before a host is switched off."""

    def query_rerunnable_tasks(self, of_hosts: Iterable[str]) -> Mapping[str, tuple[TaskResourceRequests, ...]]:
        return task_rescheduling.query_reschedulable_tasks(self.cell, of_hosts, self.clock.now_s())

    def reschedule_host_tasks(self, host: str) -> bool:
        return task_rescheduling.reschedule_host_tasks(self.cell, host, self.clock.now_s())

    def remove_host(self, host: str, *, is_dead: bool) -> str:
        """Remove a closed host from the cell, and the host's name from the hosts files.

        While a task remains, execd must keep running, because it reports how tasks end. A lock serializes changes of
        queues: `qconf -purge` writes back a whole queue and would undo a concurrent change. Raises TasksOnLostHost if
        Grid Engine does not requeue a dead host's tasks.
        """
        if used := self._empty_host_or_say_what_is_in_use(host, is_dead=is_dead):
            return used
        with self.turn:
            execution_hosts.remove_host_from_queues(self.cell, host)
        execution_hosts.remove_host_from_groups(self.cell, host)
        execution_hosts.remove_admin_and_submit_host(self.cell, host)
        if not is_dead and host in execution_hosts.list_execution_hosts(self.cell):
            execution_hosts.stop_execd(self.cell, host)
        if named := execution_hosts.remove_execution_host(self.cell, host):
            return f"{named}; `qconf -de {host}` shows this message"
        self.root("unexport", host)
        self.root("unname", host)
        return ""

    def _empty_host_or_say_what_is_in_use(self, host: str, *, is_dead: bool) -> str:
        """Preempt best-effort tasks, and reschedule a dead host's tasks; name the queues that the host still uses."""
        used = self._query_used_queue_instances(host)
        for instance in used:
            if is_dead:
                execution_hosts.reschedule_instance_tasks(self.cell, host, instance.queue)
            elif instance.is_best_effort and not instance.is_suspended:
                execution_hosts.suspend_queue_instance(self.cell, host, instance.queue)
        if is_dead and used:
            used = self._query_used_queue_instances(host)
        tasks = dict.fromkeys(task for instance in used for task in instance.tasks)
        if is_dead and tasks:
            raise errors.TasksOnLostHost(host, tuple(tasks))
        if not used:
            return ""
        queues = " ".join(instance.queue for instance in used)
        return f"slots are in use in {queues}: `qstat -u '*' -s rs -q '*@{host}'` shows the tasks"

    def _query_used_queue_instances(self, host: str) -> list[HostQueueInstance]:
        return [
            instance for instance in execution_hosts.query_host_queue_instances(self.cell, host) if instance.is_used
        ]

    def _give_name_to_address(self, node: elastic_nodes.MachineToJoinCell) -> None:
        if resolve_host_address(node.name) != node.address:
            self.root("name", node.name, node.address)
        if (address := resolve_host_address(node.name)) != node.address:
            why = f"{node.name} leads to {address or 'no address'}; expected {node.address}"
            raise errors.CommandFailed((AS_ROOT,), 1, stderr=why.encode())

    def _require_unused_address(self, node: elastic_nodes.MachineToJoinCell, admitted: tuple[str, ...]) -> None:
        """Raise NewMachineAddressInUse if a living host has the address: the bootstrap would run on that host."""
        other_hosts = [host for host in admitted if not elastic_nodes.is_same_host(host, node.name)]
        conflicts = [host for host in other_hosts if resolve_host_address(host) == node.address]
        conflicts = [host for host in conflicts if execution_hosts.is_execd_up(self.cell, host)]
        fixed = (socket.gethostname(), *self.preparing.mounted_file_servers())
        conflicts += [host for host in fixed if resolve_host_address(host) == node.address]
        if conflicts:
            raise errors.NewMachineAddressInUse(node.name, node.address, conflicts[0])

    def _add_host_to_cell_and_queues(self, node: elastic_nodes.MachineToJoinCell) -> None:
        execution_hosts.add_execution_host(self.cell, node.name)
        execution_hosts.set_host_complex_values(self.cell, node.name, node.resources)
        for group in node.hostgroups:
            execution_hosts.add_host_to_group(self.cell, node.name, group)
        with self.turn:
            for queue in node.queues:
                execution_hosts.add_host_to_queue(self.cell, node.name, queue)


def create_host_membership_adapter(
    settings: MachineBootstrapSection, cluster: GridEngineCellAccessSettings
) -> GridEngineHostMembership:
    cell = cluster.with_time_limit(execution_hosts.LIMIT_S)
    return GridEngineHostMembership(cell=cell, preparing=NewMachineBootstrap(settings=settings, cell=cell))
