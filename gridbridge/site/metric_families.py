"""Builds metrics for Prometheus, named by Prometheus' conventions.

Labels are clusters, queues, states, pools, causes and kinds. Labels never name people or jobs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.decisions.site.service_fault_findings import is_rebalance_round_late
from gridbridge.decisions.transfer import transfer_status_explanation
from gridbridge.model.campaigns.campaign_events import ShownCampaignEvents
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    ShownCampaignClusters,
    ShownCampaigns,
)
from gridbridge.model.elastic.published_balance import PublishedBalancerFigures
from gridbridge.model.published_status_and_reports import (
    PublishedFilesSnapshot,
    PublishedTransfer,
)
from gridbridge.model.rebalance.published_rebalance_rounds import PublishedRebalanceRound, RebalanceRoundKind
from gridbridge.model.transfer_message import StarterPhase

PREFIX = "gridbridge_"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSample:
    """One value of a metric with its labels."""

    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """A metric: all samples of one name, with the same label names."""

    name: str  # names of counters end with _total
    means: str
    samples: tuple[MetricSample, ...]
    labels: tuple[str, ...] = ()

    @property
    def is_counter(self) -> bool:
        """Whether the metric only grows, or restarts at 0."""
        return self.name.endswith("_total")


def metric_without_labels(name: str, means: str, value: float | None) -> MetricFamily:
    """Return a metric without labels; the metric has no sample if the value is unknown."""
    samples = () if value is None else (MetricSample(value=value),)
    return MetricFamily(name=PREFIX + name, means=means, samples=samples)


def metric_with_labels(
    name: str, means: str, labels: str, rows: Iterable[tuple[tuple[str, ...], float | None]]
) -> MetricFamily:
    """Return a metric with labels; rows with an unknown value are left out.

    `labels` are label names separated by blanks. Values of rows with equal labels are added up.
    """
    names = tuple(labels.split())
    sums = dict[tuple[str, ...], float]()
    for values, number in rows:
        if number is not None:
            sums[values] = sums.get(values, 0.0) + number
    samples = tuple(
        MetricSample(value=sums[values], labels=dict(zip(names, values, strict=True))) for values in sorted(sums)
    )
    return MetricFamily(name=PREFIX + name, means=means, samples=samples, labels=names)


def unix_timestamp(at: datetime | None) -> float | None:
    """Return a time as Unix seconds; None for None."""
    return None if at is None else at.timestamp()


OTHER = "other"  # label of clusters and queues that gridbridge.toml lacks
SENDING, UNLISTED = "sending", "unlisted"  # states of a job that its cluster does not list


def transfer_metric_families(shown: PublishedFilesSnapshot, now: datetime) -> Iterator[MetricFamily]:
    """Yield metrics of the service, its clusters, transfer queues and open transfers."""
    yield from _service_families(shown)
    yield from _remote_cluster_families(shown, now)
    yield from _transfer_queue_families(shown, now)
    yield from _open_transfer_families(shown)


def _service_families(shown: PublishedFilesSnapshot) -> Iterator[MetricFamily]:
    service, load = shown.service, shown.load
    labels = [((service.cluster, service.version), 1.0)] if service else []
    refused = bool(service and service.configuration and service.configuration.refused)
    yield metric_with_labels("service_info", "The service, by its cluster and version", "cluster version", labels)
    yield metric_without_labels(
        "service_start_timestamp_seconds",
        "When the service was started",
        unix_timestamp(service.started_at) if service else None,
    )
    yield metric_without_labels(
        "service_seen_timestamp_seconds",
        "When the service last published its load values",
        unix_timestamp(load.taken_at) if load else None,
    )
    yield metric_without_labels(
        "service_stale_seconds",
        "How old the load values may be before the queues close",
        load.stale.total_seconds() if load else None,
    )
    yield metric_without_labels(
        "configuration_refused",
        "Whether the newest gridbridge.toml is wrong, so that an older file is in force",
        float(refused) if service else None,
    )
    yield metric_without_labels(
        "storage_full",
        "Whether a folder of the service is full, so that all queues are closed",
        float(bool(service.full)) if service else None,
    )


def _remote_cluster_families(shown: PublishedFilesSnapshot, now: datetime) -> Iterator[MetricFamily]:
    judged = [
        transfer_status_explanation.report_cluster_reachability(cluster, now) for cluster in shown.clusters.values()
    ]
    yield metric_with_labels(
        "cluster_up",
        "Whether a cluster answered the last query",
        "cluster",
        [((cluster.cluster,), float(cluster.answers)) for cluster in judged],
    )
    yield metric_with_labels(
        "cluster_answered_timestamp_seconds",
        "When a cluster last answered",
        "cluster",
        [((cluster.cluster,), unix_timestamp(cluster.taken_at)) for cluster in judged],
    )
    yield metric_with_labels(
        "cluster_waiting_tasks",
        "Waiting tasks of all users that could start at a cluster",
        "cluster",
        [((cluster.cluster,), cluster.waiting) for cluster in judged],
    )
    yield metric_with_labels(
        "cluster_free_slots",
        "Free slots of a cluster, without transfer queues",
        "cluster",
        [((cluster.cluster,), cluster.free_slots) for cluster in judged],
    )
    yield metric_with_labels(
        "cluster_drained",
        "Whether a cluster is drained",
        "cluster",
        [((name,), float(name in shown.drained)) for name in shown.clusters],
    )
    yield metric_with_labels(
        "cluster_failing_jobs",
        "Jobs in a row that failed fast at a cluster",
        "cluster",
        [((name,), _failed(shown, name)) for name in shown.clusters],
    )


def _failed(shown: PublishedFilesSnapshot, cluster: str) -> float:
    breaker = shown.breakers.get(cluster)
    return float(len(breaker.failed)) if breaker else 0.0


def _transfer_queue_families(shown: PublishedFilesSnapshot, now: datetime) -> Iterator[MetricFamily]:
    routes = shown.service.routes if shown.service else ()
    judged = [transfer_status_explanation.report_transfer_queue_status(queue, shown, now) for queue in routes]
    labels = "queue cluster"
    yield metric_with_labels(
        "queue_open",
        "Whether a transfer queue takes jobs",
        labels,
        [((queue.queue, queue.cluster), float(queue.is_open)) for queue in judged],
    )
    yield metric_with_labels(
        "queue_used_slots",
        "Slots of a transfer queue that are in use",
        labels,
        [((queue.queue, queue.cluster), queue.used) for queue in judged],
    )
    yield metric_with_labels(
        "queue_slots",
        "Slots of a transfer queue",
        labels,
        [((queue.queue, queue.cluster), queue.total) for queue in judged],
    )
    yield metric_with_labels(
        "queue_pending_limit_tasks",
        "Number of waiting tasks at the remote cluster that closes a transfer queue",
        labels,
        [((queue.queue, queue.cluster), queue.pending_limit) for queue in routes],
    )


def _open_transfer_families(shown: PublishedFilesSnapshot) -> Iterator[MetricFamily]:
    labelled = [(_target(transfer, shown), transfer) for transfer in shown.transfers]
    yield metric_with_labels(
        "transfers",
        "Open transfers by the state of their remote jobs",
        "queue cluster state",
        [((*target, _state(transfer)), 1) for target, transfer in labelled],
    )
    yield metric_with_labels(
        "transfers_missing",
        "Open transfers with a remote job that the remote cluster does not list",
        "cluster",
        [((name,), 0) for name in shown.clusters]
        + [((target[1],), 1) for target, transfer in labelled if transfer.missing_since],
    )
    since = dict[tuple[str, ...], float]()
    for target, transfer in labelled:
        at = unix_timestamp(transfer.since)
        if at is not None and transfer.there.is_waiting:
            since[target] = min(at, since.get(target, at))
    yield metric_with_labels(
        "transfers_waiting_since_timestamp_seconds",
        "When the longest present wait of a transfer at a cluster began",
        "queue cluster",
        since.items(),
    )


def _target(transfer: PublishedTransfer, shown: PublishedFilesSnapshot) -> tuple[str, str]:
    """Return a transfer's queue and cluster; "other" for names that gridbridge.toml lacks."""
    routes = shown.service.routes if shown.service else ()
    queues = {route.queue for route in routes}
    clusters = {*shown.clusters, *(route.cluster for route in routes)}
    queue = transfer.queue if transfer.queue in queues else OTHER
    return queue, transfer.remote if transfer.remote in clusters else OTHER


