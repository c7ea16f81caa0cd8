"""A program runs over ssh as it would locally, completely or not at all, and the caller knows which.

A real sh stands for the remote host; tests/lab/transfer/ssh/test_ssh.py and tests/contract have real hosts.
"""

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridbridge.errors import CommandFailed, HostNotReached, ProgramOutputTooLong
from gridbridge.model.transfer_route import BARE, SshLogin
from gridbridge.shell import program_runs, ssh, ssh_session
from gridbridge.shell.kept_ssh_connections import KeptSshConnections
from gridbridge.shell.program_runs import CompletedProgram, quote_for_sh
from gridbridge.shell.retry import poll_until
from gridbridge.shell.ssh_connections_shared_by_threads import IdleSshSessions, LazyKeptSshConnections
from gridbridge.shell.ssh_session import SshSessionsOfProgram
from tests.builders.programs import write_program

SHELLS = ["/bin/dash", "/bin/bash"]  # what /bin/sh is of Debian's and of Red Hat's
TOKEN = "0123456789abcdef" * 2
TEXT = st.binary(max_size=60).filter(lambda data: 0 not in data).map(os.fsdecode)
VARIABLE = TEXT.filter(lambda text: text and "=" not in text)
SHOW = 'for word; do printf "%s\\n." "$word"; done; cat'
LIMIT_S = 30
FAR = SshLogin(host="far", port="", user="", person="")


def far(shell: str, request: bytes, noise: str = "") -> CompletedProgram:
    """Run the constant command in a login shell with the request as input, as sshd does."""
    line = ssh.FAR_SHELL.replace("/bin/sh", shell)
    argv = (shell, "-c", f"{noise}{line}")
    done = subprocess.run(argv, input=request, capture_output=True, check=False, timeout=LIMIT_S)
    return CompletedProgram(argv, done.returncode, done.stdout, done.stderr)


def run(
    shell: str,
    *argv: str,
    env: dict[str, str] | None = None,
    stdin: bytes = b"",
    noise: str = "",
    limit_s: float = LIMIT_S,
) -> tuple[int, bytes, bytes]:
    request = ssh.encode_ssh_request(TOKEN, argv, env or {}, limit_s, stdin)
    done = ssh.decode_ssh_answer(TOKEN, argv, far(shell, request, noise))
    assert done
    assert done.status is not None
    return done.status, done.stdout, done.stderr


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=60)
@given(arguments=st.lists(TEXT, max_size=5), stdin=st.binary(max_size=80).filter(lambda b: 0 not in b))
def test_arguments_and_input_arrive_unchanged(shell: str, arguments: list[str], stdin: bytes) -> None:
    shown = b"".join(os.fsencode(word) + b"\n." for word in arguments) + stdin
    assert run(shell, "/bin/sh", "-c", SHOW, "sh", *arguments, stdin=stdin) == (0, shown, b"")


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=60)
@given(env=st.dictionaries(VARIABLE, TEXT, max_size=5))
def test_a_remote_program_gets_exactly_the_given_environment(shell: str, env: dict[str, str]) -> None:
    _, shown, _ = run(shell, "/usr/bin/env", "-0", env=env)

    assert set(shown.split(b"\0")) - {b""} == {os.fsencode(f"{name}={value}") for name, value in env.items()}


@given(text=TEXT)
@settings(max_examples=100)
def test_a_quoted_word_is_one_word_in_every_shell(text: str) -> None:
    for shell in SHELLS:
        shown = subprocess.run([shell, "-c", f"printf %s {quote_for_sh(text)}"], capture_output=True)

        assert shown.stdout == os.fsencode(text)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("program", ["/no such", "a=b", "/tmp/x=y/it's", "$(id)", "-x"])
def test_a_missing_remote_program_fails_with_status_127(shell: str, program: str) -> None:
    with pytest.raises(CommandFailed) as failed:
        run(shell, program, "true")

    assert failed.value.status == 127


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo a; echo b >&2; exit 3", (3, b"a\n", b"b\n")),
        ("exit 255", (255, b"", b"")),
        ("exec >&- 2>&-; exit 4", (4, b"", b"")),
        ("echo '{ printf %s'", (0, b"{ printf %s\n", b"")),
    ],
    ids=["both outputs", "ssh's own status", "mute", "looks like ours"],
)
def test_exit_status_and_output_of_a_remote_program_arrive(
    shell: str, script: str, expected: tuple[int, bytes, bytes]
) -> None:
    assert run(shell, "/bin/sh", "-c", script, stdin=b"unread") == expected


