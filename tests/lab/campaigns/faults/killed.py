"""Run a program of gridbridge on a lab host, and kill the process at a given place in its code.

usage: /opt/gridbridge/venv/bin/python3 -I killed.py PLACE PROGRAM [ARGUMENT...]
PLACE is FILE:FUNCTION, the beginning of that function, or FILES:NUMBER, the NUMBERth line executed in
these comma-separated files. The first process that reaches the place is killed, possibly a child.
The exit status is the program's, or 0 for a program that was killed in another way.
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
    if not DONE[0]:
        DONE[0] = 1
        os.kill(os.getpid(), signal.SIGKILL)


def trace(frame: FrameType, event: str, _: Any) -> Any:
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
    if event == "line":
        SEEN.add((frame.f_code.co_filename, frame.f_lineno))
        if len(SEEN) >= int(WHERE):
            kill()
    return line


def main() -> None:
    """Run the program in a child process, so that its exit status can be read."""
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
