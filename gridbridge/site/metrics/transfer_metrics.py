"""The service, its clusters, transfer queues and open transfers in numbers."""

from collections.abc import Iterator
from datetime import datetime

from gridbridge.decisions.transfer import queue_health
from gridbridge.model.message import StarterPhase
from gridbridge.model.published import PublishedState, ShownTransfer
from gridbridge.program.metric_family import MetricFamily, one, several, timestamp

OTHER = "other"  # no name in gridbridge.toml
SENDING, UNLISTED = "sending", "unlisted"  # states of a job that its cluster does not list


def families(shown: PublishedState, now: datetime) -> Iterator[MetricFamily]:
    """Yield what the published files say."""
    yield from _service(shown)
    yield from _clusters(shown, now)
    yield from _queues(shown, now)
    yield from _transfers(shown)


def _service(shown: PublishedState) -> Iterator[MetricFamily]:
    service, load = shown.service, shown.load
    labels = [((service.cluster, service.version), 1.0)] if service else []
    refused = bool(service and service.configuration and service.configuration.refused)
    yield several(
        "service_info", "The service, by its cluster and version", "cluster version", labels
    )
    yield one(
        "service_start_timestamp_seconds",
        "When the service was started",
        timestamp(service.started_at) if service else None,
    )
    yield one(
        "service_seen_timestamp_seconds",
        "When the service last published its load values",
        timestamp(load.taken_at) if load else None,
    )
    yield one(
        "service_stale_seconds",
        "How old the load values may be before the queues close",
        load.stale.total_seconds() if load else None,
    )
    yield one(
        "configuration_refused",
        "Whether the newest gridbridge.toml is wrong, so that an older one is in force",
        float(refused) if service else None,
    )
    yield one(
        "storage_full",
        "Whether a folder of the service takes nothing more, so that all queues are closed",
        float(bool(service.full)) if service else None,
    )


def _clusters(shown: PublishedState, now: datetime) -> Iterator[MetricFamily]:
    judged = [queue_health.judge_cluster(cluster, now) for cluster in shown.clusters.values()]
    yield several(
        "cluster_up",
        "Whether a cluster answered the last question",
        "cluster",
        [((cluster.cluster,), float(cluster.answers)) for cluster in judged],
    )
    yield several(
        "cluster_answered_timestamp_seconds",
        "When a cluster last answered",
        "cluster",
        [((cluster.cluster,), timestamp(cluster.taken_at)) for cluster in judged],
    )
    yield several(
        "cluster_waiting_tasks",
        "Tasks of anybody that could start at a cluster",
        "cluster",
        [((cluster.cluster,), cluster.waiting) for cluster in judged],
    )
    yield several(
        "cluster_free_slots",
        "Free slots of a cluster's own queues",
        "cluster",
        [((cluster.cluster,), cluster.free_slots) for cluster in judged],
    )
    yield several(
        "cluster_drained",
        "Whether somebody drained a cluster",
        "cluster",
        [((name,), float(name in shown.drained)) for name in shown.clusters],
    )
    yield several(
        "cluster_failing_jobs",
        "Jobs in a row that failed fast at a cluster",
        "cluster",
        [((name,), _failed(shown, name)) for name in shown.clusters],
    )


def _failed(shown: PublishedState, cluster: str) -> float:
    breaker = shown.breakers.get(cluster)
    return float(len(breaker.failed)) if breaker else 0.0


def _queues(shown: PublishedState, now: datetime) -> Iterator[MetricFamily]:
    routes = shown.service.routes if shown.service else ()
    judged = [queue_health.judge_queue(queue, shown, now) for queue in routes]
    labels = "queue cluster"
    yield several(
        "queue_open",
        "Whether a transfer queue takes jobs",
        labels,
        [((queue.queue, queue.cluster), float(queue.is_open)) for queue in judged],
    )
    yield several(
        "queue_used_slots",
        "Slots of a transfer queue that are in use",
        labels,
        [((queue.queue, queue.cluster), queue.used) for queue in judged],
    )
    yield several(
        "queue_slots",
        "Slots of a transfer queue",
        labels,
        [((queue.queue, queue.cluster), queue.total) for queue in judged],
    )
    yield several(
        "queue_pending_limit_tasks",
        "Waiting tasks at its cluster with which a transfer queue closes",
        labels,
        [((queue.queue, queue.cluster), queue.pending_limit) for queue in routes],
    )


def _transfers(shown: PublishedState) -> Iterator[MetricFamily]:
    labelled = [(_target(transfer, shown), transfer) for transfer in shown.transfers]
    yield several(
        "transfers",
        "Open transfers by what their remote jobs are",
        "queue cluster state",
        [((*target, _state(transfer)), 1) for target, transfer in labelled],
    )
    yield several(
        "transfers_missing",
        "Open transfers whose remote job its cluster does not list",
        "cluster",
        [((name,), 0) for name in shown.clusters]
        + [((target[1],), 1) for target, transfer in labelled if transfer.missing_since],
    )
    since = dict[tuple[str, ...], float]()
    for target, transfer in labelled:
        at = timestamp(transfer.since)
        if at is not None and transfer.there.is_waiting:
            since[target] = min(at, since.get(target, at))
    yield several(
        "transfers_waiting_since_timestamp_seconds",
        "Since when the transfer that has waited longest waits at its cluster",
        "queue cluster",
        since.items(),
    )


def _target(transfer: ShownTransfer, shown: PublishedState) -> tuple[str, str]:
    """Return its queue and cluster, and one word for all that the service does not know now."""
    routes = shown.service.routes if shown.service else ()
    queues = {route.queue for route in routes}
    clusters = {*shown.clusters, *(route.cluster for route in routes)}
    queue = transfer.queue if transfer.queue in queues else OTHER
    return queue, transfer.remote if transfer.remote in clusters else OTHER


def _state(transfer: ShownTransfer) -> str:
    """Return one of a closed set."""
    if transfer.there.is_listed:
        return transfer.there.word
    return UNLISTED if transfer.phase == StarterPhase.RELEASED else SENDING
