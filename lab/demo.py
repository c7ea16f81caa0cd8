"""make demo: alice floods alpha, the overflow crosses, and both sides' accountings agree.

One job is deleted and one suspended on the way. A live table shows every job and where it runs;
without a terminal each change is a line. Then a campaign fills three clusters (lab/campaign.py),
alpha grows with its queue and shrinks again (lab/elastic.py), and waiting tasks and data are moved
(lab/rebalance.py).
As root it plays in the lab, else with `--embedded` on embedded clusters (lab/apart), which have
neither nodes to add nor a second place for a task: there the last two parts are left out.
Exit status: 0, 1 if anything went wrong, 2 if it can't begin.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import campaign
import elastic
import rebalance
from grids import Folders, Grid, Lab, Report, Row
from screen import Screen
from stages import FoldersStage, LabStage

OF_LAB = {"elastic": elastic, "rebalance": rebalance}  # parts that only the lab plays
PARTS = ("transfer", "campaign", *OF_LAB)
JOBS = 12
HOME_SLOTS = 4
LIMIT_S = 180
OPEN_LIMIT_S = 40
LOOK_S = 1.0
SUSPENDED = "suspended"
PUT_BACK = "put back at alpha"
MASTER = "-master"  # of a host that runs no jobs: what is there is in a transfer queue, and bounces
KILLED = "137"  # 128 + SIGKILL, as qacct shows a deleted job
NEEDS = """\
The demo in the lab needs root on Debian 12, for it builds two Grid Engine clusters in namespaces of
this machine; docs/how-to/lab.md says more. `make demo` without root takes two embedded
clusters instead: lab/apart .venv/bin/python lab/demo.py --embedded. Nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One of alice's jobs: its expected end, and its observed states."""

    number: str
    exit_status: str
    state: str = "qw"
    where: str = "waits at alpha"
    cluster: str = ""  # that it was sent to
    remote_id: str = ""
    is_on_node: bool = False  # of that cluster
    fate: str = ""  # deleted, or suspended and so on


NOBODY = Job(number="", exit_status="", state="", where="")


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
    """The actions on jobs during the demo, each at most once."""

    deleted: str = ""
    suspended: str = ""
    was_suspended_there: bool = False
    done: list[str] = field(default_factory=list)


def main() -> int:
    """Play the requested parts and return the exit status."""
    chosen = _options().parse_args()
    if chosen.part in OF_LAB and (chosen.embedded or os.getuid() != 0):
        print(OF_LAB[chosen.part].NEEDS, file=sys.stderr)
        return 2
    if not chosen.embedded and os.getuid() != 0:
        print(NEEDS, file=sys.stderr)
        return 2
    statuses = []
    if chosen.part in (None, "transfer"):
        statuses.append(play(Folders() if chosen.embedded else Lab()))
    if chosen.part in (None, "campaign"):
        stage = FoldersStage() if chosen.embedded else LabStage()
        statuses.append(campaign.play(stage, chosen.tasks))
    for name, part in OF_LAB.items():
        if chosen.part == name or (chosen.part is None and not chosen.embedded):
            statuses.append(part.play())
    return max(statuses)


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--embedded", action="store_true", help="on embedded clusters")
    options.add_argument("--part", choices=PARTS, help="this part alone")
    options.add_argument("--tasks", type=int, default=campaign.TASKS, help="of the campaign")
    return options


def play(grid: Grid) -> int:
    """Play the transfer part on a set of clusters."""
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
    crossed = (number for number, job in jobs.items() if job.remote_id)
    print(grid.next.format(job=next(crossed, next(iter(jobs)))))
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
    """Return the reason in `gridbridge status` why no job can be sent."""
    queues = [one for one in report["queues"] if one["queue"] == "transfer-beta"]
    whys = [report["alarm"], *(one["why"] for one in queues)]
    return "; ".join(filter(None, whys)) if queues else report["alarm"] or "there is no such queue"


def flood(grid: Grid) -> dict[str, Job]:
    """Submit more jobs than alpha can run; each has its own exit status."""
    print(f"{grid.person} submits {JOBS} jobs of {grid.run_s} s; alpha has {HOME_SLOTS} slots")
    print(f"each is to end with an exit status of its own, from 1 to {JOBS}", flush=True)
    numbers = grid.submit([f"sleep {grid.run_s}; exit {n}" for n in range(1, JOBS + 1)])
    if len(numbers) != JOBS or not all(numbers):
        sys.exit(f"make demo: not all of {JOBS} jobs could be submitted: {numbers}")
    return {n: Job(number=n, exit_status=str(i)) for i, n in enumerate(numbers, 1)}


def follow(grid: Grid, jobs: dict[str, Job], plot: Plot) -> None:
    """Poll until no job is left, show changes, and run the plot's actions."""
    screen = Screen()
    deadline = time.monotonic() + LIMIT_S
    try:
        while any(job.state for job in jobs.values()) and time.monotonic() < deadline:
            jobs.update(look(grid, jobs))
            act(grid, jobs, plot)
            screen.show(jobs.values(), plot.done)
            time.sleep(LOOK_S)  # the time between two pictures, not a wait for anything
    finally:
        screen.close()


