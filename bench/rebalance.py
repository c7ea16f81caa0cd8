"""How dear a plan of rebalancing is: 1,000 hosts, 1,000,000 tasks and 100,000 replicas in memory.

Each plan is made anew from the snapshot, which costs what reading it as a file does besides. A
round (`plan`), one host, one job and a failed host are planned, and the whole once more with a
tenth of the tasks: what ten times the tasks cost is the ratio of both.

Usage: .venv/bin/python -m bench.rebalance [--json FILE] [--tasks N]
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

from bench.rows import Row, show
from gridbridge.decisions.rebalance.auto import plan
from gridbridge.decisions.rebalance.failing import plan_fail
from gridbridge.decisions.rebalance.hosts import plan_host
from gridbridge.decisions.rebalance.jobs import plan_job
from gridbridge.model.rebalance.moves import Advice
from gridbridge.model.rebalance.sections import Rebalance
from gridbridge.model.rebalance.snapshot import Host, HostState, Job, Snapshot, Task

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
HOSTS, TASKS, TASKS_PER_JOB, REPLICATED = 1000, 1_000_000, 1000, 10  # every tenth has a replica
TB = 10**12
MOST_S, MOST_GROWTH = 2.0, 12.0  # for ten times the tasks
RULES = Rebalance()
REPEATS = 3


def main() -> int:
    """Measure it; return the exit status."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", metavar="FILE")
    options.add_argument("--tasks", metavar="N", type=int, default=TASKS)
    given = options.parse_args()
    rows = [
        row
        for name, (what, act) in PLANS.items()
        for row in _measured(name, what, act, given.tasks)
    ]
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({row.what.strip(): row.measured for row in rows}, file)
    show(rows)
    return 0 if all(row.is_met for row in rows) else 1


def _round(seen: Snapshot) -> Advice:
    return plan(seen, RULES)


def _still(seen: Snapshot) -> Advice:
    """Plan a round that finds every host even, and looks at every job."""
    hosts = tuple(replace(host, used_bytes=TB // 2, mean_active=0.5) for host in seen.hosts)
    return plan(replace(seen, hosts=hosts), RULES)


def _host(seen: Snapshot) -> Advice:
    return plan_host(seen, "h0007", RULES)


def _job(seen: Snapshot) -> Advice:
    return plan_job(seen, "job7", RULES)


def _fail(seen: Snapshot) -> Advice:
    hosts = (replace(seen.hosts[7], state=HostState.DEAD), *seen.hosts[8:])
    return plan_fail(replace(seen, hosts=(*seen.hosts[:7], *hosts)), "h0007", RULES)


PLANS: dict[str, tuple[str, Callable[[Snapshot], Advice]]] = {
    "round": ("a round", _round),
    "still": ("a round that moves no host", _still),
    "host": ("one host", _host),
    "job": ("one job", _job),
    "fail": ("a failed host", _fail),
}


def made(tasks: int) -> Snapshot:
    """Make a grid up: uneven disks, jobs of a thousand tasks that ran at some time of late."""
    random = Random(7)
    hosts = tuple(
        Host(
            name=f"h{number:04}",
            max_bytes=TB,
            used_bytes=int(TB * random.uniform(0.2, 0.9)),
            slots=random.choice((8, 16, 32)),
            mean_active=random.random(),
            zone=f"z{number % 7}",
        )
        for number in range(HOSTS)
    )
    jobs = tuple(
        Job(
            name=f"job{number}",
            replicas=int(number % REPLICATED == 0),
            last_run=NOW - timedelta(hours=random.uniform(0, 48)),
        )
        for number in range(tasks // TASKS_PER_JOB)
    )
    return Snapshot(now=NOW, hosts=hosts, jobs=jobs, tasks=tuple(_tasks(jobs, random)))


def _tasks(jobs: tuple[Job, ...], random: Random) -> list[Task]:
    found = []
    for job in jobs:
        for number in range(TASKS_PER_JOB):
            at = random.randrange(HOSTS)
            found.append(
                Task(
                    job=job.name,
                    number=number,
                    size_bytes=random.randrange(10**6, 10**9),
                    live=f"h{at:04}",
                    replicas=(f"h{(at + 1 + number) % HOSTS:04}",) if job.replicas else (),
                )
            )
    return found


def _measured(name: str, what: str, act: Callable[[Snapshot], Advice], tasks: int) -> list[Row]:
    whole, tenth = made(tasks), made(tasks // 10)
    took_s, less_s = _cpu_s(act, whole), _cpu_s(act, tenth)
    return [
        Row(what=what, measured=took_s, unit="s of CPU", limit=MOST_S, baseline=less_s),
        Row(what="  for ten times the tasks", measured=took_s / less_s, unit="times",
            limit=MOST_GROWTH),
    ]  # fmt: skip


def _cpu_s(act: Callable[[Snapshot], Advice], seen: Snapshot) -> float:
    """Return the CPU of the fastest of some plans."""
    gc.freeze()
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        act(seen)
        times.append(time.process_time() - began)
    return min(times)


if __name__ == "__main__":
    sys.exit(main())
