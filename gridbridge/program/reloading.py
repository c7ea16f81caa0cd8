"""A program that goes on, and begins anew with a gridbridge.toml that was changed."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from gridbridge.model.policy import Policy
from gridbridge.program.configuration import Configuration
from gridbridge.program.cycle import CycleDaemon


class ReloadingProgram:
    """A program that begins anew with a gridbridge.toml that was changed, before its next cycle.

    As the poller: a wrong file is logged, and the one before stays in force.
    """

    def __init__(
        self,
        daemon: CycleDaemon[Any, Any],
        configuration: Configuration,
        make: Callable[[Policy], CycleDaemon[Any, Any]],
    ) -> None:
        self._daemon = daemon
        self._configuration = configuration
        self._make = make
        self._is_changed = False

    @property
    def pause_s(self) -> float:
        """How long it waits between two cycles."""
        return self._daemon.pause_s

    def open_cycle(self) -> AbstractContextManager[Any]:
        """Begin a cycle, by the file that is in force now."""
        self.look()
        if self._is_changed:
            self._is_changed = False
            self._daemon.release()
            self._daemon = self._make(self._configuration.policy)
        return self._daemon.open_cycle()

    def look(self) -> None:
        """Look at the file, so that the next cycle has it."""
        self._is_changed = self._configuration.take() or self._is_changed

    def has_news(self) -> bool:
        """Say whether the next cycle shall come at once."""
        return self._daemon.has_news()

    def recover(self) -> None:
        """Take up what is kept."""
        self._daemon.recover()

    def release(self) -> None:
        """Give back all that is held."""
        self._daemon.release()
