"""The intents of a local job's methods, in the order in which the methods began.

Grid Engine's shepherd runs methods side by side, so the order in which they end says nothing. Each
leaves a note of its own that is named by when its shell began (proc(5): starttime): the note of
the last counts, nobody overwrites another's, and no lock is needed. Dead wins over all (Task).
"""

import os
import time

from gridbridge.shell import files
from gridbridge.transfer.starter import task_notes

ASKED, TOLD = "asked", "told"  # names of notes: new ones, and those that the service knows
DOUBT = "doubt"  # a note of a process that finds out whether the local job is to end
START = 19  # of a process, in the fields of /proc/PID/stat behind its name
TICKS = os.sysconf("SC_CLK_TCK")  # a second

Order = tuple[int, int]  # clock ticks since the host's start, and a pid


def begun(pid: int) -> Order:
    """Return when a process began."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[START]), pid


def ago(age_s: float = 0.0) -> Order:
    """Return when something began, by a clock that nobody can set; never later than now.

    A note from the future would count for as long.
    """
    return int((time.clock_gettime(time.CLOCK_BOOTTIME) - max(0.0, age_s)) * TICKS), 0


def note(folder: str, desired: str, order: Order) -> None:
    """Note an intent (message.Desired)."""
    task_notes.write(f"{folder}/{ASKED}.{order[0]}.{order[1]}.{desired}")


def doubt(folder: str) -> str:
    """Note that this process finds out whether the local job is to end; return the note."""
    start, pid = begun(os.getpid())
    path = f"{folder}/{DOUBT}.{start}.{pid}"
    task_notes.write(path)
    return path


def is_in_doubt(folder: str) -> bool:
    """Say whether a living process still finds out whether the local job is to end."""
    names = (name.split(".") for name in os.listdir(folder) if name.startswith(f"{DOUBT}."))
    return any(_lives((int(start), int(pid))) for _, start, pid in names)


def newest(folder: str) -> str:
    """Return the name of the last note; empty when there is none."""
    return max(_notes(folder), key=_order, default="")


def desired_of(name: str) -> str:
    """Return the intent of a note; empty for none."""
    return name.rpartition(".")[2]


def is_told(name: str) -> bool:
    """Say whether the service knows of a note; true when there is none yet."""
    return not name.startswith(ASKED)


def is_before(name: str, order: Order) -> bool:
    """Say whether a note, or none, is older than that moment, by more than clocks differ."""
    return not name or _order(name)[0] + TICKS < order[0]


def settle(folder: str, name: str) -> None:
    """Keep the last note as one that the service knows, and remove those before it."""
    settled = f"{TOLD}{name.removeprefix(ASKED)}"
    os.rename(f"{folder}/{name}", f"{folder}/{settled}")
    for note in _notes(folder):
        if note != settled and _order(note) <= _order(settled):
            files.remove(f"{folder}/{note}")


def _lives(order: Order) -> bool:
    """Say whether a process lives; its number may be another's by now."""
    try:
        return begun(order[1]) == order
    except OSError:
        return False


def _notes(folder: str) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith((f"{ASKED}.", f"{TOLD}."))]


def _order(name: str) -> tuple[int, int, bool]:
    """Order notes; of one moment, which only a test can meet, the one that is new is the last."""
    word, ticks, pid, _ = name.split(".")
    return int(ticks), int(pid), word == ASKED
