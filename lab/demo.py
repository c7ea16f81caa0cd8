"""make demo: alice floods alpha, the overflow crosses to beta, and both accountings agree.

One job is deleted and one suspended on the way. A live table shows every job and where it runs;
without a terminal each change is a line. Exit status: 0, 1 if anything went wrong, 2 without root.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

LAB = str(Path(__file__).resolve().parent / "lab")
JOBS = 12
HOME_SLOTS = 4
RUN_S = 15
LIMIT_S = 120
OPEN_LIMIT_S = 40
NOTHING = '{"alarm": "gridbridge status fails", "queues": [], "transfers": []}'
LOOK_S = 1.0
BETA = "SGE_CELL=beta SGE_QMASTER_PORT=6454 SGE_EXECD_PORT=6455"
TO_BETA = "on its way to beta"
SUSPENDED = "suspended"
KILLED = "137"  # 128 + SIGKILL, as qacct shows a deleted job
NEEDS = """\
make demo builds two Grid Engine clusters in namespaces of this machine, and so it needs root
on Debian 12; the machine's own services, users and files stay untouched. Run it as root, or read
docs/lab.md first. Without root, nothing was done."""
BY_HAND = """
The lab stays up. Go on by hand:
  lab/lab on alpha-master -u alice -- qsub -b y -l remote=true hostname
  lab/lab on alpha-master -u alice -- gridbridge status
  lab/lab on alpha-master -u alice -- gridbridge why {job}
  lab/lab down"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One of alice's jobs: what it shall end with, and what was seen of it."""

    number: str
    exit_status: str
    state: str = "qw"
    where: str = "waits at alpha"
    remote_id: str = ""
    fate: str = ""  # deleted, or suspended and so on


NOBODY = Job(number="", exit_status="", where="")


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How one job ended, by both accountings."""

    job: Job
    home_status: str
    away_host: str
    away_status: str
    wrong: str  # empty when all is as it should be


@dataclass(slots=True, kw_only=True)
class Plot:
    """What is done to jobs on the way, each thing once."""

    deleted: str = ""
    suspended: str = ""
    was_suspended_there: bool = False
    done: list[str] = field(default_factory=list)


def main() -> int:
    """Play it and return the exit status."""
    if os.getuid() != 0:
        print(NEEDS, file=sys.stderr)
        return 2
    if sys.argv[1:] == ["--check"]:
        return 0
    begun = time.monotonic()
    if trouble := until_open():
        print(f"make demo: transfer-beta takes no jobs: {trouble}", file=sys.stderr)
        return 1
    jobs = flood()
    plot = Plot()
    follow(jobs, plot)
    ends = [end_of(job, plot) for job in jobs.values()]
    wrong = [*(f"job {end.job.number}: {end.wrong}" for end in ends if end.wrong)]
    wrong += plot_holes(ends, plot)
    tell(ends)
    for line in wrong:  # the table's last column has it too
        print(f"WRONG: {line}")
    print(f"{len(ends)} jobs, {len(wrong)} wrong, {time.monotonic() - begun:.0f} s")
    print(BY_HAND.format(job=next(iter(jobs))))
    return 1 if wrong else 0


def as_alice(script: str) -> str:
    """Run a script as alice on alpha's submit host and return its output."""
    argv = (LAB, "on", "alpha-master", "-u", "alice", "--", "sh", "-c", script)
    done = subprocess.run(argv, capture_output=True, timeout=90, check=False, text=True)
    return done.stdout


def until_open() -> str:
    """Wait until the transfer queue takes jobs; return why it does not, empty when it does."""
    deadline = time.monotonic() + OPEN_LIMIT_S
    while trouble := closed(status()):
        if time.monotonic() > deadline:
            return trouble
        time.sleep(LOOK_S)
    return ""


def closed(report: Mapping[str, Any]) -> str:
    """Return what `gridbridge status` says against sending jobs away."""
    queues = [one for one in report["queues"] if one["queue"] == "transfer-beta"]
    whys = [report["alarm"], *(one["why"] for one in queues)]
    return "; ".join(filter(None, whys)) if queues else report["alarm"] or "there is no such queue"