@pytest.mark.parametrize("shell", SHELLS)
def test_a_signal_that_killed_a_remote_program_is_reported(shell: str) -> None:
    assert run(shell, "/bin/sh", "-c", "kill -9 $$", stdin=b"unread")[:2] == (-9, b"")


@pytest.mark.parametrize("shell", SHELLS)
def test_output_of_the_login_shell_is_ignored(shell: str) -> None:
    """Before a command by ssh the shell reads .bashrc, which may print a greeting."""
    assert run(shell, "/bin/echo", "x", noise="echo welcome; echo hello >&2; ") == (0, b"x\n", b"")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_truncated_request_runs_nothing(shell: str) -> None:
    """When a session is lost, sshd closes the input of the command."""
    whole = ssh.encode_ssh_request(TOKEN, ("/bin/echo", "it's"), {"A": "b"}, LIMIT_S, b"echo 'x'\nexit 0\n")
    for length in range(len(whole)):
        assert far(shell, whole[:length]).stdout == b"", whole[:length]

    assert b"it's" in far(shell, whole).stdout


@pytest.mark.parametrize(
    ("stdout", "stderr"),
    [
        (b"", b""),
        (f"{TOKEN}out".encode(), f"{TOKEN}err{TOKEN}".encode()),
        (f"{TOKEN}out{TOKEN}1".encode(), f"{TOKEN}err{TOKEN}".encode()),
        (f"{TOKEN}out{TOKEN}12{TOKEN}".encode(), f"{TOKEN}er".encode()),
    ],
    ids=["nothing", "half an output", "half a status", "half an error"],
)
def test_an_incomplete_answer_is_none(stdout: bytes, stderr: bytes) -> None:
    assert ssh.decode_ssh_answer(TOKEN, ("x",), CompletedProgram(("ssh",), 255, stdout, stderr)) is None


def test_a_remote_program_is_killed_at_its_time_limit() -> None:
    assert run("/bin/dash", "/bin/sleep", "30", limit_s=0.2)[0] == -9


def test_a_program_without_a_login_runs_locally() -> None:
    assert ssh.run_over_ssh(None, ("/bin/cat",), {}, LIMIT_S, b"in").stdout == b"in"


EACH_CARRIER = pytest.mark.parametrize(
    "carrier", [ssh.OpenSshClient, SshSessionsOfProgram, IdleSshSessions, KeptSshConnections, LazyKeptSshConnections]
)


def test_ssh_options_disable_agent_and_prompts() -> None:
    """OpenSSH itself prints the effective options, see ssh_config(5)."""
    program, *rest = ssh.remote_shell_ssh_command(SshLogin(host="far"))
    ask = subprocess.run((program, "-G", *rest), env={}, capture_output=True, text=True, check=True)
    said = dict(line.split(" ", 1) for line in ask.stdout.splitlines() if " " in line)

    assert "SSH_AUTH_SOCK" not in BARE
    assert {
        "identityagent": "none",
        "forwardagent": "no",
        "batchmode": "yes",
        "stricthostkeychecking": "true",
        "updatehostkeys": "false",
        "serveraliveinterval": str(ssh.ALIVE_S),
    }.items() <= said.items()


