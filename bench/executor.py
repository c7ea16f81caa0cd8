"""Calls of an Executor on embedded slots, beside the plain process pool with as many workers.

The site is made by lab/apart, without root, with the real runner. Each side makes its executor, maps
the calls and waits for all results, one side after the other.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import gridbridge
from bench.brief import sized
from bench.rows import Row

CALLS, CALL_S, SLOTS = sized(100, 12), 2.0, 4
MOST_TIMES = 1.3
ROOT = Path(__file__).resolve().parents[1]
BIN = Path("/opt/gridbridge/venv/bin")  # in the namespaces of lab/apart
CYCLED = Path("/var/lib/gridbridge/published/campaign-clusters.json")  # published by the runner's first cycle
BECOME = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
CONFIGURATION = """\
[site]
cluster = "alpha"
[cluster.alpha]
kind = "embedded"
folder = "/mnt/alpha"
[campaigns.alpha]
flood_rate = 10
[runner]
interval_s = 5
"""


def rows() -> list[Row]:
    """Measure in namespaces of their own, and return the figure beside its baseline."""
    become = BECOME if os.getuid() == 0 else ()
    argv = (*become, str(ROOT / "lab/apart"), f"{BIN}/python3", "-m", "bench.executor", str(CALLS))
    done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    ours_s, plain_s = map(float, done.stdout.split())
    return [
        Row(what=f"{CALLS} calls of {CALL_S:g} s on {SLOTS} slots", measured=ours_s, unit="s",
            limit=MOST_TIMES * plain_s, baseline=plain_s, needs_whole=True),
    ]  # fmt: skip


def main() -> None:
    """Print the seconds of the Executor and of the process pool; for `rows`."""
    calls = int(sys.argv[1])
    plain_s = _took_s(lambda: ProcessPoolExecutor(SLOTS), calls)
    with _site():
        ours_s = _took_s(lambda: gridbridge.Executor(folder="/mnt/calls", exec_directory="/mnt", type="normal"), calls)
    print(ours_s, plain_s)


def _took_s(make: Callable[[], Executor], calls: int) -> float:
    began = time.monotonic()
    with make() as executor:
        list(executor.map(time.sleep, [CALL_S] * calls))
    return time.monotonic() - began


@contextmanager
def _site() -> Iterator[None]:
    Path("/etc/gridbridge/gridbridge.toml").write_text(CONFIGURATION)
    embedded = (f"{BIN}/python3", "-m", "gridbridge.batch.embedded", "/mnt/alpha")
    subprocess.run((*embedded, "create", f"--slots={SLOTS}"), check=True, stdout=subprocess.DEVNULL)
    argv = (f"{BIN}/gridbridge-runner", "--loop")
    with Path("/mnt/runner.log").open("w") as log, subprocess.Popen(argv, stderr=log) as runner:
        while not CYCLED.exists():
            time.sleep(0.1)
        try:
            yield
        finally:
            runner.terminate()


if __name__ == "__main__":
    main()
