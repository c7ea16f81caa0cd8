"""Keeps an ssh connection open for each login, which saves both hosts 200 ms of CPU time for each request."""

import logging
import select
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import paramiko
from paramiko import SSHException

from gridbridge.errors import CommandFailed, HostNotReached, ProgramOutputTooLong
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell.paramiko_login import (
    CHUNK_BYTES,
    TROUBLES,
    LoginWithSshConfig,
    close_connection_after_limit,
    connect_with_paramiko,
    openssh_message_for_error,
    read_ssh_config_of_login,
)
from gridbridge.shell.program_runs import ANSWER_BYTES, SIGKILL, CompletedProgram
from gridbridge.shell.retry import retry_once_after_failure
from gridbridge.shell.ssh import CLIENT, CONNECT_S, FAILED, FAR_SHELL, OpenSshClient

GRACE_S = 1.0
QUIET_S = 1.0  # b"" is yielded after this time without output
CHANNELS = 4  # a connection has at most this many channels; the default of MaxSessions is 10 (sshd_config(5))

logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # the callers log failures, so paramiko need not


@dataclass(slots=True)
class SshLoginConnection:
    """The ssh connection of a login; without an open connection the client is None."""

    client: paramiko.SSHClient | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    channels: threading.Semaphore = field(default_factory=lambda: threading.BoundedSemaphore(CHANNELS))


class StaleSshConnection(SSHException):
    """Raised when a kept connection was lost before any byte of a request was sent."""


