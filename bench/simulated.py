"""Campaigns on simulated clusters, second by second, under gridbridge's decisions and CiGri's.

A cluster starts its waiting tasks in their order as slots become free. A cycle comes every 15 s, as
gridbridge-runner's and CiGri's do. Nothing is known of how long tasks take.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace

from bench.bag import campaign
from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.model.campaigns.campaign_configuration_sections import JobRatioRule
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCyclePlan,
    CampaignCycleSituation,
    CampaignTaskCountsAtCluster,
    ClusterCapacityForCampaigns,
    JobRatio,
)
from gridbridge.model.campaigns.campaign_end_forecast import CampaignProgressForForecast, CampaignRunTimesAtCluster

CYCLE_S = 15.0
WINDOW_S = 3600.0


@dataclass(slots=True)
class Cluster:
    """A batch system with slots of one speed."""

    name: str
    slots: int
    speed: float = 1.0
    is_stuck: bool = False  # its slots look free, but nothing starts
    waiting: deque[float] = field(default_factory=deque)  # lengths of tasks
    running: list[tuple[float, float]] = field(default_factory=list)  # end, start
    ended: list[tuple[float, float]] = field(default_factory=list)  # when, and how long it took

    @property
    def free(self) -> int:
        """The slots that seem to be free."""
        return self.slots - len(self.running)

    def go_on(self, since: float, now: float) -> None:
        """Advance the time: tasks end, and others start in their slots."""
        self._start(since)
        while self.running and self.running[0][0] <= now:
            end, start = heappop(self.running)
            self.ended.append((end, end - start))
            self._start(end)

    def _start(self, now: float) -> None:
        while self.waiting and self.free and not self.is_stuck:
            heappush(self.running, (now + self.waiting.popleft() / self.speed, now))


class Ours:
    """The cycle of gridbridge-runner, without real clusters."""

    def __init__(self, clusters: Sequence[Cluster], law: JobRatioRule = JobRatioRule.MEASURED) -> None:
        self._campaign = campaign(1, [one.name for one in clusters], number=1)
        self._law = law
        self._ratios: dict[str, JobRatio] = {}
        self._fresh: dict[str, int] = {}
        self.decided: CampaignCyclePlan | None = None  # the last plan

    def sends(self, clusters: Sequence[Cluster], left: int) -> dict[str, int]:
        """Return how many tasks go where."""
        self.decided = decided = plan_campaign_cycle(self._seen(clusters, left))
        sent = {one.cluster: one.tasks for one in decided.sends}
        for one in decided.predicted:
            self._ratios[one.cluster] = JobRatio(
                campaign=1, cluster=one.cluster, ratio=one.ratio, submitted=one.submitted
            )
        self._fresh = sent
        return sent

    def _seen(self, clusters: Sequence[Cluster], left: int) -> CampaignCycleSituation:
        return CampaignCycleSituation(
            campaigns=(self._campaign,),
            waiting={1: left},
            arrays=(),
            max_tasks=1000,
            room={
                one.name: ClusterCapacityForCampaigns(
                    free_slots=one.free, max_slots=one.slots, law=self._law, flood_rate=0.1
                )
                for one in clusters
            },
            there=tuple(self._there(one) for one in clusters),
            ratios=tuple(self._ratios.values()),
        )

    def _there(self, one: Cluster) -> CampaignTaskCountsAtCluster:
        waiting = len(one.waiting)
        return CampaignTaskCountsAtCluster(
            campaign=1,
            cluster=one.name,
            waiting=waiting,
            listed=waiting + len(one.running),
            fresh=min(waiting, self._fresh.get(one.name, 0)),
        )


@dataclass(slots=True)
class Tap:
    """CiGri's limit of a campaign at a cluster (version 3, runner; shipped configuration)."""

    rate: int = 3
    is_open: bool = True
    closed_at: float = -60.0
    queued: int = 0