def _state(transfer: PublishedTransfer) -> str:
    if transfer.there.is_listed:
        return transfer.there.word
    return UNLISTED if transfer.phase == StarterPhase.RELEASED else SENDING


def rebalance_metric_families(
    rounds: Mapping[RebalanceRoundKind, PublishedRebalanceRound], now: datetime
) -> Iterator[MetricFamily]:
    """Yield metrics of rebalancing rounds, for each kind of round that has ever started."""
    yield metric_with_labels(
        "rebalance_ended_timestamp_seconds",
        "When the last rebalancing round of a kind ended",
        "kind",
        [((kind.value,), unix_timestamp(last.ended_at)) for kind, last in rounds.items()],
    )
    yield metric_with_labels(
        "rebalance_late",
        "Whether a rebalancing round of a kind takes too long",
        "kind",
        [((kind.value,), float(is_rebalance_round_late(kind, last, now))) for kind, last in rounds.items()],
    )


def elastic_metric_families(shown: PublishedBalancerFigures) -> Iterator[MetricFamily]:
    """Yield metrics of the elastic cluster that the balancer published."""
    yield from _balancer_round_families(shown)
    yield from _cell_families(shown)
    yield from _node_families(shown)


def _balancer_round_families(shown: PublishedBalancerFigures) -> Iterator[MetricFamily]:
    yield _balance_gauge(
        shown, "round_timestamp_seconds", "When the balancer's last round ran", unix_timestamp(shown.at)
    )
    yield _balance_gauge(
        shown,
        "seen_timestamp_seconds",
        "When a round of the balancer last observed the whole cluster",
        unix_timestamp(shown.seen_at),
    )
    yield _balance_gauge(shown, "round_duration_seconds", "How long the balancer's last round took", shown.took_s)
    yield _balance_gauge(
        shown, "acting", "Whether the balancer adds and removes nodes, instead of only planning", float(shown.is_acting)
    )
    yield _balance_gauge(shown, "rounds_total", "Rounds of the balancer", shown.rounds)
    yield _balance_gauge(
        shown, "blind_rounds_total", "Rounds in which the balancer could not observe the cluster", shown.blind_rounds
    )