def status() -> Mapping[str, Any]:
    """Return what `gridbridge status` tells alice."""
    return json.loads(as_alice("gridbridge status --json") or NOTHING)


def flood() -> dict[str, Job]:
    """Submit more jobs than alpha can run; each has an exit status of its own."""
    print(f"alice submits {JOBS} jobs of {RUN_S} s; alpha has {HOME_SLOTS} slots", flush=True)
    out = as_alice(
        f"for n in $(seq {JOBS}); do qsub -terse -N flood$n -j y -o /dev/null -b y "
        f"sh -c \"'sleep {RUN_S}; exit $n'\"; done"
    )
    numbers = re.findall(r"^\d+$", out, re.MULTILINE)
    if len(numbers) != JOBS:
        sys.exit(f"make demo: only {len(numbers)} of {JOBS} jobs could be submitted\n{out}")
    return {n: Job(number=n, exit_status=str(i)) for i, n in enumerate(numbers, 1)}


def follow(jobs: dict[str, Job], plot: Plot) -> None:
    """Look until no job is left, show what changes, and do what the plot says."""
    screen = Screen()
    deadline = time.monotonic() + LIMIT_S
    try:
        while any(job.state for job in jobs.values()) and time.monotonic() < deadline:
            jobs.update(look(jobs))
            act(jobs, plot)
            screen.show(jobs.values(), plot)
            time.sleep(LOOK_S)  # the time between two pictures, not a wait for anything
    finally:
        screen.close()


def look(jobs: Mapping[str, Job]) -> dict[str, Job]:
    """Ask alpha's qstat and gridbridge where every job is."""
    listed, _, report = as_alice("qstat; echo ===; gridbridge status --json").partition("===\n")
    rows = [line.split() for line in listed.splitlines()[2:]]
    home = {row[0]: row for row in rows}
    away = {one["job"]: one["transfer"] for one in json.loads(report or NOTHING)["transfers"]}
    return {n: seen(job, home.get(n), away.get(n)) for n, job in jobs.items()}


def seen(job: Job, row: list[str] | None, transfer: Mapping[str, object] | None) -> Job:
    """Return the job as one look finds it."""
    if row is None:
        return replace(job, state="", where="ended" if not job.fate else f"ended ({job.fate})")
    queue = row[7] if "@" in row[7] else ""
    if transfer:
        remote_id = str(transfer["remote_id"] or "")
        where = away(str(transfer["remote_state"]), str(transfer["remote_host"]), remote_id)
        return replace(job, state=row[4], where=where, remote_id=remote_id)
    if queue.startswith("transfer-"):
        return replace(job, state=row[4], where="comes home" if job.remote_id else TO_BETA)
    where = f"runs at {queue.rpartition('@')[2]}" if queue else "waits at alpha"
    return replace(job, state=row[4], where=where)


def away(state: str, host: str, remote_id: str) -> str:
    """Say what beta's letters say."""
    if not remote_id:
        return TO_BETA
    if re.search("[sST]", state):
        return f"{SUSPENDED} at {host} as {remote_id}"
    if "r" in state or "t" in state:
        return f"runs at {host} as {remote_id}"
    return f"waits at beta as {remote_id}"


def act(jobs: dict[str, Job], plot: Plot) -> None:
    """Delete one job that runs at beta and suspend another; resume that when beta shows it."""
    running = [job.number for job in jobs.values() if job.where.startswith("runs at beta-")]
    if not plot.deleted and len(running) > 1:
        plot.deleted, plot.suspended = running[:2]
        as_alice(f"qdel {plot.deleted}; qmod -sj {plot.suspended}")
        plot.done += [f"alice deletes {plot.deleted}", f"alice suspends {plot.suspended}"]
        jobs[plot.deleted] = replace(jobs[plot.deleted], fate="deleted")
        jobs[plot.suspended] = replace(jobs[plot.suspended], fate="suspended for a while")
    if plot.was_suspended_there or not jobs.get(plot.suspended, NOBODY).where.startswith(SUSPENDED):
        return
    plot.was_suspended_there = True
    as_alice(f"qmod -usj {plot.suspended}")
    plot.done.append(f"beta shows it suspended; alice resumes {plot.suspended}")


