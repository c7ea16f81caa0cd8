"""Start a process of the service account, and restart its daemon after changes."""

import logging
import os
import pwd
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from gridbridge.errors import ConfigError
from gridbridge.model.fixed_paths import CONFIG
from gridbridge.model.policy import Policy
from gridbridge.program.configuration import ReloadableConfiguration
from gridbridge.program.cycle import CycleDaemon
from gridbridge.program.log_rotation import ReopeningLogHandler


def require_service_account(policy: Policy) -> None:
    """Raise ConfigError if the process does not run as the service account.

    Files of another account would be unreadable for the service. Personal sites are exempt.
    """
    account = policy.site.service_account
    runs_as = pwd.getpwuid(os.geteuid()).pw_name
    if not policy.is_personal and runs_as != account:
        words = f'[site] service_account = "{account}": this process is {runs_as}\'s'
        raise ConfigError((f"{CONFIG}: {words}; run it as {account}",))


def start_service_log_on_stderr(policy: Policy) -> None:
    """Log to standard error, one event per line, with times in UTC."""
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        format="%(asctime)sZ level=%(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
        handlers=[ReopeningLogHandler()],
    )
    for library in ("alembic", "paramiko"):
        logging.getLogger(library).setLevel(logging.WARNING)
    set_log_level(policy)


def set_log_level(policy: Policy) -> None:
    """Set the log level from the policy."""
    logging.getLogger().setLevel(policy.site.log_level.upper())


class ReloadingDaemon:
    """A daemon that is recreated when gridbridge.toml has changed.

    An invalid file is logged, and the previous configuration stays in force.
    """

    def __init__(
        self,
        daemon: CycleDaemon[Any, Any],
        configuration: ReloadableConfiguration,
        make: Callable[[Policy], CycleDaemon[Any, Any]],
    ) -> None:
        self._daemon = daemon
        self._configuration = configuration
        self._make = make
        self._is_changed = False

    @property
    def pause_s(self) -> float:
        """The pause between two cycles, in seconds."""
        return self._daemon.pause_s

    def open_cycle(self) -> AbstractContextManager[Any]:
        """Open a cycle with the configuration that is in force now."""
        self.look()
        if self._is_changed:
            self._is_changed = False
            self._daemon.release()
            self._daemon = self._make(self._configuration.policy)
        return self._daemon.open_cycle()

    def look(self) -> None:
        """Check whether gridbridge.toml has changed, for the next cycle."""
        self._is_changed = self._configuration.take() or self._is_changed

    def has_news(self) -> bool:
        """Return whether the next cycle should start at once."""
        return self._daemon.has_news()

    def recover(self) -> None:
        """Reload the daemon's stored state after a failed cycle."""
        self._daemon.recover()

    def release(self) -> None:
        """Release the daemon's files, locks and connections."""
        self._daemon.release()