def look(grid: Grid, jobs: Mapping[str, Job]) -> dict[str, Job]:
    """Query the place of every job."""
    home, report = grid.look()
    away = {one["job"]: one["transfer"] for one in report["transfers"]}
    return {n: seen(job, home.get(n), away.get(n)) for n, job in jobs.items()}


def seen(job: Job, row: Row | None, transfer: Mapping[str, object] | None) -> Job:
    """Return a job as one poll shows it."""
    if row is None:
        where = "ended" if not job.fate else f"ended ({job.fate})"
        return replace(job, state="", where=where, is_on_node=False)
    found = replace(job, state=row.state, is_on_node=False)
    if row.is_put_back:
        return replace(found, where=PUT_BACK)
    if transfer:
        return away(found, {name: str(value or "") for name, value in transfer.items()})
    if row.queue.startswith("transfer-"):
        cluster = row.queue.partition("@")[0].removeprefix("transfer-")
        ended = f"ended at {job.cluster}, its end is on its way"
        return replace(found, where=ended if job.remote_id else f"on its way to {cluster}")
    where = f"runs at {row.queue.rpartition('@')[2]}" if row.queue else "waits at alpha"
    return replace(found, where=where, cluster="", remote_id="")


def away(job: Job, transfer: Mapping[str, str]) -> Job:
    """Return a transferred job as its remote cluster shows it."""
    cluster, host, number = (transfer[key] for key in ("remote", "remote_host", "remote_id"))
    if not number:
        return replace(job, where=f"on its way to {cluster}")
    there, state = replace(job, cluster=cluster, remote_id=number), transfer["remote_state"]
    if re.search("[sST]", state):
        return replace(there, where=f"{SUSPENDED} at {host} as {number}")
    if "r" in state or "t" in state:
        on_node = bool(host) and not host.endswith(MASTER)
        return replace(there, where=f"runs at {host} as {number}", is_on_node=on_node)
    return replace(there, where=f"waits at {cluster} as {number}")


def act(grid: Grid, jobs: dict[str, Job], plot: Plot) -> None:
    """Suspend a job on a node of beta and delete another; resume the first when beta shows it.

    Nobody need see both at once: on a slow machine jobs end between two looks. If the first ends
    before it is suspended, the next job is.
    """
    running = [job.number for job in jobs.values() if job.is_on_node and job.cluster == "beta"]
    free = [number for number in running if number not in (plot.deleted, plot.suspended)]
    has_ended = not jobs.get(plot.suspended, NOBODY).state
    if free and has_ended and not plot.was_suspended_there:
        plot.suspended = free.pop()
        grid.do("suspend", plot.suspended)
        plot.done.append(f"{grid.person} suspends {plot.suspended}")
        jobs[plot.suspended] = replace(jobs[plot.suspended], fate="suspended for a while")
    if free and not plot.deleted:
        plot.deleted = free.pop()
        grid.do("delete", plot.deleted)
        plot.done.append(f"{grid.person} deletes {plot.deleted}")
        jobs[plot.deleted] = replace(jobs[plot.deleted], fate="deleted")
    if plot.was_suspended_there or not jobs.get(plot.suspended, NOBODY).where.startswith(SUSPENDED):
        return
    plot.was_suspended_there = True
    grid.do("resume", plot.suspended)
    plot.done.append(f"beta shows it suspended; {grid.person} resumes {plot.suspended}")


def end_of(grid: Grid, job: Job, plot: Plot) -> End:
    """Read a job's end from both accountings."""
    home = grid.record(job.number)
    away = grid.remote_record(job.number, job.cluster, job.remote_id) if job.remote_id else {}
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
    """Return what is wrong with an end; empty when it is as expected."""
    expected = KILLED if is_deleted else end.job.exit_status
    if end.job.state:
        return f"still {end.job.state} after {LIMIT_S} s"
    if end.home_status != expected:
        return f"exit status {end.home_status} at home, not {expected}"
    if not end.job.remote_id:
        return ""
    cluster = end.job.cluster
    if not re.fullmatch(rf"gb\.alpha\.{end.job.number}\.0\.\d+", account):
        return f"{cluster} accounts job {end.job.remote_id} to {account or 'nobody'}"
    if not is_deleted and end.away_status != expected:
        return f"exit status {end.away_status} at {cluster}, not {expected}"
    return ""


def plot_holes(ends: Iterable[End], plot: Plot) -> list[str]:
    """Return the actions that should have happened and did not."""
    crossed = sum(bool(end.job.remote_id) for end in ends)
    holes = []
    if not 0 < crossed < JOBS:
        holes.append(f"{crossed} of {JOBS} jobs crossed: some should, and some not")
    if not plot.suspended:
        holes.append("no job was seen running at beta: none was suspended")
    elif not plot.was_suspended_there:
        holes.append(f"job {plot.suspended} was never seen suspended at beta")
    if not plot.deleted:
        holes.append("no other job was seen running at beta: none was deleted")
    return holes


def tell(ends: Iterable[End]) -> None:
    """Print the last table: ids, hosts and exit statuses at both clusters."""
    head = ("JOB", "CLUSTER", "REMOTE ID", "REMOTE HOST", "EXIT STATUS", "THERE", "")
    rows = [
        (
            end.job.number,
            end.job.cluster or "-",
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


if __name__ == "__main__":
    sys.exit(main())
