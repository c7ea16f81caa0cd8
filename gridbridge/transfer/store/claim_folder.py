"""Claim files in the shared spool: a claim belongs to its first creator.

Creating a missing name is atomic, on NFS, too (open(2), O_EXCL; symlink(2)). The home cluster's
claim is a symlink to itself, which can't be opened. The remote job's claim is a file that the
wrapper creates as the owner. A claim's name begins with the owner's uid, and a file of any other
uid is no claim. The service owns the folder and removes both kinds of claim.
"""

import os
import stat
from collections.abc import Container
from contextlib import suppress

from gridbridge.errors import StateError
from gridbridge.model.places import SPOOL
from gridbridge.model.transfer.claim import FOLDER, NOT_SERVICES
from gridbridge.shell import files
from gridbridge.state.spool_reader import FolderScan

MAX_AGE_S = 86400  # a job's claim without a known transfer is kept so long


def take_home_claim(name: str, uid: int, spool: str = SPOOL) -> bool:
    """Take the claim for the home cluster, repeatably; False if the job of `uid` has it.

    Raises StateError when the claim's holder can't be found out.
    """
    path = f"{spool}/{FOLDER}/{name}"
    try:
        _refuse_foreign(f"{spool}/{FOLDER}")
        os.symlink(name, path)
    except FileExistsError:
        return _is_homes(path, uid)
    except OSError as error:
        raise StateError(f"{_shown(path)}: {error.strerror}") from error
    return True


def _shown(path: str) -> str:
    """Return a claim's path for messages, without the secret word in its name."""
    return f"{path[: -len(path.rpartition('.')[2]) // 2]}..."


def _is_homes(path: str, uid: int) -> bool:
    try:
        facts = os.lstat(path)
    except OSError as error:
        raise StateError(f"{_shown(path)}: {error.strerror}") from error
    is_link = stat.S_ISLNK(facts.st_mode)
    if facts.st_uid != (os.geteuid() if is_link else uid):
        raise StateError(f"{_shown(path)}: made by uid {facts.st_uid}, which may not claim")
    return is_link


def _refuse_foreign(folder: str) -> None:
    facts = os.lstat(folder)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise StateError(f"{folder}: {NOT_SERVICES}")


def remove_claim(name: str, spool: str = SPOOL) -> None:
    """Remove the claim on a job that can't run any more."""
    try:
        files.remove_file(f"{spool}/{FOLDER}/{name}")
    except OSError as error:
        raise StateError(f"{_shown(f'{spool}/{FOLDER}/{name}')}: {error.strerror}") from error


def sweep_claims(
    claimed: Container[str], now_s: float, spool: str = SPOOL, names: FolderScan | None = None
) -> None:
    """Remove old claims of jobs without a known transfer, but no home claim.

    A home claim fences a late remote job. The next sweep with the same `names` continues.
    """
    try:
        _refuse_foreign(f"{spool}/{FOLDER}")
        entries = (names or FolderScan()).take(f"{spool}/{FOLDER}")
        strange = [entry.path for entry in entries if entry.name not in claimed]
    except (OSError, StateError):
        return  # the folder is missing if no cluster uses claims
    for path in strange:
        with suppress(OSError):  # its owner may have removed it
            _remove_old(path, now_s)


def _remove_old(path: str, now_s: float) -> None:
    facts = os.lstat(path)
    is_homes = stat.S_ISLNK(facts.st_mode) and facts.st_uid == os.geteuid()
    is_file = not stat.S_ISDIR(facts.st_mode)
    if is_file and not is_homes and facts.st_ctime < now_s - MAX_AGE_S:
        files.remove_file(path)
