"""Edits gridbridge's block of /etc/hosts, as root; the lines of other programs stay as they are."""

import fcntl
import os
from collections.abc import Callable
from typing import NamedTuple

from gridbridge.errors import GridbridgeError
from gridbridge.shell import safe_files

HOSTS, LOCK = "/etc/hosts", "/run/gridbridge-as-root.hosts"
BEGIN, END = "# gridbridge: nodes that come and go", "# gridbridge: end"


class AsRootRequestRefusal(GridbridgeError):
    """Raised for a request that gridbridge-as-root refuses to every caller."""


def hosts_block_with_name(
    host: str, address: str, leads: set[str], other_lines: list[str], block: list[str]
) -> list[str]:
    """Return the lines of gridbridge's block with a name added.

    Raises AsRootRequestRefusal if a line outside the block has the name or the address, or if a name outside the block
    already has another address, and so belongs to another machine.
    """
    for line in other_lines:
        if {host.lower(), address} & set(line.partition("#")[0].lower().split()):
            raise AsRootRequestRefusal(f"{HOSTS} has {line[:80]!r} outside gridbridge's block: {host} is not added")
    if leads - {address} and not any(host in line.split() for line in block):
        raise AsRootRequestRefusal(f"{host} already has the address {min(leads)[:80]}: no address is added")
    return [*(line for line in block if not {host, address} & set(line.split())), f"{address} {host}"]


def _split_hosts_file_at_block(text: str) -> tuple[list[str], list[str], list[str]]:
    """Return the lines before, in and after gridbridge's block; raise AsRootRequestRefusal if incomplete."""
    lines = text.removesuffix("\n").split("\n") if text else []  # not splitlines(), which also splits at form feeds
    if lines.count(BEGIN) != lines.count(END) or lines.count(BEGIN) > 1:
        raise AsRootRequestRefusal(f"{HOSTS}: incomplete block; expected both lines {BEGIN!r} and {END!r}")
    if BEGIN not in lines:
        return lines, [], []
    first, last = lines.index(BEGIN), lines.index(END)
    if last < first:
        raise AsRootRequestRefusal(f"{HOSTS}: {END!r} comes before {BEGIN!r}")
    return lines[:first], lines[first + 1 : last], lines[last + 1 :]


class HostsFile(NamedTuple):
    path: str = HOSTS
    lock: str = LOCK


def replace_hosts_block_locked(file: HostsFile, edit: Callable[[list[str], list[str]], list[str]]) -> None:
    """Replace gridbridge's block by `edit(other lines, lines of the block)`, under a lock.

    Only root may open the lock file, because any reader could lock it.
    """
    with open(os.open(file.lock, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb") as held:
        os.fchmod(held.fileno(), 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        with open(file.path, "rb") as old:
            text = old.read().decode("utf-8", "surrogateescape")
        before, block, after = _split_hosts_file_at_block(text)
        if block := edit(before + after, block):
            block = [BEGIN, *block, END]
        new_text = "".join(f"{line}\n" for line in (*before, *block, *after))
        if new_text != text:
            beside = f"{file.path}.gridbridge"
            safe_files.remove_file(beside)
            with open(beside, "xb") as new:  # mode x sets O_EXCL, which follows no symlink
                new.write(new_text.encode("utf-8", "surrogateescape"))
                new.flush()
                os.fsync(new.fileno())
            os.replace(beside, file.path)
