"""Run gridbridge-poller's rounds by the newest valid gridbridge.toml."""

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from gridbridge.decisions.site.stale_service_configuration import AwayJob
from gridbridge.errors import StateError
from gridbridge.model.fixed_paths import LOCK
from gridbridge.model.policy import Policy
from gridbridge.program import cycle, service_process
from gridbridge.program.configuration import ReloadableConfiguration, read_config_saved_by_service
from gridbridge.shell.clock import Clock
from gridbridge.shell.service_heartbeat import ServiceHeartbeat
from gridbridge.shell.stop_and_reload_signals import StopAndReloadSignals
from gridbridge.state.database import StateFile
from gridbridge.transfer.poller.poller_wiring import build_transfer_service, reload_transfer_service
from gridbridge.transfer.poller.transfer_ledger import config_sections_of_transfer
from gridbridge.transfer.poller.transfer_round import PollRoundSteps
from gridbridge.transfer.poller.transfer_service import TransferService
from gridbridge.transfer.store.transfer_rows import TransferRows

ANOTHER_RUNS = 1  # exit status of a poller if another poller has the lock

_log = logging.getLogger(__name__)


def run_poller(signals: StopAndReloadSignals) -> None:
    """Run poll rounds until a stop signal; SystemExit if another poller runs."""
    clock = Clock()
    configuration = ReloadableConfiguration(clock, earlier=lambda: read_config_saved_by_service(clock.now()))
    service_process.require_service_account(configuration.policy)
    service_process.start_service_log_on_stderr(configuration.policy)
    cycle.take_program_lock(LOCK, "gridbridge-poller", ANOTHER_RUNS)
    _go_on_from_the_last(configuration, clock)
    life_sign = ServiceHeartbeat(LOCK)
    life_sign.begin()
    poller, policy = PollerDaemon(configuration, signals, clock), configuration.policy
    _log.info("event=start cluster=%s queues=%s", policy.site.cluster, ",".join(policy.queues))
    cycle.run_cycles_forever(poller, signals, life_sign, clock)
    _log.info("event=stop")
    os._exit(0)  # do not wait for threads that query silent clusters


def _go_on_from_the_last(configuration: ReloadableConfiguration, clock: Clock) -> None:
    """Use the last configuration if the new file is invalid or drops open transfers."""
    if earlier := read_config_saved_by_service(clock.now()):
        configuration.go_on_from(earlier, _away_jobs)
    configuration.tell()


def _away_jobs(policy: Policy) -> Iterable[AwayJob]:
    """Return owner, cluster and queue of each open transfer in the state file."""
    try:
        database = StateFile.open(policy.site.state)
        try:
            return frozenset(map(config_sections_of_transfer, TransferRows(database).open()))
        finally:
            database.close()
    except StateError:
        return ()  # the service reports an unreadable state file later


class PollerDaemon:
    """Runs the transfer service's rounds under the newest valid gridbridge.toml."""

    def __init__(self, configuration: ReloadableConfiguration, signals: StopAndReloadSignals, clock: Clock) -> None:
        """Build the transfer service; StateError if its state can't be loaded."""
        self._configuration = configuration
        self._signals = signals
        self._clock = clock
        self.service = build_transfer_service(configuration, clock)
        configuration.keep()

    @property
    def pause_s(self) -> float:
        """The pause between two reads of the spool, in seconds."""
        return self._configuration.policy.poller.spool_interval_s

    @contextmanager
    def open_cycle(self) -> Iterator[PollRoundSteps]:
        """Open a poll round under the newest valid configuration."""
        if self._configuration.take(self._signals.hung_up(), self.service.away_jobs):
            apply_new_poller_configuration(self._configuration, self.service)
        with self.service.open_round() as a_round:
            yield a_round
        if self.service.has_unasked():
            reload_transfer_service(self.service, self.service.policy)

    def release(self) -> None:
        """Close the service's files, threads and child processes."""
        self.service.shut_down()

    def has_news(self) -> bool:
        """Return False: the next round always waits for the spool interval."""
        return False

    def recover(self) -> None:
        """Rebuild the service after a failed round, and read the round's messages again."""
        self._configuration.take(self._signals.hung_up(), self.service.away_jobs)
        self.service = build_transfer_service(self._configuration, self._clock)
        self._configuration.keep()
        service_process.set_log_level(self._configuration.policy)


def apply_new_poller_configuration(configuration: ReloadableConfiguration, service: TransferService) -> None:
    """Apply a changed gridbridge.toml to the service, and publish the file in force."""
    configuration.keep()
    if configuration.policy is not service.policy:
        reload_transfer_service(service, configuration.policy)
        service_process.set_log_level(configuration.policy)
    service.resources.views.configured(configuration.shown())
