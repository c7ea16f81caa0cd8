"""Protocol by which the balancer adds hosts to a cluster and removes them."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from gridbridge.model.elastic.cell import TaskShape
from gridbridge.model.elastic.elastic_nodes import (
    HostDeparture,
    HostIdleness,
    HostJoinStep,
    JoiningMachine,
)


class ClusterMembership(Protocol):
    """Adds machines to the site's own cluster as execution hosts, and removes hosts from it.

    Each call may be repeated, also after a kill, and every command has a timeout. Raises
    CommandFailed when a command fails, HostNotReached while a machine does not answer, and
    SshAccessRejected when a machine's host key is wrong.
    """

    def join(self, node: JoiningMachine) -> HostJoinStep:
        """Do the missing steps of a machine's joining; return the step that it has reached.

        The host's queues are enabled last, after its daemon has reported.
        """
        ...

    def close(self, host: str) -> None:
        """Disable all queue instances of a host, so that no more task starts there."""
        ...

    def open(self, host: str, closed: frozenset[str]) -> HostJoinStep:
        """Enable a host's queues again, and resume its best-effort queues.

        Queues in `closed` stay disabled; if the host has such a queue, the result is CLOSED.
        """
        ...

    def opening(self, host: str) -> str:
        """Return the command by which an administrator lets a powered host run tasks again."""
        ...

    def clearing(self, host: str) -> str:
        """Return the commands by which an administrator ends the tasks of a dead host."""
        ...

    def forgetting(self, host: str) -> str:
        """Return the commands by which an administrator removes a vanished host."""
        ...

    def look(self, host: str) -> HostIdleness:
        """Query whether a host is idle, closed and listed."""
        ...

    def make_way(self, host: str) -> bool:
        """Preempt the best-effort tasks of a closed host; say whether the host is empty."""
        ...

    def halt(self, host: str) -> None:
        """Tell the batch system that a closed and idle host is being switched off."""
        ...

    def movable(self, hosts: Iterable[str]) -> Mapping[str, tuple[TaskShape, ...]]:
        """Return the resource requests of the rerunnable tasks of each host."""
        ...

    def put_elsewhere(self, host: str) -> bool:
        """Reschedule all tasks of a closed host; return False if a task is not rerunnable."""
        ...

    def leave(self, host: str, *, is_dead: bool) -> HostDeparture:
        """Remove a closed and idle host from the cluster, and its name from the hosts files.

        The daemon of a dead host is not contacted.
        """
        ...
