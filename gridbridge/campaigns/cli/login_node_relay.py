"""On a login node the grid commands go on to the transfer host, by the person's own ssh.

Only there are the spool and the published files; where those are mounted nothing goes on. Whoever
asks for help, the version or other published files is answered here. What a command writes is
brought.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from errno import ENOTDIR
from tempfile import TemporaryDirectory
from typing import Any

import click

from gridbridge.campaigns.cli import UNANSWERED
from gridbridge.cli import error_boundary, output
from gridbridge.errors import ConfigError
from gridbridge.model.places import CONFIG, PUBLISHED
from gridbridge.shell import exec_relay
from gridbridge.shell.files import is_own

PROGRAMS = "/opt/gridbridge/bin"
HERE = ("-h", "--help", "--published", "--version")
NOT_REACHED = "{}: {} was not reached; nothing is changed there"
LOST = (
    "{}: the connection to {} was lost, and it may be done there;"
    " look at gridstat before you repeat it"
)
EITHER = "{}: {} was not reached, or the connection was lost"
HANDED_OVER = b"\n"  # to read, for a command that reads nothing: so it is known to have begun


def host(folder: str = PUBLISHED, path: str = CONFIG) -> str:
    """Return where a command has to go; empty for here, or where nobody has said that."""
    if os.path.isdir(folder):
        return ""
    from gridbridge.config import policy_file  # a tenth of a second that nobody waits for there

    try:
        return policy_file.load(path).site.transfer_host
    except ConfigError:
        return ""  # the command itself says what is missing


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedFiles:
    """What a command writes into the folder `out` when it is called with these words."""

    words: tuple[str, ...]
    to: str  # the folder here to which that belongs
    says: str = ""  # instead of what it says there
    is_chosen: bool = True  # else it has to be one's own


Writes = Callable[[Mapping[str, Any], Sequence[str]], RelayedFiles | None]


def run(
    command: click.Command,
    name: str,
    lost: int = error_boundary.ERROR,
    writes: Writes = lambda *_: None,
    changes: Callable[[Mapping[str, Any]], bool] = lambda _: False,
) -> None:
    """Run a command here or there; what it would write (`writes`) is brought here.

    Whether it changes something is seen by its options.
    """
    words = sys.argv[1:]
    transfer_host = "" if any(word.partition("=")[0] in HERE for word in words) else host()
    try:
        options = command.make_context(name, [*words]).params if transfer_host else {}
    except click.exceptions.ClickException:
        transfer_host = ""  # a mistake is told here
    if not transfer_host:
        error_boundary.run(command, name)
    files = writes(options, words)
    if files:
        sys.exit(bring(transfer_host, name, files))
    sys.exit(go(transfer_host, name, words, lost, changes=changes(options)))


def go(
    transfer_host: str,
    name: str,
    words: Sequence[str],
    lost: int,
    stdin: bytes | None = None,
    *,
    changes: bool = False,
) -> int:
    """Run a command of ours there, and return its exit status.

    `lost` is that of one that was not reached, UNANSWERED of one that may have changed something.
    """
    standard_input = HANDED_OVER if changes and stdin is None else stdin
    status = exec_relay.run(transfer_host, (f"{PROGRAMS}/{name}", *words), standard_input)
    if status not in (exec_relay.FAILED, exec_relay.UNREACHED):
        return status
    is_begun = changes and status == exec_relay.FAILED
    message = LOST if is_begun else NOT_REACHED if changes else EITHER
    output.complain(message.format(name, transfer_host))
    return UNANSWERED if is_begun else lost


def bring(transfer_host: str, name: str, files: RelayedFiles) -> int:
    """Run a command of ours there that writes files, and put them where they belong here."""
    try:
        os.makedirs(files.to, exist_ok=True)
        if not (files.is_chosen or is_own(files.to)):
            output.complain(
                f"{name}: {files.to}: it is another person's; expected a folder of yours as DIR"
            )
            return error_boundary.ERROR
        with TemporaryDirectory(prefix=".gridbridge.", dir=files.to) as folder:
            status = exec_relay.bring(transfer_host, (f"{PROGRAMS}/{name}", *files.words), folder)
            if status == exec_relay.FAILED:
                output.complain(EITHER.format(name, transfer_host))
                return error_boundary.ERROR
            _put(f"{folder}/out", files.to)
            with open(f"{folder}/said", encoding="utf-8", errors="replace") as messages:
                output.line(
                    (files.says if not status else "") or messages.read().removesuffix("\n")
                )
    except OSError as error:
        output.complain(f"{name}: {files.to}: {error.strerror}")
        return error_boundary.ERROR
    return status


def _put(source: str, to: str) -> None:
    """Move all files below a folder to the same places below another; OSError for a link there."""
    for folder, _, names in os.walk(source):
        target = os.path.normpath(os.path.join(to, os.path.relpath(folder, source)))
        if folder != source and os.path.islink(target):
            raise NotADirectoryError(ENOTDIR, f"{target} is a link")
        os.makedirs(target, exist_ok=True)
        for name in names:
            os.replace(f"{folder}/{name}", f"{target}/{name}")
