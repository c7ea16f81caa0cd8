"""Runs commands on a new machine over ssh, trusting only the host key its provider reported.

No known_hosts file is read.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import paramiko
from paramiko import AuthenticationException, BadHostKeyException, SSHException
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

from gridbridge.errors import CommandFailed, HostNotReached, ProgramOutputTooLong, SshAccessRejected
from gridbridge.shell.connection.paramiko_login import CHANGED, UNKNOWN, openssh_message_for_error
from gridbridge.shell.ssh import CLIENT, CONNECT_S, FAILED

CHUNK_BYTES = 65536
MOST_OUTPUT_BYTES = 1 << 20  # most output of a command
TROUBLES = (SSHException, OSError, EOFError, RuntimeError)  # RuntimeError: no thread can be started
LATE = b"no answer in time"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMachineLogin:
    """The ssh address, host key, user and key file of a new machine."""

    address: str
    host_key: str  # host key as in known_hosts, without the host
    user: str
    key_file: str
    port: int = 22

    @property
    def known_as(self) -> str:
        """The name of the machine's host key, as in known_hosts."""
        return self.address if self.port == 22 else f"[{self.address}]:{self.port}"


@contextmanager
def log_in_to_new_machine_by_ssh(machine: NewMachineLogin) -> Iterator[paramiko.SSHClient]:
    """Log in by ssh; SshAccessRejected for another host key, HostNotReached if all logins fail."""
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    client.get_host_keys().add(machine.known_as, *_key(machine))
    try:
        _connect(client, machine)
        yield client
    finally:
        client.close()


def _connect(client: paramiko.SSHClient, machine: NewMachineLogin) -> None:
    try:
        client.connect(
            machine.address,
            port=machine.port,
            username=machine.user,
            key_filename=machine.key_file,
            allow_agent=False,
            look_for_keys=False,
            timeout=CONNECT_S,
            banner_timeout=CONNECT_S,
            auth_timeout=CONNECT_S,
        )
    except BadHostKeyException as error:
        raise _refused(machine) from error
    except AuthenticationException as error:
        raise _not_reached(machine, openssh_message_for_error(error)) from error
    except TROUBLES as error:
        if openssh_message_for_error(error) in (CHANGED, UNKNOWN):
            raise _refused(machine) from error
        raise _not_reached(machine, openssh_message_for_error(error)) from error


def run_on_new_machine_by_ssh(client: paramiko.SSHClient, command: str, text: bytes, limit_s: float) -> bytes:
    """Run a remote command that reads a text; return its output.

    Raises CommandFailed unless the command ends with 0 in time. The connection is closed at the
    time limit, whatever the machine answers.
    """
    transport, deadline = client.get_transport(), time.monotonic() + limit_s
    if transport is None:
        raise HostNotReached((CLIENT,), FAILED, stderr=b"the connection is closed")
    output, status = bytearray(), None
    try:
        with _closed_after(limit_s, transport):
            channel = transport.open_session(timeout=limit_s)
            channel.set_combine_stderr(True)
            channel.exec_command(command)  # paramiko itself sets no timeout
            channel.sendall(text)
            channel.shutdown_write()
            _read(channel, output)
            status = channel.recv_exit_status()
    except TROUBLES as error:
        why = openssh_message_for_error(error)
        raise CommandFailed((CLIENT,), None, bytes(output), why, transient=True) from error
    if time.monotonic() >= deadline and status != 0:
        raise CommandFailed((CLIENT,), None, bytes(output), LATE, transient=True)
    if status != 0:
        raise CommandFailed((CLIENT,), status, bytes(output))
    return bytes(output)


@contextmanager
def _closed_after(limit_s: float, transport: paramiko.Transport) -> Iterator[None]:
    """Close a connection at the time limit, which wakes any thread that waits for it."""
    late = threading.Timer(limit_s, transport.close)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()


def _read(channel: paramiko.Channel, output: bytearray) -> None:
    """Read a channel to its end; ProgramOutputTooLong beyond the limit."""
    while chunk := channel.recv(CHUNK_BYTES):
        output += chunk
        if len(output) > MOST_OUTPUT_BYTES:
            raise ProgramOutputTooLong((CLIENT,), MOST_OUTPUT_BYTES)


def _key(machine: NewMachineLogin) -> tuple[str, paramiko.PKey]:
    """Parse the reported host key; SshAccessRejected if it is missing or malformed."""
    try:
        entry = HostKeyEntry.from_line(f"{machine.address} {machine.host_key}")
    except (InvalidHostKey, SSHException) as error:  # invalid base64, truncated keys
        raise _refused(machine) from error
    if not machine.host_key or entry is None or entry.key is None:
        raise _refused(machine)
    return entry.key.get_name(), entry.key


def _refused(machine: NewMachineLogin) -> SshAccessRejected:
    wrong = f"{machine.address} does not show the host key that its provider told"
    return SshAccessRejected((CLIENT,), FAILED, stderr=f"{wrong}: nothing was sent there".encode())


def _not_reached(machine: NewMachineLogin, why: bytes) -> HostNotReached:
    message = f"{machine.user}@{machine.address}: ".encode() + why
    return HostNotReached((CLIENT,), FAILED, stderr=message)