def _cell_families(shown: PublishedBalancerFigures) -> Iterator[MetricFamily]:
    counted = shown.statistics
    if counted is None:
        return
    rows: Iterable[tuple[str, str, float]] = (
        ("hosts", "Execution hosts of the cluster", counted.hosts),
        ("running_tasks", "Running tasks", counted.running),
        ("queued_tasks", "Waiting tasks that could start", counted.queued),
        ("slots", "Slots of working hosts", counted.slots),
        ("free_slots", "Slots that are free for tasks", shown.free_slots),
        ("wanted_slots", "Slots that waiting tasks need", shown.wanted_slots),
        ("longest_wait_seconds", "Longest wait of a waiting task", shown.longest_wait_s),
        ("task_duration_mean_seconds", "Mean run time of recently ended tasks", counted.duration_s),
        ("task_wait_mean_seconds", "Mean wait of recently ended tasks", counted.wait_s),
        ("load_mean", "Mean load of the hosts", counted.load),
    )
    for name, means, value in rows:
        yield _balance_gauge(shown, name, means, value)


def _node_families(shown: PublishedBalancerFigures) -> Iterator[MetricFamily]:
    where = shown.cluster
    yield _balance_gauge(shown, "min_nodes", "Smallest allowed number of nodes", shown.min_nodes)
    yield _balance_gauge(shown, "max_nodes", "Largest allowed number of nodes", shown.max_nodes)
    yield _balance_gauge(shown, "cost_per_hour", "Cost of the present nodes in an hour", shown.cost_hour)
    yield _balance_gauge(shown, "month_cost", "Cost of nodes in this month", shown.cost_month)
    yield metric_with_labels(
        "balance_nodes",
        "Nodes that the balancer added",
        "cluster pool state",
        [((where, row.pool, row.state), row.nodes) for row in shown.nodes],
    )
    for name, means in (
        ("added", "Nodes that joined the cluster"),
        ("removed", "Nodes that were removed"),
        ("failed", "Nodes that failed to join the cluster, or were given up"),
    ):
        yield metric_with_labels(
            f"balance_nodes_{name}_total",
            means,
            "cluster pool",
            [((where, row.pool), getattr(row, name)) for row in shown.pools],
        )
    yield metric_with_labels(
        "balance_refused_jobs",
        "Jobs for which the balancer adds no nodes, by cause",
        "cluster cause",
        [((where, row.cause), row.jobs) for row in shown.refused],
    )


