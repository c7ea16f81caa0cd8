"""make demo: alice floods alpha, the overflow crosses to beta, and both accountings agree.

One job is deleted and one suspended on the way. A live table shows every job and where it runs;
without a terminal each change is a line. As root it plays in the lab, else with `--embedded` on
two embedded clusters (lab/apart). Exit status: 0, 1 if anything went wrong, 2 if it can't begin.
"""

import os
import re
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from grids import Folders, Grid, Lab, Report, Row

JOBS = 12
HOME_SLOTS = 4
LIMIT_S = 180
OPEN_LIMIT_S = 40
LOOK_S = 1.0
TO_BETA = "on its way to beta"
SUSPENDED = "suspended"
KILLED = "137"  # 128 + SIGKILL, as qacct shows a deleted job
NEEDS = """\
The demo in the lab needs root on Debian 12, for it builds two Grid Engine clusters in namespaces of
this machine; docs/lab.md says more. `make demo` without root takes two embedded clusters instead:
lab/apart .venv/bin/python lab/demo.py --embedded. Nothing was done."""


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
    if sys.argv[1:] == ["--embedded"]:
        return play(Folders())
    if os.getuid() != 0:
        print(NEEDS, file=sys.stderr)
        return 2
    return play(Lab())


def play(grid: Grid) -> int:
    """Play it in a grid."""
    begun = time.monotonic()
    if trouble := until_open(grid):
        print(f"make demo: transfer-beta takes no jobs: {trouble}", file=sys.stderr)
        return 1
    jobs = flood(grid)
    plot = Plot()
    follow(grid, jobs, plot)
    ends = [end_of(grid, job, plot) for job in jobs.values()]
    wrong = [*(f"job {end.job.number}: {end.wrong}" for end in ends if end.wrong)]
    wrong += plot_holes(ends, plot)
    tell(ends)
    for line in wrong:  # the table's last column has it too
        print(f"WRONG: {line}")
    print(f"{len(ends)} jobs, {len(wrong)} wrong, {time.monotonic() - begun:.0f} s")
    print(grid.next.format(job=next(iter(jobs))))
    return 1 if wrong else 0


def until_open(grid: Grid) -> str:
    """Wait until the transfer queue takes jobs; return why it does not, empty when it does."""
    deadline = time.monotonic() + OPEN_LIMIT_S
    while trouble := closed(grid.look()[1]):
        if time.monotonic() > deadline:
            return trouble
        time.sleep(LOOK_S)
    return ""


def closed(report: Report) -> str:
    """Return what `gridbridge status` says against sending jobs away."""
    queues = [one for one in report["queues"] if one["queue"] == "transfer-beta"]
    whys = [report["alarm"], *(one["why"] for one in queues)]
    return "; ".join(filter(None, whys)) if queues else report["alarm"] or "there is no such queue"


def flood(grid: Grid) -> dict[str, Job]:
    """Submit more jobs than alpha can run; each has an exit status of its own."""
    told = f"{JOBS} jobs of {grid.run_s} s; alpha has {HOME_SLOTS} slots"
    print(f"{grid.person} submits {told}", flush=True)
    numbers = grid.submit([f"sleep {grid.run_s}; exit {n}" for n in range(1, JOBS + 1)])
    if len(numbers) != JOBS or not all(numbers):
        sys.exit(f"make demo: not all of {JOBS} jobs could be submitted: {numbers}")
    return {n: Job(number=n, exit_status=str(i)) for i, n in enumerate(numbers, 1)}


def follow(grid: Grid, jobs: dict[str, Job], plot: Plot) -> None:
    """Look until no job is left, show what changes, and do what the plot says."""
    screen = Screen()
    deadline = time.monotonic() + LIMIT_S
    try:
        while any(job.state for job in jobs.values()) and time.monotonic() < deadline:
            jobs.update(look(grid, jobs))
            act(grid, jobs, plot)
            screen.show(jobs.values(), plot)
            time.sleep(LOOK_S)  # the time between two pictures, not a wait for anything
    finally:
        screen.close()


def look(grid: Grid, jobs: Mapping[str, Job]) -> dict[str, Job]:
    """Ask where every job is."""
    home, report = grid.look()
    away = {one["job"]: one["transfer"] for one in report["transfers"]}
    return {n: seen(job, home.get(n), away.get(n)) for n, job in jobs.items()}


def seen(job: Job, row: Row | None, transfer: Mapping[str, object] | None) -> Job:
    """Return the job as one look finds it."""
    if row is None:
        return replace(job, state="", where="ended" if not job.fate else f"ended ({job.fate})")
    if transfer:
        remote_id = str(transfer["remote_id"] or "")
        where = away(str(transfer["remote_state"]), str(transfer["remote_host"]), remote_id)
        return replace(job, state=row.state, where=where, remote_id=remote_id)
    if row.queue.startswith("transfer-"):
        return replace(job, state=row.state, where="comes home" if job.remote_id else TO_BETA)
    where = f"runs at {row.queue.rpartition('@')[2]}" if row.queue else "waits at alpha"
    return replace(job, state=row.state, where=where)


def away(state: str, host: str, remote_id: str) -> str:
    """Say what beta's letters say."""
    if not remote_id:
        return TO_BETA
    if re.search("[sST]", state):
        return f"{SUSPENDED} at {host} as {remote_id}"
    if "r" in state or "t" in state:
        return f"runs at {host} as {remote_id}"
    return f"waits at beta as {remote_id}"


def act(grid: Grid, jobs: dict[str, Job], plot: Plot) -> None:
    """Delete one job that runs at beta and suspend another; resume that when beta shows it."""
    running = [job.number for job in jobs.values() if job.where.startswith("runs at beta")]
    if not plot.deleted and len(running) > 1:
        plot.deleted, plot.suspended = running[:2]
        grid.do("delete", plot.deleted)
        grid.do("suspend", plot.suspended)
        plot.done.append(f"{grid.person} deletes {plot.deleted}")
        plot.done.append(f"{grid.person} suspends {plot.suspended}")
        jobs[plot.deleted] = replace(jobs[plot.deleted], fate="deleted")
        jobs[plot.suspended] = replace(jobs[plot.suspended], fate="suspended for a while")
    if plot.was_suspended_there or not jobs.get(plot.suspended, NOBODY).where.startswith(SUSPENDED):
        return
    plot.was_suspended_there = True
    grid.do("resume", plot.suspended)
    plot.done.append(f"beta shows it suspended; {grid.person} resumes {plot.suspended}")


def end_of(grid: Grid, job: Job, plot: Plot) -> End:
    """Read a job's end from both accountings."""
    home = grid.record(job.number, is_away=False)
    away = grid.record(job.remote_id, is_away=True) if job.remote_id else {}
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
