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
    judged = [queue_health.judge_cluster(each, now) for each in shown.clusters.values()]
    yield several(
        "cluster_up",
        "Whether a cluster answered the last question",
        "cluster",
        [((each.cluster,), float(each.answers)) for each in judged],
    )
    yield several(
        "cluster_answered_timestamp_seconds",
        "When a cluster last answered",
        "cluster",
        [((each.cluster,), timestamp(each.taken_at)) for each in judged],
    )
    yield several(
        "cluster_waiting_tasks",
        "Tasks of anybody that could start at a cluster",
        "cluster",
        [((each.cluster,), each.waiting) for each in judged],
    )
    yield several(
        "cluster_free_slots",
        "Free slots of a cluster's own queues",
        "cluster",
        [((each.cluster,), each.free_slots) for each in judged],
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
    known = shown.breakers.get(cluster)
    return float(len(known.failed)) if known else 0.0


def _queues(shown: PublishedState, now: datetime) -> Iterator[MetricFamily]:
    routes = shown.service.routes if shown.service else ()
    judged = [queue_health.judge_queue(each, shown, now) for each in routes]
    labels = "queue cluster"
    yield several(
        "queue_open",
        "Whether a transfer queue takes jobs",
        labels,
        [((each.queue, each.cluster), float(each.is_open)) for each in judged],
    )
    yield several(
        "queue_used_slots",
        "Slots of a transfer queue that are in use",
        labels,
        [((each.queue, each.cluster), each.used) for each in judged],
    )
    yield several(
        "queue_slots",
        "Slots of a transfer queue",
        labels,
        [((each.queue, each.cluster), each.total) for each in judged],
    )
    yield several(
        "queue_pending_limit_tasks",
        "Waiting tasks at its cluster with which a transfer queue closes",
        labels,
        [((each.queue, each.cluster), each.pending_limit) for each in routes],
    )


def _transfers(shown: PublishedState) -> Iterator[MetricFamily]:
    labelled = [(_place(each, shown), each) for each in shown.transfers]
    yield several(
        "transfers",
        "Open transfers by what their remote jobs are",
        "queue cluster state",
        [((*place, _state(each)), 1) for place, each in labelled],
    )
    yield several(
        "transfers_missing",
        "Open transfers whose remote job its cluster does not list",
        "cluster",
        [((name,), 0) for name in shown.clusters]
        + [((place[1],), 1) for place, each in labelled if each.missing_since],
    )
    since = dict[tuple[str, ...], float]()
    for place, each in labelled:
        at = timestamp(each.since)
        if at is not None and each.there.is_waiting:
            since[place] = min(at, since.get(place, at))
    yield several(
        "transfers_waiting_since_timestamp_seconds",
        "Since when the transfer that has waited longest waits at its cluster",
        "queue cluster",
        since.items(),
    )


def _place(each: ShownTransfer, shown: PublishedState) -> tuple[str, str]:
    """Return its queue and cluster, and one word for all that the service does not know now."""
    routes = shown.service.routes if shown.service else ()
    queues = {route.queue for route in routes}
    clusters = {*shown.clusters, *(route.cluster for route in routes)}
    queue = each.queue if each.queue in queues else OTHER
    return queue, each.remote if each.remote in clusters else OTHER


def _state(each: ShownTransfer) -> str:
    """Return one of a closed set."""
    if each.there.is_listed:
        return each.there.word
    return UNLISTED if each.phase == StarterPhase.RELEASED else SENDING