def _balance_gauge(shown: PublishedBalancerFigures, name: str, means: str, value: float | None) -> MetricFamily:
    return metric_with_labels(f"balance_{name}", means, "cluster", [((shown.cluster,), value)])


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCampaignFiles:
    """The published files about campaigns; None stands for a missing file."""

    campaigns: ShownCampaigns | None = None
    grid: ShownCampaignClusters | None = None
    events: ShownCampaignEvents | None = None


def campaign_metric_families(published: PublishedCampaignFiles) -> Iterator[MetricFamily]:
    """Yield metrics of campaigns, and of the clusters that campaigns use."""
    if published.campaigns:
        yield from _campaign_families(published.campaigns)
    if published.grid:
        yield from _campaign_cluster_families(published.grid)
    if published.events:
        yield metric_with_labels(
            "campaign_events",
            "Open events of campaigns and clusters, by code",
            "code cluster",
            [((event.code.value, event.cluster), 1) for event in published.events.events if event.closed_at is None],
        )


def _campaign_families(shown: ShownCampaigns) -> Iterator[MetricFamily]:
    alive = [campaign for campaign in shown.campaigns if campaign.state.is_alive]
    yield metric_without_labels(
        "campaign_cycle_timestamp_seconds",
        "When the campaign runner last published its campaigns",
        unix_timestamp(shown.at),
    )
    yield metric_with_labels(
        "campaigns",
        "Campaigns by state",
        "state",
        [((campaign.state.value,), 1) for campaign in shown.campaigns],
    )
    yield metric_with_labels(
        "campaign_tasks",
        "Tasks of unfinished campaigns: unsent, succeeded, failed for good, or cancelled",
        "state",
        [
            *((("waiting",), campaign.waiting) for campaign in alive),
            *((("succeeded",), campaign.ended - campaign.failed - campaign.cancelled) for campaign in alive),
            *((("failed",), campaign.failed) for campaign in alive),
            *((("cancelled",), campaign.cancelled) for campaign in alive),
        ],
    )
    yield metric_with_labels(
        "campaign_tasks_ended_last_hour",
        "Tasks of unfinished campaigns that ended at a cluster in the last hour",
        "cluster",
        [((cluster.cluster,), cluster.ended_per_h or 0) for campaign in alive for cluster in campaign.at],
    )
    errors = shown.errors
    yield metric_without_labels(
        "campaign_forecast_median_error_ratio",
        "Median error of forecasts made halfway through campaigns, as a share of the remaining time",
        errors.median_error if errors else None,
    )


def _campaign_cluster_families(grid: ShownCampaignClusters) -> Iterator[MetricFamily]:
    clusters = grid.clusters
    yield metric_with_labels(
        "campaign_cluster_answered_timestamp_seconds",
        "When a cluster last answered the campaign runner",
        "cluster",
        [((cluster.name,), unix_timestamp(cluster.answered_at)) for cluster in clusters],
    )
    yield metric_with_labels(
        "campaign_cluster_slots",
        "Slots of a cluster, as the campaign runner counts them",
        "cluster",
        [((cluster.name,), cluster.slots) for cluster in clusters],
    )
    yield metric_with_labels(
        "campaign_cluster_used_slots",
        "Used slots of a cluster, of all users",
        "cluster",
        [((cluster.name,), cluster.used) for cluster in clusters],
    )
    yield metric_with_labels(
        "campaign_cluster_tasks",
        "Tasks of campaigns at a cluster",
        "cluster state",
        [
            *(((cluster.name, "waiting"), cluster.waiting) for cluster in clusters),
            *(((cluster.name, "running"), cluster.running) for cluster in clusters),
        ],
    )
