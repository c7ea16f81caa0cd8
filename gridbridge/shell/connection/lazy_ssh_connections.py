"""Loads the persistent ssh connections, and with them paramiko, at the first request.

Loading paramiko takes 0.2 s; meanwhile other threads query the local clusters.
"""

from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING

from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell.runner import ANSWER_BYTES, CompletedProgram
from gridbridge.shell.ssh import OpenSshClient

if TYPE_CHECKING:
    from gridbridge.shell.connection.kept_ssh_connections import KeptSshConnections


class LazyKeptSshConnections(OpenSshClient):
    """Carries requests as KeptSshConnections does, which it loads when needed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._connections: KeptSshConnections | None = None

    def carry(
        self, login: SshLogin, token: str, request: bytes, timeout_s: float, most_bytes: int = ANSWER_BYTES
    ) -> tuple[CompletedProgram, bool]:
        """Run a request in the remote shell over a kept connection."""
        return self._loaded().carry(login, token, request, timeout_s, most_bytes)

    def listen(self, login: SshLogin, command: str, text: bytes) -> Iterator[bytes]:
        """Run a remote command with a text as its input; yield its output."""
        return self._loaded().listen(login, command, text)

    def _loaded(self) -> "KeptSshConnections":
        with self._lock:
            if self._connections is None:
                from gridbridge.shell.connection.kept_ssh_connections import KeptSshConnections

                self._connections = KeptSshConnections()
            return self._connections
