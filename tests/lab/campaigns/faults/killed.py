"""Run a program of gridbridge's on a lab host and kill it where it comes to a place in its code.

usage: /opt/gridbridge/venv/bin/python3 -I killed.py PLACE PROGRAM [ARGUMENT...]
PLACE is FILE:FUNCTION, at its beginning, or FILES:NUMBER: at so many lines of these files, which
are separated by commas. What is killed is the process that comes there first, a child perhaps.
Exit status as the program's; that of a program that was killed otherwise is 0 here.
"""

import inspect
import mmap
import os
import signal
import sys
from importlib import import_module
from types import FrameType
from typing import Any

DONE = mmap.mmap(-1, 1)  # shared with children
PLACE, PROGRAM, *ARGUMENTS = sys.argv[1:]
FILES, _, WHERE = PLACE.partition(":")
PARTS = tuple(f"/gridbridge/{part}" for part in FILES.split(","))
SEEN: set[tuple[str, int]] = set()


def kill() -> None:
    """Kill this process, if none was killed yet."""
    if not DONE[0]:
        DONE[0] = 1
        os.kill(os.getpid(), signal.SIGKILL)


def trace(frame: FrameType, event: str, _: Any) -> Any:
    """Look at each function that begins."""
    is_function = frame.f_code.co_flags & inspect.CO_NEWLOCALS  # no module, nor a class's body
    is_ours = any(part in frame.f_code.co_filename for part in PARTS)
    if event != "call" or not (is_ours and is_function):
        return None
    if not WHERE.isdigit():
        if frame.f_code.co_name == WHERE:
            kill()
        return None
    return line


def line(frame: FrameType, event: str, _: Any) -> Any:
    """Count the lines to which it comes."""
    if event == "line":
        SEEN.add((frame.f_code.co_filename, frame.f_lineno))
        if len(SEEN) >= int(WHERE):
            kill()
    return line


def main() -> None:
    """Run it in a child, so that its end is told."""
    child = os.fork()
    if not child:
        sys.argv = [PROGRAM, *ARGUMENTS]
        module = import_module(PROGRAM)
        sys.settrace(trace)
        module.main()
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("killed" if DONE[0] else "not killed")  # noqa: T201 - for who started it
    sys.exit(max(status, 0))


if __name__ == "__main__":
    main()