@EACH_CARRIER
@pytest.mark.parametrize(("is_silent", "limit_s"), [(False, LIMIT_S), (True, 0.5)], ids=["closed", "silent"])
def test_a_closed_or_silent_port_is_a_host_not_reached(
    carrier: type[ssh.OpenSshClient], is_silent: bool, limit_s: float
) -> None:
    with socket.socket() as end:
        end.bind(("127.0.0.1", 0))
        if is_silent:
            end.listen()
        login = SshLogin(host="127.0.0.1", port=str(end.getsockname()[1]))
        with pytest.raises(HostNotReached, match=r"can't reach 127\.0\.0\.1") as failed:
            ssh.run_over_ssh(login, ("/bin/true",), {}, limit_s, b"script", carrier())

    assert (failed.value.transient, "Errno" in failed.value.failure_in_words) == (True, False)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (b"Host key verification failed.\n", "ssh-keyscan -p 2222 far >>~/.ssh/known_hosts"),
        (b"WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!\n", "ssh-keygen -R '[far]:2222'"),
        (b"al@far: Permission denied (publickey).\n", "far does not let the key of"),
        (
            b'Load key "/home/a/.ssh/id": bad permissions\r\nal@far: Permission denied (key).',
            "which others may read: chmod 600 /home/a/.ssh/id",
        ),
        (
            b'Load key "/home/a/k; touch PWNED #": bad permissions\r\nal@far: Permission denied (key).',
            "which others may read: chmod 600 '/home/a/k; touch PWNED #'",
        ),
    ],
    ids=["unknown host", "changed host", "key refused", "key open to others", "key as a line"],
)
def test_ssh_failures_that_a_user_can_correct_have_advice(words: bytes, told: str) -> None:
    assert told in ssh.ssh_failure_advice(SshLogin(host="far", user="al", port="2222"), words)


def test_advice_for_root_corrects_a_key_as_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of the folder may plant a symlink before root runs the command."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    words = b'Load key "/home/a/id": bad permissions\r\nal@far: Permission denied (key).'
    told = ssh.ssh_failure_advice(SshLogin(host="far", user="al", person="nobody"), words)

    assert told.endswith(": runuser -u nobody -- chmod 600 /home/a/id")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (b"al@far: Permission denied (publickey).\r\n", True),
        (b"a banner\nal@far: Permission denied (publickey,password).\n", True),
        (b"al@far: Permission denied (publickey).\nConnection closed by UNKNOWN port 65535\n", False),
        (b"no x@y: Permission denied (publickey).\n", False),
        (b"ssh: connect to host far port 22: Connection refused\n", False),
        (b"Host key verification failed.\n", False),
        (b"", False),
    ],
    ids=["refused", "after a banner", "by a jump host", "a sentence", "no sshd", "host key", "none"],
)
def test_keys_are_refused_only_by_the_last_line_of_the_client(words: bytes, expected: bool) -> None:
    """Earlier lines may come from a banner or a jump host."""
    assert expected is ssh.are_ssh_keys_refused(words)


def test_a_temporary_ssh_failure_has_no_advice() -> None:
    assert ssh.ssh_failure_advice(SshLogin(host="far"), b"Connection refused\n") == ""


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        ("echo 'This account is currently not available.'; exit 1", "This account is currently"),
        ("exit 3", "the remote shell ended with status 3"),
        ("echo motd; echo lost >&2; exit 255", "lost"),
    ],
    ids=["nologin", "silent", "on its standard error"],
)
def test_the_message_of_a_refusing_login_shell_is_reported(shell: str, said: str) -> None:
    class Obstinate(ssh.OpenSshClient):
        def run_ssh_request(self, *_: object) -> tuple[CompletedProgram, bool]:
            done = subprocess.run(["/bin/sh", "-c", shell], capture_output=True, check=False)
            return CompletedProgram(("ssh",), done.returncode, done.stdout, done.stderr), False

    with pytest.raises(CommandFailed, match=f"may have run: {said}"):
        ssh.run_over_ssh(SshLogin(host="far"), ("true",), {}, LIMIT_S, carrier=Obstinate())


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="root alone logs in as others")
def test_programs_started_by_a_users_ssh_config_end_with_the_client() -> None:
    """Root tries the keys of users (gridbridge check)."""
    mark = f"600.{os.getpid()}"
    argv = (*ssh._ssh_user_switch_prefix(SshLogin(host="", person="nobody")), "/bin/sh", "-c")
    hides = f"setsid sh -c 'setsid sleep {mark} & echo $!' >&2; sleep 600"

    with pytest.raises(CommandFailed):
        program_runs.run_program((*argv, hides), BARE, 1)
    assert poll_until(lambda: not _running(mark), 10)


