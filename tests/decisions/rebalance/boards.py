"""Builders of small rebalance snapshots for the tests of rebalancing."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    RebalanceHost,
    RebalanceJobOrDataset,
    RebalanceMovePlan,
    RebalanceSnapshot,
    RebalanceTask,
    RecentRebalanceMoveTimes,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATELY = NOW - timedelta(hours=2)
GB = 1_000_000_000
DISK = 1010 * GB  # 10 GB stay free, so a disk's load counts 1000 GB


def host(name: str, used: float = 0.5, active: float = 0.5, **more: object) -> RebalanceHost:
    about = {"slots": 8, "max_bytes": DISK, "used_bytes": int(used * 1000 * GB)}
    return RebalanceHost(name=name, mean_active=active, **(about | more))  # type: ignore[arg-type]  # words


def job(name: str = "one", **more: object) -> RebalanceJobOrDataset:
    return RebalanceJobOrDataset(name=name, **({"last_run": LATELY} | more))  # type: ignore[arg-type]  # words


def tasks(counts: Mapping[str, int], name: str = "one", size: int = GB, **more: object) -> list[RebalanceTask]:
    """Return tasks of one job, numbered from 1; `counts` is the number of main copies on each host."""
    places = [place for place, count in counts.items() for _ in range(count)]
    return [
        RebalanceTask(job=name, number=number, live=place, size_bytes=size, **more)  # type: ignore[arg-type]  # words
        for number, place in enumerate(places, 1)
    ]


def snapshot(
    hosts: Iterable[RebalanceHost],
    of: Iterable[RebalanceTask] = (),
    jobs: Iterable[RebalanceJobOrDataset] | None = None,
    recent: RecentRebalanceMoveTimes | None = None,
) -> RebalanceSnapshot:
    """Return a rebalance snapshot; without `jobs`, each job name of the tasks is a job."""
    listed = tuple(of)
    known = {task.job for task in listed}
    return RebalanceSnapshot(
        now=NOW,
        hosts=tuple(hosts),
        jobs=tuple(jobs) if jobs is not None else tuple(job(name) for name in sorted(known)),
        tasks=listed,
        recent=recent or RecentRebalanceMoveTimes(),
    )


def steps(advice: RebalanceMovePlan) -> list[tuple[str, int, str, str]]:
    return [(one.kind.value, one.number, one.source, one.target) for one in advice.moves]


def reasons(advice: RebalanceMovePlan) -> dict[tuple[int, str], str]:
    return {(one.number, one.target): one.reason for one in advice.rejected}
