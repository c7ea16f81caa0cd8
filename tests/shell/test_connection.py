"""One ssh connection carries many requests, and is replaced when the server falls silent.

A paramiko server stands for sshd; tests/lab/transfer/ssh/test_ssh_service.py has a real sshd.
"""

import os
import pwd
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from gridbridge.errors import CommandFailed, HostNotReached, ProgramOutputTooLong, SshAccessRejected
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell import paramiko_login as login
from gridbridge.shell import ssh
from gridbridge.shell.kept_ssh_connections import GRACE_S, KeptSshConnections
from gridbridge.shell.program_runs import CompletedProgram

LIMIT_S = 30.0
SHORT_S = 0.5


class Server(paramiko.ServerInterface):
    """Accepts every login and runs each command in a real sh, or falls silent on demand."""

    def __init__(self) -> None:
        self.key = paramiko.ECDSAKey.generate()
        self.connections = 0
        self.silent_at = ""
        self.hang_up_at = ""
        self.hang_ups = 1  # so often
        self.is_kept_alive = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            transport = paramiko.Transport(self._listener.accept()[0])
            transport.add_server_key(self.key)
            self.transport = transport
            transport.start_server(event=threading.Event(), server=self)
            self.connections += 1

    def _come_to(self, step: str) -> None:
        if step == self.silent_at:
            threading.Event().wait(2 * LIMIT_S)
        if step == self.hang_up_at and self.hang_ups:
            self.hang_ups -= 1
            self.transport.close()

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.AUTH_SUCCESSFUL  # type: ignore[attr-defined]

    def check_global_request(self, kind: str, msg: paramiko.Message) -> bool:
        """Record a keep-alive request, and refuse the request as sshd does."""
        if kind.startswith("keepalive@"):
            self.is_kept_alive.set()
        return False

    def check_channel_request(self, kind: str, chanid: int) -> int:
        self._come_to("channel")
        return paramiko.OPEN_SUCCEEDED  # type: ignore[attr-defined]

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self._come_to("command")
        threading.Thread(target=self._run, args=(channel, command), daemon=True).start()
        return True

    def _run(self, channel: paramiko.Channel, command: bytes) -> None:
        request = channel.makefile("rb").read()
        self._come_to("answer")
        argv = ("/bin/sh", "-c", command)
        done = subprocess.run(argv, input=request, capture_output=True, check=False)
        channel.sendall(done.stdout)
        channel.sendall_stderr(done.stderr)
        channel.send_exit_status(done.returncode)
        channel.close()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Return a trusted server that accepts our key; requests use the connections of the service."""
    server = Server()
    folder = tmp_path / ".ssh"
    folder.mkdir()
    known = f"[127.0.0.1]:{server.port} {server.key.get_name()} {server.key.get_base64()}\n"
    (folder / "known_hosts").write_text(known)
    paramiko.ECDSAKey.generate().write_private_key_file(str(folder / "id_ecdsa"))
    me = pwd.getpwuid(os.getuid())
    at_home = pwd.struct_passwd((*me[:5], str(tmp_path), me[6]))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: at_home)
    monkeypatch.setattr(login, "SITE_KNOWN_HOSTS", str(tmp_path / "none"))
    ssh.set_ssh_request_carrier(KeptSshConnections())
    yield server
    ssh.set_ssh_request_carrier(ssh.OpenSshClient())


def ask(server: Server, limit_s: float = LIMIT_S) -> CompletedProgram:
    login = SshLogin(host="127.0.0.1", port=str(server.port))
    return ssh.run_over_ssh(login, ("/bin/cat",), {}, limit_s, b"in")


def test_requests_share_one_connection_with_keep_alive(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "ALIVE_S", 0.1)
    answers = [ask(server).stdout]
    was_kept_alive = server.is_kept_alive.wait(LIMIT_S)
    answers.append(ask(server).stdout)

    assert was_kept_alive
    assert (answers, server.connections) == ([b"in", b"in"], 1)


@pytest.mark.parametrize("step", ["channel", "command", "answer"])
def test_a_silent_connection_is_replaced_after_the_time_limit(server: Server, step: str) -> None:
    """A cut link, too, neither closes the connection nor sends anything."""
    ask(server)
    server.silent_at = step
    began = time.monotonic()
    with pytest.raises(CommandFailed) as failed:
        ask(server, SHORT_S)
    took_s = time.monotonic() - began
    server.silent_at = ""

    assert failed.value.transient
    assert took_s < SHORT_S + 2 * GRACE_S
    assert (ask(server).stdout, server.connections) == (b"in", 2)


def test_a_request_is_repeated_after_the_server_closed_the_connection(server: Server) -> None:
    """No part of the request had been sent, as after a restart of sshd."""
    ask(server)
    server.hang_up_at = "channel"

    assert (ask(server).stdout, server.connections) == (b"in", 2)


def test_a_new_connection_that_the_server_closes_is_not_repeated(server: Server) -> None:
    server.hang_up_at = "channel"
    server.hang_ups = 9
    with pytest.raises(HostNotReached):
        ask(server)

    assert server.connections == 1


def test_a_missing_key_is_reported_as_a_refused_login(server: Server, tmp_path: Path) -> None:
    (tmp_path / ".ssh" / "id_ecdsa").unlink()

    with pytest.raises(SshAccessRejected, match=r"127\.0\.0\.1 does not let the key of .* into the account"):
        ask(server)


def test_match_exec_of_an_ssh_config_runs_no_program(server: Server, tmp_path: Path) -> None:
    """Only the ssh client may run the program: root reads the service's file."""
    mark = tmp_path / "ran"
    (tmp_path / ".ssh/config").write_text(f'Host *\nMaTcH e"x"ec "touch {mark}"\n User x\n')

    found = login.read_ssh_config_of_login(SshLogin(host="127.0.0.1", port=str(server.port)))

    assert (found.is_by_client, mark.exists()) == (True, False)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config", b"\xff"),
        ("config", b"Host *\n ProxyCommand"),
        ("config", b"broken\n"),
        ("known_hosts", b"far ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI\n"),
    ],
    ids=["no text", "cut", "no setting", "a cut key"],
)
def test_an_invalid_line_in_ssh_files_is_reported_with_the_file(
    server: Server, tmp_path: Path, name: str, text: bytes
) -> None:
    """A file may be cut while it is written."""
    (tmp_path / ".ssh" / name).write_bytes(text)

    with pytest.raises(HostNotReached, match=str(tmp_path / ".ssh" / name)):
        ask(server)


