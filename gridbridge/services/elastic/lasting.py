"""Rounds of the balancer that go on: each by the newest right gridbridge.toml."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from gridbridge.errors import ConfigError
from gridbridge.model.places import BALANCE_LOCK
from gridbridge.model.policy import Policy
from gridbridge.services import cycle, process
from gridbridge.services.configuration import Configuration, InForce
from gridbridge.services.elastic.program import Daemon, Reported, Wanted, begin, require_fit
from gridbridge.shell.clock import Clock
from gridbridge.shell.life_sign import LifeSign
from gridbridge.shell.signals import Signals

Renew = Callable[[Policy], Wanted]  # by a changed file; ConfigError where options contradict it

_log = logging.getLogger(__name__)


def run_forever(wanted: Wanted, path: str, renew: Renew) -> None:
    """Do rounds until SIGTERM."""
    signals, clock = Signals(), Clock()
    begin(wanted)
    life_sign = LifeSign(BALANCE_LOCK)
    first = InForce(policy=wanted.policy, raw=b"", sha256="", since=clock.now())
    configuration = Configuration(clock, path, earlier=lambda: first)
    configuration.tell()
    lasting = Lasting(wanted, configuration, renew, lambda one: Daemon(one, clock, life_sign))
    cycle.run_forever(lasting, signals, life_sign, clock)


class Lasting:
    """The balancer, which begins anew with a file that was changed, before its next round.

    A wrong file is logged, and the one before stays in force. By one that is right and by which
    nothing may be done, rounds only look.
    """

    def __init__(
        self,
        wanted: Wanted,
        configuration: Configuration,
        renew: Renew,
        make: Callable[[Wanted], Daemon],
    ) -> None:
        self._wanted = wanted
        self._configuration = configuration
        self._renew = renew
        self._make = make
        self._daemon = make(wanted)
        self._is_changed = False

    @property
    def pause_s(self) -> float:
        """How long it waits between two rounds."""
        return self._daemon.pause_s

    def open_cycle(self) -> AbstractContextManager[Reported]:
        """Begin a round, by the file that is in force now."""
        self._look()
        if self._is_changed:
            self._is_changed = False
            self._begin_anew()
        return self._daemon.open_cycle()

    def has_news(self) -> bool:
        """Look at the file, so that the next round has it; no round comes sooner for that."""
        self._look()
        return False

    def recover(self) -> None:
        """Take up what is kept."""
        self._daemon.recover()

    def release(self) -> None:
        """Let go of the state file."""
        self._daemon.release()

    def _look(self) -> None:
        before = self._configuration.in_force
        self._configuration.take()
        self._is_changed = self._is_changed or self._configuration.in_force is not before

    def _begin_anew(self) -> None:
        policy = self._configuration.policy
        self._daemon.release()
        process.set_level(policy)
        self._wanted = self._by(policy)
        self._daemon = self._make(self._wanted)

    def _by(self, policy: Policy) -> Wanted:
        """Return how it goes on; what hinders it from acting is told."""
        try:
            wanted = self._renew(policy)
            require_fit(wanted)
        except ConfigError as error:
            for problem in error.problems:
                _log.error("event=only_looks why=%r", problem)
            return replace(
                self._wanted,
                policy=policy,
                rules=policy.balance,
                demand=policy.demand,
                is_acting=False,
            )
        if not wanted.is_acting:
            _log.warning("event=only_looks why='[balance] apply is not true'")
        return wanted
