"""Sessions over which any thread of a short program asks; a second one of a login is the exception.

OpenSSH's clients log in while the program loads its modules. To load paramiko takes longer than to
log in so.
"""

import time
from contextlib import suppress
from queue import Empty, LifoQueue

from gridbridge.errors import HostNotReached, ProgramNotStarted
from gridbridge.model.route import SshLogin
from gridbridge.shell.runner import ANSWER_BYTES, CompletedProgram
from gridbridge.shell.ssh import OpenSshClient
from gridbridge.shell.ssh_session import SshSession

PATIENCE_S = 1.0  # for an idle session before another login, which costs both hosts 0.1 s of CPU

Account = tuple[str, str, str, str]


class SessionPool(OpenSshClient):
    """The idle sessions of each login, and the logins that gave no answer in time."""

    def __init__(self) -> None:
        self._idle: dict[Account, LifoQueue[SshSession]] = {}
        self._silences: dict[Account, tuple[CompletedProgram, bool]] = {}

    def begin(self, login: SshLogin) -> None:
        """Have a client log in; the first request finds the session, or says why there is none."""
        idle = self._sessions(login)
        session = idle.get()
        with suppress(ProgramNotStarted, HostNotReached):
            session.begin(login)
        idle.put(session)

    def carry(
        self,
        login: SshLogin,
        token: str,
        request: bytes,
        timeout_s: float,
        most_bytes: int = ANSWER_BYTES,
    ) -> tuple[CompletedProgram, bool]:
        """Have the far shell do a request; say how that ended, and whether nothing was sent.

        After a request without an answer in time each further one ends so at once.
        """
        deadline, idle = time.monotonic() + timeout_s, self._sessions(login)
        if silence := self._silences.get(_account(login)):
            return silence
        try:
            session = idle.get(timeout=min(PATIENCE_S, timeout_s))
        except Empty:  # what is asked before us may hang
            session = SshSession()
        try:
            rest_s = max(0.0, deadline - time.monotonic())
            ended = session.carry(login, token, request, rest_s, most_bytes)
        finally:
            idle.put(session)
        if time.monotonic() >= deadline:
            self._silences[_account(login)] = ended
        return ended

    def _sessions(self, login: SshLogin) -> "LifoQueue[SshSession]":
        return self._idle.setdefault(_account(login), _one_session())


def _account(login: SshLogin) -> Account:
    return login.host, login.port, login.user, login.person


def _one_session() -> "LifoQueue[SshSession]":
    sessions: LifoQueue[SshSession] = LifoQueue()
    sessions.put(SshSession())
    return sessions
