"""Report silent services and clusters, and why a transfer queue is closed.

A queue closes by its load thresholds (queue_conf(5)); a missing load value closes the queue too.
"""

from collections.abc import Sequence
from datetime import datetime

from gridbridge.decisions.transfer.circuit_breaker import describe_failure_cause
from gridbridge.model.published import (
    PublishedClusterAnswer,
    PublishedFilesSnapshot,
    PublishedQueueOnHost,
    PublishedTransferQueue,
)
from gridbridge.model.states import QueueInstanceStateFact
from gridbridge.model.status_report import ClusterStatusReport, TransferQueueReport, format_duration, number_with_noun

NOT_YET_REPORTED = "its load values are fine: the next load report opens it"

_CLOSED = (  # text for each fact about a closed queue; the first matching fact is shown
    (QueueInstanceStateFact.ERROR, "in error state: qmod -cq clears it once the cause is mended"),
    (QueueInstanceStateFact.DISABLED, "disabled"),
    (QueueInstanceStateFact.OFF_HOURS, "disabled"),
    (QueueInstanceStateFact.SUSPENDED, "suspended"),
    (QueueInstanceStateFact.UNREACHABLE, "its host does not report to the qmaster"),
    (QueueInstanceStateFact.LOADED, NOT_YET_REPORTED),
    (QueueInstanceStateFact.OVERLOADED, NOT_YET_REPORTED),
)


def poller_silence_alarm(shown: PublishedFilesSnapshot, now: datetime) -> str:
    """Return an alarm if the poller is silent and the report therefore old; else ''."""
    if shown.load is None:
        return "gridbridge-poller has never published anything here"
    old = now - shown.load.taken_at
    if old <= shown.load.stale:
        return ""
    return (
        f"gridbridge-poller is silent for {format_duration(old)}"
        f" ({format_duration(shown.load.stale)} is the limit): "
        "the report below is as old, and the transfer queues are closed"
    )


def full_folder_warning(shown: PublishedFilesSnapshot) -> str:
    """Return a warning about a full folder of the service; '' if all folders have space."""
    lacks = shown.service.full if shown.service else ""
    return f"{lacks}; every transfer queue is closed until the folder has room" if lacks else ""


def refused_configuration_warning(shown: PublishedFilesSnapshot) -> str:
    """Return a warning if the poller refuses the newest gridbridge.toml; else ''."""
    configuration = shown.service.configuration if shown.service else None
    if configuration is None or not configuration.refused:
        return ""
    first = summarize_config_problems(configuration.refused)
    return f"the service has an older gridbridge.toml, because it refuses the new file: {first}"


def summarize_config_problems(problems: Sequence[str]) -> str:
    """Return the first problem of a gridbridge.toml and the number of other problems."""
    first, *more = problems
    return f"{first} (and {len(more)} more, see gridbridge check)" if more else first


def report_cluster_reachability(cluster: PublishedClusterAnswer, now: datetime) -> ClusterStatusReport:
    """Report whether a cluster answers, and its waiting jobs and free slots."""
    return ClusterStatusReport(
        cluster=cluster.cluster,
        answers=not cluster.trouble,
        taken_at=cluster.taken_at,
        waiting=cluster.pending,
        free_slots=cluster.free_slots,
        why=describe_cluster_silence(cluster, now) or _freshness(cluster, now),
    )


def describe_cluster_drain(cluster: str, shown: PublishedFilesSnapshot, now: datetime) -> str:
    """Describe a cluster's drain: author, time and reason; '' without a drain."""
    drain = shown.drained.get(cluster)
    if drain is None:
        return ""
    return f"drained by {drain.by} {format_duration(now - drain.at)} ago: {drain.reason}"


def why_breaker_closed_queues(cluster: str, shown: PublishedFilesSnapshot, now: datetime) -> str:
    """Describe the failures that close or limit the queues to a cluster; '' for none."""
    breaker = shown.breakers.get(cluster)
    if breaker is None or breaker.until is None:
        return ""
    jobs = f"{number_with_noun(breaker.failures, 'job')} in a row failed at {cluster}"
    failed = f"{jobs}: {describe_failure_cause(breaker.cause, cluster)}"
    if now < breaker.until:
        return f"{failed}. The next job is let in {format_duration(breaker.until - now)} from now."
    return f"{failed}. One job is let in."


def describe_cluster_silence(cluster: PublishedClusterAnswer | None, now: datetime) -> str:
    """Describe a cluster's silence, its begin and cause; '' for a cluster that answers."""
    if cluster is None:
        return "not queried yet"
    if not cluster.trouble:
        return ""
    since = f"for {format_duration(now - cluster.taken_at)}" if cluster.taken_at else "yet"
    return f"has not answered {since}: {cluster.trouble}"


def _freshness(cluster: PublishedClusterAnswer, now: datetime) -> str:
    assert cluster.taken_at
    return f"answered {format_duration(now - cluster.taken_at)} ago"


def report_transfer_queue_status(
    route: PublishedTransferQueue, shown: PublishedFilesSnapshot, now: datetime
) -> TransferQueueReport:
    """Report whether a transfer queue takes jobs, with the reason for a closed queue."""
    home = shown.clusters.get(shown.service.cluster) if shown.service else None
    queues = home.queues if home else ()
    mine = tuple(queue for queue in queues if queue.name.partition("@")[0] == route.queue)
    why = _why_closed(route, mine, shown, now)
    return TransferQueueReport(
        queue=route.queue,
        cluster=route.cluster,
        is_open=not why,
        used=sum(queue.used for queue in mine),
        total=sum(queue.total for queue in mine),
        why=why,
    )


def _why_closed(
    route: PublishedTransferQueue,
    instances: tuple[PublishedQueueOnHost, ...],
    shown: PublishedFilesSnapshot,
    now: datetime,
) -> str:
    if not instances:
        return "the home cluster does not list this queue"
    if why := _closing_threshold(route, shown, now):
        return why
    if any(not queue.known.facts and queue.used < queue.total for queue in instances):
        return ""
    facts = frozenset[str]().union(*(queue.known.facts for queue in instances))
    return next((words for fact, words in _CLOSED if fact in facts), "every slot is used")


def _closing_threshold(route: PublishedTransferQueue, shown: PublishedFilesSnapshot, now: datetime) -> str:
    """Name the load value that closes a transfer queue; '' for an open queue."""
    if shown.load is None or now - shown.load.taken_at > shown.load.stale:
        return "its load values are too old"
    if shown.service and shown.service.full:
        return shown.service.full
    if why := describe_cluster_drain(route.cluster, shown, now):
        return why
    prefix = f"gb_{route.cluster.replace('-', '_')}"
    if shown.load.values.get(f"{prefix}_up") != "1":
        quiet = describe_cluster_silence(shown.clusters.get(route.cluster), now)
        failed = "" if quiet else why_breaker_closed_queues(route.cluster, shown, now)
        return failed or f"{route.cluster} {quiet or 'is silent'}"
    pending = int(shown.load.values.get(f"{prefix}_pending", 0))
    if pending >= route.pending_limit:
        waiting = number_with_noun(pending, "job waits", "jobs wait")
        return f"{waiting} at {route.cluster}, {route.pending_limit} is the limit"
    return ""
