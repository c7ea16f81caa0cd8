"""Collects metrics for Prometheus from published files; labels never name people or jobs."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gridbridge.campaigns.store.published_campaign_files import read_published_campaign_value
from gridbridge.decisions.site.service_fault_findings import is_rebalance_round_late
from gridbridge.decisions.transfer import transfer_status_explanation
from gridbridge.elastic.balancer import balancer_statistics_and_publication
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.campaigns.campaign_events import PublishedCampaignEvents
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaignList, PublishedClusterSlotsList
from gridbridge.model.elastic.published_balance import PublishedBalancerFigures
from gridbridge.model.fixed_paths import BALANCE_PUBLISHED, ELSEWHERE, PUBLISHED
from gridbridge.model.published_status_and_reports import PublishedFilesSnapshot, PublishedTransfer
from gridbridge.model.rebalance.published_rebalance_rounds import PublishedRebalanceRound, RebalanceRoundKind
from gridbridge.state import published_json

PREFIX = "gridbridge_"
Labels = tuple[str, ...]
Row = TypeVar("Row")
Column = tuple[str, str, Callable[[Row], float | None]]  # name, meaning and value of a metric
Measure = Callable[[], Iterable[Metric]]


def metric_family(name: str, means: str, labels: str, values: Iterable[tuple[Labels, float | None]]) -> Metric:
    """Return a metric; a name that ends with _total makes a counter.

    Blanks separate the `labels`. Unknown values are left out; values with equal labels are added up.
    """
    sums = defaultdict[Labels, float](float)
    for label_values, number in values:
        if number is not None:
            sums[label_values] += number
    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    family = kind(PREFIX + name, means, labels=labels.split())
    for label_values in sorted(sums):
        family.add_metric(label_values, sums[label_values])
    return family


def _metrics_of_rows(labels: str, rows: Iterable[tuple[Labels, Row]], *columns: Column[Row]) -> Iterator[Metric]:
    listed = tuple(rows)
    for name, means, value in columns:
        yield metric_family(name, means, labels, ((label_values, value(row)) for label_values, row in listed))


def _epoch_seconds_or_none(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


OTHER = "other"  # label of every cluster and queue that gridbridge.toml lacks


def transfer_metric_families(published_files: PublishedFilesSnapshot, now: datetime) -> Iterator[Metric]:
    yield from _service_metric_families(published_files)
    report_cluster = transfer_status_explanation.report_cluster_reachability
    report_queue = transfer_status_explanation.report_transfer_queue_status
    failing = "Consecutive jobs that failed fast at a cluster"
    answered, could_start = "When a cluster last answered", "All users' waiting tasks that could start at a cluster"
    yield from _metrics_of_rows(
        "cluster",
        (((cluster.cluster,), report_cluster(cluster, now)) for cluster in published_files.clusters.values()),
        ("cluster_up", "Whether a cluster answered the last query", lambda report: report.answers),
        ("cluster_answered_timestamp_seconds", answered, lambda report: _epoch_seconds_or_none(report.taken_at)),
        ("cluster_waiting_tasks", could_start, lambda report: report.waiting),
        ("cluster_free_slots", "Free slots of a cluster, without transfer queues", lambda report: report.free_slots),
    )
    yield from _metrics_of_rows(
        "cluster",
        (((name,), name) for name in published_files.clusters),
        ("cluster_drained", "Whether a cluster is drained", lambda name: name in published_files.drained),
        (
            "cluster_failing_jobs",
            failing,
            lambda name: len(published_files.breakers[name].failed) if name in published_files.breakers else 0,
        ),
    )
    routes = published_files.service.routes if published_files.service else ()
    yield from _metrics_of_rows(
        "queue cluster",
        (((route.queue, route.cluster), report_queue(route, published_files, now)) for route in routes),
        ("queue_open", "Whether a transfer queue takes jobs", lambda report: report.is_open),
        ("queue_used_slots", "Slots of a transfer queue that are in use", lambda report: report.used),
        ("queue_slots", "Slots of a transfer queue", lambda report: report.total),
    )
    limits = (((route.queue, route.cluster), route.pending_limit) for route in routes)
    closing = "Number of waiting remote tasks at which a transfer queue closes"
    yield metric_family("queue_pending_limit_tasks", closing, "queue cluster", limits)
    yield from _open_transfer_metric_families(published_files)


def _service_metric_families(published_files: PublishedFilesSnapshot) -> Iterator[Metric]:
    service, load = published_files.service, published_files.load
    labels = [((service.cluster, service.version), 1)] if service else []
    yield metric_family("service_info", "Home cluster and version of the service", "cluster version", labels)
    refused = bool(service and service.configuration and service.configuration.refused)
    seen = "When the service last published its load values"
    stale = "How old the load values may be before the queues close"
    wrong = "Whether the newest gridbridge.toml is wrong, so that an older file is in force"
    full = "Whether a folder of the service is full, so that all queues are closed"
    started_at, taken_at = service.started_at if service else None, load.taken_at if load else None
    for name, means, value in (
        ("service_start_timestamp_seconds", "When the service was started", _epoch_seconds_or_none(started_at)),
        ("service_seen_timestamp_seconds", seen, _epoch_seconds_or_none(taken_at)),
        ("service_stale_seconds", stale, load.stale.total_seconds() if load else None),
        ("configuration_refused", wrong, refused if service else None),
        ("storage_full", full, bool(service.full) if service else None),
    ):
        yield metric_family(name, means, "", [((), value)])


def _open_transfer_metric_families(published_files: PublishedFilesSnapshot) -> Iterator[Metric]:
    labelled = [
        (_queue_and_cluster_labels(transfer, published_files), transfer) for transfer in published_files.transfers
    ]
    states = (
        ((*target, transfer_status_explanation.transfer_state_word(transfer)), 1) for target, transfer in labelled
    )
    yield metric_family("transfers", "Open transfers by the state of their remote jobs", "queue cluster state", states)
    unlisted = "Open transfers with a remote job that the remote cluster does not list"
    missing = [((name,), 0) for name in published_files.clusters]
    missing += [((target[1],), 1) for target, transfer in labelled if transfer.missing_since]
    yield metric_family("transfers_missing", unlisted, "cluster", missing)
    since = dict[Labels, float]()
    for target, transfer in labelled:
        at = _epoch_seconds_or_none(transfer.since)
        if at is not None and transfer.remote_job_state.is_waiting:
            since[target] = min(at, since.get(target, at))
    longest = "When the transfer that waits longest at a cluster began to wait"
    yield metric_family("transfers_waiting_since_timestamp_seconds", longest, "queue cluster", since.items())


def _queue_and_cluster_labels(transfer: PublishedTransfer, published_files: PublishedFilesSnapshot) -> tuple[str, str]:
    routes = published_files.service.routes if published_files.service else ()
    queue = transfer.queue if transfer.queue in {route.queue for route in routes} else OTHER
    clusters = {*published_files.clusters, *(route.cluster for route in routes)}
    return queue, transfer.remote if transfer.remote in clusters else OTHER


def rebalance_metric_families(
    rounds: Mapping[RebalanceRoundKind, PublishedRebalanceRound], now: datetime
) -> Iterator[Metric]:
    """Yield metrics of rebalancing rounds, for each kind of round that has ever started."""
    ended = "When the last rebalancing round of a kind ended"
    late = "Whether a rebalancing round of a kind takes too long"
    return _metrics_of_rows(
        "kind",
        (((kind.value,), (kind, last)) for kind, last in rounds.items()),
        ("rebalance_ended_timestamp_seconds", ended, lambda kind_round: _epoch_seconds_or_none(kind_round[1].ended_at)),
        ("rebalance_late", late, lambda kind_round: is_rebalance_round_late(*kind_round, now)),
    )


def elastic_metric_families(published_figures: PublishedBalancerFigures) -> Iterator[Metric]:
    counted, where = published_figures.statistics, published_figures.cluster
    cell: tuple[tuple[str, str, float | None], ...] = ()
    if counted is not None:
        cell = (
            ("hosts", "Execution hosts of the cluster", counted.hosts),
            ("running_tasks", "Running tasks", counted.running),
            ("queued_tasks", "Waiting tasks that could start", counted.queued),
            ("slots", "Slots of working hosts", counted.slots),
            ("free_slots", "Slots that are free for tasks", published_figures.free_slots),
            ("wanted_slots", "Slots that waiting tasks need", published_figures.wanted_slots),
            ("longest_wait_seconds", "Longest wait of a waiting task", published_figures.longest_wait_s),
            ("task_duration_mean_seconds", "Mean run time of recently ended tasks", counted.duration_s),
            ("task_wait_mean_seconds", "Mean wait of recently ended tasks", counted.wait_s),
            ("load_mean", "Mean load of the hosts", counted.load),
        )
    acting = "Whether the balancer adds and removes nodes, instead of only planning"
    seen = "When a round of the balancer last observed the whole cluster"
    for name, means, value in (
        ("round_timestamp_seconds", "When the balancer's last round ran", _epoch_seconds_or_none(published_figures.at)),
        ("seen_timestamp_seconds", seen, _epoch_seconds_or_none(published_figures.seen_at)),
        ("round_duration_seconds", "How long the balancer's last round took", published_figures.took_s),
        ("acting", acting, published_figures.is_acting),
        ("rounds_total", "Rounds of the balancer", published_figures.rounds),
        (
            "blind_rounds_total",
            "Rounds in which the balancer could not observe the cluster",
            published_figures.blind_rounds,
        ),
        *cell,
        ("min_nodes", "Smallest allowed number of nodes", published_figures.min_nodes),
        ("max_nodes", "Largest allowed number of nodes", published_figures.max_nodes),
        ("cost_per_hour", "Cost of the present nodes in an hour", published_figures.cost_hour),
        ("month_cost", "Cost of nodes in this month", published_figures.cost_month),
    ):
        yield metric_family(f"balance_{name}", means, "cluster", [((where,), value)])
    states = (((where, row.pool, row.state), row.nodes) for row in published_figures.nodes)
    yield metric_family("balance_nodes", "Nodes that the balancer added", "cluster pool state", states)
    given_up = "Nodes that failed to join the cluster, or were given up"
    yield from _metrics_of_rows(
        "cluster pool",
        (((where, row.pool), row) for row in published_figures.pools),
        ("balance_nodes_added_total", "Nodes that joined the cluster", lambda row: row.added),
        ("balance_nodes_removed_total", "Nodes that were removed", lambda row: row.removed),
        ("balance_nodes_failed_total", given_up, lambda row: row.failed),
    )
    causes = (((where, row.cause), row.jobs) for row in published_figures.refused)
    refused = "Jobs for which the balancer adds no nodes, by cause"
    yield metric_family("balance_refused_jobs", refused, "cluster cause", causes)


def campaign_metric_families(folder: str) -> Iterator[Metric]:
    """Yield metrics of campaigns, and of the clusters that campaigns use, if their files are published."""
    campaigns = read_published_campaign_value(PublishedCampaignList, folder)
    grid = read_published_campaign_value(PublishedClusterSlotsList, folder)
    events = read_published_campaign_value(PublishedCampaignEvents, folder)
    if campaigns:
        yield from _campaign_metric_families(campaigns)
    if grid:
        yield from _campaign_cluster_metric_families(grid)
    if events:
        counts = (((event.code.value, event.cluster), 1) for event in events.events if event.closed_at is None)
        yield metric_family("campaign_events", "Open events of campaigns and clusters, by code", "code cluster", counts)


def _campaign_metric_families(published_campaigns: PublishedCampaignList) -> Iterator[Metric]:
    alive = [campaign for campaign in published_campaigns.campaigns if campaign.state.is_alive]
    published = "When the campaign runner last published its campaigns"
    yield metric_family(
        "campaign_cycle_timestamp_seconds", published, "", [((), _epoch_seconds_or_none(published_campaigns.at))]
    )
    states = (((campaign.state.value,), 1) for campaign in published_campaigns.campaigns)
    yield metric_family("campaigns", "Campaigns by state", "state", states)
    tasks = {
        "waiting": sum(campaign.waiting for campaign in alive),
        "succeeded": sum(campaign.ended - campaign.failed - campaign.cancelled for campaign in alive),
        "failed": sum(campaign.failed for campaign in alive),
        "cancelled": sum(campaign.cancelled for campaign in alive),
    }
    unfinished = "Tasks of unfinished campaigns: unsent, succeeded, failed for good, or cancelled"
    numbers = (((state,), number) for state, number in tasks.items() if alive)
    yield metric_family("campaign_tasks", unfinished, "state", numbers)
    ended = "Tasks of unfinished campaigns that ended at a cluster in the last hour"
    rates = (((cluster.cluster,), cluster.ended_per_h or 0) for campaign in alive for cluster in campaign.at)
    yield metric_family("campaign_tasks_ended_last_hour", ended, "cluster", rates)
    error = "Median error of forecasts made halfway through campaigns, as a share of the remaining time"
    median = published_campaigns.errors.median_error if published_campaigns.errors else None
    yield metric_family("campaign_forecast_median_error_ratio", error, "", [((), median)])


def _campaign_cluster_metric_families(grid: PublishedClusterSlotsList) -> Iterator[Metric]:
    answered = "When a cluster last answered the campaign runner"
    counted = "Slots of a cluster, as the campaign runner counts them"
    yield from _metrics_of_rows(
        "cluster",
        (((cluster.name,), cluster) for cluster in grid.clusters),
        (
            "campaign_cluster_answered_timestamp_seconds",
            answered,
            lambda cluster: _epoch_seconds_or_none(cluster.answered_at),
        ),
        ("campaign_cluster_slots", counted, lambda cluster: cluster.slots),
        ("campaign_cluster_used_slots", "Slots of a cluster in use by all users", lambda cluster: cluster.used),
    )
    tasks = [((cluster.name, "waiting"), cluster.waiting) for cluster in grid.clusters]
    tasks += [((cluster.name, "running"), cluster.running) for cluster in grid.clusters]
    yield metric_family("campaign_cluster_tasks", "Tasks of campaigns at a cluster", "cluster state", tasks)


def collect_published_metrics(
    now: datetime, folder: str = PUBLISHED, balance: str = BALANCE_PUBLISHED
) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """Return all metrics, and an error message for each capability whose files are unreadable.

    A capability without files has no metrics. Raises StateError if no folder of published files exists.
    """
    parts: dict[str, Measure] = {}
    if os.path.isdir(folder):
        parts["transfers"] = lambda: transfer_metric_families(published_json.read_all_published_files(folder), now)
        parts["campaigns"] = lambda: campaign_metric_families(folder)
        parts["rebalancing"] = lambda: rebalance_metric_families(_read_published_rebalance_rounds(folder), now)
    if os.path.isdir(balance):
        parts["elastic"] = lambda: _published_elastic_metric_families(balance)
    if not parts:
        raise StateError(f"{folder}, {balance}: no such folders; {ELSEWHERE}")
    families, troubles, readable = list[Metric](), list[str](), dict[str, bool]()
    for name, part in parts.items():
        try:
            families += part()
            readable[name] = True
        except GridbridgeError as error:
            troubles.append(str(error))
            readable[name] = False
    return (*families, readability_metric(readable)), tuple(troubles)


def readability_metric(readable: Mapping[str, bool]) -> Metric:
    values = (((part,), is_readable) for part, is_readable in readable.items())
    return metric_family("published_readable", "Whether a part's published files can be read", "part", values)


def _read_published_rebalance_rounds(folder: str) -> dict[RebalanceRoundKind, PublishedRebalanceRound]:
    rounds = {kind: published_json.read_published_rebalance_round(kind, folder) for kind in RebalanceRoundKind}
    return {kind: last for kind, last in rounds.items() if last}


def _published_elastic_metric_families(folder: str) -> Iterable[Metric]:
    shown = balancer_statistics_and_publication.read_published_balance(folder)
    return elastic_metric_families(shown) if shown else ()


class _MeasureCollector(Collector):
    def __init__(self, measure: Measure) -> None:
        self._measure = measure

    def collect(self) -> Iterable[Metric]:
        return self._measure()


def metric_registry(measure: Measure) -> CollectorRegistry:
    """Return a Prometheus registry that calls `measure` for the metrics of each request."""
    registry = CollectorRegistry()
    registry.register(_MeasureCollector(measure))
    return registry


def format_prometheus_text(families: Iterable[Metric]) -> bytes:
    return generate_latest(metric_registry(lambda: families))
