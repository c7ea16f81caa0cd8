"""Runs a program on another host in this one's place: same person, same terminal, its exit status.

It is the person's own ssh(1), with their keys, agent and configuration, which may ask them.
"""

import os

from gridbridge.shell.runner import in_memory, quote

CLIENT = "/usr/bin/ssh"
FAILED = 255  # ssh(1): an error of its own, unless the program ended so
FIRST_SIGNAL = 128  # as a shell tells of a program that a signal ended


def run(place: str, argv: tuple[str, ...], stdin: bytes | None = None, client: str = CLIENT) -> int:
    """Run it at HOST or HOST:PORT with `stdin` to read, else with ours; return its exit status."""
    host, _, port = place.partition(":")
    has_terminal = stdin is None and os.isatty(0) and os.isatty(1)
    words = (client, "-t" if has_terminal else "-T", *(("-p", port) if port else ()))
    line = " ".join(map(quote, argv))
    source = None if stdin is None else in_memory(stdin)
    actions = [] if source is None else [(os.POSIX_SPAWN_DUP2, source, 0)]
    try:
        pid = os.posix_spawn(client, (*words, "--", host, line), os.environ, file_actions=actions)
    except OSError:
        return FAILED
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if status >= 0 else FIRST_SIGNAL - status
