"""Rounds of the balancer that go on: each by the newest right gridbridge.toml."""

import logging
from collections.abc import Callable
from dataclasses import replace

from gridbridge.elastic.balancer.balance_service import (
    BalanceDaemon,
    BalanceOptionsOfProgram,
    begin,
    require_fit,
)
from gridbridge.errors import ConfigError
from gridbridge.model.places import BALANCE_LOCK
from gridbridge.model.policy import Policy
from gridbridge.program import cycle, service_process
from gridbridge.program.configuration import Configuration, InForce
from gridbridge.program.reloading import ReloadingProgram
from gridbridge.shell.clock import Clock
from gridbridge.shell.signals import ProcessSignals
from gridbridge.shell.watchdog import Watchdog

Renew = Callable[
    [Policy], BalanceOptionsOfProgram
]  # by a changed file; ConfigError where options contradict it

_log = logging.getLogger(__name__)


def run_forever(options: BalanceOptionsOfProgram, path: str, renew: Renew) -> None:
    """Do rounds until SIGTERM."""
    signals, clock = ProcessSignals(), Clock()
    begin(options)
    life_sign = Watchdog(BALANCE_LOCK)
    first = InForce(policy=options.policy, raw=b"", sha256="", since=clock.now())
    configuration = Configuration(clock, path, earlier=lambda: first)
    configuration.tell()
    lasting = BalanceLoop(
        options, configuration, renew, lambda current: BalanceDaemon(current, clock, life_sign)
    )
    cycle.run_forever(lasting, signals, life_sign, clock)


class BalanceLoop(ReloadingProgram):
    """The balancer; by a file that is right and by which nothing may be done, rounds only look."""

    def __init__(
        self,
        options: BalanceOptionsOfProgram,
        configuration: Configuration,
        renew: Renew,
        make: Callable[[BalanceOptionsOfProgram], BalanceDaemon],
    ) -> None:
        super().__init__(make(options), configuration, lambda policy: make(self._by(policy)))
        self._wanted = options
        self._renew = renew

    def has_news(self) -> bool:
        """Look at the file; no round comes sooner for that."""
        self.look()
        return super().has_news()

    def _by(self, policy: Policy) -> BalanceOptionsOfProgram:
        """Return how it goes on; what hinders it from acting is told."""
        service_process.set_level(policy)
        self._wanted = self._renewed(policy)
        return self._wanted

    def _renewed(self, policy: Policy) -> BalanceOptionsOfProgram:
        try:
            options = self._renew(policy)
            require_fit(options)
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
        if not options.is_acting:
            _log.warning("event=only_looks why='[balance] apply is not true'")
        return options
