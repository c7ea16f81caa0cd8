"""Connections whose module, with paramiko, is loaded when the first request comes.

That takes a fifth of a second. Meanwhile other threads ask clusters of this host.
"""

from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING

from gridbridge.model.route import SshLogin
from gridbridge.shell.runner import ANSWER_BYTES, CompletedProgram
from gridbridge.shell.ssh import OpenSshClient

if TYPE_CHECKING:
    from gridbridge.shell.connection.connections import Connections


class LazyConnections(OpenSshClient):
    """Carries requests as Connections does."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._connections: Connections | None = None

    def carry(
        self,
        login: SshLogin,
        token: str,
        request: bytes,
        timeout_s: float,
        most_bytes: int = ANSWER_BYTES,
    ) -> tuple[CompletedProgram, bool]:
        """Have the far shell do a request over an open connection."""
        return self._loaded().carry(login, token, request, timeout_s, most_bytes)

    def listen(self, login: SshLogin, command: str, text: bytes) -> Iterator[bytes]:
        """Have a command read a text there, and give what it prints."""
        return self._loaded().listen(login, command, text)

    def _loaded(self) -> "Connections":
        with self._lock:
            if self._connections is None:
                from gridbridge.shell.connection.connections import Connections

                self._connections = Connections()
            return self._connections
