"""Run a function in a child process and kill it at each of its writing calls, and around each client.

The writing calls are the first thread's, found and hit by strace(1); other threads only run clients
and log failures, which is checked. A client with such an order kills the process that started it.
"""

import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.injection import sandbox

CALLS = (
    "write,pwrite64,writev,rename,renameat,renameat2,openat,unlink,unlinkat,mkdir,rmdir,mknodat,"
    "mknod,fsync,fdatasync,ftruncate,truncate,chmod,fchmod,fchmodat,link,symlink,kill"
)
NEED_ROOM = ("write", "pwrite64", "writev", "rename", "openat", "mkdir", "mknodat", "symlink")
LOG = "/opt/strace.log"
ANSWER = "/opt/answer"  # where a step's answer goes
VICTIM = sandbox.CELLS / "victim"  # for fake_cell: whom the how-manieth client kills, and when
COUNT = sandbox.CELLS / "count"  # a line a client
BEGINS, ENDS = "begins", "ends"
CHILD_LIMIT_S = 120
VERIFIED = r', "true\n", '  # the script, in memory, of a request that is only verified

Act = Callable[[], object]


def calls(act: Act) -> list[tuple[str, int]]:
    """Return every writing call of the function: its name, and its number among calls of that name."""
    _traced(act, f"trace={CALLS},clone3", "-f")
    with open(LOG, encoding="utf-8", errors="replace") as log:
        lines = log.read().splitlines()
    threads = set(re.findall(r"parent_tid=\[(\d+)\]", "\n".join(lines)))
    of_threads = [line for line in lines if line.split()[0] in threads and _is_writing(line) and VERIFIED not in line]
    assert not of_threads, f"threads write too, and nothing kills them there: {of_threads}"
    first = lines[0].split()[0]
    return _numbered([line for line in lines if line.split()[0] == first])


def _numbered(lines: list[str]) -> list[tuple[str, int]]:
    counts: dict[str, int] = {}
    found = []
    for line in lines:
        if match := re.match(r"\d+ +(\w+)\(", line):
            name = match[1]
            counts[name] = counts.get(name, 0) + 1
            if _is_writing(line):
                found.append((name, counts[name]))
    return found


def _is_writing(line: str) -> bool:
    name = (re.match(r"\d+ +(\w+)\(", line) or ("", ""))[1]
    return (
        name in CALLS.split(",")
        and (name != "openat" or "O_CREAT" in line)
        and not re.search(rf'write\(2, |"{ANSWER}"', line)
    )


def kills(prepare: Act, act: Act, each: int, since: str = "") -> Iterator[str]:
    """Kill the function at every EACHth writing call; yield the place of each kill.

    With `since`, start at the first call of that name. The sandbox is reset before each kill.
    """
    for name, number in _calls_after_reset(prepare, act, each, since):
        status = _traced(act, f"inject={name}:signal=SIGKILL:when={number}")
        yield f"{name} {number} (ended {status})"


def full_disks(prepare: Act, act: Act, each: int) -> Iterator[str]:
    """Let every EACHth writing call find a full disk; yield the place of each failure."""
    for name, number in _calls_after_reset(prepare, act, each):
        if name in NEED_ROOM:
            status = _traced(act, f"inject={name}:error=ENOSPC:when={number}")
            yield f"{name} {number} without room (ended {status})"


def _calls_after_reset(prepare: Act, act: Act, each: int, since: str = "") -> Iterator[tuple[str, int]]:
    sandbox.reset()
    prepare()
    found = calls(act)
    first = found.index((since, 1)) if since else 0
    for name, number in found[first::each]:
        sandbox.reset()
        prepare()
        yield name, number


def client_kills(strike: Callable[[int, str], int], each: int, moments: tuple[str, ...]) -> Iterator[str]:
    """Let the clients of a function kill the function; yield the place of each kill."""
    strike(0, ENDS)
    count = len(COUNT.read_text().splitlines()) if COUNT.exists() else 0
    for number in range(1, count + 1, each):
        for moment in moments:
            yield f"client {number} {moment} (ended {strike(number, moment)})"


def strike(prepare: Act, act: Act, number: int, moment: str) -> int:
    """Run the function, which the client with this number kills."""
    sandbox.reset()
    prepare()
    return run(lambda: (VICTIM.write_text(f"{os.getpid()} {number} {moment}\n"), act()))


def run(act: Act) -> int:
    """Run the function in a child process; return the child's exit status."""
    return _reap(_fork(act))


def _traced(act: Act, expression: str, *options: str) -> int:
    child = _fork(lambda: (os.kill(os.getpid(), signal.SIGSTOP), act()))
    os.waitpid(child, os.WUNTRACED)
    words = ["strace", "-qqq", *options, "-o", LOG, "-e", expression, "-p", str(child)]
    if expression.startswith("inject"):
        words[-2:-2] = ["-e", "trace=" + expression[7:].partition(":")[0]]
    tracer = subprocess.Popen(words)
    _until_traced(child)
    os.kill(child, signal.SIGCONT)
    status = _reap(child)
    tracer.wait(CHILD_LIMIT_S)
    return status


def _until_traced(child: int) -> None:
    deadline = time.monotonic() + CHILD_LIMIT_S
    while "TracerPid:\t0" in Path(f"/proc/{child}/status").read_text():
        assert time.monotonic() < deadline, "strace did not attach"
        time.sleep(0.001)


def _fork(act: Act) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(CHILD_LIMIT_S)
            act()
            status = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def _reap(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check(what: str, found: object, expected: object) -> list[str]:
    """Return a line about a wrong value; empty if the value is right."""
    return [] if found == expected else [f"{what} is {found!r}, not {expected!r}"]


def report_wrong_ends(heading: str, struck: Iterable[str], look: Callable[[], list[str]]) -> int:
    """Print each wrong end, and the numbers of kills and wrong ends; return the exit status."""
    kills = wrong = 0
    for where in struck:
        kills += 1
        for line in look():
            wrong += 1
            sys.stdout.write(f"{where}: {line}\n")
    sys.stdout.write(f"{heading}{kills} kills, {wrong} wrong\n")
    return 1 if wrong or not kills else 0