class Cigri:
    """CiGri 3: tasks are assigned to the clusters in turns, and a tap limits each cluster's queue."""

    def __init__(self, clusters: Sequence[Cluster]) -> None:
        self._taps = {one.name: Tap() for one in clusters}
        self._now = -CYCLE_S

    def sends(self, clusters: Sequence[Cluster], left: int) -> dict[str, int]:
        """Return how many tasks go where."""
        self._now += CYCLE_S
        self._deal(left - sum(tap.queued for tap in self._taps.values()))
        return {one.name: self._let_out(self._taps[one.name], one) for one in clusters}

    def _deal(self, left: int) -> None:
        taps = list(self._taps.values())
        while left > 0 and (short := [tap for tap in taps if tap.queued < 10 * tap.rate]):
            for tap in short[:left]:
                tap.queued += 1
            left -= len(short[:left])

    def _let_out(self, tap: Tap, cluster: Cluster) -> int:
        if cluster.waiting:
            if tap.is_open:
                tap.is_open, tap.closed_at = False, self._now
            if self._now - tap.closed_at >= 60:
                tap.rate = max(3, int(tap.rate / 1.5))
            return 0
        tap.is_open = True
        sent = min(tap.rate, tap.queued)
        tap.queued -= sent
        if sent and tap.rate < sent * 1.5 + 1:
            tap.rate = min(100, int(tap.rate * 1.5))
        return sent


Watch = Callable[[float, int, Sequence[Cluster]], None]


def run(
    clusters: Sequence[Cluster],
    lengths: Iterable[float],
    how: Ours | Cigri,
    watch: Watch = lambda now, left, clusters: None,
    limit_s: float = 1e7,
) -> float:
    """Run a campaign, and return the end time of its last task."""
    left = deque(lengths)
    now = 0.0
    while (left or any(one.waiting or one.running for one in clusters)) and now < limit_s:
        watch(now, len(left), clusters)
        for name, tasks in how.sends(clusters, len(left)).items():
            (cluster,) = (one for one in clusters if one.name == name)
            cluster.waiting.extend(left.popleft() for _ in range(min(tasks, len(left))))
        for cluster in clusters:
            cluster.go_on(now, now + CYCLE_S)
        now += CYCLE_S
    return max((end for one in clusters for end, _ in one.ended), default=now)


def without_delay(clusters: Sequence[Cluster], lengths: Iterable[float]) -> float:
    """Return the end of a campaign whose tasks start as soon as a slot is free, fastest first.

    No service can reach it, because a service polls. The difference to `bound` comes from unknown run
    times, not from a rule.
    """
    slots = [(0.0, -one.speed) for one in clusters for _ in range(one.slots)]
    heapify(slots)
    last = 0.0
    for length in lengths:
        free_at, speed = slots[0]
        last = max(last, free_at - length / speed)
        heapreplace(slots, (free_at - length / speed, speed))
    return last


def bound(clusters: Sequence[Cluster], lengths: Sequence[float]) -> float:
    """Return a lower bound of the end: all work at full speed, or the longest task."""
    speed = sum(one.slots * one.speed for one in clusters)
    return max(sum(lengths) / speed, max(lengths) / max(one.speed for one in clusters))


def progress(now: float, left: int, clusters: Sequence[Cluster]) -> CampaignProgressForForecast:
    """Return a campaign's progress, as the forecast reads it."""
    services = tuple(_service(now, one) for one in clusters)
    waiting = sum(len(one.waiting) for one in clusters)
    return CampaignProgressForForecast(left=left + waiting, services=services, pause_s=CYCLE_S)


def _service(now: float, one: Cluster) -> CampaignRunTimesAtCluster:
    first = next((60 + 60 * (end // 60) for end, _ in one.ended if end > now - WINDOW_S), now)
    return CampaignRunTimesAtCluster(
        cluster=one.name,
        durations_s=tuple(took for _, took in one.ended[-200:]),
        elapsed_s=tuple(now - start for _, start in one.running),
        ended=sum(end > first for end, _ in one.ended),
        watched_s=max(0.0, now - first),
    )


def copied(clusters: Iterable[Cluster]) -> list[Cluster]:
    """Return empty copies of the clusters."""
    return [Cluster(one.name, one.slots, one.speed, one.is_stuck) for one in clusters]
