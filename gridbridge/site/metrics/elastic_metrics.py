"""A cluster that grows and shrinks in numbers."""

from collections.abc import Iterable, Iterator

from gridbridge.model.elastic.published_balance import PublishedBalance
from gridbridge.program.metric_family import MetricFamily, several, timestamp


def families(shown: PublishedBalance) -> Iterator[MetricFamily]:
    """Yield what the balancer published."""
    yield from _rounds(shown)
    yield from _cell(shown)
    yield from _nodes(shown)


def _rounds(shown: PublishedBalance) -> Iterator[MetricFamily]:
    yield _gauge(shown, "round_timestamp_seconds", "When the last round was", timestamp(shown.at))
    yield _gauge(
        shown,
        "seen_timestamp_seconds",
        "When a round last saw the whole cell",
        timestamp(shown.seen_at),
    )
    yield _gauge(shown, "round_duration_seconds", "How long the last round took", shown.took_s)
    yield _gauge(
        shown,
        "acting",
        "Whether nodes are added and removed, and it is not only said",
        float(shown.is_acting),
    )
    yield _gauge(shown, "rounds_total", "Rounds", shown.rounds)
    yield _gauge(shown, "blind_rounds_total", "Rounds that saw nothing", shown.blind_rounds)


def _cell(shown: PublishedBalance) -> Iterator[MetricFamily]:
    counted = shown.statistics
    if counted is None:
        return
    rows: Iterable[tuple[str, str, float]] = (
        ("hosts", "Execution hosts that the cell lists", counted.hosts),
        ("running_tasks", "Tasks that run here", counted.running),
        ("queued_tasks", "Tasks that wait and could start", counted.queued),
        ("slots", "Slots on hosts that work", counted.slots),
        ("free_slots", "Slots that a task can have now", shown.free_slots),
        (
            "wanted_slots",
            "Slots that the tasks need which wait and could start",
            shown.wanted_slots,
        ),
        ("longest_wait_seconds", "How long the oldest of these waits", shown.longest_wait_s),
        (
            "task_duration_mean_seconds",
            "Mean run time of the tasks that ended of late",
            counted.duration_s,
        ),
        ("task_wait_mean_seconds", "Mean wait of these tasks", counted.wait_s),
        ("load_mean", "Mean load of the hosts", counted.load),
    )
    for name, means, value in rows:
        yield _gauge(shown, name, means, value)


def _nodes(shown: PublishedBalance) -> Iterator[MetricFamily]:
    where = shown.cluster
    yield _gauge(shown, "min_nodes", "The least nodes that there may be now", shown.min_nodes)
    yield _gauge(shown, "max_nodes", "The most nodes that there may be now", shown.max_nodes)
    yield _gauge(shown, "cost_per_hour", "What the nodes that are there cost", shown.cost_hour)
    yield _gauge(shown, "month_cost", "What nodes have cost this month", shown.cost_month)
    yield several(
        "balance_nodes",
        "Nodes of the balancer's own",
        "cluster pool state",
        [((where, row.pool, row.state), row.nodes) for row in shown.nodes],
    )
    for name, means in (
        ("added", "Nodes that came"),
        ("removed", "Nodes that were given back"),
        ("failed", "Nodes that never came, or were given up"),
    ):
        yield several(
            f"balance_nodes_{name}_total",
            means,
            "cluster pool",
            [((where, row.pool), getattr(row, name)) for row in shown.pools],
        )
    yield several(
        "balance_refused_jobs",
        "Jobs for which the cluster does not grow, by cause",
        "cluster cause",
        [((where, row.cause), row.jobs) for row in shown.refused],
    )


def _gauge(shown: PublishedBalance, name: str, means: str, value: float | None) -> MetricFamily:
    return several(f"balance_{name}", means, "cluster", [((shown.cluster,), value)])
