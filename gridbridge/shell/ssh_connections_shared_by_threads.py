"""Ssh sessions for the threads of a short program; loading paramiko would take longer than a login."""

import time
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, LifoQueue
from threading import Lock
from typing import TYPE_CHECKING

from gridbridge.errors import HostNotReached, ProgramNotStarted
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell.optional_libraries import missing_library_message
from gridbridge.shell.program_runs import ANSWER_BYTES, CompletedProgram
from gridbridge.shell.ssh import CLIENT, FAILED, OpenSshClient
from gridbridge.shell.ssh_session import SshSessionsOfProgram

if TYPE_CHECKING:
    from gridbridge.shell.kept_ssh_connections import KeptSshConnections


PATIENCE_S = 1.0  # longest wait for an idle session; a new login takes 0.1 s of CPU time on both hosts

Account = tuple[str, str, str, str]


class IdleSshSessions(OpenSshClient):
    """Keeps idle ssh sessions of each login; opens a new session if all sessions are busy."""

    def __init__(self) -> None:
        self._idle: dict[Account, LifoQueue[SshSessionsOfProgram]] = {}
        self._silences: dict[Account, tuple[CompletedProgram, bool]] = {}

    def begin_ssh_login(self, login: SshLogin) -> None:
        """Log in by ssh in the background, before the first request."""
        idle = self._idle_ssh_sessions_of_login(login)
        session = idle.get()
        with suppress(ProgramNotStarted, HostNotReached):
            session.begin_ssh_login(login)
        idle.put(session)

    def run_ssh_request(
        self, login: SshLogin, token: str, request: bytes, timeout_s: float, most_bytes: int = ANSWER_BYTES
    ) -> tuple[CompletedProgram, bool]:
        """Run a request over an idle session; after a timeout all later requests of the login fail at once."""
        deadline, idle = time.monotonic() + timeout_s, self._idle_ssh_sessions_of_login(login)
        if silence := self._silences.get(login.shared_connection_key):
            return silence
        try:
            session = idle.get(timeout=min(PATIENCE_S, timeout_s))
        except Empty:  # all sessions are in use, perhaps by hanging requests
            session = SshSessionsOfProgram()
        try:
            rest_s = max(0.0, deadline - time.monotonic())
            ended = session.run_ssh_request(login, token, request, rest_s, most_bytes)
        finally:
            idle.put(session)
        if time.monotonic() >= deadline:
            self._silences[login.shared_connection_key] = ended
        return ended

    def _idle_ssh_sessions_of_login(self, login: SshLogin) -> "LifoQueue[SshSessionsOfProgram]":
        return self._idle.setdefault(login.shared_connection_key, _new_idle_session_stack())


def _new_idle_session_stack() -> "LifoQueue[SshSessionsOfProgram]":
    sessions: LifoQueue[SshSessionsOfProgram] = LifoQueue()
    sessions.put(SshSessionsOfProgram())
    return sessions


class LazyKeptSshConnections(OpenSshClient):
    """Runs requests over kept connections; loads paramiko (0.2 s) at the first request."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._connections: KeptSshConnections | None = None

    def run_ssh_request(
        self, login: SshLogin, token: str, request: bytes, timeout_s: float, most_bytes: int = ANSWER_BYTES
    ) -> tuple[CompletedProgram, bool]:
        return self._load_kept_connections_once().run_ssh_request(login, token, request, timeout_s, most_bytes)

    def stream_remote_output(self, login: SshLogin, command: str, text: bytes) -> Iterator[bytes]:
        return self._load_kept_connections_once().stream_remote_output(login, command, text)

    def _load_kept_connections_once(self) -> "KeptSshConnections":
        with self._lock:
            if self._connections is None:
                try:
                    from gridbridge.shell.kept_ssh_connections import KeptSshConnections
                except ImportError as error:
                    why = missing_library_message("paramiko").encode()
                    raise HostNotReached((CLIENT,), FAILED, stderr=why) from error
                self._connections = KeptSshConnections()
            return self._connections
