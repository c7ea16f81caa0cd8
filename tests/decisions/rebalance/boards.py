"""Builders of small placement snapshots for the tests of rebalancing."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from gridbridge.model.rebalance.placement_snapshot_and_moves import (
    PlacementHost,
    PlacementJobOrDataset,
    PlacementSnapshot,
    PlacementTask,
    RebalanceMovePlan,
    RecentPlacementMoveTimes,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATELY = NOW - timedelta(hours=2)
GB = 1_000_000_000
DISK = 1010 * GB  # 10 GB stay free, so a disk's load counts 1000 GB


def host(name: str, used: float = 0.5, active: float = 0.5, **more: object) -> PlacementHost:
    about = {"slots": 8, "max_bytes": DISK, "used_bytes": int(used * 1000 * GB)}
    return PlacementHost(name=name, mean_active=active, **(about | more))  # type: ignore[arg-type]  # words


def job(name: str = "one", **more: object) -> PlacementJobOrDataset:
    return PlacementJobOrDataset(name=name, **({"last_run": LATELY} | more))  # type: ignore[arg-type]  # words


def tasks(counts: Mapping[str, int], name: str = "one", size: int = GB, **more: object) -> list[PlacementTask]:
    """Return tasks of one job, numbered from 1; `counts` is the number of main copies on each host."""
    places = [place for place, count in counts.items() for _ in range(count)]
    return [
        PlacementTask(job=name, number=number, live=place, size_bytes=size, **more)  # type: ignore[arg-type]  # words
        for number, place in enumerate(places, 1)
    ]


def snapshot(
    hosts: Iterable[PlacementHost],
    of: Iterable[PlacementTask] = (),
    jobs: Iterable[PlacementJobOrDataset] | None = None,
    recent: RecentPlacementMoveTimes | None = None,
) -> PlacementSnapshot:
    """Return a placement snapshot; without `jobs`, each job name of the tasks is a job."""
    listed = tuple(of)
    known = {task.job for task in listed}
    return PlacementSnapshot(
        now=NOW,
        hosts=tuple(hosts),
        jobs=tuple(jobs) if jobs is not None else tuple(job(name) for name in sorted(known)),
        tasks=listed,
        recent=recent or RecentPlacementMoveTimes(),
    )


def steps(advice: RebalanceMovePlan) -> list[tuple[str, int, str, str]]:
    return [(one.kind.value, one.number, one.source, one.target) for one in advice.moves]


def reasons(advice: RebalanceMovePlan) -> dict[tuple[int, str], str]:
    return {(one.number, one.target): one.reason for one in advice.rejected}
