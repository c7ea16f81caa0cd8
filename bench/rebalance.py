"""Cost of a rebalancing plan: 1,000 hosts, 1,000,000 tasks and 100,000 replicas in memory.

Each plan is made anew from the snapshot, which costs what reading it as a file does besides. A
round (`plan`), one host, one job and a failed host are planned, and rounds in which little can be
moved: one job has all tasks, all run, the lightest host rests, no host takes anything, or ten are
drained. The whole is planned once more with a tenth of the tasks: what ten times the tasks cost is
the ratio of both.

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

from bench.brief import sized
from bench.rows import Row, show
from gridbridge.decisions.rebalance.automatic_round_and_evacuation import plan_automatic_round, plan_host_evacuation
from gridbridge.decisions.rebalance.host_rebalancing import plan_host_balance
from gridbridge.decisions.rebalance.job_copy_repair_and_spread import plan_job_repair_or_spread
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    RebalanceHost,
    RebalanceHostState,
    RebalanceJobOrDataset,
    RebalanceMovePlan,
    RebalanceSnapshot,
    RebalanceTask,
    RebalanceTaskState,
    RecentRebalanceMoveTimes,
)

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
HOSTS, TASKS = sized(1000, 100), sized(1_000_000, 100_000)
TASKS_PER_JOB, REPLICATED = 1000, 10  # every tenth has a replica
TB = 10**12
MOST_S, MOST_GROWTH = 2.0, 12.0  # for ten times the tasks
RULES = RebalanceSection()
REPEATS = sized(3, 1)
ALL = "all"  # the job of all tasks


def main() -> int:
    """Measure the plans; return the exit status."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", metavar="FILE")
    options.add_argument("--tasks", metavar="N", type=int, default=TASKS)
    given = options.parse_args()
    rows = [row for what, (act, form) in PLANS.items() for row in _measured(what, act, form, given.tasks)]
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({row.what.strip(): row.measured for row in rows}, file)
    show(rows)
    return 0 if all(row.is_met for row in rows) else 1


def _round(seen: RebalanceSnapshot) -> RebalanceMovePlan:
    return plan_automatic_round(seen, RULES)


