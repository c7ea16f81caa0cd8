"""`lab on`: run a command on a host as a user, in a clean login environment.

A supervisor inside the host starts the command in a session of its own and passes signals on.
It dies with the `lab on` process, however that ends, and takes the command's process group along.
The command's own daemons (other sessions) live on, as they would after an ssh.
"""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from gridlab import namespaces, presence, topology
from gridlab.errors import LabError
from gridlab.topology import CLUSTER_OF_HOST, Host

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
OPEN_LIMIT = 65536  # file descriptors above standard error are the caller's own business
ABANDONED = signal.SIGUSR1  # what the supervisor gets when `lab on` itself is killed


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A line of the host's /etc/passwd, with the user's groups."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str
    groups: tuple[int, ...]


def run(host: Host, user: str, command: Sequence[str]) -> int:
    """Run a command and return its exit status, 128+n when signal n ended it."""
    init = presence.running_init(host)
    supervisor = _fork_into(init.pid, host, user, command)
    for number in FORWARDED:
        signal.signal(number, lambda received, _: _send(supervisor, received))
    return _wait(supervisor)


def _fork_into(init: int, host: Host, user: str, command: Sequence[str]) -> int:
    """Fork the supervisor, which enters the host; "pid" holds from that fork on."""
    namespaces.join(init, "pid")
    supervisor = os.fork()
    if supervisor:
        return supervisor
    status = 125  # the lab failed, not the command
    try:
        namespaces.die_with_parent(ABANDONED)
        signal.pthread_sigmask(signal.SIG_BLOCK, (*FORWARDED, ABANDONED))
        namespaces.join(init, "ipc", "uts", "net", "mnt")
        status = _supervise(host, account_of(user), command)
    except (LabError, OSError) as error:
        os.write(2, f"lab: {error}\n".encode())
    finally:
        os._exit(status)


def _supervise(host: Host, account: Account, command: Sequence[str]) -> int:
    on_terminal = os.isatty(0)
    child = os.fork()
    if child == 0:
        _exec_as(host, account, command, on_terminal=on_terminal)
    if not on_terminal:
        os.setsid()  # out of the caller's process group: a killpg there must not stop us first
    everything = child if on_terminal else -child

    def pass_on(number: int, _frame: object) -> None:
        _send(everything, signal.SIGKILL if number == ABANDONED else number)

    for number in (*FORWARDED, ABANDONED):
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*FORWARDED, ABANDONED))
    return _wait(child)


def _exec_as(host: Host, account: Account, command: Sequence[str], *, on_terminal: bool) -> None:
    """Become the user and the command; never returns."""
    try:
        if not on_terminal:
            os.setsid()
        for number in (*FORWARDED, ABANDONED, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.closerange(3, OPEN_LIMIT)
        os.umask(0o022)
        os.setgroups(account.groups)
        os.setresgid(account.gid, account.gid, account.gid)
        os.setresuid(account.uid, account.uid, account.uid)
        os.chdir(folder(account))
        os.execvpe(command[0], list(command), environment(host, account))
    except FileNotFoundError:
        os.write(2, f"lab: {command[0]}: not found on {host.name}\n".encode())
        os._exit(127)
    except OSError as error:
        os.write(2, f"lab: {command[0]}: {error.strerror}\n".encode())
        os._exit(126)


def environment(host: Host, account: Account) -> dict[str, str]:
    """Return a login environment, with only the terminal type of the caller."""
    cluster = CLUSTER_OF_HOST[host.name]
    terminal = {"TERM": os.environ.get("TERM", "dumb")} if os.isatty(0) else {}
    return {
        "HOME": account.home,
        "USER": account.name,
        "LOGNAME": account.name,
        "SHELL": account.shell,
        "PATH": topology.search_path(cluster, is_root=account.uid == 0),
        **topology.environment(cluster),
        **terminal,
    }


def folder(account: Account) -> str:
    """Return the folder in which a login starts."""
    return account.home if os.path.isdir(account.home) else "/"


def account_of(name: str) -> Account:
    """Read the host's own account files: name services of the machine must not answer."""
    for line in _lines("/etc/passwd"):
        user, _, uid, gid, _, home, shell = line.split(":")
        if user == name:
            groups = (int(gid), *_extra_groups(name))
            return Account(name=user, uid=int(uid), gid=int(gid), home=home, shell=shell, groups=groups)
    raise LabError(f"there is no user {name} on this host")


def _extra_groups(user: str) -> list[int]:
    rows = (line.split(":") for line in _lines("/etc/group"))
    return [int(gid) for _, _, gid, members in rows if user in members.split(",")]


def _lines(path: str) -> list[str]:
    with open(path) as stream:
        return stream.read().splitlines()


def _send(target: int, number: int) -> None:
    """Signal a process, or a group by its negative number; before its setsid the leader alone."""
    for process in (target, abs(target)):
        try:
            os.kill(process, number)
        except ProcessLookupError:
            continue
        return


def _wait(child: int) -> int:
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if status >= 0 else 128 - status