class KeptSshConnections(OpenSshClient):
    """The open ssh connections of a program, for all its threads."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, ...], SshLoginConnection] = {}

    def run_ssh_request(
        self, login: SshLogin, token: str, request: bytes, timeout_s: float, most_bytes: int = ANSWER_BYTES
    ) -> tuple[CompletedProgram, bool]:
        """Run a request in a channel; return the result, and whether nothing was sent."""
        configured_login = read_ssh_config_of_login(login)
        if configured_login.is_by_client:
            return super().run_ssh_request(login, token, request, timeout_s, most_bytes)
        line = self._lines.setdefault(login.shared_connection_key, SshLoginConnection())
        deadline = time.monotonic() + timeout_s + GRACE_S
        if not line.channels.acquire(timeout=timeout_s):
            return _failed_ssh_request_result(b""), True
        try:
            return _run_request_in_channel(line, configured_login, request, deadline, most_bytes)
        except OverflowError as error:
            raise ProgramOutputTooLong((CLIENT,), most_bytes, login.host) from error
        finally:
            line.channels.release()

    def stream_remote_output(self, login: SshLogin, command: str, text: bytes) -> Iterator[bytes]:
        """Run a remote command with input `text`; yield the output, and b"" after a second without output.

        The command runs until the caller stops reading. Raises HostNotReached if no connection can be opened, and
        CommandFailed when the command or the connection ends.
        """
        configured_login = read_ssh_config_of_login(login)
        if configured_login.is_by_client:
            raise HostNotReached(
                (CLIENT,),
                FAILED,
                stderr=b"no ssh connection is kept open, because of Match, ProxyJump or ProxyCommand in ~/.ssh/config",
            )
        line = self._lines.setdefault(login.shared_connection_key, SshLoginConnection())
        try:
            channel = _open_channel_or_reconnect(line, configured_login, time.monotonic() + CONNECT_S, command)
        except TROUBLES as error:
            raise HostNotReached((CLIENT,), FAILED, stderr=openssh_message_for_error(error)) from error
        with channel:
            channel.sendall(text)
            yield from _yield_channel_output(channel)


def _yield_channel_output(channel: paramiko.Channel) -> Iterator[bytes]:
    channel.settimeout(QUIET_S)
    while True:
        try:
            chunk = channel.recv(CHUNK_BYTES)
        except TimeoutError:
            yield b""
            continue
        if not chunk:
            why = channel.recv_stderr(CHUNK_BYTES) if channel.recv_stderr_ready() else b"the command ended"
            raise CommandFailed((CLIENT,), FAILED, b"", why)
        yield chunk


def _run_request_in_channel(
    line: SshLoginConnection, login: LoginWithSshConfig, request: bytes, deadline: float, most_bytes: int
) -> tuple[CompletedProgram, bool]:
    try:
        channel = _open_channel_or_reconnect(line, login, deadline)
    except TROUBLES as error:
        _close_login_connection_under_lock(line)
        return _failed_ssh_request_result(openssh_message_for_error(error)), True
    try:
        return _send_and_receive(channel, request, deadline, most_bytes), False
    except TROUBLES as error:
        _close_login_connection_under_lock(line)
        return _failed_ssh_request_result(openssh_message_for_error(error)), False
    finally:
        channel.close()


def _open_channel_or_reconnect(
    line: SshLoginConnection, configured_login: LoginWithSshConfig, deadline: float, command: str = FAR_SHELL
) -> paramiko.Channel:
    """Open a channel, but send no request; connect again if the remote host closed the connection."""
    return retry_once_after_failure(
        partial(_open_channel, line, configured_login, deadline, command), StaleSshConnection
    )


def _open_channel(
    line: SshLoginConnection, configured_login: LoginWithSshConfig, deadline: float, command: str
) -> paramiko.Channel:
    transport, is_new = _open_ssh_transport(line, configured_login, deadline)
    try:
        channel = transport.open_session(timeout=_remaining_s_until_deadline(deadline))
        channel.settimeout(_remaining_s_until_deadline(deadline))
        with close_connection_after_limit(_remaining_s_until_deadline(deadline), partial(_close_channel, channel)):
            channel.exec_command(command)  # paramiko itself sets no timeout
    except TROUBLES as error:
        if is_new or transport.is_active():
            raise
        raise StaleSshConnection(str(error)) from error
    return channel


def _open_ssh_transport(
    line: SshLoginConnection, configured_login: LoginWithSshConfig, deadline: float
) -> tuple[paramiko.Transport, bool]:
    with line.lock:
        transport = line.client.get_transport() if line.client else None
        is_new = transport is None or not transport.is_active()
        if is_new:
            _close_login_connection(line)
            line.client = connect_with_paramiko(configured_login, min(CONNECT_S, _remaining_s_until_deadline(deadline)))
            transport = line.client.get_transport()
    assert transport
    return transport, is_new


def _close_channel(channel: paramiko.Channel) -> None:
    with suppress(EOFError, OSError):  # the connection may be lost already
        channel.close()


def _send_and_receive(channel: paramiko.Channel, request: bytes, deadline: float, most_bytes: int) -> CompletedProgram:
    channel.sendall(request)
    channel.shutdown_write()
    stdout, stderr = bytearray(), bytearray()
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLIN)
    while not (channel.eof_received or channel.closed) or _has_channel_output(channel):
        if not _has_channel_output(channel) and not poll.poll(_remaining_s_until_deadline(deadline) * 1000):
            raise TimeoutError("no answer in time")
        if channel.recv_ready():
            stdout += channel.recv(CHUNK_BYTES)
        if channel.recv_stderr_ready():
            stderr += channel.recv_stderr(CHUNK_BYTES)
        if len(stdout) + len(stderr) > most_bytes:
            raise OverflowError
    return CompletedProgram((CLIENT,), FAILED, bytes(stdout), bytes(stderr))


def _has_channel_output(channel: paramiko.Channel) -> bool:
    return channel.recv_ready() or channel.recv_stderr_ready()


def _close_login_connection_under_lock(line: SshLoginConnection) -> None:
    with line.lock:
        _close_login_connection(line)


def _close_login_connection(line: SshLoginConnection) -> None:
    if line.client:
        line.client.close()
        line.client = None


def _remaining_s_until_deadline(deadline: float) -> float:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("no answer in time")
    return left_s


def _failed_ssh_request_result(words: bytes) -> CompletedProgram:
    return CompletedProgram((CLIENT,), FAILED if words else -SIGKILL, b"", words)
