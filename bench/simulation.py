"""Results of campaigns on simulated clusters: makespan, filling, flooding, forecasts (no lab).

* the makespan of a campaign over three unequal clusters, as times of a lower bound: all work at
  the speed of all slots, or the longest task at the fastest. How long tasks take is unknown; they
  are of five kinds. Of several campaigns the longest counts, and of small ones, which have no
  limit, the mean is beside what docs/reference/figures.md says. Beside it CiGri 3, which deals
  tasks to clusters in turns and has taps;
* the same of a campaign in which some attempts are unlucky, with copies of the tasks that run long
  at its end and without, as the median of some campaigns;
* when the last of 100 tasks is submitted to 100 free slots, with nothing known; beside it CiGri;
* how many tasks wait, ten minutes later, at a cluster that is full or that starts nothing though
  its slots look free (nikita would wipe what is beyond the flood rate);
* the largest deviation of a file server's load from its target after settling, of several servers;
  beside it a stress script, which closes and opens the cluster;
* the bytes carried for a campaign whose tasks share input files, over three connections of unequal
  bandwidth, and its makespan; beside it data-blind sending (bench/shared_inputs.py);
* the work that tasks of an hour lose under a preemption each 20 minutes, as times of the least that
  the formula of Young and Daly allows; beside it an interval of 15 minutes, and no checkpoints;
* for how many of many campaigns the P90 of a forecast holds that is made at a random moment.

Usage: .venv/bin/python -m bench.simulation [--quick] [--json FILE]
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from itertools import cycle
from pathlib import Path
from random import Random
from statistics import mean, median

from bench import shared_inputs
from bench.brief import sized
from bench.checkpoints import FIXED_S, GAPS, NEVER_S, least_lost_s, lost_s
from bench.file_server import RULE, deviations_of_servers
from bench.rows import Row, show
from bench.simulated import Cigri, Cluster, Ours, bound, copied, progress, run
from bench.tail import Straggling
from gridbridge.decisions.campaigns.campaign_progress_and_forecast import forecast_campaign_end
from gridbridge.model.campaigns.campaign_end_forecast import CampaignForecast

UNEQUAL = (Cluster("beta", 60), Cluster("gamma", 24, 0.7), Cluster("delta", 12, 1.6))
HUNDRED = (Cluster("beta", 100),)
STUCK = (Cluster("beta", 100, is_stuck=True),)
KINDS: dict[str, Callable[[Random], float]] = {
    "of one length": lambda random: random.uniform(290, 310),
    "of any length": lambda random: random.uniform(30, 900),
    "exponential": lambda random: random.expovariate(1 / 300),
    "log-normal": lambda random: random.lognormvariate(5.3, 0.8),
    "of two kinds": lambda random: random.gauss(60, 5) if random.random() < 0.7 else 900,
}
TASKS, FEW = sized(10_000, 1_000), sized(1_000, 100)
CAMPAIGNS = sized(300, 40)
MOST_TIMES = 1.15  # of the lower bound
LARGE_SEEDS, SMALL_SEEDS = range(1, sized(4, 2)), range(1, sized(6, 2))
TOLD = dict(zip(KINDS, (1.11, 1.17, 1.40, 1.56, 1.29), strict=True))  # docs/reference/figures.md, of FEW
PREEMPTED, MOST_LOST = sized(1_000, 200), 1.3  # tasks; times of the formula's optimum
MOST_TIMES_UNLUCKY = 2.0  # of the bound of a campaign without unlucky attempts
SEEDS = range(1, sized(8, 3))
FILLED_S = 45.0
HOLDS = (80.0, 97.0)  # per cent


def lengths(kind: str, tasks: int, random: Random) -> list[float]:
    """Return the run times of tasks of a kind at a cluster of usual speed."""
    return [max(1.0, KINDS[kind](random)) for _ in range(tasks)]


def large() -> Iterator[Row]:
    """Compare the longest makespan of some campaigns with the lower bound, kind by kind."""
    for kind in KINDS:
        ours, cigri = map(max, zip(*_makespans(kind, TASKS, LARGE_SEEDS), strict=True))
        what = f"makespan, {TASKS} {kind}"
        yield Row(what=what, measured=ours, unit="x", baseline=cigri, limit=MOST_TIMES,
            needs_whole=True)  # fmt: skip


def small() -> Iterator[Row]:
    """Compare the mean and the longest of some small campaigns with the documented values."""
    for kind in KINDS:
        ours, cigri = zip(*_makespans(kind, FEW, SMALL_SEEDS), strict=True)
        yield Row(what=f"makespan, {FEW} {kind}", measured=mean(ours), unit="x", baseline=mean(cigri))
        yield Row(what="  the longest", measured=max(ours), unit="x", baseline=max(cigri))
        yield Row(what="  docs/reference/figures.md has the mean", measured=TOLD[kind], unit="x")


def _makespans(kind: str, tasks: int, seeds: Iterable[int]) -> Iterator[tuple[float, float]]:
    """Yield the makespans of campaigns in lower bounds, ours and CiGri's."""
    for seed in seeds:
        work = lengths(kind, tasks, Random(seed))
        least = bound(UNEQUAL, work)
        ours = run(copied(UNEQUAL), work, Ours(UNEQUAL))
        cigri = run(copied(UNEQUAL), work, Cigri(UNEQUAL))
        yield ours / least, cigri / least


