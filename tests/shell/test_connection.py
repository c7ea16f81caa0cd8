"""A connection carries one request after another; one that falls silent is noticed and replaced.

A server of paramiko's stands for sshd here; a real one, and a cut link, are in
tests/lab/transfer/ssh/test_ssh_service.py.
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
    """Lets everybody in, and has a real sh do what it is asked for, unless it is to be silent."""

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
        """Say what anybody can try."""
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        """Let every key in."""
        return paramiko.AUTH_SUCCESSFUL  # type: ignore[attr-defined]

    def check_global_request(self, kind: str, msg: paramiko.Message) -> bool:
        """Note what keeps a connection alive, and refuse it as sshd does."""
        if kind.startswith("keepalive@"):
            self.is_kept_alive.set()
        return False

    def check_channel_request(self, kind: str, chanid: int) -> int:
        """Open every channel."""
        self._come_to("channel")
        return paramiko.OPEN_SUCCEEDED  # type: ignore[attr-defined]

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        """Begin to do what is asked for."""
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
    """Return a server that is known to us and knows our key; requests go to it as the service's."""
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


def test_requests_share_a_connection_that_is_kept_alive_between_them(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "ALIVE_S", 0.1)
    answers = [ask(server).stdout]
    was_kept_alive = server.is_kept_alive.wait(LIMIT_S)
    answers.append(ask(server).stdout)

    assert was_kept_alive
    assert (answers, server.connections) == ([b"in", b"in"], 1)


@pytest.mark.parametrize("step", ["channel", "command", "answer"])
def test_a_far_side_that_falls_silent_is_given_up_in_time_and_another_made(server: Server, step: str) -> None:
    """It ends no connection and says no more, as behind a link that was cut."""
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


def test_a_connection_that_was_ended_there_is_made_anew_for_the_same_request(server: Server) -> None:
    """As by a restart of sshd: nothing of the request had been sent."""
    ask(server)
    server.hang_up_at = "channel"

    assert (ask(server).stdout, server.connections) == (b"in", 2)


def test_a_new_connection_that_is_ended_there_is_not_tried_for_ever(server: Server) -> None:
    server.hang_up_at = "channel"
    server.hang_ups = 9
    with pytest.raises(HostNotReached):
        ask(server)

    assert server.connections == 1


def test_who_has_no_key_is_told_so_in_the_words_of_the_client(server: Server, tmp_path: Path) -> None:
    (tmp_path / ".ssh" / "id_ecdsa").unlink()

    with pytest.raises(SshAccessRejected, match=r"127\.0\.0\.1 does not let the key of .* into the account"):
        ask(server)


def test_no_condition_of_a_configuration_runs_a_program_in_this_process(server: Server, tmp_path: Path) -> None:
    """`Match exec` is the client's, as whoever's file it is: root reads the service's file."""
    mark = tmp_path / "ran"
    (tmp_path / ".ssh/config").write_text(f'Host *\nMaTcH e"x"ec "touch {mark}"\n User x\n')

    found = login.read_ssh_config_of_login(SshLogin(host="127.0.0.1", port=str(server.port)))

    assert (found.is_by_client, mark.exists()) == (True, False)


@pytest.mark.parametrize("text", ["\xff", "Host *\n ProxyCommand"], ids=["no text", "cut"])
def test_a_configuration_that_can_not_be_read_is_told(server: Server, tmp_path: Path, text: str) -> None:
    (tmp_path / ".ssh/config").write_bytes(text.encode("latin-1"))

    with pytest.raises(HostNotReached, match=r"/\.ssh/config: "):
        login.read_ssh_config_of_login(SshLogin(host="127.0.0.1", port=str(server.port)))


@pytest.mark.parametrize("name", ["config", "known_hosts", "id_ecdsa"])
def test_a_fifo_among_the_files_of_an_account_keeps_nobody_waiting(server: Server, tmp_path: Path, name: str) -> None:
    """`gridbridge check` of root reads them for the service's account, which may be stolen."""
    (tmp_path / ".ssh" / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / ".ssh" / name)

    begun = time.monotonic()
    with pytest.raises(HostNotReached):
        ask(server)

    assert time.monotonic() - begun < LIMIT_S / 2


@pytest.mark.usefixtures("server")
def test_a_port_that_takes_no_connection_is_told_without_a_number_of_the_system() -> None:
    with socket.socket() as shut:
        shut.bind(("127.0.0.1", 0))
        far = SshLogin(host="127.0.0.1", port=str(shut.getsockname()[1]))
        with pytest.raises(HostNotReached) as failed:
            ssh.run_over_ssh(far, ("true",), {}, LIMIT_S)

    assert "Unable to connect to port" in failed.value.words
    assert "Errno" not in failed.value.words


def test_an_endless_file_of_known_hosts_is_not_read(server: Server, tmp_path: Path) -> None:
    os.truncate(tmp_path / ".ssh/known_hosts", 1 << 40)

    with pytest.raises(SshAccessRejected, match="does not know"):
        ask(server)


@pytest.mark.root
def test_root_uses_no_key_for_an_account_that_the_account_can_not_read(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root asks for other accounts")
    key = tmp_path / "key"
    key.touch(0o600)
    (tmp_path / "link").symlink_to(key)
    nobody = pwd.getpwnam("nobody")
    usable = [login._is_usable(str(tmp_path / "link"), nobody.pw_uid, 1)]
    for uid, gid, mode in ((0, nobody.pw_gid, 0o640), (nobody.pw_uid, 0, 0o600), (0, nobody.pw_gid, 0o600)):
        os.chown(key, uid, gid)
        key.chmod(mode)
        usable.append(login._is_usable(str(tmp_path / "link"), nobody.pw_uid, 1))

    assert usable == [False, True, True, False]


def test_more_than_is_read_is_a_failure_of_its_own_and_the_next_request_goes_on(server: Server) -> None:
    far = SshLogin(host="127.0.0.1", port=str(server.port))
    with pytest.raises(ProgramOutputTooLong, match=r"it printed more at 127\.0\.0\.1 than the 1 MiB"):
        ssh.run_over_ssh(far, ("head", "-c", "3000000", "/dev/zero"), {}, LIMIT_S, most_bytes=1 << 20)

    assert ssh.run_over_ssh(far, ("echo", "on"), {}, LIMIT_S).stdout == b"on\n"
