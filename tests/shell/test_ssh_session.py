"""One ssh client process carries many requests; unsent and unanswered requests are told apart.

A real sh stands for client and remote host; tests/lab/transfer/ssh/test_ssh.py has real hosts.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gridbridge.errors import CommandFailed, HostNotReached
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell import ssh, ssh_connections_shared_by_threads
from gridbridge.shell.program_runs import CompletedProgram
from gridbridge.shell.ssh_connections_shared_by_threads import IdleSshSessions
from gridbridge.shell.ssh_session import SshClientProcess, SshSessionRequest
from tests.builders.programs import write_program

FAR = ("/bin/sh", "-c", ssh.FAR_SHELL)
TOKENS = ("90c3f1b2a7d84e56b1f0a9c2d3e4f586", "17e5d9b3c2a140f8e6b7d8091a2b3c4d")
LIMIT_S = 30.0
SHORT_S = 0.3


@pytest.fixture
def line() -> Iterator[SshClientProcess]:
    line = SshClientProcess(FAR)
    yield line
    line.kill_ssh_client()


def ask(line: SshClientProcess, token: str, script: str, stdin: bytes = b"") -> CompletedProgram:
    request = ssh.encode_ssh_request(token, ("/bin/sh", "-c", script), {}, LIMIT_S, stdin)
    exchange = SshSessionRequest(line, token, request)
    assert exchange.exchange_messages_until(time.monotonic() + LIMIT_S)
    done = ssh.decode_ssh_answer(token, FAR, exchange.partial_ssh_answer())
    assert done
    return done


def test_one_remote_shell_runs_one_request_after_another(line: SshClientProcess) -> None:
    first = ask(line, TOKENS[0], "cat; echo $PPID >&2; exit 3", b"in")
    second = ask(line, TOKENS[1], "cat; echo end")

    assert (first.status, first.stdout) == (3, b"in")
    assert (second.status, second.stdout, second.stderr) == (0, b"end\n", b"")


def test_a_request_larger_than_a_pipe_buffer_arrives_complete(line: SshClientProcess) -> None:
    script = b"it's a line\n" * 100_000
    done = ask(line, TOKENS[0], "cksum", script)
    again = ask(line, TOKENS[1], "wc -c", script)

    assert int(again.stdout) == int(done.stdout.split()[1]) == len(script)


def ask_lost_client(script: str, limit_s: float) -> tuple[SshSessionRequest, bool, int]:
    line = SshClientProcess(("/bin/sh", "-c", script))
    exchange = SshSessionRequest(line, TOKENS[0], ssh.encode_ssh_request(TOKENS[0], ("/bin/true",), {}, LIMIT_S, b"x"))
    is_done, unread_bytes = exchange.exchange_messages_until(time.monotonic() + limit_s), line.unread_input_bytes()
    line.kill_ssh_client()
    return exchange, is_done, unread_bytes


def test_input_that_the_client_never_read_counts_as_unsent() -> None:
    """The client reads nothing before the remote host accepts the login."""
    exchange, is_done, unread_bytes = ask_lost_client("exec sleep 60", SHORT_S)

    assert not is_done
    assert unread_bytes == exchange.written > 0


def test_a_client_that_ends_after_reading_gives_no_answer() -> None:
    exchange, is_done, unread_bytes = ask_lost_client("head -c 20 >/dev/null; echo half; echo why >&2", LIMIT_S)

    assert not is_done
    assert unread_bytes < exchange.written
    assert (exchange.partial_ssh_answer().stdout, exchange.partial_ssh_answer().stderr) == (b"half\n", b"why\n")


def test_a_missing_ssh_client_fails_with_status_127() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(CommandFailed) as failed:
        SshClientProcess(("/no/ssh",))

    assert failed.value.status == 127
    assert failed.value.failure_in_words == "/no/ssh: No such file or directory"
    assert len(os.listdir("/proc/self/fd")) == before


RUN_LOCALLY = 'for last; do :; done\nexec sh -c "$last"\n'


@pytest.fixture(name="logins")
def _logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let a script stand for the ssh client; return the file to which it appends a line per login."""
    logins = tmp_path / "logins"
    client = write_program(tmp_path / "ssh", f"#!/bin/sh\necho >>{logins}\n{RUN_LOCALLY}")
    monkeypatch.setattr(ssh, "CLIENT", str(client))
    return logins


def test_threads_share_the_login_that_was_begun_first(logins: Path) -> None:
    """A login costs both hosts more than a request."""
    login, pool = SshLogin(host="far"), IdleSshSessions()

    pool.begin_ssh_login(login)

    def ask(text: str) -> bytes:
        return ssh.run_over_ssh(login, ("echo", text), {}, LIMIT_S, carrier=pool).stdout

    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(ask, "abcd")] == [b"a\n", b"b\n", b"c\n", b"d\n"]
    assert logins.read_text() == "\n"


@pytest.mark.usefixtures("logins")
def test_a_hanging_request_does_not_block_other_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_connections_shared_by_threads, "PATIENCE_S", 0.05)
    login, pool = SshLogin(host="far"), IdleSshSessions()

    with ThreadPoolExecutor(1) as threads:
        hanging = threads.submit(ssh.run_over_ssh, login, ("sleep", "5"), {}, 2.0, carrier=pool)
        assert ssh.run_over_ssh(login, ("echo", "a"), {}, LIMIT_S, carrier=pool).stdout == b"a\n"
        assert not hanging.done()


def test_a_silent_host_gets_no_further_request(logins: Path) -> None:
    """Each further request would wait for its whole time limit."""
    client = Path(ssh.CLIENT)
    client.write_text(client.read_text().replace(RUN_LOCALLY, "exec sleep 60\n"))
    pool = IdleSshSessions()

    began_s = time.monotonic()
    for limit_s in (SHORT_S, LIMIT_S, LIMIT_S):
        with pytest.raises(HostNotReached, match="can't reach far"):
            ssh.run_over_ssh(SshLogin(host="far"), ("true",), {}, limit_s, carrier=pool)

    assert time.monotonic() - began_s < LIMIT_S
    assert logins.read_text() == "\n"


def test_root_gets_an_error_for_an_unknown_local_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    login, pool = SshLogin(host="far", person="nobody-of-this-name"), IdleSshSessions()

    pool.begin_ssh_login(login)

    with pytest.raises(HostNotReached, match="no account nobody-of-this-name here"):
        ssh.run_over_ssh(login, ("/bin/true",), {}, LIMIT_S, carrier=pool)
