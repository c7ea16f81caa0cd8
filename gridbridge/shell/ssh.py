"""Runs a program on another host by OpenSSH's client, and detects whether the program ran.

A request is one compound command of sh on standard input: a cut request is a syntax error and runs nothing.
"""

import os
import pwd

from gridbridge.errors import CommandFailed, HostNotReached, ProgramOutputTooLong, SshAccessRejected, SshLoginRefused
from gridbridge.model.transfer_route import BARE, SshLogin
from gridbridge.shell import program_runs, safe_files
from gridbridge.shell.program_runs import ANSWER_BYTES, CompletedProgram, open_memory_file, quote_for_sh

TYPE_CHECKING = False  # importing typing would take as long as importing json
if TYPE_CHECKING:
    from collections.abc import Iterator


FAILED = 255  # ssh(1): exit status of the client's own errors
CLIENT = "/usr/bin/ssh"
CONNECT_S = 10  # longest time for connecting, within the time limit of the request
ALIVE_S = 5  # interval of keepalive messages; after two unanswered messages the connection counts as lost
OPTIONS = {  # ssh options that override the files of the user and the site (ssh_config(5))
    "BatchMode": "yes",
    "IdentityAgent": "none",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "yes",
    "RequestTTY": "no",
    "EscapeChar": "none",
    "ControlMaster": "no",  # a master in the background would keep the pipes open
    "ControlPath": "none",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "StrictHostKeyChecking": "yes",
    "UpdateHostKeys": "no",
    "ConnectTimeout": str(CONNECT_S),
    "ServerAliveInterval": str(ALIVE_S),
    "ServerAliveCountMax": "2",
    "LogLevel": "ERROR",
}
FAR_SHELL = (  # command line that both sh and csh understand
    "exec /usr/bin/env LC_ALL=C PATH=/usr/bin:/bin /bin/sh -c"
    ' \'while read -r bytes; do eval "$(head -c "$bytes")"; done\''
)
TOKENS = 3, 2  # how many tokens a whole answer has on standard output, and on standard error
NOT_STARTED = (125, 126, 127)  # exit statuses of env(1) and timeout(1): the program is missing or can't be run
CAP_SYS_ADMIN = 21  # bit number of the capability (capabilities(7))
NOT_FOUND = 127  # exit status of run_program: the program can't be started
FIRST_SIGNAL, LAST_SIGNAL = 129, 192  # exit statuses of a shell for a program that a signal ended
DENIED = b"Permission denied ("  # the client's last line has this text if the server accepts no key
BAD_MODE = b'": bad permissions'  # end of `Load key "PATH": bad permissions`
AS_TYPED = ("utf-8", "surrogateescape")  # codec and error handler that keep bytes of any encoding


class OpenSshClient:
    """Runs each request by a new process of OpenSSH's client."""

    def run_ssh_request(
        self, login: SshLogin, _token: str, request: bytes, timeout_s: float, most_bytes: int = ANSWER_BYTES
    ) -> tuple[CompletedProgram, bool]:
        """Run a request; return the result, and whether nothing was sent. Raises ProgramOutputTooLong."""
        source = program_runs.open_memory_file(request)
        try:
            ended = _run_ssh_client(login, timeout_s, source, most_bytes)
            return ended, os.lseek(source, 0, os.SEEK_CUR) == 0  # position 0: nothing was sent
        finally:
            os.close(source)

    def stream_remote_output(self, login: SshLogin, command: str, text: bytes) -> "Iterator[bytes]":
        """Raise HostNotReached, because only kept connections can yield output as it arrives."""
        raise HostNotReached(
            (CLIENT,), FAILED, stderr=b"output can't be read as it arrives: no ssh connection is kept open"
        )


_carrier = OpenSshClient()


def set_ssh_request_carrier(carrier: OpenSshClient) -> None:
    """Set the client that runs this process's ssh requests, such as KeptSshConnections."""
    global _carrier
    _carrier = carrier


def uses_persistent_ssh() -> bool:
    return type(_carrier) is not OpenSshClient


def stream_output_over_ssh(login: SshLogin, command: str, text: bytes) -> "Iterator[bytes]":
    return _carrier.stream_remote_output(login, command, text)


def run_over_ssh(
    login: SshLogin | None,
    argv: tuple[str, ...],
    env: dict[str, str],
    timeout_s: float,
    stdin: bytes = b"",
    carrier: OpenSshClient | None = None,
    most_bytes: int = ANSWER_BYTES,
) -> CompletedProgram:
    """Run a program to its end on the host of the login; without a login run the program on this host.

    Status 129 to 192 counts as a signal, `stdin` loses NUL bytes, and the time limit kills the remote program. Raises
    HostNotReached if nothing was sent, and CommandFailed with status None if the program may have run.
    """
    if login is None:
        return program_runs.run_program(argv, env, timeout_s, stdin, most_bytes)

    def run_on_host() -> CompletedProgram:
        token = safe_files.random_file_name()
        whole = encode_ssh_request(token, argv, env, timeout_s, stdin)
        try:
            carry = (carrier or _carrier).run_ssh_request
            ended, is_unread = carry(login, token, whole, timeout_s, most_bytes)
        finally:
            program_runs.run_program_end_callback()
        return decode_ssh_answer(token, argv, ended) or _raise_ssh_failure(login, token, ended, is_unread)

    return (
        run_on_host()
        if stdin
        else program_runs.answer_program_run((*login.shared_connection_key, *argv), env, run_on_host)
    )


