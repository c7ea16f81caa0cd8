"""One connection a login for programs that run long: what ssh.py asks goes over it, in channels.

A new connection costs both ends some 200 ms of processor time, a channel next to none. Keys, known
hosts and agents are as for OpenSSH's client: one's own key, no agent, no unknown host.
"""

import logging
import os
import pwd
import select
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import paramiko
from paramiko import AuthenticationException, BadHostKeyException, SSHException
from paramiko.hostkeys import InvalidHostKey

from gridbridge.errors import CommandFailed, NotReached
from gridbridge.model.route import Login
from gridbridge.shell.retry import once_more
from gridbridge.shell.runner import SIGKILL, Completed
from gridbridge.shell.ssh import ALIVE_S, CLIENT, CONNECT_S, FAILED, FAR_SHELL, Client

SITE_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
CHUNK_BYTES = 65536
GRACE_S = 1.0
QUIET_S = 1.0  # after which a listener hears that there is nothing
CHANNELS = 4  # at once; sshd_config(5) MaxSessions is 10
CHANGED = b"REMOTE HOST IDENTIFICATION HAS CHANGED"  # as the client says it, for ssh.explain
UNKNOWN = b"Host key verification failed"
DENIED = b"Permission denied"
THROUGH = ("proxyjump", "proxycommand")  # what the client does and we don't

logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # what matters is told by our callers


