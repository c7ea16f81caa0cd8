"""The record of a leading master in a folder that all masters share: its term and host, in a file for each program.

Root has such a record beside its ledger, the service in its own folders. A file keeps its inode number when a later
master writes, so a copy of the folder on another host is recognized.
"""

import fcntl
import os

from gridbridge.errors import MasterDeposed, StateError
from gridbridge.model.fixed_paths import MASTER_TERM

NO_MASTER = "-"
RECORD_BYTES = 160  # all records have this length, so that a new record replaces the whole former record


def read_master_record(folder: str, program: str) -> tuple[int, str, int]:
    """Return term and host of the leading master, and the record's inode number; 0, "-" and 0 without a record."""
    try:
        options = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        end = os.open(f"{folder}/{MASTER_TERM}{program}", options)
    except FileNotFoundError:
        return 0, NO_MASTER, 0
    try:
        term, host, *_ = [*os.read(end, RECORD_BYTES).decode("ascii").split(), "0", NO_MASTER]
        return int(term), host, os.fstat(end).st_ino
    except ValueError as error:
        raise StateError(f"{folder}/{MASTER_TERM}{program}: not a record of a master") from error
    finally:
        os.close(end)


def write_master_record(folder: str, program: str, term: int, host: str) -> int:
    """Record a leading master, and return the record's inode number.

    Raises MasterDeposed if a later term, or the same term of another host, is recorded.
    """
    path = f"{folder}/{MASTER_TERM}{program}"
    end = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(end, fcntl.LOCK_EX)
        recorded, leader, _ = read_master_record(folder, program)
        if recorded > term or (recorded == term and leader != host):
            raise MasterDeposed(f"{path}: term {term} of {host} may not lead, because {leader} leads, term {recorded}")
        os.pwrite(end, f"{term} {host}".ljust(RECORD_BYTES - 1).encode("ascii") + b"\n", 0)
        os.fsync(end)
        return os.fstat(end).st_ino
    finally:
        os.close(end)
