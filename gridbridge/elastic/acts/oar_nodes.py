"""OAR's nodes rest and work again; none is made or removed (membership_protocol)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from gridbridge.batch.oar import node_power
from gridbridge.batch.oar.node_power import OarNodeFacts
from gridbridge.batch.oar.oar_commands import Argv
from gridbridge.errors import CommandFailed, ConfigError, ProviderFailed
from gridbridge.model.elastic.cell import TaskShape
from gridbridge.model.elastic.elastic_nodes import (
    HostDeparture,
    HostIdleness,
    HostJoinStep,
    JoiningMachine,
)
from gridbridge.model.places import AS_ROOT
from gridbridge.shell.clock import Clock

SETTLED_S, PAUSE_S = 45.0, 0.5  # a pass of the scheduler may take SCHEDULER_TIMEOUT, 30 s


@dataclass(frozen=True, slots=True, kw_only=True)
class OarNodes:
    """The nodes of the OAR server that is here."""

    look_at: Callable[[str], OarNodeFacts]
    root: Callable[..., None] = field(default=node_power.as_root)
    pause: Callable[[float], None] = field(default_factory=lambda: Clock().sleep)

    def join(self, node: JoiningMachine) -> HostJoinStep:
        """Refuse: squeezing is all that is done to OAR's nodes."""
        _refuse(node.name)

    def leave(self, host: str, *, is_dead: bool) -> HostDeparture:
        """Refuse, for the same reason."""
        del is_dead
        _refuse(host)

    def close(self, host: str) -> None:
        """Have nothing more start on a node, not even by a pass of the scheduler under way.

        OAR changes states between such passes: when it has taken up a change that we ask for once
        the node is drained, each pass that began before is over. Being alive already, it stays so.
        """
        facts = self.look_at(host)
        if facts.is_halted or not facts.is_alive:
            return
        if not facts.is_drained:
            self.root("drain", host)
        self.root("settle", host)
        self._await(host, lambda now: now.is_settled and now.is_drained)

    def look(self, host: str) -> HostIdleness:
        """Ask OAR about a node now; one that is neither alive nor halted is not closed by us."""
        facts = self.look_at(host)
        is_closed = facts.is_settled and (facts.is_halted or (facts.is_alive and facts.is_drained))
        return HostIdleness(is_idle=facts.is_idle, is_closed=is_closed, is_listed=facts.is_listed)

    def make_way(self, host: str) -> bool:
        """Leave it to OAR, which ends best-effort jobs as a node is halted and begins them anew."""
        del host
        return True

    def halt(self, host: str) -> None:
        """Have OAR take a closed node for one that it may wake, for which oarsub takes jobs."""
        if not self.look_at(host).is_halted:
            self.root("halt", host)
            self._await(host, lambda now: now.is_halted and now.is_settled)
        if self.look_at(host).is_drained:
            self.root("undrain", host)

    def open(self, host: str, closed: frozenset[str]) -> HostJoinStep:
        """Let jobs start on a node again; one that OAR suspects, it takes back itself.

        OAR has no queues on nodes that anybody could close.
        """
        del closed
        facts = self.look_at(host)
        if facts.is_halted:
            self.root("open", host)
            self._await(host, lambda now: now.is_alive and not now.is_drained)
        elif facts.is_drained:
            self.root("undrain", host)
        return HostJoinStep.JOINED

    def opening(self, host: str) -> str:
        """Return the line that opens a node by hand."""
        return " ".join(node_power.setting("open", host))

    def clearing(self, host: str) -> str:
        """Return the lines that end the jobs of a node that is off."""
        return f"`oarnodes {host}` shows its jobs, `oardel JOB` ends one"

    def forgetting(self, host: str) -> str:
        """Return the line that removes a node."""
        return f"`oarremoveresource RESOURCE` for each that `oarnodes {host}` shows"

    def movable(self, hosts: Iterable[str]) -> Mapping[str, tuple[TaskShape, ...]]:
        """Tell of none: OAR begins a job anew under another number, and not by request."""
        del hosts
        return {}

    def put_elsewhere(self, host: str) -> bool:
        """Leave them where they are."""
        del host
        return False

    def _await(self, host: str, is_so: Callable[[OarNodeFacts], bool]) -> None:
        """Wait for what OAR does by itself within seconds; CommandFailed when it does not."""
        for _ in range(int(SETTLED_S / PAUSE_S)):
            if is_so(self.look_at(host)):
                return
            self.pause(PAUSE_S)
        why = f"{host}: OAR did not take up the change in {SETTLED_S:.0f} s"
        raise CommandFailed((AS_ROOT, "node"), 1, stderr=why.encode())


def commands_of(words: tuple[str, ...]) -> tuple[Argv, ...]:
    """Return what root runs for a word about a node, and maybe its tags; nothing for others."""
    if len(words) == 2 and words[0] in node_power.SETTINGS:
        return (node_power.setting(*words),)
    if len(words) in (2, 3) and words[0] == "tag":
        return node_power.tagging(words[1], "".join(words[2:]))
    return ()


def saves_itself(configuration: str) -> str:
    """Return the line of oar.conf by which OAR halts or wakes nodes itself; empty: it does not."""
    return node_power.saves_itself(configuration)


def are_tags(text: str) -> bool:
    """Say whether a text may be written into OAR's database as it is."""
    return node_power.TAG_WORDS.fullmatch(text) is not None


def require_ours(root: Callable[..., None] = node_power.as_root) -> None:
    """Refuse to act where OAR itself halts and wakes nodes: they have one owner; ConfigError."""
    try:
        root("owns")
    except CommandFailed as error:
        why = error.stderr.decode("utf-8", "replace").strip() or str(error)
        raise ConfigError((f"{why}; gridbridge squeeze only says what it would do",)) from error


def _refuse(host: str) -> NoReturn:
    raise ProviderFailed(f"{host}: nodes of an OAR server are switched on and off, never made")
