"""On a login node the grid commands go on to the transfer host, by the person's own ssh.

Only there are the spool and the published files; where those are mounted nothing goes on. Whoever
asks for help, or for other published files, is answered here.
"""

import os
import sys
from collections.abc import Sequence

import click

from gridbridge import config
from gridbridge.cli import output, program
from gridbridge.errors import ConfigError
from gridbridge.model.places import CONFIG, PUBLISHED
from gridbridge.shell import onward

PROGRAMS = "/opt/gridbridge/bin"
HERE = ("-h", "--help", "--published")
LOST = "{}: {} was not reached, or the connection was lost; look at gridstat before you repeat it"


def host(folder: str = PUBLISHED, path: str = CONFIG) -> str:
    """Return where a command has to go; empty for here, or where nobody has said that."""
    if os.path.isdir(folder):
        return ""
    try:
        return config.load(path).site.transfer_host
    except ConfigError:
        return ""  # the command itself says what is missing


def run(command: click.Command, name: str, lost: int = program.ERROR, kept: str = "") -> None:
    """Run a command here or there; an option that writes a file (`kept`) can't go on."""
    words = sys.argv[1:]
    there = "" if any(word.partition("=")[0] in HERE for word in words) else host()
    if not there:
        program.run(command, name)
    if kept and any(word.partition("=")[0] in kept.split() for word in (name, *words)):
        output.complain(f"{name}: it writes files where it runs; run it on {there}")
        sys.exit(program.ERROR)
    sys.exit(go(there, name, words, lost))


def go(there: str, name: str, words: Sequence[str], lost: int, stdin: bytes | None = None) -> int:
    """Run a command of ours there, and return its exit status."""
    status = onward.run(there, (f"{PROGRAMS}/{name}", *words), stdin)
    if status != onward.FAILED:
        return status
    output.complain(LOST.format(name, there))
    return lost
