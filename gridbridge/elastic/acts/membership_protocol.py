"""What the balancer asks of a cell when a machine joins it or leaves it."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from gridbridge.model.elastic.cell import TaskShape
from gridbridge.model.elastic.elastic_nodes import (
    HostDeparture,
    HostIdleness,
    HostJoinStep,
    JoiningMachine,
)


class Membership(Protocol):
    """Makes machines execution hosts of the site's own cell, and takes hosts out of it.

    Each call may be repeated, after a kill too, and each call that it makes has a limit. Raises
    CommandFailed when a program does not do its work, NotReached when the machine does not answer
    yet, and NotAdmitted when the machine is not the one whose host key is known.
    """

    def join(self, node: JoiningMachine) -> HostJoinStep:
        """Do what is missing of a machine's joining; return how far it is.

        Its queues are opened last, once its daemon has reported.
        """
        ...

    def close(self, host: str) -> None:
        """Have nothing more start on a host: all its queue instances are disabled."""
        ...

    def open(self, host: str, closed: frozenset[str]) -> HostJoinStep:
        """Let jobs start on a host again, best-effort ones that had to make way as well.

        Queues of `closed` that are closed there stay so, and CLOSED says that there are some.
        """
        ...

    def opening(self, host: str) -> str:
        """Return the line by which an administrator has a host that is on take jobs again."""
        ...

    def clearing(self, host: str) -> str:
        """Return how an administrator ends what is listed on a host that is dead or off."""
        ...

    def forgetting(self, host: str) -> str:
        """Return how an administrator takes a host out that is gone."""
        ...

    def look(self, host: str) -> HostIdleness:
        """Ask the cell about a host now."""
        ...

    def make_way(self, host: str) -> bool:
        """Have best-effort tasks of a closed host make way; say whether it is empty by now."""
        ...

    def halt(self, host: str) -> None:
        """Tell the batch system that a closed and idle host is switched off now."""
        ...

    def movable(self, hosts: Iterable[str]) -> Mapping[str, tuple[TaskShape, ...]]:
        """Return what each task on hosts asks for that may run elsewhere again."""
        ...

    def put_elsewhere(self, host: str) -> bool:
        """Have the tasks of a closed host run elsewhere; False, nothing done, if one may not."""
        ...

    def leave(self, host: str, *, is_dead: bool) -> HostDeparture:
        """Take a closed and idle host out of its cell, and its name out of files.

        A dead host's own daemon is not asked.
        """
        ...
