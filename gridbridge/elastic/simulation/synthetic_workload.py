"""Generates a workload from fixed distributions; equal seeds give equal workloads.

Bursts form a Poisson process: 1.3 times the mean rate from 8 to 20 h (UTC) on working days, else 0.8 times.
A burst has a geometric number of tasks (mean 5) of one of twelve kinds. A kind's run times are log-normal.
"""

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random

from gridbridge.model.elastic.replay_tasks_and_results import RecordedReplayTask, RecordedWorkload
from gridbridge.model.grid_engine_amounts import DAY_S

BEGIN = datetime.fromisoformat("2026-03-02T00:00:00+00:00")  # a Monday
BURST, KINDS = 5.0, 12
MEDIAN_S, KIND_SIGMA, TASK_SIGMA = 1200.0, 1.0, 0.5
LEAST_S, MOST_S = 10.0, DAY_S
BUSY, QUIET = 1.3, 0.8  # factors of the mean rate of submissions


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticWorkloadSettings:
    seed: str
    days: float = 7.0
    tasks_a_day: float = 1000.0
    node_slots: int = 8
    load: float = 0.0  # share of all slot time that tasks use; 0: run times are not scaled
    slots: int = 0  # slots of the largest cluster


def generate_synthetic_workload(distribution: SyntheticWorkloadSettings) -> RecordedWorkload:
    """Generate a workload; if `load` is not 0, scale run times to this share of all slot time."""
    random = Random(f"gridbridge {distribution.seed}")
    kinds = [random.lognormvariate(math.log(MEDIAN_S), KIND_SIGMA) for _ in range(KINDS)]
    tasks, now_s = list[RecordedReplayTask](), 0.0
    rate = distribution.tasks_a_day / BURST / DAY_S
    while (now_s := now_s + random.expovariate(rate * BUSY)) < distribution.days * DAY_S:
        at = BEGIN + timedelta(seconds=now_s)
        is_busy = at.weekday() < 5 and 8 <= at.hour < 20
        if random.random() < (BUSY if is_busy else QUIET) / BUSY:
            tasks.extend(_generate_burst(random, now_s, kinds, distribution))
    return RecordedWorkload(tasks=_scale_run_times_to_load(tasks, distribution))


def _generate_burst(
    random: Random, now_s: float, kinds: list[float], distribution: SyntheticWorkloadSettings
) -> list[RecordedReplayTask]:
    number = 1 + int(math.log(1 - random.random()) / math.log(1 - 1 / BURST))
    kind = random.randrange(len(kinds))
    slots = random.choices((1, 2, max(1, distribution.node_slots // 2)), (70, 20, 10))[0]
    return [
        RecordedReplayTask(
            submitted_s=float(round(BEGIN.timestamp() + now_s)),
            run_s=float(round(min(MOST_S, max(LEAST_S, random.lognormvariate(math.log(kinds[kind]), TASK_SIGMA))))),
            slots=min(slots, distribution.node_slots),
            owner=f"owner{kind % 4}",
            name=f"work{kind}",
        )
        for _ in range(number)
    ]


def _scale_run_times_to_load(
    tasks: list[RecordedReplayTask], distribution: SyntheticWorkloadSettings
) -> tuple[RecordedReplayTask, ...]:
    used = sum(task.run_s * task.slots for task in tasks)
    if not (distribution.load and used):
        return tuple(tasks)
    factor = distribution.load * distribution.slots * distribution.days * DAY_S / used
    return tuple(replace(task, run_s=float(max(1, round(task.run_s * factor)))) for task in tasks)