def remote_shell_ssh_command(login: SshLogin) -> tuple[str, ...]:
    return (*ssh_client_command(login), "--", login.host, FAR_SHELL)


def ssh_client_command(login: SshLogin) -> tuple[str, ...]:
    """Return the ssh command without a host name; root runs the command as the owner of the key."""
    options = tuple(word for name in OPTIONS for word in ("-o", f"{name}={OPTIONS[name]}"))
    user = ("-l", login.user) if login.user else ()
    port = ("-p", login.port) if login.port else ()
    return (*_ssh_user_switch_prefix(login), CLIENT, *options, *user, *port)


def encode_ssh_request(token: str, argv: tuple[str, ...], env: dict[str, str], timeout_s: float, stdin: bytes) -> bytes:
    """Write a request for the remote shell; a request that lacks its last byte does nothing.

    The secret token around each output tells a program's exit status 255 from ssh's own failure (ssh(1)).
    """
    by_path = ("/bin/sh", "-c", 'exec "$@"', "sh") if "=" in argv[0] else ()  # for env(1) a word with `=` is a variable
    variables = (f"{name}={value}" for name, value in env.items())
    limit = ("timeout", "-s", "KILL", f"{timeout_s:g}")
    limited = (*limit, "env", "-i", "--", *variables, *by_path, *argv)
    words = " ".join(map(quote_for_sh, limited)).encode(*AS_TYPED)
    quoted = quote_for_sh(stdin.decode(*AS_TYPED)).encode(*AS_TYPED)
    command = b"printf %s " + quoted + b" | " + words if stdin else words + b" </dev/null"
    begin = f"{{ printf %s {token}; printf %s {token} >&2\n"
    end = f'\nprintf %s "{token}$?{token}"; printf %s {token} >&2\n}}'
    whole = begin.encode() + command + end.encode()
    return f"{len(whole)}\n".encode() + whole


def decode_ssh_answer(token: str, argv: tuple[str, ...], ended_program: CompletedProgram) -> CompletedProgram | None:
    """Return the program's result; None for an incomplete answer.

    Raises CommandFailed with status 127 if the program did not start.
    """
    mark = token.encode()
    if (ended_program.stdout.count(mark), ended_program.stderr.count(mark)) != TOKENS:
        return None
    stdout, stderr = (text.split(mark) for text in (ended_program.stdout, ended_program.stderr))
    status = int(stdout[2])
    if status in NOT_STARTED:
        raise CommandFailed(argv, NOT_FOUND, stdout[1], stderr[1])
    is_signal = FIRST_SIGNAL <= status <= LAST_SIGNAL
    return CompletedProgram(argv, FIRST_SIGNAL - 1 - status if is_signal else status, stdout[1], stderr[1])


def _ssh_user_switch_prefix(login: SshLogin) -> tuple[str, ...]:
    if not login.person or os.geteuid():
        return ()
    try:
        account = pwd.getpwnam(login.person)
    except KeyError as error:
        why = f"no account {login.person} here".encode()
        raise HostNotReached((CLIENT,), FAILED, stderr=why) from error
    ids = (f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}")
    return (*_pid_namespace_prefix(), "/usr/bin/setpriv", "--pdeathsig=KILL", *ids, "--init-groups", "--")


def _pid_namespace_prefix() -> tuple[str, ...]:
    """Return the unshare(1) words by which ssh's helper programs end with ssh; empty if unshare is not permitted."""
    with open("/proc/self/status", encoding="utf-8", errors="replace") as file:
        rights = next(line for line in file if line.startswith("CapEff:"))
    may = int(rights.split()[1], 16) >> CAP_SYS_ADMIN & 1
    return ("/usr/bin/unshare", "--pid", "--fork", "--") if may else ()


def _run_ssh_client(login: SshLogin, timeout_s: float, source: int, most_bytes: int) -> CompletedProgram:
    argv = remote_shell_ssh_command(login)
    try:
        return program_runs.run_with_file_as_input(argv, BARE, timeout_s, source, most_bytes)
    except ProgramOutputTooLong as error:
        raise ProgramOutputTooLong(argv, most_bytes, login.host) from error
    except CommandFailed as error:
        if error.status is not None:
            raise
        return CompletedProgram(argv, -program_runs.SIGKILL, b"", b"")


def _raise_ssh_failure(
    login: SshLogin, token: str, ended_program: CompletedProgram, is_unread: bool
) -> CompletedProgram:
    last = _last_line_of_failed_ssh(token, ended_program)
    if is_unread:
        advice = ssh_failure_advice(login, ended_program.stderr)
        why = advice or f"can't reach {login.host}: {last}"
        kind = (
            SshLoginRefused
            if are_ssh_keys_refused(ended_program.stderr)
            else SshAccessRejected
            if advice
            else HostNotReached
        )
        raise kind(ended_program.argv, ended_program.status, b"", why.encode(), host=login.host, transient=True)
    why = f"no complete answer from {login.host}, and the command may have run: {last}"
    raise CommandFailed(ended_program.argv, None, b"", why.encode(), host=login.host, transient=True)


