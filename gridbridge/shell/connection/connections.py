"""One connection a login for programs that run long: what ssh.py asks goes over it, in channels.

A new connection costs both ends some 200 ms of processor time, a channel next to none.
"""

import logging
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import paramiko
from paramiko import SSHException

from gridbridge.errors import CommandFailed, HostNotReached, OutputTooLong
from gridbridge.model.route import SshLogin
from gridbridge.shell.connection.ssh_login import ConfiguredLogin, configured, connect, words_of
from gridbridge.shell.retry import once_more
from gridbridge.shell.runner import ANSWER_BYTES, SIGKILL, CompletedProgram
from gridbridge.shell.ssh import CLIENT, CONNECT_S, FAILED, FAR_SHELL, OpenSshClient

CHUNK_BYTES = 65536
GRACE_S = 1.0
QUIET_S = 1.0  # after which a listener hears that there is nothing
# RuntimeError: no thread can be started; a connection and each time limit need one.
TROUBLES = (SSHException, OSError, EOFError, RuntimeError)
CHANNELS = 4  # at once; sshd_config(5) MaxSessions is 10

logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # what matters is told by our callers


@dataclass(slots=True)
class LoginConnection:
    """The connection of one login, None while there is none."""

    client: paramiko.SSHClient | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    channels: threading.Semaphore = field(
        default_factory=lambda: threading.BoundedSemaphore(CHANNELS)
    )


class StaleConnection(SSHException):
    """A connection that had carried requests carries no more; nothing of this one was sent."""


