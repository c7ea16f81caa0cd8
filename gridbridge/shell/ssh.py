"""Run a program on another host by OpenSSH's client, and know whether it ran.

ssh(1) ends with the program's exit status, or with 255 for its own failure, but a program may end
with 255 too. So the command there prints a secret token around each of its outputs; an answer
without all of them is no answer. All of the request goes by standard input, as one compound command
of sh: half of one is a syntax error, and nothing of it runs. The login shell there, whichever it
is, sees but a constant line.
"""

import os
import pwd

from gridbridge.errors import (
    CommandFailed,
    HostNotReached,
    OutputTooLong,
    SshAccessRejected,
    SshLoginRefused,
)
from gridbridge.model.route import BARE, SshLogin
from gridbridge.shell import files, runner
from gridbridge.shell.runner import ANSWER_BYTES, CompletedProgram, quote

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Iterator

FAILED = 255  # ssh(1): an error of its own
CLIENT = "/usr/bin/ssh"
CONNECT_S = 10  # the longest for a connection; a command's own limit holds too
ALIVE_S = 5  # after two such silences a connection is lost
OPTIONS = {  # ssh_config(5); these go before what the person's and the site's files say
    "BatchMode": "yes",
    "IdentityAgent": "none",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "yes",
    "RequestTTY": "no",
    "EscapeChar": "none",
    "ControlMaster": "no",  # a master that goes to the background keeps our pipes open
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
FAR_SHELL = (  # sh and csh take this line
    "exec /usr/bin/env LC_ALL=C PATH=/usr/bin:/bin /bin/sh -c"
    ' \'while read -r bytes; do eval "$(head -c "$bytes")"; done\''
)
TOKENS = 3, 2  # in an answer, on standard output and error
NOT_STARTED = (125, 126, 127)  # env(1), timeout(1): the program can't be run, or is not there
CAP_SYS_ADMIN = 21  # capabilities(7)
NOT_FOUND = 127  # as runner.run says of both
FIRST_SIGNAL, LAST_SIGNAL = 129, 192  # what a shell says of a program that a signal ended
DENIED = b"Permission denied ("  # what the client ends with when all that it could try failed
BAD_MODE = b'": bad permissions'  # of `Load key "PATH": bad permissions`
AS_TYPED = ("utf-8", "surrogateescape")  # the caller's bytes, whatever their encoding


class OpenSshClient:
    """Carries requests, each by a process of OpenSSH's client."""

    def carry(
        self,
        login: SshLogin,
        _token: str,
        request: bytes,
        timeout_s: float,
        most_bytes: int = ANSWER_BYTES,
    ) -> tuple[CompletedProgram, bool]:
        """Have the far shell do a request; say how that ended, and whether nothing was sent.

        Raises TooLong when more came back than `most_bytes`.
        """
        source = runner.in_memory(request)
        try:
            return _call(login, timeout_s, source, most_bytes), _is_unread(source)
        finally:
            os.close(source)

    def listen(self, login: SshLogin, command: str, text: bytes) -> "Iterator[bytes]":
        """Refuse to listen: only programs that keep connections can."""
        raise HostNotReached((CLIENT,), FAILED, stderr=b"no connection is kept")


_carrier = OpenSshClient()


def carry_by(carrier: OpenSshClient) -> None:
    """Carry every request of this process in another way: connection.Connections has one."""
    global _carrier
    _carrier = carrier


def keeps_connections() -> bool:
    """Say whether requests are carried by another than OpenSSH's client."""
    return type(_carrier) is not OpenSshClient


def listen(login: SshLogin, command: str, text: bytes) -> "Iterator[bytes]":
    """Have a command read a text there, and give what it prints as long as we listen."""
    return _carrier.listen(login, command, text)


def run(
    login: SshLogin | None,
    argv: tuple[str, ...],
    env: dict[str, str],
    timeout_s: float,
    stdin: bytes = b"",
    carrier: OpenSshClient | None = None,
    most_bytes: int = ANSWER_BYTES,
) -> CompletedProgram:
    """Run a program to its end where the login leads, or here when there is none.

    As runner.run; besides, an exit status of 129 to 192 is taken for a signal, no NUL of `stdin`
    arrives, and the program is killed there when its time is over. Raises NotReached when
    nothing of the request was sent. Raises CommandFailed with status None when the request was
    sent, but the answer was incomplete or too long: the program may have run.
    """
    if login is None:
        return runner.run(argv, env, timeout_s, stdin, most_bytes)
    token = files.random_name()
    whole = request(token, argv, env, timeout_s, stdin)
    try:
        carry = (carrier or _carrier).carry
        ended, is_unread = carry(login, token, whole, timeout_s, most_bytes)
    finally:
        runner.is_over()
    return answer(token, argv, ended) or _fail(login, token, ended, is_unread)


def client(login: SshLogin) -> tuple[str, ...]:
    """Return the command line that reaches the far shell."""
    return (*connection(login), "--", login.host, FAR_SHELL)


def connection(login: SshLogin) -> tuple[str, ...]:
    """Return the client with everything but the host; root becomes the person whose key it uses."""
    options = tuple(word for name in OPTIONS for word in ("-o", f"{name}={OPTIONS[name]}"))
    user = ("-l", login.user) if login.user else ()
    port = ("-p", login.port) if login.port else ()
    return (*_become(login), CLIENT, *options, *user, *port)


def request(
    token: str, argv: tuple[str, ...], env: dict[str, str], timeout_s: float, stdin: bytes
) -> bytes:
    """Write what the far shell is to do; it does all of it or, without the last byte, nothing.

    The first line is the number of bytes that follow: several requests may go one after another.
    """
    by_path = ("/bin/sh", "-c", 'exec "$@"', "sh") if "=" in argv[0] else ()  # env(1): a variable
    variables = (f"{name}={value}" for name, value in env.items())
    limit = ("timeout", "-s", "KILL", f"{timeout_s:g}")
    limited = (*limit, "env", "-i", "--", *variables, *by_path, *argv)
    words = " ".join(map(quote, limited)).encode(*AS_TYPED)
    quoted = quote(stdin.decode(*AS_TYPED)).encode(*AS_TYPED)
    command = b"printf %s " + quoted + b" | " + words if stdin else words + b" </dev/null"
    begin = f"{{ printf %s {token}; printf %s {token} >&2\n"
    end = f'\nprintf %s "{token}$?{token}"; printf %s {token} >&2\n}}'
    whole = begin.encode() + command + end.encode()
    return f"{len(whole)}\n".encode() + whole


def answer(token: str, argv: tuple[str, ...], ended: CompletedProgram) -> CompletedProgram | None:
    """Return a program's outputs between the tokens, None when they are not whole.

    CommandFailed with status 127 when it could not be started.
    """
    if not is_whole(token, ended.stdout, ended.stderr):
        return None
    stdout, stderr = (text.split(token.encode()) for text in (ended.stdout, ended.stderr))
    status = int(stdout[2])
    if status in NOT_STARTED:
        raise CommandFailed(argv, NOT_FOUND, stdout[1], stderr[1])
    is_signal = FIRST_SIGNAL <= status <= LAST_SIGNAL
    return CompletedProgram(
        argv, FIRST_SIGNAL - 1 - status if is_signal else status, stdout[1], stderr[1]
    )


def is_whole(token: str, stdout: bytes, stderr: bytes) -> bool:
    """Say whether both outputs have all of the tokens that surround an answer."""
    mark = token.encode()
    return (stdout.count(mark), stderr.count(mark)) == TOKENS


def _open_key(words: bytes) -> str:
    """Return the file of a key that the client refused for its mode, empty for none."""
    before, refused, _ = words.partition(BAD_MODE)
    return before.rpartition(b'"')[2].decode("utf-8", "replace") if refused else ""


def _become(login: SshLogin) -> tuple[str, ...]:
    if not login.person or os.geteuid():
        return ()
    try:
        account = pwd.getpwnam(login.person)
    except KeyError as error:
        why = f"no account {login.person} here".encode()
        raise HostNotReached((CLIENT,), FAILED, stderr=why) from error
    ids = (f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}")
    return (*_apart(), "/usr/bin/setpriv", "--pdeathsig=KILL", *ids, "--init-groups", "--")


def _apart() -> tuple[str, ...]:
    """Return the words that make a command the first process of a PID namespace.

    All programs that a person's configuration starts then end with the client. Empty if we lack
    the right to do so.
    """
    with open("/proc/self/status", encoding="utf-8", errors="replace") as file:
        rights = next(line for line in file if line.startswith("CapEff:"))
    may = int(rights.split()[1], 16) >> CAP_SYS_ADMIN & 1
    return ("/usr/bin/unshare", "--pid", "--fork", "--") if may else ()


def _call(login: SshLogin, timeout_s: float, source: int, most_bytes: int) -> CompletedProgram:
    """Call the client; one that has to be killed for its time said nothing."""
    argv = client(login)
    try:
        return runner.run_on(argv, BARE, timeout_s, source, most_bytes)
    except OutputTooLong as error:
        raise OutputTooLong(argv, most_bytes, login.host) from error
    except CommandFailed as error:
        if error.status is not None:
            raise
        return CompletedProgram(argv, -runner.SIGKILL, b"", b"")


def _is_unread(source: int) -> bool:
    """Say whether the client has sent nothing: it shares our position in its standard input."""
    return os.lseek(source, 0, os.SEEK_CUR) == 0


def _fail(
    login: SshLogin, token: str, ended: CompletedProgram, is_unread: bool
) -> CompletedProgram:
    """Raise for an answer that is not whole."""
    last = _last_words(token, ended)
    if is_unread:
        advice = explain(login, ended.stderr)
        why = advice or f"can't reach {login.host}: {last}"
        kind = (
            SshLoginRefused
            if is_shut_out(ended.stderr)
            else SshAccessRejected
            if advice
            else HostNotReached
        )
        raise kind(ended.argv, ended.status, b"", why.encode(), host=login.host, transient=True)
    why = f"no whole answer from {login.host}, which may have done it: {last}"
    raise CommandFailed(ended.argv, None, b"", why.encode(), host=login.host, transient=True)


def _last_words(token: str, ended: CompletedProgram) -> str:
    """Return the last that was said: by the client, or by a login shell that obeys nobody."""
    before = ended.stdout.partition(token.encode())[0]
    for output in (ended.stderr, before):
        if lines := output.decode("utf-8", "replace").strip().splitlines():
            return lines[-1]
    killed = ended.status == -runner.SIGKILL
    return "no answer in time" if killed else f"its shell ended with status {ended.status}"


def is_shut_out(words: bytes) -> bool:
    """Say whether the client ended because no key of ours is let in.

    ssh(1) has the exit status 255 for all of its troubles. Before a login its last line is its own,
    whatever the other side made it print before: there the client says how it ended.
    """
    user, _, why = (words.splitlines() or [b""])[-1].partition(b": ")
    return b"@" in user and b" " not in user and why.startswith(DENIED)


def explain(login: SshLogin, words: bytes) -> str:
    """Return what a person can do about ssh's message; empty if the failure passes by itself."""
    person = login.person or pwd.getpwuid(os.geteuid()).pw_name
    options = f"-p {login.port} {login.host}" if login.port else login.host
    host_name = f"[{login.host}]:{login.port}" if login.port else login.host
    adds = f"ssh-keyscan {options} >>~/.ssh/known_hosts"
    if b"REMOTE HOST IDENTIFICATION HAS CHANGED" in words:
        removal = f"ssh-keygen -R '{host_name}' && {adds}"
        return f"{host_name} has another host key than {person} knows; if that is right: {removal}"
    if b"Host key verification failed" in words:
        return f"{person} does not know {host_name}'s host key; if it is right: {adds}"
    if b"Permission denied" in words:
        if key := _open_key(words):
            import shlex

            as_them = f"runuser -u {login.person} -- " if _become(login) else ""
            mend = f"{as_them}chmod 600 {shlex.quote(key)}"
            return f"ssh does not use the key of {person}, which others may read: {mend}"
        account = login.user or person
        return f"{login.host} does not let the key of {person} into the account {account}"
    return ""