@pytest.mark.parametrize("name", ["config", "known_hosts", "id_ecdsa"])
def test_a_fifo_among_ssh_files_does_not_block(server: Server, tmp_path: Path, name: str) -> None:
    """`gridbridge check` reads the files of the service account as root; the account may be stolen."""
    (tmp_path / ".ssh" / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / ".ssh" / name)

    begun = time.monotonic()
    with pytest.raises(HostNotReached):
        ask(server)

    assert time.monotonic() - begun < LIMIT_S / 2


def test_a_huge_known_hosts_file_is_not_read(server: Server, tmp_path: Path) -> None:
    os.truncate(tmp_path / ".ssh/known_hosts", 1 << 40)

    with pytest.raises(SshAccessRejected, match="does not know"):
        ask(server)


@pytest.mark.root
def test_root_uses_only_keys_that_the_account_can_read(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root asks for other accounts")
    key = tmp_path / "key"
    key.touch(0o600)
    (tmp_path / "link").symlink_to(key)
    nobody = pwd.getpwnam("nobody")
    usable = [login._is_ssh_file_usable(str(tmp_path / "link"), nobody.pw_uid, 1)]
    for uid, gid, mode in ((0, nobody.pw_gid, 0o640), (nobody.pw_uid, 0, 0o600), (0, nobody.pw_gid, 0o600)):
        os.chown(key, uid, gid)
        key.chmod(mode)
        usable.append(login._is_ssh_file_usable(str(tmp_path / "link"), nobody.pw_uid, 1))

    assert usable == [False, True, True, False]


def test_too_much_output_fails_one_request_and_keeps_the_connection(server: Server) -> None:
    far = SshLogin(host="127.0.0.1", port=str(server.port))
    with pytest.raises(ProgramOutputTooLong, match=r"its output at 127\.0\.0\.1 is larger than 1 MiB"):
        ssh.run_over_ssh(far, ("head", "-c", "3000000", "/dev/zero"), {}, LIMIT_S, most_bytes=1 << 20)

    assert ssh.run_over_ssh(far, ("echo", "on"), {}, LIMIT_S).stdout == b"on\n"
