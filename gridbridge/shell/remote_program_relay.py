"""Runs a program on another host as the calling person, with their terminal and exit status.

The program runs by the person's own ssh(1) with their keys, agent and configuration. ssh may ask
the person for a passphrase.
"""

import os

from gridbridge.shell.runner import open_memory_file, quote_for_sh

CALLERS_CLIENT, TAR = "/usr/bin/ssh", "/bin/tar"
PACKED = """\
d=$(mktemp -d) && cd -- "$d" && mkdir out || exit
trap 'cd / && rm -rf -- "$d"' EXIT
"$@" >said </dev/null
status=$?
tar -c -f - said out || exit
exit $status
"""
RELAY_FAILED = 255  # ssh(1): its own failure, or a program that ended with 255
UNREACHED = -1  # ssh failed before it read the input: nothing ran on the remote host
SHELL_SIGNAL_BASE = 128  # lowest exit status with which shells report a signal


def run_by_callers_ssh(
    address: str, argv: tuple[str, ...], stdin: bytes | None = None, client: str = CALLERS_CLIENT, out: int = 1
) -> int:
    """Run a program at HOST or HOST:PORT by the caller's ssh; return its exit status.

    The program reads `stdin`, or the caller's standard input if that is None. Its output goes to
    the descriptor `out`. UNREACHED means that ssh failed before it had read any of `stdin`, so that
    nothing ran. ssh reads `stdin` once a session is open. Without `stdin` a failed connection can't
    be told from a program that ended with 255.
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
    """Run a program in an empty remote folder and fetch the files that it wrote.

    The files that the program writes to `out` are unpacked into `folder`, and its standard output
    becomes the file `said`. The result is FAILED if the transfer of the files was incomplete.
    """
    source, sink = os.pipe()
    unpack = (TAR, "-x", "-f", "-", "-C", folder, "--no-same-owner")
    pid = os.posix_spawn(TAR, unpack, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, source, 0)])
    os.close(source)
    status = run_by_callers_ssh(address, ("/bin/sh", "-c", PACKED, "sh", *argv), b"", client, sink)
    os.close(sink)
    is_whole = os.waitpid(pid, 0)[1] == 0
    return status if is_whole and status != UNREACHED else RELAY_FAILED