@pytest.mark.parametrize("carrier", [ssh.OpenSshClient, SshSessionsOfProgram])
@pytest.mark.parametrize("output", ["yes", "yes >&2"])
def test_endless_output_of_a_remote_account_is_too_long_output(
    carrier: type[ssh.OpenSshClient], output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (ssh, ssh_session):
        monkeypatch.setattr(module, "remote_shell_ssh_command", lambda _: ("/bin/sh", "-c", f"cat & {output}"))

    with pytest.raises(ProgramOutputTooLong, match="its output at far is larger than 1 MiB") as raised:
        ssh.run_over_ssh(FAR, ("true",), {}, LIMIT_S, carrier=carrier(), most_bytes=1 << 20)
    assert (raised.value.status, raised.value.host) == (None, "far")


def test_reading_a_long_answer_takes_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = ("/bin/sh", "-c", ssh.FAR_SHELL)
    monkeypatch.setattr(ssh_session, "remote_shell_ssh_command", lambda _: argv)
    began = time.process_time()
    done = ssh.run_over_ssh(FAR, ("head", "-c", "40000000", "/dev/zero"), {}, LIMIT_S, carrier=SshSessionsOfProgram())

    assert len(done.stdout) == 40_000_000
    assert time.process_time() - began < 5


def _running(word: str) -> list[str]:
    done = subprocess.run(("pgrep", "-f", f"^sleep {word}"), stdout=subprocess.PIPE, check=False)
    return done.stdout.decode().split()


RECORD = 'for word; do echo "<$word>"; done >"${0%/*}/words"; cat >"${0%/*}/stdin"'


def client(folder: Path, script: str = RECORD) -> str:
    path = write_program(folder / "ssh", f"#!/bin/sh\n{script}\n")
    return str(path)


def test_a_relayed_command_keeps_its_arguments_and_input(tmp_path: Path) -> None:
    status = ssh.run_by_callers_ssh(
        "login.b", ("gridstat", "it's $HOME", "-s"), b"a\0b", client(tmp_path, f"{RECORD}; exit 7")
    )

    words = (tmp_path / "words").read_text().splitlines()
    assert (status, words) == (7, ["<-T>", "<-->", "<login.b>", "<'gridstat' 'it'\\''s $HOME' '-s'>"])
    assert (tmp_path / "stdin").read_bytes() == b"a\0b"


def test_a_relay_host_may_have_a_port(tmp_path: Path) -> None:
    ssh.run_by_callers_ssh("login.b:2222", ("x",), b"", client(tmp_path))

    assert (tmp_path / "words").read_text().split()[:5] == ["<-T>", "<-p>", "<2222>", "<-->", "<login.b>"]


@pytest.mark.parametrize("name", ["nothing", "."])
def test_an_ssh_client_that_cannot_run_is_unreached(tmp_path: Path, name: str) -> None:
    assert ssh.run_by_callers_ssh("b", ("x",), b"", str(tmp_path / name)) == ssh.UNREACHED


@pytest.mark.parametrize(
    ("reads", "data", "status"),
    [
        ("", b"a", ssh.UNREACHED),
        ("head -c 1 >/dev/null", b"a", ssh.RELAY_FAILED),
        ("", b"", ssh.RELAY_FAILED),
        ("", None, ssh.RELAY_FAILED),
    ],
)
def test_unread_input_proves_that_the_relay_did_not_start(
    tmp_path: Path, reads: str, data: bytes | None, status: int
) -> None:
    """ssh(1) reads input after its session is open. Without input the start stays unknown."""
    path = client(tmp_path, f"{reads}\nexit 255")

    assert ssh.run_by_callers_ssh("b", ("x",), data, path) == status


def test_a_relay_to_a_closed_port_is_unreached() -> None:
    assert ssh.run_by_callers_ssh("127.0.0.1:1", ("x",), b"a") == ssh.UNREACHED


@pytest.mark.parametrize(
    ("script", "status", "files"),
    [
        ("mkdir out/0; echo b >out/0/b; echo done; exit 3", 3, {"said", "out/0/b"}),
        ("kill -9 $PPID", ssh.RELAY_FAILED, set()),
    ],
)
def test_files_written_by_a_relayed_command_are_fetched(
    tmp_path: Path, script: str, status: int, files: set[str]
) -> None:
    folder, spare = tmp_path / "here", tmp_path / "there"
    for each in (folder, spare):
        each.mkdir()
    runs_it = client(tmp_path, f'while [ "$1" != -- ]; do shift; done; export TMPDIR={spare}; eval "$3"')

    found = ssh.run_remotely_and_fetch_files("b", ("/bin/sh", "-c", script), str(folder), runs_it)

    there = {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}
    assert (found, there) == (status, files)
    assert not list(spare.iterdir()) or status == ssh.RELAY_FAILED
