"""Sessions over which any thread of a short program asks; a second one of a login is the exception.

OpenSSH's clients log in while the program loads its modules. To load paramiko takes longer than to
log in so.
"""

import time
from contextlib import suppress
from queue import Empty, LifoQueue

from gridbridge.errors import NotStarted
from gridbridge.model.route import Login
from gridbridge.shell.runner import ANSWER_BYTES, Completed
from gridbridge.shell.session import Session
from gridbridge.shell.ssh import Client

PATIENCE_S = 1.0  # for an idle session before another login, which costs both hosts 0.1 s of CPU

Account = tuple[str, str, str, str]


class SessionPool(Client):
    """The idle sessions of each login, and the logins that gave no answer in time."""

    def __init__(self) -> None:
        self._idle: dict[Account, LifoQueue[Session]] = {}
        self._silences: dict[Account, tuple[Completed, bool]] = {}

    def begin(self, login: Login) -> None:
        """Have a client log in; the first request finds it logged in, or says why it is not."""
        idle = self._sessions(login)
        session = idle.get()
        with suppress(NotStarted):
            session.begin(login)
        idle.put(session)

    def carry(
        self,
        login: Login,
        token: str,
        request: bytes,
        timeout_s: float,
        most_bytes: int = ANSWER_BYTES,
    ) -> tuple[Completed, bool]:
        """Have the far shell do a request; say how that ended, and whether nothing was sent.

        After a request without an answer in time each further one ends so at once.
        """
        deadline, idle = time.monotonic() + timeout_s, self._sessions(login)
        if silence := self._silences.get(_account(login)):
            return silence
        try:
            session = idle.get(timeout=min(PATIENCE_S, timeout_s))
        except Empty:  # what is asked before us may hang
            session = Session()
        try:
            rest_s = max(0.0, deadline - time.monotonic())
            ended = session.carry(login, token, request, rest_s, most_bytes)
        finally:
            idle.put(session)
        if time.monotonic() >= deadline:
            self._silences[_account(login)] = ended
        return ended

    def _sessions(self, login: Login) -> "LifoQueue[Session]":
        return self._idle.setdefault(_account(login), _one_session())


def _account(login: Login) -> Account:
    return login.host, login.port, login.user, login.person


def _one_session() -> "LifoQueue[Session]":
    sessions: LifoQueue[Session] = LifoQueue()
    sessions.put(Session())
    return sessions
