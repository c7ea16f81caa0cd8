"""The folder in which OAR's hooks store power requests; its writers control nodes' power."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress

from gridbridge.errors import StateError
from gridbridge.model.elastic.standby_hosts import OarPowerRequest, RequestedPowerState
from gridbridge.model.places import BALANCE_ACCOUNT
from gridbridge.shell import files

NAME = re.compile(r"(wake|sleep)\.[A-Za-z0-9]{1,64}").fullmatch
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,253}").fullmatch
MAX_BYTES = 1 << 20  # of a note
LOCK = ".lock"
NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_power_requests(folder: str) -> tuple[OarPowerRequest, ...]:
    """Read all power requests; StateError for an unreadable folder or file."""
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError as error:
        mend = f"`install -d -m 2775 -o oar -g {BALANCE_ACCOUNT} {folder}` makes it"
        raise StateError(f"{folder}: {error.strerror}; {mend}") from error
    except OSError as error:
        raise StateError(f"{folder}: {error.strerror}") from error
    return tuple(_notes(folder, names))


def _notes(folder: str, names: list[str]) -> Iterator[OarPowerRequest]:
    for name in names:
        if named := NAME(name):
            try:
                content, facts = files.read_safe_file(f"{folder}/{name}", MAX_BYTES)
            except FileNotFoundError:
                continue
            hosts = content.decode("ascii", "replace").split()
            yield OarPowerRequest(
                file=name,
                at_s=facts.st_mtime,
                wish=RequestedPowerState(named[1]),
                hosts=tuple(host for host in hosts if HOST(host)),
            )


def store_remaining_request(folder: str, before: OarPowerRequest, after: OarPowerRequest) -> None:
    """Rewrite a request file with the nodes that remain, and keep its age; delete an empty one.

    Raises StateError when the file can't be changed.
    """
    path = f"{folder}/{before.file}"
    try:
        if not after.hosts:
            files.remove_file(path)
        elif after.hosts != before.hosts:
            files.replace_file(path, "".join(f"{host}\n" for host in after.hosts).encode())
            os.utime(path, (before.at_s, before.at_s))
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error


def make_power_request_lock(folder: str) -> str:
    """Create the folder's lock file if need be and return its path.

    The file belongs to the folder's group, also when root created it.
    """
    path = f"{folder}/{LOCK}"
    with suppress(OSError):
        end = os.open(path, NEW, 0o600)
        os.fchmod(end, 0o660)
        os.close(end)
    return path
