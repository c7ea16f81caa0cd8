"""Cost of a claim: the time from a remote job's start to the job's own first line.

By file: the wrapper itself, here, with and without, by turns. By grant: jobs at delta,
with and without. usage: python -m bench.claim (`make lab` first).
"""

import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from gridbridge.batch import remote_job_claim_script
from gridbridge.batch.remote_job_script_writer import RemoteJobScriptValues, ShellStartMode, write_remote_job_script
from gridbridge.model.transfer.claim_and_guard import CLAIMS_FOLDER
from tests.lab.grid import Grid
from tests.lab.transfer.home.claimed import claimed

TURNS, JOBS = 300, 10
SHELL = "/bin/dash"
# The wrapper is the job's parent; both times count from the machine's start.
SINCE = 'read -r now _ </proc/uptime; echo "$now $(cut -d" " -f22 /proc/$PPID/stat)" >>gb-bench\n'
TICKS = 100  # a second, of /proc/PID/stat: proc(5)


def main() -> None:
    """Print the median of each kind of claim beside the median without a claim."""
    none_s, file_s = by_file()
    tell("by file, the wrapper alone", none_s, file_s)
    none_s, grant_s = by_grant(Grid())
    tell("by grant, at delta", none_s, grant_s)


def tell(what: str, none_s: float, some_s: float) -> None:
    """Print a line."""
    ratio = f"{some_s / none_s:.2f} times"
    sys.stdout.write(f"{what}: {1000 * some_s:.1f} ms, without {1000 * none_s:.1f} ms, {ratio}\n")


def by_file() -> tuple[float, float]:
    """Return the seconds from a wrapper's start to its job's, without and with a claim."""
    seconds: dict[str, list[float]] = {"": [], "file": []}
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / CLAIMS_FOLDER).mkdir()
        for turn in range(TURNS):
            for kind, took in seconds.items():
                took.append(_wrapped(folder, f"{kind}.t{turn}" if kind else ""))
    return median(seconds[""]), median(seconds["file"])


def _wrapped(folder: Path, of: str) -> float:
    (folder / "out").unlink(missing_ok=True)
    job = RemoteJobScriptValues(
        transfer="gb.alpha.1.0.1",
        spool=str(folder),
        name="1",
        start=ShellStartMode.BINARY_NO_SHELL,
        shell=SHELL,
        login=False,
        arguments=("/bin/date", "+%s.%N"),
        environment=(),
        stdout=str(folder / "out"),
        claim=_claimed(of, str(folder)) if of else "",
    )
    (folder / "wrapper").write_bytes(write_remote_job_script(job))
    env = {"PATH": "/usr/bin:/bin", "TMPDIR": name_of(folder), "JOB_ID": "1", "HOSTNAME": "x"}
    began = time.time()
    subprocess.run((SHELL, str(folder / "wrapper")), env=env, check=True)
    return float((folder / "out").read_text()) - began


def _claimed(of: str, spool: str) -> str:
    """Write the key of a claim, and return the script's lines for this claim."""
    remote_job_claim_script.write_remote_job_claim_key(of, spool, os.getuid())
    return remote_job_claim_script.remote_job_claim_shell_lines(of, "file", spool, os.getuid())


def name_of(folder: Path) -> str:
    """Return the path of a job's TMPDIR."""
    (folder / "tmp").mkdir(exist_ok=True)
    return str(folder / "tmp")


def by_grant(grid: Grid) -> tuple[float, float]:
    """Return the seconds from a remote job's start to its first line, without and with a grant."""
    grid.switch("-e", "transfer-delta")
    without = _at_delta(grid, is_granted=False)
    return without, _at_delta(grid, is_granted=True)


def _at_delta(grid: Grid, *, is_granted: bool) -> float:
    with claimed(grid, "delta", "grant", 60) if is_granted else nullcontext():
        grid.sh("delta-master", "rm -f gb-bench", user="al_delta")
        for _ in range(JOBS):  # each at another moment of the poller's interval
            grid.accounting(grid.submit("-q", "transfer-delta", "-o", "/dev/null", script=SINCE))
        rows = grid.sh("delta-master", "cat gb-bench; rm gb-bench", user="al_delta").splitlines()
    pairs = [row.split() for row in rows]
    return median(float(now) - int(began) / TICKS for now, began in pairs)


if __name__ == "__main__":
    main()