def _last_line_of_failed_ssh(token: str, ended_program: CompletedProgram) -> str:
    before = ended_program.stdout.partition(token.encode())[0]
    for output in (ended_program.stderr, before):
        if lines := output.decode("utf-8", "replace").strip().splitlines():
            return lines[-1]
    killed = ended_program.status == -program_runs.SIGKILL
    return "no answer in time" if killed else f"the remote shell ended with status {ended_program.status}"


def are_ssh_keys_refused(words: bytes) -> bool:
    """Say whether the last line of ssh means that the server accepts none of the user's keys."""
    user, _, why = (words.splitlines() or [b""])[-1].partition(b": ")
    return b"@" in user and b" " not in user and why.startswith(DENIED)


def ssh_failure_advice(login: SshLogin, words: bytes) -> str:
    """Return advice for an error message of ssh; empty if another try may succeed."""
    person = login.person or pwd.getpwuid(os.geteuid()).pw_name
    options = f"-p {login.port} {login.host}" if login.port else login.host
    host_name = f"[{login.host}]:{login.port}" if login.port else login.host
    adds = f"ssh-keyscan {options} >>~/.ssh/known_hosts"
    if b"REMOTE HOST IDENTIFICATION HAS CHANGED" in words:
        removal = f"ssh-keygen -R '{host_name}' && {adds}"
        return f"{host_name} has another host key than {person} knows; if the new key is right, run: {removal}"
    if b"Host key verification failed" in words:
        return f"{person} does not know {host_name}'s host key; if the key is right, run: {adds}"
    if b"Permission denied" in words:
        before, refused, _ = words.partition(BAD_MODE)
        if key := before.rpartition(b'"')[2].decode("utf-8", "replace") if refused else "":
            import shlex

            as_them = f"runuser -u {login.person} -- " if _ssh_user_switch_prefix(login) else ""
            mend = f"{as_them}chmod 600 {shlex.quote(key)}"
            return f"ssh does not use the key of {person}, which others may read: {mend}"
        account = login.user or person
        return f"{login.host} does not let the key of {person} into the account {account}"
    return ""


CALLERS_CLIENT, TAR = "/usr/bin/ssh", "/bin/tar"
PACKED = """\
d=$(mktemp -d) && cd -- "$d" && mkdir out || exit
trap 'cd / && rm -rf -- "$d"' EXIT
"$@" >said </dev/null
status=$?
tar -c -f - said out || exit
exit $status
"""
RELAY_FAILED = 255  # ssh(1) failed, or the program ended with 255
UNREACHED = -1  # ssh failed before the program could start
SHELL_SIGNAL_BASE = 128  # shells report signal N as exit status 128 + N


def run_by_callers_ssh(
    address: str, argv: tuple[str, ...], stdin: bytes | None = None, client: str = CALLERS_CLIENT, out: int = 1
) -> int:
    """Run a program at HOST or HOST:PORT by the caller's ssh client and files; return its exit status.

    `stdin` None means the caller's standard input; output goes to descriptor `out`. Returns UNREACHED if ssh read no
    byte of `stdin`: nothing ran. Without `stdin`, a failed connection returns 255, which may also be the program's
    status.
    """
    host, _, port = address.partition(":")
    has_terminal = stdin is None and os.isatty(0) and os.isatty(out)
    words = (client, "-t" if has_terminal else "-T", *(("-p", port) if port else ()))
    line = " ".join(map(quote_for_sh, argv))
    source = None if stdin is None else open_memory_file(stdin)
    actions = [(os.POSIX_SPAWN_DUP2, out, 1)]
    actions += [] if source is None else [(os.POSIX_SPAWN_DUP2, source, 0)]
    try:
        pid = os.posix_spawn(client, (*words, "--", host, line), os.environ, file_actions=actions)
    except OSError:
        return UNREACHED
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    is_unread = bool(stdin) and source is not None and not os.lseek(source, 0, os.SEEK_CUR)
    if status == RELAY_FAILED and is_unread:
        return UNREACHED
    return status if status >= 0 else SHELL_SIGNAL_BASE - status


def run_remotely_and_fetch_files(address: str, argv: tuple[str, ...], folder: str, client: str = CALLERS_CLIENT) -> int:
    """Run a remote program; fetch its output `said` and folder `out`, or return RELAY_FAILED if one is missing."""
    source, sink = os.pipe()
    unpack = (TAR, "-x", "-f", "-", "-C", folder, "--no-same-owner")
    pid = os.posix_spawn(TAR, unpack, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, source, 0)])
    os.close(source)
    status = run_by_callers_ssh(address, ("/bin/sh", "-c", PACKED, "sh", *argv), b"", client, sink)
    os.close(sink)
    is_whole = os.waitpid(pid, 0)[1] == 0
    return status if is_whole and status != UNREACHED else RELAY_FAILED
