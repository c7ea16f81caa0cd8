"""Runs a program on another host in this one's place: same person, same terminal, its exit status.

It is the person's own ssh(1), with their keys, agent and configuration, which may ask them.
"""

import os

from gridbridge.shell.runner import in_memory, quote

CLIENT, TAR = "/usr/bin/ssh", "/bin/tar"
PACKED = """\
d=$(mktemp -d) && cd -- "$d" && mkdir out || exit
trap 'cd / && rm -rf -- "$d"' EXIT
"$@" >said </dev/null
status=$?
tar -c -f - said out || exit
exit $status
"""
FAILED = 255  # ssh(1): an error of its own, unless the program ended so
UNREACHED = -1  # the same, and nothing was handed over: nothing ran there
FIRST_SIGNAL = 128  # as a shell tells of a program that a signal ended


def run(
    address: str,
    argv: tuple[str, ...],
    stdin: bytes | None = None,
    client: str = CLIENT,
    out: int = 1,
) -> int:
    """Run it at HOST or HOST:PORT with `stdin` to read, else with ours; return its exit status.

    What it prints goes to the descriptor `out`. Where it failed before it had read any of `stdin`,
    which ssh(1) does once a session is open, that is UNREACHED; without it nobody knows.
    """
    host, _, port = address.partition(":")
    has_terminal = stdin is None and os.isatty(0) and os.isatty(out)
    words = (client, "-t" if has_terminal else "-T", *(("-p", port) if port else ()))
    line = " ".join(map(quote, argv))
    source = None if stdin is None else in_memory(stdin)
    actions = [(os.POSIX_SPAWN_DUP2, out, 1)]
    actions += [] if source is None else [(os.POSIX_SPAWN_DUP2, source, 0)]
    try:
        pid = os.posix_spawn(client, (*words, "--", host, line), os.environ, file_actions=actions)
    except OSError:
        return UNREACHED
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    is_unread = bool(stdin) and source is not None and not os.lseek(source, 0, os.SEEK_CUR)
    if status == FAILED and is_unread:
        return UNREACHED
    return status if status >= 0 else FIRST_SIGNAL - status


def bring(address: str, argv: tuple[str, ...], folder: str, client: str = CLIENT) -> int:
    """Run it in an empty folder there; bring here what it writes into `out`, and prints, as `said`.

    FAILED also when not all of that came.
    """
    source, sink = os.pipe()
    unpack = (TAR, "-x", "-f", "-", "-C", folder, "--no-same-owner")
    pid = os.posix_spawn(TAR, unpack, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, source, 0)])
    os.close(source)
    status = run(address, ("/bin/sh", "-c", PACKED, "sh", *argv), b"", client, sink)
    os.close(sink)
    is_whole = os.waitpid(pid, 0)[1] == 0
    return status if is_whole and status != UNREACHED else FAILED
