"""Restart a program's daemon with a changed gridbridge.toml before its next cycle."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from gridbridge.model.policy import Policy
from gridbridge.program.configuration import ReloadableConfiguration
from gridbridge.program.cycle import CycleDaemon


class ReloadingProgram:
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
