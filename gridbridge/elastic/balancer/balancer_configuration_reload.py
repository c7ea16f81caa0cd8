"""Runs balancer rounds until SIGTERM, each with the newest valid gridbridge.toml."""

import logging
from collections.abc import Callable
from dataclasses import replace

from gridbridge.elastic.balancer.balancer_daemon import (
    BalancerDaemon,
    BalancerRunOptions,
    require_balancer_can_act,
    start_acting_balancer,
)
from gridbridge.errors import ConfigError
from gridbridge.model.fixed_paths import BALANCE_LOCK
from gridbridge.model.site_configuration import Policy
from gridbridge.program import service_cycle
from gridbridge.program.configuration_in_force import ActiveConfiguration, ReloadableConfiguration
from gridbridge.program.service_cycle import ReloadingDaemon
from gridbridge.shell.clock import Clock
from gridbridge.shell.service_signals_and_heartbeat import ServiceHeartbeat, StopAndReloadSignals

Renew = Callable[
    [Policy], BalancerRunOptions
]  # returns the options for a changed configuration; raises ConfigError if the command line contradicts it

_log = logging.getLogger(__name__)


def run_balancer_forever(options: BalancerRunOptions, path: str, renew: Renew) -> None:
    """Run balancer rounds until SIGTERM."""
    signals, clock = StopAndReloadSignals(), Clock()
    start_acting_balancer(options)
    life_sign = ServiceHeartbeat(BALANCE_LOCK)
    first = ActiveConfiguration(policy=options.policy, raw=b"", sha256="", since=clock.now())
    configuration = ReloadableConfiguration(clock, path, earlier=lambda: first)
    configuration.log_refusal()
    lasting = ReloadingBalancer(
        options, configuration, renew, lambda current: BalancerDaemon(current, clock, life_sign)
    )
    service_cycle.run_cycles_forever(lasting, signals, life_sign, clock)


class ReloadingBalancer(ReloadingDaemon):
    """The balancer with a reloadable configuration; rounds are dry if the configuration forbids acts."""

    def __init__(
        self,
        options: BalancerRunOptions,
        configuration: ReloadableConfiguration,
        renew: Renew,
        make: Callable[[BalancerRunOptions], BalancerDaemon],
    ) -> None:
        super().__init__(make(options), configuration, lambda policy: make(self._balancer_options(policy)))
        self._wanted = options
        self._renew = renew

    def should_start_cycle_early(self) -> bool:
        """Check whether gridbridge.toml has changed; a change does not start the next round early."""
        self.check_configuration()
        return self._daemon.should_start_cycle_early()

    def _balancer_options(self, policy: Policy) -> BalancerRunOptions:
        """Return the options for a new configuration; log why the balancer can't act with the options."""
        service_cycle.set_log_level(policy)
        try:
            options = self._renew(policy)
            require_balancer_can_act(options)
        except ConfigError as error:
            for problem in error.problems:
                _log.error("event=only_looks why=%r", problem)
            options = replace(self._wanted, policy=policy, rules=policy.balance, demand=policy.demand, is_acting=False)
        else:
            if not options.is_acting:
                _log.warning("event=only_looks why='[balance] apply is not true'")
        self._wanted = options
        return options
