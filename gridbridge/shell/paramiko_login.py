"""Logs in with paramiko as OpenSSH's client does, without an ssh agent; unknown hosts are refused."""

import os
import pwd
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import paramiko
from paramiko import AuthenticationException, BadHostKeyException, SSHConfig, SSHException
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

from gridbridge.errors import CommandFailed, HostNotReached, ProgramOutputTooLong, SshAccessRejected, describe_error
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell import safe_files
from gridbridge.shell.ssh import ALIVE_S, CLIENT, CONNECT_S, FAILED

SITE_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
CHANGED = b"REMOTE HOST IDENTIFICATION HAS CHANGED"  # message of OpenSSH's client
MOST_BYTES = 1 << 20  # maximal bytes of ~/.ssh/config or of a key file
MOST_OF_HOSTS = 16 << 20  # maximal bytes of ~/.ssh/known_hosts
UNKNOWN = b"Host key verification failed"
DENIED = b"Permission denied"
THROUGH = ("proxyjump", "proxycommand")  # ssh options that paramiko lacks
CONDITION = re.compile(r"^\s*match\b", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginWithSshConfig:
    login: SshLogin
    home: str
    uid: int
    settings: Mapping[str, str | list[str]]  # options of the host in ~/.ssh/config (ssh_config(5))
    is_by_client: bool = False  # whether only OpenSSH's client supports the settings


def read_ssh_config_of_login(login: SshLogin) -> LoginWithSshConfig:
    """Read ~/.ssh/config of the key's owner; root may use another user's key."""
    is_other = login.person and not os.geteuid()
    try:
        account = pwd.getpwnam(login.person) if is_other else pwd.getpwuid(os.geteuid())
    except KeyError as error:
        why = f"no account {login.person} here".encode()
        raise HostNotReached((CLIENT,), FAILED, stderr=why) from error
    settings: dict[str, str | list[str]] = {"user": account.pw_name}
    host_settings = _read_ssh_config_of_host(f"{account.pw_dir}/.ssh/config", login.host)
    return LoginWithSshConfig(
        login=login,
        home=account.pw_dir,
        uid=account.pw_uid,
        settings=settings | (host_settings or {}),
        is_by_client=host_settings is None or any(word in host_settings for word in THROUGH),
    )


def _read_ssh_config_of_host(path: str, host: str) -> dict[str, str | list[str]] | None:
    """Return a host's settings; None for a file with `Match`.

    paramiko would run the command of `Match exec` as this process's user.
    """
    text = ""
    try:
        if os.path.exists(path):
            with open(path, encoding="utf-8", opener=safe_files.open_regular_without_blocking) as file:
                text = file.read(MOST_BYTES)
        return None if CONDITION.search(text) else {**SSHConfig.from_text(text).lookup(host)}
    except (SSHException, OSError, ValueError) as error:
        raise HostNotReached((CLIENT,), FAILED, stderr=f"{path}: {describe_error(error)}".encode()) from error


def connect_with_paramiko(configured_login: LoginWithSshConfig, limit_s: float) -> paramiko.SSHClient:
    """Log in with the user's keys and the known hosts of user and site; raise SSHException or OSError."""
    keys = _usable_key_files(configured_login)
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    if os.path.exists(SITE_KNOWN_HOSTS):
        _load_known_hosts(client, SITE_KNOWN_HOSTS)
    own = f"{configured_login.home}/.ssh/known_hosts"
    if _is_ssh_file_usable(own, configured_login.uid, MOST_OF_HOSTS):
        _load_known_hosts(client, own)
    try:
        port = int(configured_login.login.port or str(configured_login.settings.get("port", 22)))
        user = configured_login.login.user or str(configured_login.settings["user"])
        _connect_with_key_files(client, str(configured_login.settings["hostname"]), port, user, keys, limit_s)
    except BaseException as error:
        lacks_key = not keys and _has_accepted_host_key(client, error)
        client.close()
        if lacks_key:  # paramiko has no exception for a missing key
            raise AuthenticationException("no key") from error
        raise
    transport = client.get_transport()
    assert transport
    transport.set_keepalive(ALIVE_S)
    return client


def _connect_with_key_files(
    client: paramiko.SSHClient, host: str, port: int, user: str, keys: list[str], limit_s: float
) -> None:
    client.connect(
        host,
        port=port,
        username=user,
        key_filename=keys,  # type: ignore[arg-type] # the stubs allow only one name
        allow_agent=False,
        look_for_keys=False,
        timeout=limit_s,
        banner_timeout=limit_s,
        auth_timeout=limit_s,
    )


def _has_accepted_host_key(client: paramiko.SSHClient, error: BaseException) -> bool:
    transport = client.get_transport()
    is_agreed = transport is not None and transport.initial_kex_done
    is_doubted = isinstance(error, Exception) and openssh_message_for_error(error) in (CHANGED, UNKNOWN)
    return is_agreed and not is_doubted


def _load_known_hosts(client: paramiko.SSHClient, path: str) -> None:
    try:
        client.load_system_host_keys(path)
    except InvalidHostKey as error:
        raise SSHException(f"{path}: an invalid host key: {error.line.strip()[:80]}") from error


def _usable_key_files(configured_login: LoginWithSshConfig) -> list[str]:
    usual = [f"{configured_login.home}/.ssh/id_{kind}" for kind in ("ed25519", "ecdsa", "rsa")]
    identity_files = configured_login.settings.get("identityfile", [])
    return [path for path in (*identity_files, *usual) if _is_ssh_file_usable(path, configured_login.uid, MOST_BYTES)]


def _is_ssh_file_usable(path: str, uid: int, most_bytes: int) -> bool:
    """Say whether an account itself can read a regular file: root must not follow a user's symlink."""
    try:
        facts = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(facts.st_mode) and facts.st_size <= most_bytes and _may_account_read_file(facts, uid)


def _may_account_read_file(facts: os.stat_result, uid: int) -> bool:
    if os.geteuid() or not uid:  # in these cases the kernel checks the permission
        return True
    account = pwd.getpwuid(uid)
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    right = stat.S_IRGRP if facts.st_gid in groups else stat.S_IROTH
    return bool(facts.st_mode & (stat.S_IRUSR if facts.st_uid == uid else right))


def openssh_message_for_error(error: Exception) -> bytes:
    """Return the message that OpenSSH's client has for an error of paramiko."""
    if isinstance(error, BadHostKeyException):
        return CHANGED
    if isinstance(error, AuthenticationException):
        return DENIED
    if "not found in known_hosts" in str(error):  # message of paramiko's RejectPolicy
        return UNKNOWN
    return describe_error(error).encode()


CHUNK_BYTES = 65536
MOST_OUTPUT_BYTES = 1 << 20
TROUBLES = (SSHException, OSError, EOFError, RuntimeError)  # Python raises RuntimeError if it can't start a thread
LATE = b"no answer in time"


@contextmanager
def log_in_to_new_machine_by_ssh(
    address: str, host_key: str, user: str, key_file: str, port: int = 22
) -> Iterator[paramiko.SSHClient]:
    """Log in if the host has the key `host_key` (as in known_hosts, without the host's name).

    Raises SshAccessRejected for another key, and HostNotReached for other failures.
    """
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    known_as = address if port == 22 else f"[{address}]:{port}"
    client.get_host_keys().add(known_as, *_parse_reported_host_key(address, host_key))
    try:
        try:
            _connect_with_key_files(client, address, port, user, [key_file], CONNECT_S)
        except TROUBLES as error:
            why = openssh_message_for_error(error)
            if why in (CHANGED, UNKNOWN):
                raise _wrong_host_key_error(address) from error
            raise HostNotReached((CLIENT,), FAILED, stderr=f"{user}@{address}: ".encode() + why) from error
        yield client
    finally:
        client.close()


def run_on_new_machine_by_ssh(client: paramiko.SSHClient, command: str, text: bytes, limit_s: float) -> bytes:
    """Run a command with `text` as input; return the output; raise CommandFailed, also at the time limit."""
    transport, deadline = client.get_transport(), time.monotonic() + limit_s
    if transport is None:
        raise HostNotReached((CLIENT,), FAILED, stderr=b"the connection is closed")
    output, status = bytearray(), None
    try:
        with close_connection_after_limit(limit_s, transport.close):
            channel = transport.open_session(timeout=limit_s)
            channel.set_combine_stderr(True)
            channel.exec_command(command)  # paramiko itself sets no timeout
            channel.sendall(text)
            channel.shutdown_write()
            while chunk := channel.recv(CHUNK_BYTES):
                output += chunk
                if len(output) > MOST_OUTPUT_BYTES:
                    raise ProgramOutputTooLong((CLIENT,), MOST_OUTPUT_BYTES)
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
def close_connection_after_limit(limit_s: float, close: Callable[[], None]) -> Iterator[None]:
    """Call `close` at the time limit, so that threads wake up that wait for the connection."""
    late = threading.Timer(limit_s, close)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()


def _parse_reported_host_key(address: str, host_key: str) -> tuple[str, paramiko.PKey]:
    try:
        entry = HostKeyEntry.from_line(f"{address} {host_key}")
    except (InvalidHostKey, SSHException) as error:  # raised for invalid base64 and truncated keys
        raise _wrong_host_key_error(address) from error
    if not host_key or entry is None or entry.key is None:
        raise _wrong_host_key_error(address)
    return entry.key.get_name(), entry.key


def _wrong_host_key_error(address: str) -> SshAccessRejected:
    wrong = f"{address}: the host key is not the key that the provider reported"
    return SshAccessRejected((CLIENT,), FAILED, stderr=f"{wrong}; nothing was sent to the machine".encode())