class Connections(OpenSshClient):
    """The open connections; any thread may ask."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, ...], LoginConnection] = {}

    def carry(
        self,
        login: SshLogin,
        token: str,
        request: bytes,
        timeout_s: float,
        most_bytes: int = ANSWER_BYTES,
    ) -> tuple[CompletedProgram, bool]:
        """Have the far shell do a request; say how that ended, and whether nothing was sent.

        A connection that fails once is given up: the next request makes a new one. The far side
        kills its command when the time is over, and is given a moment to say so.
        """
        configured_login = configured(login)
        if configured_login.is_by_client:
            return super().carry(login, token, request, timeout_s, most_bytes)
        line = self._lines.setdefault(
            (login.host, login.port, login.user, login.person), LoginConnection()
        )
        deadline = time.monotonic() + timeout_s + GRACE_S
        if not line.channels.acquire(timeout=timeout_s):
            return _failed(b""), True
        try:
            return _ask(line, configured_login, request, deadline, most_bytes)
        except OverflowError as error:
            raise OutputTooLong((CLIENT,), most_bytes, login.host) from error
        finally:
            line.channels.release()

    def listen(self, login: SshLogin, command: str, text: bytes) -> Iterator[bytes]:
        """Have a command read a text there, and give what it prints, nothing once a second.

        It runs until we listen no more: then its standard input is closed. Raises NotReached for
        no connection, and CommandFailed when it or the connection ends.
        """
        configured_login = configured(login)
        if configured_login.is_by_client:
            raise HostNotReached((CLIENT,), FAILED, stderr=b"only over a connection of our own")
        line = self._lines.setdefault(
            (login.host, login.port, login.user, login.person), LoginConnection()
        )
        try:
            channel = _channel(line, configured_login, time.monotonic() + CONNECT_S, command)
        except TROUBLES as error:
            raise HostNotReached((CLIENT,), FAILED, stderr=words_of(error)) from error
        with channel:
            channel.sendall(text)
            yield from _chunks(channel)


def _chunks(channel: paramiko.Channel) -> Iterator[bytes]:
    channel.settimeout(QUIET_S)
    while True:
        try:
            chunk = channel.recv(CHUNK_BYTES)
        except TimeoutError:
            yield b""
            continue
        if not chunk:
            why = channel.recv_stderr(CHUNK_BYTES) if channel.recv_stderr_ready() else b"it ended"
            raise CommandFailed((CLIENT,), FAILED, b"", why)
        yield chunk


def _ask(
    line: LoginConnection, login: ConfiguredLogin, request: bytes, deadline: float, most_bytes: int
) -> tuple[CompletedProgram, bool]:
    try:
        channel = _channel(line, login, deadline)
    except TROUBLES as error:
        _drop(line)
        return _failed(words_of(error)), True
    try:
        return _exchange(channel, request, deadline, most_bytes), False
    except TROUBLES as error:
        _drop(line)
        return _failed(words_of(error)), False
    finally:
        channel.close()


def _channel(
    line: LoginConnection,
    configured_login: ConfiguredLogin,
    deadline: float,
    command: str = FAR_SHELL,
) -> paramiko.Channel:
    """Open a channel with the far shell in it; nothing of a request is sent yet.

    A connection of earlier requests may have been ended there, as by a restart of sshd.
    """
    return once_more(partial(_open, line, configured_login, deadline, command), StaleConnection)


def _open(
    line: LoginConnection, configured_login: ConfiguredLogin, deadline: float, command: str
) -> paramiko.Channel:
    transport, is_new = _transport(line, configured_login, deadline)
    try:
        channel = transport.open_session(timeout=_left_s(deadline))
        channel.settimeout(_left_s(deadline))
        with _closed_at(deadline, channel):
            channel.exec_command(command)  # paramiko waits for its answer without a limit
    except TROUBLES as error:
        if is_new or transport.is_active():
            raise
        raise StaleConnection(str(error)) from error
    return channel


def _transport(
    line: LoginConnection, configured_login: ConfiguredLogin, deadline: float
) -> tuple[paramiko.Transport, bool]:
    """Return the connection, and whether it was made for this request."""
    with line.lock:
        transport = line.client.get_transport() if line.client else None
        is_new = transport is None or not transport.is_active()
        if is_new:
            _close(line)
            line.client = connect(configured_login, min(CONNECT_S, _left_s(deadline)))
            transport = line.client.get_transport()
    assert transport
    return transport, is_new


@contextmanager
def _closed_at(deadline: float, channel: paramiko.Channel) -> Iterator[None]:
    """Close a channel when the time is over; who waits for it hears of that."""

    def close() -> None:
        with suppress(EOFError, OSError):  # the connection is lost besides
            channel.close()

    watch = threading.Timer(_left_s(deadline), close)
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def _exchange(
    channel: paramiko.Channel, request: bytes, deadline: float, most_bytes: int
) -> CompletedProgram:
    """Send a request and read both outputs to their ends; OverflowError beyond `most_bytes`."""
    channel.sendall(request)
    channel.shutdown_write()
    stdout, stderr = bytearray(), bytearray()
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLIN)
    while not (channel.eof_received or channel.closed) or _is_ready(channel):
        if not _is_ready(channel) and not poll.poll(_left_s(deadline) * 1000):
            raise TimeoutError("no answer in time")
        if channel.recv_ready():
            stdout += channel.recv(CHUNK_BYTES)
        if channel.recv_stderr_ready():
            stderr += channel.recv_stderr(CHUNK_BYTES)
        if len(stdout) + len(stderr) > most_bytes:
            raise OverflowError
    return CompletedProgram((CLIENT,), FAILED, bytes(stdout), bytes(stderr))


def _is_ready(channel: paramiko.Channel) -> bool:
    return channel.recv_ready() or channel.recv_stderr_ready()


def _drop(line: LoginConnection) -> None:
    with line.lock:
        _close(line)


def _close(line: LoginConnection) -> None:
    if line.client:
        line.client.close()
        line.client = None


def _left_s(deadline: float) -> float:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("no answer in time")
    return left_s


def _failed(words: bytes) -> CompletedProgram:
    return CompletedProgram((CLIENT,), FAILED if words else -SIGKILL, b"", words)
