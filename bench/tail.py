"""The end of a campaign on simulated clusters, with and without copies of long tasks.

One attempt in twenty is unlucky, as on a host that swaps or has a broken disk: it takes its task's
length, at its cluster's speed, times a factor of its own that has a heavy tail (Pareto, 1.2). So
the last tasks end long after all others, and a second attempt of one is most likely a usual one.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from heapq import heapify, heappop, heappush
from random import Random

from bench.bag import NOON, campaign
from bench.simulated import CYCLE_S, Cluster
from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_configuration_sections import LateSpeculationSection
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCyclePlan,
    CampaignCycleSituation,
    CampaignTaskCountsAtCluster,
    ClusterCapacityForCampaigns,
    JobRatio,
)
from gridbridge.model.campaigns.speculative_attempts import (
    CompetingAttempt,
    RunningTaskAttempt,
    TasksRunningNearCampaignEnd,
)

UNLUCKY, ALPHA = 0.05, 1.2  # one attempt in 300 takes ten times its task's length


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """One running attempt."""

    end: float
    start: float
    task: int
    attempt: int


@dataclass(slots=True)
class Place:
    """A cluster with its attempts."""

    known: Cluster
    waiting: deque[tuple[int, int]] = field(default_factory=deque)
    running: list[Run] = field(default_factory=list)


class Straggling:
    """A campaign some of whose attempts are slow."""

    def __init__(self, clusters: Sequence[Cluster], lengths: Sequence[float], seed: int, copies: int) -> None:
        self._places = {one.name: Place(one) for one in clusters}
        self._lengths = lengths
        self._seed = seed
        self._limits = LateSpeculationSection(copies=copies)
        self._left = deque(range(len(lengths)))
        self._attempts: dict[int, dict[int, str]] = {}  # clusters, by task and attempt
        self._won: dict[int, int] = {}
        self._took: list[float] = []
        self._ratios: dict[str, JobRatio] = {}
        self._sent_at = 0.0
        self.ended_at = 0.0
        self.copied = 0
        self.used_s = 0.0

    def run(self) -> float:
        """Run the campaign, and return the end time of its last task."""
        now = 0.0
        while len(self._won) < len(self._lengths):
            self._apply(plan_campaign_cycle(self._seen(now)), now)
            for place in self._places.values():
                self._go_on(place, now, now + CYCLE_S)
            now += CYCLE_S
        return self.ended_at

    def _go_on(self, place: Place, since: float, now: float) -> None:
        self._start(place, since)
        while place.running and place.running[0].end <= now:
            one = heappop(place.running)
            self.used_s += one.end - one.start
            if one.task not in self._won:
                self._won[one.task] = one.attempt
                self._took.append(one.end - one.start)
                self.ended_at = max(self.ended_at, one.end)
            self._start(place, one.end)

    def _start(self, place: Place, now: float) -> None:
        while place.waiting and len(place.running) < place.known.slots:
            task, attempt = place.waiting.popleft()
            took = self._lengths[task] * self._factor(task, attempt) / place.known.speed
            heappush(place.running, Run(now + took, now, task, attempt))

    def _factor(self, task: int, attempt: int) -> float:
        random = Random(f"{self._seed} {task} {attempt}")
        return random.paretovariate(ALPHA) if random.random() < UNLUCKY else 1.0

    def _apply(self, decided: CampaignCyclePlan, now: float) -> None:
        for name, place in self._places.items():
            self._end_losers(place, now)
            tasks = sum(one.tasks for one in decided.sends if one.cluster == name)
            for _ in range(min(tasks, len(self._left))):
                self._send(place, self._left.popleft())
                self._sent_at = now
        for copies in decided.copies:
            for task in copies.tasks:
                self._send(self._places[copies.cluster], task)
                self.copied += 1
        for one in decided.predicted:
            ratio, sent = one.ratio, one.submitted
            self._ratios[one.cluster] = JobRatio(campaign=1, cluster=one.cluster, ratio=ratio, submitted=sent)

    def _end_losers(self, place: Place, now: float) -> None:
        lost = [one for one in place.running if one.task in self._won]
        self.used_s += sum(now - one.start for one in lost)
        place.running = [one for one in place.running if one.task not in self._won]
        heapify(place.running)

    def _send(self, place: Place, task: int) -> None:
        of_task = self._attempts.setdefault(task, {})
        of_task[len(of_task) + 1] = place.known.name
        place.waiting.append((task, len(of_task)))

    def _seen(self, now: float) -> CampaignCycleSituation:
        tasks, ended = len(self._lengths), len(self._won)
        one = campaign(tasks, self._places, number=1, ended=ended, is_idempotent=True)
        live = tuple(self._live(now))
        sent_s = now - self._sent_at
        tail = TasksRunningNearCampaignEnd(campaign=1, sent_s=sent_s, durations_s=tuple(self._took[-600:]), live=live)
        return CampaignCycleSituation(
            campaigns=(one,),
            waiting={1: len(self._left)},
            arrays=(),
            max_tasks=1000,
            at=NOON + timedelta(seconds=now),
            room={
                name: ClusterCapacityForCampaigns(
                    free_slots=one.known.slots - len(one.running), max_slots=one.known.slots, flood_rate=0.1
                )
                for name, one in self._places.items()
            },
            there=tuple(_there(one) for one in self._places.values()),
            ratios=tuple(self._ratios.values()),
            rivals=tuple(self._rivals()),
            tails=(tail,) if live else (),
            finalize=self._limits,
        )

    def _live(self, now: float) -> Iterable[RunningTaskAttempt]:
        waiting = {task for one in self._places.values() for task, _ in one.waiting}
        for name, place in self._places.items():
            for one in place.running:
                if one.task not in self._won and one.task not in waiting:
                    yield RunningTaskAttempt(
                        task=one.task, attempt=one.attempt, cluster=name, elapsed_s=now - one.start
                    )

    def _rivals(self) -> Iterable[CompetingAttempt]:
        for task, attempts in self._attempts.items():
            if len(attempts) > 1 and task not in self._won:
                for attempt, cluster in attempts.items():
                    yield CompetingAttempt(
                        campaign=1,
                        task=task,
                        attempt=attempt,
                        array=attempt,
                        place=1,
                        cluster=cluster,
                        outcome=TaskAttemptOutcome.PENDING,
                        is_copy=attempt > 1,
                    )


def _there(one: Place) -> CampaignTaskCountsAtCluster:
    waiting = len(one.waiting)
    listed = waiting + len(one.running)
    return CampaignTaskCountsAtCluster(campaign=1, cluster=one.known.name, waiting=waiting, listed=listed)