def _still(seen: RebalanceSnapshot) -> RebalanceMovePlan:
    """Plan a round that finds every host balanced, and examines every job."""
    hosts = tuple(replace(host, used_bytes=TB // 2, mean_active=0.5) for host in seen.hosts)
    return plan_automatic_round(replace(seen, hosts=hosts), RULES)


def _host(seen: RebalanceSnapshot) -> RebalanceMovePlan:
    return plan_host_balance(seen, "h0007", RULES)


def _job(seen: RebalanceSnapshot) -> RebalanceMovePlan:
    return plan_job_repair_or_spread(seen, "job7", RULES)


def _fail(seen: RebalanceSnapshot) -> RebalanceMovePlan:
    hosts = (replace(seen.hosts[7], state=RebalanceHostState.DEAD), *seen.hosts[8:])
    return plan_host_evacuation(replace(seen, hosts=(*seen.hosts[:7], *hosts)), "h0007", RULES)


def _huge(seen: RebalanceSnapshot) -> RebalanceMovePlan:
    """Plan a job that has all tasks."""
    return plan_job_repair_or_spread(seen, ALL, RULES)


def _huge_round(seen: RebalanceSnapshot) -> RebalanceMovePlan:
    return plan_automatic_round(seen, replace(RULES, level=2))


def _drained(seen: RebalanceSnapshot) -> RebalanceMovePlan:
    """Plan a round while all tasks run on ten hosts that are drained."""
    return _still(_drained_waiting(seen))


def _drained_waiting(seen: RebalanceSnapshot) -> RebalanceSnapshot:
    hosts = tuple(replace(host, state=RebalanceHostState.DRAIN) for host in seen.hosts[:10])
    return replace(seen, hosts=(*hosts, *seen.hosts[10:]))


def _one_job(seen: RebalanceSnapshot) -> RebalanceSnapshot:
    job = replace(seen.jobs[0], name=ALL, replicas=0)
    tasks = (replace(task, job=ALL, number=number, replicas=()) for number, task in enumerate(seen.tasks))
    return replace(seen, jobs=(job,), tasks=tuple(tasks))


def _running(seen: RebalanceSnapshot) -> RebalanceSnapshot:
    return replace(seen, tasks=tuple(replace(task, state=RebalanceTaskState.RUNNING) for task in seen.tasks))


def _resting(seen: RebalanceSnapshot) -> RebalanceSnapshot:
    """Mark the lightest host, the usual target of copies, as recently used."""
    lightest = min(seen.hosts, key=lambda host: (host.used_bytes, host.mean_active))
    return replace(seen, recent=RecentRebalanceMoveTimes(hosts={lightest.name: NOW}))


def _all_resting(seen: RebalanceSnapshot) -> RebalanceSnapshot:
    return replace(seen, recent=RecentRebalanceMoveTimes(hosts={host.name: NOW for host in seen.hosts}))


def _as_it_is(seen: RebalanceSnapshot) -> RebalanceSnapshot:
    return seen


Act = Callable[[RebalanceSnapshot], RebalanceMovePlan]
PLANS: dict[str, tuple[Act, Callable[[RebalanceSnapshot], RebalanceSnapshot]]] = {
    "a round": (_round, _as_it_is),
    "a round that moves no host": (_still, _as_it_is),
    "one host": (_host, _as_it_is),
    "one job": (_job, _as_it_is),
    "a failed host": (_fail, _as_it_is),
    "one huge job": (_huge, _one_job),
    "a round, one huge job that runs": (_huge_round, lambda seen: _running(_one_job(seen))),
    "a round, all tasks run": (_still, _running),
    "a round, the lightest host rests": (_round, _resting),
    "a round, all hosts rest": (_still, _all_resting),
    "a round, ten drained hosts": (_round, _drained_waiting),
    "a round, ten drained hosts, all tasks run": (_drained, _running),
    "a round, ten drained hosts, all others rest": (_drained, _all_resting),
}


def made(tasks: int) -> RebalanceSnapshot:
    """Make a synthetic grid: uneven disks, and jobs of a thousand tasks that ran recently."""
    random = Random(7)
    hosts = tuple(
        RebalanceHost(
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
        RebalanceJobOrDataset(
            name=f"job{number}",
            replicas=int(number % REPLICATED == 0),
            last_run=NOW - timedelta(hours=random.uniform(0, 48)),
        )
        for number in range(tasks // TASKS_PER_JOB)
    )
    return RebalanceSnapshot(now=NOW, hosts=hosts, jobs=jobs, tasks=tuple(_tasks(jobs, random)))


def _tasks(jobs: tuple[RebalanceJobOrDataset, ...], random: Random) -> list[RebalanceTask]:
    found = []
    for job in jobs:
        for number in range(TASKS_PER_JOB):
            at = random.randrange(HOSTS)
            found.append(
                RebalanceTask(
                    job=job.name,
                    number=number,
                    size_bytes=random.randrange(10**6, 10**9),
                    live=f"h{at:04}",
                    replicas=(f"h{(at + 1 + number) % HOSTS:04}",) if job.replicas else (),
                )
            )
    return found


def _measured(what: str, act: Act, form: Callable[[RebalanceSnapshot], RebalanceSnapshot], tasks: int) -> list[Row]:
    whole, tenth = form(made(tasks)), form(made(tasks // 10))
    took_s, less_s = _cpu_s(act, whole), _cpu_s(act, tenth)
    return [
        Row(what=what, measured=took_s, unit="s of CPU", limit=MOST_S, baseline=less_s,
            needs_whole=True),
        Row(what="  for ten times the tasks", measured=took_s / less_s, unit="times",
            limit=MOST_GROWTH, needs_whole=True),
    ]  # fmt: skip


def _cpu_s(act: Act, seen: RebalanceSnapshot) -> float:
    """Return the CPU seconds of the fastest of some plans."""
    gc.freeze()
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        act(seen)
        times.append(time.process_time() - began)
    return min(times)


if __name__ == "__main__":
    sys.exit(main())
