"""Runs a program on a host and returns its output, for building and observing cells."""

import subprocess
import time
from collections.abc import Callable

from gridlab import paths
from gridlab.errors import LabError
from gridlab.topology import Host

LIMIT_S = 60.0
SHOWN_LINES = 15  # of a failed script's output


def run(host: Host, command: list[str], *, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command as root on a host, with standard input from `text`."""
    argv = [str(paths.CHECKOUT / "lab" / "lab"), "on", host.name, "--", *command]
    try:
        return subprocess.run(argv, input=text, text=True, capture_output=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise LabError(f"{host.name}: {' '.join(command)} takes over {LIMIT_S:.0f} s") from None


def script(host: Host, lines: str) -> str:
    """Run a shell script that stops at its first error and return its output."""
    answer = run(host, ["sh", "-eu"], text=lines)
    if answer.returncode != 0:
        shown = f"{answer.stdout}{answer.stderr}".splitlines()[-SHOWN_LINES:]
        raise LabError("\n".join([f"{host.name}: status {answer.returncode}:", *shown]))
    return answer.stdout


def wait_for(what: str, check: Callable[[], str], limit_s: float) -> None:
    """Wait until `check` reports no problem; raise LabError with its last report."""
    deadline = time.monotonic() + limit_s
    while missing := check():
        if time.monotonic() > deadline:
            raise LabError(f"{what}: not within {limit_s:.0f} s; last seen: {missing}")
        time.sleep(0.1)
