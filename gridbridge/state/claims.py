"""Claims as files below the shared spool: who creates one has it (the service's half).

Creating a name that must not be there is atomic, on NFS too (open(2), O_EXCL; symlink(2)).
Home's is a link to nowhere, which exists with all that it says; its job's is a file, made by the
wrapper as the job's owner. The service removes both, for the folder is its own.
"""

import os
import stat
from collections.abc import Container

from gridbridge.errors import StateError
from gridbridge.model.claim import FOLDER
from gridbridge.model.places import SPOOL
from gridbridge.shell import files

MAX_AGE_S = 86400  # of a job's claim that no transfer knows
SAYS = "claimed-by-home"


def take(token: str, spool: str = SPOOL) -> bool:
    """Take a claim for home, again if it has it already; False when the job has it.

    Raises StateError when it can't be told: asked again, it can.
    """
    path = f"{spool}/{FOLDER}/{token}"
    try:
        os.symlink(SAYS, path)
    except FileExistsError:
        return os.path.islink(path)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
    return True


def remove(token: str, spool: str = SPOOL) -> None:
    """Remove a claim on a job that can't run any more."""
    try:
        files.remove(f"{spool}/{FOLDER}/{token}")
    except OSError as error:
        raise StateError(f"{spool}/{FOLDER}/{token}: {error.strerror}") from error


def sweep(known: Container[str], now_s: float, spool: str = SPOOL) -> None:
    """Remove old claims of jobs that no transfer knows; home's fence what may still start."""
    try:
        with os.scandir(f"{spool}/{FOLDER}") as entries:
            strange = [entry.path for entry in entries if entry.name not in known]
    except OSError:
        return  # there is none where no cluster has claims
    for path in strange:
        facts = os.lstat(path)
        is_homes = stat.S_ISLNK(facts.st_mode) and facts.st_uid == os.geteuid()
        is_file = not stat.S_ISDIR(facts.st_mode)
        if is_file and not is_homes and facts.st_ctime < now_s - MAX_AGE_S:
            files.remove(path)
