"""Collect a replay's counts, and compute its statistics."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from gridbridge.model.amounts import HOUR_S
from gridbridge.model.elastic.replay_outcome import (
    ReplayClusterState,
    ReplayNodeTerms,
    ReplayOutcome,
    ReplayPolicy,
    ReplayTask,
)

LATE_S = 60.0


@dataclass(slots=True, kw_only=True)
class ReplayCounts:
    """The counts of a running replay: start times, node hours, and added or removed nodes."""

    starts: list[float]
    on_s: float = 0.0
    paid_s: float = 0.0
    added: int = 0
    removed: int = 0
    rounds: int = 0
    most_nodes: int = 0
    last_end_s: float = -math.inf
    moments: list[ReplayClusterState] = field(default_factory=list)

    def off(self, since_s: float, now_s: float, unit_s: float) -> None:
        """Count the powered and the paid time of a node that is switched off."""
        on_s = max(0.0, now_s - since_s)
        self.on_s += on_s
        self.paid_s += math.ceil(on_s / unit_s) * unit_s


def summarize_replay(
    tasks: Sequence[ReplayTask], terms: ReplayNodeTerms, way: ReplayPolicy, counts: ReplayCounts
) -> ReplayOutcome:
    """Return the statistics of a finished replay."""
    waits = sorted(
        start - task.submitted_s
        for task, start in zip(tasks, counts.starts, strict=True)
        if task.is_explained
    )
    hours, paid_hours = counts.on_s / HOUR_S, counts.paid_s / HOUR_S
    slot_s = counts.on_s * terms.slots
    return ReplayOutcome(
        way=way,
        tasks=len(tasks),
        counted=len(waits),
        wait_mean_s=_mean(waits),
        wait_p50_s=_part(waits, 0.5),
        wait_p95_s=_part(waits, 0.95),
        beyond_mean_s=_mean([max(0.0, wait - terms.boot_s) for wait in waits]),
        late=sum(wait > LATE_S for wait in waits),
        node_hours=hours,
        paid_hours=paid_hours,
        cost=paid_hours * terms.price,
        energy_kwh=hours * terms.watts / 1000,
        most_nodes=counts.most_nodes,
        added=counts.added,
        removed=counts.removed,
        rounds=counts.rounds,
        used=sum(task.slots * task.run_s for task in tasks) / slot_s if slot_s else 0.0,
        moments=tuple(counts.moments),
        starts=tuple(counts.starts),
    )


def _mean(waits: Sequence[float]) -> float:
    return sum(waits) / len(waits) if waits else 0.0


def _part(waits: Sequence[float], part: float) -> float:
    """Return the quantile of the waits."""
    return waits[max(0, math.ceil(part * len(waits)) - 1)] if waits else 0.0
