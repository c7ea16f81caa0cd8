"""Read and write a starter's notes about its local task: small files in TMPDIR/.gridbridge.

An empty or truncated note counts as missing. Methods run at the same time without a lock: the note of the process that
started last counts (proc(5), starttime).
"""

import os
import time

from gridbridge.errors import JobTmpdirFull, ParseError, StateError
from gridbridge.model.transfer_messages_in_spool import MAX_BYTES, TransferMessage, decode_transfer_message
from gridbridge.shell import safe_files

NO_ROOM = (28, 122)  # ENOSPC and EDQUOT (errno(3)); importing errno would be slow


def write_note(path: str, data: bytes = b"") -> None:
    """Write a note atomically, by a rename; raise JobTmpdirFull if TMPDIR is full."""
    try:
        safe_files.replace_file_atomically(path, data, durable=False)
    except StateError as error:
        raise tmpdir_full_error_of(error.__cause__, path) or error from error


def read_note_message(path: str) -> TransferMessage | None:
    """Read a note that contains a message; None for a missing, empty or truncated note."""
    try:
        return decode_transfer_message(safe_files.read_file_only_owner_writes(path, MAX_BYTES, os.getuid())[0])
    except (FileNotFoundError, ParseError):
        return None


def read_note_number(path: str) -> float | None:
    """Read a note that contains a number; None for a missing or empty note."""
    try:
        return float(safe_files.read_file_only_owner_writes(path, MAX_BYTES, os.getuid())[0])
    except (FileNotFoundError, ValueError):
        return None


def tmpdir_full_error_of(error: BaseException | None, path: str) -> JobTmpdirFull | None:
    """Return JobTmpdirFull if an error means a full filesystem or a used-up quota; otherwise None."""
    if not isinstance(error, OSError) or error.errno not in NO_ROOM:
        return None
    return JobTmpdirFull(f"no room in $TMPDIR: {path}: {error.strerror}")


NEW_INTENT_PREFIX, REPORTED_INTENT_PREFIX = "asked", "told"  # note prefixes: new intents, and intents already reported
TERMINATION_CHECK_PREFIX = "doubt"  # prefix of the note of a method that checks whether the job must end
START = 19  # index of starttime after the process name in /proc/PID/stat
TICKS = os.sysconf("SC_CLK_TCK")

NoteSortKey = tuple[int, int]  # sort key of a note: clock ticks since the host's boot, and a pid


def process_start_ticks_and_pid(pid: int) -> NoteSortKey:
    """Return the start time of a process in clock ticks since the host's boot, and its pid."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[START]), pid


def boot_clock_sort_key(age_s: float = 0.0) -> NoteSortKey:
    """Return the sort key of an event `age_s` >= 0 seconds ago, in clock ticks since the host's boot."""
    return int((time.clock_gettime(time.CLOCK_BOOTTIME) - max(0.0, age_s)) * TICKS), 0


def note_method_intent(folder: str, desired: str, order: NoteSortKey) -> None:
    """Note the state of the local job that a method requires: running, suspended or dead."""
    write_note(f"{folder}/{NEW_INTENT_PREFIX}.{order[0]}.{order[1]}.{desired}")


def note_termination_check(folder: str) -> str:
    """Note that this process checks whether the local job must end; return the note's path."""
    start, pid = process_start_ticks_and_pid(os.getpid())
    path = f"{folder}/{TERMINATION_CHECK_PREFIX}.{start}.{pid}"
    write_note(path)
    return path


def is_termination_check_running(folder: str) -> bool:
    names = (name.split(".") for name in os.listdir(folder) if name.startswith(f"{TERMINATION_CHECK_PREFIX}."))
    return any(_is_process_alive((int(start), int(pid))) for _, start, pid in names)


def newest_intent_note(folder: str) -> str:
    """Return the name of the latest method's note about the local job; empty without a note."""
    return max(_intent_note_names(folder), key=_intent_note_sort_key, default="")


def desired_state_in_note(name: str) -> str:
    """Return the desired state in the name of a method's note; empty for an empty name."""
    return name.rpartition(".")[2]


def is_intent_note_older(name: str, order: NoteSortKey) -> bool:
    """Say whether a method's note is more than 1 s older than `order`; true if no note is named."""
    return not name or _intent_note_sort_key(name)[0] + TICKS < order[0]


def mark_intent_reported(folder: str, name: str) -> None:
    """Mark a method's note as reported to the service, and remove older notes."""
    settled = f"{REPORTED_INTENT_PREFIX}{name.removeprefix(NEW_INTENT_PREFIX)}"
    os.rename(f"{folder}/{name}", f"{folder}/{settled}")
    for note in _intent_note_names(folder):
        if note != settled and _intent_note_sort_key(note) <= _intent_note_sort_key(settled):
            safe_files.remove_file(f"{folder}/{note}")


def _is_process_alive(order: NoteSortKey) -> bool:
    try:
        return process_start_ticks_and_pid(order[1]) == order
    except OSError:
        return False


def _intent_note_names(folder: str) -> list[str]:
    prefixes = (f"{NEW_INTENT_PREFIX}.", f"{REPORTED_INTENT_PREFIX}.")
    return [name for name in os.listdir(folder) if name.startswith(prefixes)]


def _intent_note_sort_key(name: str) -> tuple[int, int, bool]:
    """Return a method's start time and pid, and whether its note is unreported."""
    word, ticks, pid, _ = name.split(".")
    return int(ticks), int(pid), word == NEW_INTENT_PREFIX