def ends(tasks: int, limit: float | None) -> Iterator[Row]:
    """Compare makespans with the lower bound, with and without copies, and the copies' cost."""
    found = [_end(tasks, seed) for seed in SEEDS]
    copied, plain, cost = (median(each) for each in zip(*found, strict=True))
    what = f"makespan, {tasks} with unlucky ones, copied"
    yield Row(what=what, measured=copied, unit="x", baseline=plain, limit=limit, needs_whole=True)
    yield Row(what="slot time, the same", measured=cost, unit="x", baseline=1.0)


def _end(tasks: int, seed: int) -> tuple[float, float, float]:
    """Return both makespans in lower bounds, and the slot time with copies relative to that without."""
    work = lengths("log-normal", tasks, Random(seed))
    least = bound(UNEQUAL, work)
    copied, plain = (Straggling(UNEQUAL, work, seed, copies) for copies in (2, 0))
    return copied.run() / least, plain.run() / least, copied.used_s / plain.used_s


def lost_work() -> Iterator[Row]:
    """Compare the work that preempted tasks lose with the optimum; without checkpoints some gaps let none end."""
    least_s = least_lost_s()
    for kind, gap in GAPS.items():
        learnt, fixed = (lost_s(gap, PREEMPTED, fixed_s) / least_s for fixed_s in (0.0, FIXED_S))
        yield Row(what=f"lost work, {kind}", measured=learnt, unit="x", baseline=fixed, limit=MOST_LOST)
    never = lost_s(GAPS["exponential"], PREEMPTED, NEVER_S) / least_s
    yield Row(what="  without checkpoints", measured=never, unit="x")


def filled_s(how: Ours | Cigri) -> float:
    """Return the time at which the last of 100 tasks is submitted to 100 free slots."""
    moments = [0.0]

    def watch(now: float, left: int, _: object) -> None:
        moments.extend([now] if left else [])

    run(copied(HUNDRED), [6000.0] * 100, how, watch)
    return moments[-1]


def waiting_at(how: Ours | Cigri, *, is_full: bool) -> float:
    """Return how many tasks wait after ten minutes at a cluster where no task can start."""
    clusters = copied(STUCK)
    if is_full:
        clusters[0].running = [(1e9, 0.0)] * 100
    run(clusters, [60.0] * 1000, how, limit_s=600)
    return float(len(clusters[0].waiting))


def told(random: Random, kind: str) -> tuple[CampaignForecast, float]:
    """Return a forecast at a random moment of a campaign, and the remaining time."""
    work = lengths(kind, random.choice([200, 500, 2000]), random)
    at = random.uniform(0.1, 0.9) * len(work)
    made: list[tuple[CampaignForecast, float]] = []

    def watch(now: float, left: int, clusters: object) -> None:
        assert isinstance(clusters, list)
        if not made and sum(len(one.ended) for one in clusters) >= at:
            made.append((forecast_campaign_end(progress(now, left, clusters)), now))

    end = run(copied(UNEQUAL), work, Ours(UNEQUAL), watch)
    return (made[0][0], end - made[0][1]) if made else (CampaignForecast(), 0.0)


def holding(campaigns: int, seed: int) -> Iterator[Row]:
    """Return for which fraction of campaigns P50 and P90 hold."""
    random = Random(seed)
    kinds = list(KINDS)
    found = [told(random, kinds[number % len(kinds)]) for number in range(campaigns)]
    known = [(one.p50_s, one.p90_s, took) for one, took in found if one.p50_s and one.p90_s]
    p50 = 100 * sum(took <= each for each, _, took in known) / len(known)
    p90 = 100 * sum(took <= each for _, each, took in known) / len(known)
    yield Row(what="the P50 holds", measured=p50, unit="%")
    yield Row(what="the P90 holds, at least", measured=p90, unit="%", limit=HOLDS[0], is_least=True, needs_whole=True)
    yield Row(what="the P90 holds, at most", measured=p90, unit="%", limit=HOLDS[1], needs_whole=True)
    for kind in kinds:
        some = [one for one, each in zip(found, cycle(kinds), strict=False) if each == kind]
        held = [took <= one.p90_s for one, took in some if one.p90_s]
        part = 100 * sum(held) / max(1, len(held))
        yield Row(what=f"  of those {kind}", measured=part, unit="%")


def measure(*, is_quick: bool) -> list[Row]:
    """Return all figures; a quick run has fewer campaigns."""
    stuck = waiting_at(Ours(STUCK), is_full=False)
    full = waiting_at(Ours(STUCK), is_full=True)
    ours, on_and_off = (100 * max(deviations_of_servers(rule)) for rule in (RULE, None))
    return [
        *large(),
        *small(),
        *ends(FEW, MOST_TIMES_UNLUCKY),
        *lost_work(),
        *(row for kind in shared_inputs.KINDS for row in shared_inputs.rows(kind)),
        Row(
            what="100 tasks on 100 free slots",
            measured=filled_s(Ours(HUNDRED)),
            unit="s",
            limit=FILLED_S,
            baseline=filled_s(Cigri(HUNDRED)),
        ),
        Row(what="waiting at a full cluster", measured=full, unit="tasks", limit=10),
        Row(what="waiting where nothing starts", measured=stuck, unit="tasks", limit=110),
        Row(what="deviation of a server's load", measured=ours, unit="%", limit=10, baseline=on_and_off),
        *holding(CAMPAIGNS // (5 if is_quick else 1), 2),
    ]


def main() -> int:
    """Measure, print, and return 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", metavar="FILE", type=Path)
    options = parser.parse_args()
    rows = measure(is_quick=options.quick)
    show(rows)
    if options.json:
        content = {"rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    missed = [row.what for row in rows if not row.is_met]
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
