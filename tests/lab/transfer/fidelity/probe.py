"""The program that a job of a fidelity row runs to report its environment: probe.py DIR ARGUMENTS...

It adds one file to DIR with everything about its start that a job can observe. It runs in the lab
under the system's own Python, without this repository.
"""

import json
import os
import resource
import sys

CPYTHON_IGNORES = 1 << (13 - 1) | 1 << (25 - 1)  # PIPE and XFSZ, by itself


def main() -> None:
    """Write one JSON object under a name that no other run of this job uses."""
    folder, *arguments = sys.argv[1:]
    umask = os.umask(0)
    os.umask(umask)
    seen = {
        "environment": dict(os.environ),
        "arguments": arguments,
        "cwd": os.getcwd(),
        "umask": oct(umask),
        "ids": [os.getuid(), os.geteuid(), os.getgid(), os.getegid()],
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "limits": {name: resource.getrlimit(number) for name, number in limits()},
        "ignored signals": f"{ignored_signals():x}",
        "streams": [stream(number) for number in range(3)],
        "open files": sorted(other_files()),
    }
    run = f"{os.environ.get('SGE_TASK_ID')}.{os.environ.get('RESTARTED')}"
    with open(f"{folder}/seen.{run}.{os.getpid()}", "w", encoding="utf-8") as out:
        json.dump(seen, out)


def limits() -> list[tuple[str, int]]:
    return [(name, getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")]


def ignored_signals() -> int:
    """Return the mask of signals that the process inherited as ignored."""
    with open("/proc/self/status", encoding="ascii") as status:
        masks = dict(line.split(":", 1) for line in status)
    return int(masks["SigIgn"], 16) & ~CPYTHON_IGNORES


def stream(number: int) -> str:
    """Return the target of a standard stream and its open mode (access mode, append)."""
    with open(f"/proc/self/fdinfo/{number}", encoding="ascii") as info:
        flags = int(dict(line.split(":", 1) for line in info)["flags"], 8)
    mode = flags & (os.O_ACCMODE | os.O_APPEND)
    return f"{os.readlink(f'/proc/self/fd/{number}')} {mode:o}"


def other_files() -> list[str]:
    """Return the other open files, without the listing's own descriptor."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
        if int(number) > 2:
            found.append(target)
    return found


if __name__ == "__main__":
    main()