def end_of(job: Job, plot: Plot) -> End:
    """Read a job's end from both accountings."""
    home = accounting(job.number)
    away = accounting(job.remote_id, BETA) if job.remote_id else {}
    end = End(
        job=job,
        home_status=home.get("exit_status", "none"),
        away_host=away.get("hostname", ""),
        away_status=away.get("exit_status", ""),
        wrong="",
    )
    account = away.get("account", "")
    return replace(end, wrong=fault(end, account, is_deleted=job.number == plot.deleted))


def fault(end: End, account: str, *, is_deleted: bool) -> str:
    """Say what is wrong with an end; empty when nothing is."""
    expected = KILLED if is_deleted else end.job.exit_status
    if end.job.state:
        return f"still {end.job.state} after {LIMIT_S} s"
    if end.home_status != expected:
        return f"exit status {end.home_status} at home, not {expected}"
    if not end.job.remote_id:
        return ""
    if account != f"gb.alpha.{end.job.number}.0.1":
        return f"beta accounts job {end.job.remote_id} to {account or 'nobody'}"
    if not is_deleted and end.away_status != expected:
        return f"exit status {end.away_status} at beta, not {expected}"
    return ""


def plot_holes(ends: Iterable[End], plot: Plot) -> list[str]:
    """Say what should have happened on the way and did not."""
    crossed = sum(bool(end.job.remote_id) for end in ends)
    holes = []
    if not 0 < crossed < JOBS:
        holes.append(f"{crossed} of {JOBS} jobs crossed: some should, and some not")
    if not plot.deleted:
        holes.append("no two jobs were seen running at beta: none was deleted or suspended")
    elif not plot.was_suspended_there:
        holes.append(f"job {plot.suspended} was never seen suspended at beta")
    return holes


def accounting(number: str, cell: str = "") -> dict[str, str]:
    """Return a job's last accounting record as qacct names its fields; wait for it shortly."""
    script = f"for n in $(seq 20); do {cell} qacct -j {number} && exit; sleep 0.5; done 2>/dev/null"
    record = as_alice(script).split("=" * 62)[-1]
    rows = (line.split() for line in record.splitlines())
    return {row[0]: row[1] for row in rows if len(row) > 1}


def tell(ends: Iterable[End]) -> None:
    """Print the last table: ids, hosts and exit statuses of both sides."""
    head = ("JOB", "REMOTE ID", "REMOTE HOST", "EXIT STATUS", "THERE", "")
    rows = [
        (
            end.job.number,
            end.job.remote_id or "-",
            end.away_host or "-",
            end.home_status,
            end.away_status or "-",
            end.wrong or end.job.fate,
        )
        for end in ends
    ]
    widths = [max(len(row[n]) for row in (head, *rows)) for n in range(len(head))]
    print()
    for row in (head, *rows):
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


class Screen:
    """The live table of a terminal, or one line for each change."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}
        self._deeds = 0
        self._begun = time.monotonic()
        self._live = None
        if sys.stdout.isatty():
            from rich.live import Live

            self._live = Live(auto_refresh=False)
            self._live.start()

    def show(self, jobs: Iterable[Job], plot: Plot) -> None:
        """Show every job and where it is."""
        if self._live is not None:
            self._live.update(_table(jobs, plot), refresh=True)
            return
        for job in jobs:
            self._say(job.number, f"job {job.number} {job.where}")
        for deed in plot.done[self._deeds :]:
            self._say(deed, deed)
        self._deeds = len(plot.done)

    def close(self) -> None:
        """Leave the last picture where it is."""
        if self._live is not None:
            self._live.stop()

    def _say(self, key: str, text: str) -> None:
        if self._said.get(key) != text:
            self._said[key] = text
            print(f"{time.monotonic() - self._begun:4.0f} s  {text}", flush=True)


def _table(jobs: Iterable[Job], plot: Plot) -> object:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, caption="\n".join(plot.done), caption_justify="left")
    for title in ("JOB", "STATE", "WHERE", ""):
        table.add_column(title)
    for job in jobs:
        style = "green" if "beta" in job.where else "dim" if not job.state else ""
        table.add_row(job.number, job.state or "-", job.where, job.fate, style=style)
    return table


if __name__ == "__main__":
    sys.exit(main())
