"""Processes by number and birth: a number alone may be another process by now (proc(5))."""

import os
import sys

from gridbridge.errors import StateError
from gridbridge.model.route import BARE

ENDED = (b"Z", b"X")  # states of a process that runs no more
START_TIME = 19  # of the fields after the name, in ticks since boot (proc(5), stat)
PROGRAM = ("-I", "-m", "gridbridge.batch.embedded")


def place() -> str:
    """Return where process numbers are valid: this boot and this namespace."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"


def birth(pid: int) -> str:
    """Return what identifies a process for ever, empty when it no longer runs."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in ENDED else f"{place()} {fields[START_TIME].decode()}"


def signal_group(pid: int, born: str, number: int) -> None:
    """Signal a job's process group if its first process still runs.

    StateError when it was started where its number says nothing to us, and may run there.
    """
    if birth(pid) == born:
        os.killpg(pid, number)
    elif not born.startswith(place()):
        raise StateError(f"process {pid} was started on another host, or before a reboot")


def detach(folder: str, verb: str) -> None:
    """Start our program on its own: nobody's child, in a session and with streams of its own.

    Its log takes what it has to say, for no one reads its standard error.
    """
    if child := os.fork():
        os.waitpid(child, 0)
        return
    try:
        os.chdir("/")
        log = os.open(f"{folder}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open("/dev/null", os.O_RDWR)
        streams = [
            (os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate((null, log, log))
        ]
        argv = (sys.executable, *PROGRAM, folder, verb)
        os.posix_spawn(argv[0], argv, BARE, file_actions=streams, setsid=True)
    finally:
        os._exit(0)