@dataclass(slots=True)
class Line:
    """The connection of one login, None while there is none."""

    client: paramiko.SSHClient | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    channels: threading.Semaphore = field(
        default_factory=lambda: threading.BoundedSemaphore(CHANNELS)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredLogin:
    """A login with what the caller's own files say of it."""

    login: Login
    home: str
    settings: Mapping[str, str | list[str]]  # of ~/.ssh/config, ssh_config(5)


class Stale(SSHException):
    """A connection that had carried requests carries no more; nothing of this one was sent."""


class Connections(Client):
    """The open connections; any thread may ask."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, ...], Line] = {}

    def carry(
        self, login: Login, token: str, request: bytes, timeout_s: float
    ) -> tuple[Completed, bool]:
        """Have the far shell do a request; say how that ended, and whether nothing was sent.

        A connection that fails once is given up: the next request makes a new one. The far side
        kills its command when the time is over, and is given a moment to say so.
        """
        way = _way(login)
        if any(word in way.settings for word in THROUGH):
            return super().carry(login, token, request, timeout_s)
        line = self._lines.setdefault((login.host, login.port, login.user, login.person), Line())
        deadline = time.monotonic() + timeout_s + GRACE_S
        if not line.channels.acquire(timeout=timeout_s):
            return _failed(b""), True
        try:
            return _ask(line, way, request, deadline)
        finally:
            line.channels.release()

    def listen(self, login: Login, command: str, text: bytes) -> Iterator[bytes]:
        """Have a command read a text there, and give what it prints, nothing once a second.

        It runs until we listen no more: then its standard input is closed. Raises NotReached for
        no connection, and CommandFailed when it or the connection ends.
        """
        way = _way(login)
        if any(word in way.settings for word in THROUGH):
            raise NotReached((CLIENT,), FAILED, stderr=b"only over a connection of our own")
        line = self._lines.setdefault((login.host, login.port, login.user, login.person), Line())
        try:
            channel = _channel(line, way, time.monotonic() + CONNECT_S, command)
        except (SSHException, OSError, EOFError) as error:
            raise NotReached((CLIENT,), FAILED, stderr=_words(error)) from error
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
    line: Line, way: ConfiguredLogin, request: bytes, deadline: float
) -> tuple[Completed, bool]:
    try:
        channel = _channel(line, way, deadline)
    except (SSHException, OSError, EOFError) as error:
        _drop(line)
        return _failed(_words(error)), True
    try:
        return _exchange(channel, request, deadline), False
    except (SSHException, OSError, EOFError) as error:
        _drop(line)
        return _failed(_words(error)), False
    finally:
        channel.close()


def _channel(
    line: Line, way: ConfiguredLogin, deadline: float, command: str = FAR_SHELL
) -> paramiko.Channel:
    """Open a channel with the far shell in it; nothing of a request is sent yet.

    A connection of earlier requests may have been ended there, as by a restart of sshd.
    """
    return once_more(partial(_open, line, way, deadline, command), Stale)


def _open(line: Line, way: ConfiguredLogin, deadline: float, command: str) -> paramiko.Channel:
    transport, is_new = _transport(line, way, deadline)
    try:
        channel = transport.open_session(timeout=_left_s(deadline))
        channel.settimeout(_left_s(deadline))
        with _closed_at(deadline, channel):
            channel.exec_command(command)  # paramiko waits for its answer without a limit
    except (SSHException, OSError, EOFError) as error:
        if is_new or transport.is_active():
            raise
        raise Stale(str(error)) from error
    return channel


def _transport(
    line: Line, way: ConfiguredLogin, deadline: float
) -> tuple[paramiko.Transport, bool]:
    """Return the connection, and whether it was made for this request."""
    with line.lock:
        transport = line.client.get_transport() if line.client else None
        is_new = transport is None or not transport.is_active()
        if is_new:
            _close(line)
            line.client = _connect(way, deadline)
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


def _connect(way: ConfiguredLogin, deadline: float) -> paramiko.SSHClient:
    keys = _keys(way)
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    for path in (SITE_KNOWN_HOSTS, f"{way.home}/.ssh/known_hosts"):
        if os.path.exists(path):
            _trust(client, path)
    limit_s = min(CONNECT_S, _left_s(deadline))
    try:
        client.connect(
            str(way.settings["hostname"]),
            port=int(way.login.port or str(way.settings.get("port", 22))),
            username=way.login.user or str(way.settings["user"]),
            key_filename=keys,  # type: ignore[arg-type] # the stubs know of one only
            allow_agent=False,
            look_for_keys=False,
            timeout=limit_s,
            banner_timeout=limit_s,
            auth_timeout=limit_s,
        )
    except BaseException as error:
        lacks_key = not keys and _has_met(client, error)
        client.close()
        if lacks_key:  # paramiko has no class for it
            raise AuthenticationException("no key") from error
        raise
    transport = client.get_transport()
    assert transport
    transport.set_keepalive(ALIVE_S)
    return client


def _has_met(client: paramiko.SSHClient, error: BaseException) -> bool:
    """Say whether both sides knew each other, so that only the login is left to have failed."""
    transport = client.get_transport()
    is_agreed = transport is not None and transport.initial_kex_done
    is_doubted = isinstance(error, Exception) and _words(error) in (CHANGED, UNKNOWN)
    return is_agreed and not is_doubted


def _trust(client: paramiko.SSHClient, path: str) -> None:
    try:
        client.load_system_host_keys(path)
    except InvalidHostKey as error:
        raise SSHException(f"{path}: no host key: {error.line.strip()[:80]}") from error


def _exchange(channel: paramiko.Channel, request: bytes, deadline: float) -> Completed:
    """Send a request and read both outputs to their ends."""
    channel.sendall(request)
    channel.shutdown_write()
    stdout, stderr = [], []
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLIN)
    while not (channel.eof_received or channel.closed) or _is_ready(channel):
        if not _is_ready(channel) and not poll.poll(_left_s(deadline) * 1000):
            raise TimeoutError("no answer in time")
        if channel.recv_ready():
            stdout.append(channel.recv(CHUNK_BYTES))
        if channel.recv_stderr_ready():
            stderr.append(channel.recv_stderr(CHUNK_BYTES))
    return Completed((CLIENT,), FAILED, b"".join(stdout), b"".join(stderr))


def _is_ready(channel: paramiko.Channel) -> bool:
    return channel.recv_ready() or channel.recv_stderr_ready()


def _way(login: Login) -> ConfiguredLogin:
    """Read the files of whoever's key it is: root asks as somebody."""
    is_other = login.person and not os.geteuid()
    try:
        account = pwd.getpwnam(login.person) if is_other else pwd.getpwuid(os.geteuid())
    except KeyError as error:
        why = f"no account {login.person} here".encode()
        raise NotReached((CLIENT,), FAILED, stderr=why) from error
    path = f"{account.pw_dir}/.ssh/config"
    config = paramiko.SSHConfig()
    try:
        if os.path.exists(path):
            config = paramiko.SSHConfig.from_path(path)
        found = dict(config.lookup(login.host))
    except SSHException as error:
        raise NotReached((CLIENT,), FAILED, stderr=f"{path}: {error}".encode()) from error
    return ConfiguredLogin(
        login=login, home=account.pw_dir, settings={"user": account.pw_name} | found
    )


def _keys(way: ConfiguredLogin) -> list[str]:
    usual = [f"{way.home}/.ssh/id_{kind}" for kind in ("ed25519", "ecdsa", "rsa")]
    said = way.settings.get("identityfile", [])
    return [path for path in (*said, *usual) if os.path.exists(path)]


def _drop(line: Line) -> None:
    with line.lock:
        _close(line)


def _close(line: Line) -> None:
    if line.client:
        line.client.close()
        line.client = None


def _left_s(deadline: float) -> float:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("no answer in time")
    return left_s


def _failed(words: bytes) -> Completed:
    return Completed((CLIENT,), FAILED if words else -SIGKILL, b"", words)


def _words(error: Exception) -> bytes:
    """Return what the client would say of an error, where ssh.explain knows that."""
    if isinstance(error, BadHostKeyException):
        return CHANGED
    if isinstance(error, AuthenticationException):
        return DENIED
    if "not found in known_hosts" in str(error):  # RejectPolicy
        return UNKNOWN
    return (str(error) or type(error).__name__).encode()
