"""Convert transfers, histories, usage and snapshots to the published form."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from gridbridge.decisions.transfer import job_ownership
from gridbridge.decisions.transfer.starter_message_rules import describe_job_end
from gridbridge.model.accounting import RemoteRecord
from gridbridge.model.ids import parse_transfer
from gridbridge.model.policy import Policy
from gridbridge.model.published import (
    PublishedTransferTask,
    ShownCluster,
    ShownEvent,
    ShownHistory,
    ShownQueue,
    ShownRemoteUsage,
    ShownTransfer,
    ShownTransferQueue,
)
from gridbridge.model.snapshot import ClusterSnapshot, QueueStatus
from gridbridge.model.status_report import printable
from gridbridge.model.transfer.transfer_row import OwnershipProof, Transfer, TransferEvent
from gridbridge.program.watch.cluster_observer import ClusterQueryResult

MOST_RECORDS = 1000  # usage records published for one task

History = tuple[Transfer, Sequence[TransferEvent]]


def published_transfer(transfer: Transfer, home: ClusterSnapshot | None = None) -> ShownTransfer:
    """Return a transfer's published row; snapshot `home` dates the local state."""
    local = parse_transfer(transfer.name)
    task = home.find(local.job, local.task) if home else None
    return ShownTransfer(
        transfer=transfer.name,
        owner=transfer.owner,
        queue=printable(transfer.queue),
        remote=printable(transfer.remote),
        remote_id=transfer.remote_id or None,
        phase=transfer.phase,
        desired=transfer.desired,
        local_state=transfer.local_state.text,
        local_since=task.since if task else None,
        remote_state=transfer.remote_state.text,
        remote_facts=tuple(sorted(transfer.remote_state.facts)),
        remote_host=printable(transfer.remote_host),
        since=transfer.since,
        missing_since=transfer.missing_since,
        created_at=transfer.created_at,
        outcome=printable(describe_job_end(transfer.verdict)) if transfer.verdict else "",
        closed_at=transfer.closed_at,
        cause=transfer.cause,
        reason=printable(transfer.reason),
    )


def published_transfer_row(transfer: Transfer, home: ClusterSnapshot | None) -> ShownTransfer:
    """Return a transfer's published row; omit reason and host of unconfirmed owners."""
    shown = published_transfer(transfer, home)
    return (
        shown
        if transfer.listed == OwnershipProof.YES
        else replace(shown, reason="", remote_host="")
    )


def published_usage(local: str, records: tuple[RemoteRecord, ...]) -> ShownRemoteUsage:
    """Return the published usage of the newest remote jobs of a local job or task."""
    last, left_out = job_ownership.newest_attempts(records, MOST_RECORDS)
    return ShownRemoteUsage(job=local, records=tuple(map(_printable, last)), left_out=left_out)


def published_task_history(
    local: str, attempts: Sequence[History], is_proved: bool
) -> PublishedTransferTask:
    """Return the published history of a local job's or task's last attempts."""
    last, left_out = job_ownership.newest_attempts(attempts)
    histories = tuple(map(_history, last))
    return PublishedTransferTask(
        job=local, attempts=histories, left_out=left_out, is_proved=is_proved
    )


def _history(history: History) -> ShownHistory:
    events, left_out = job_ownership.first_and_last_events(history[1])
    return ShownHistory(
        transfer=published_transfer(history[0]),
        events=tuple(map(_event, events)),
        left_out=left_out,
    )


def _printable(record: RemoteRecord) -> RemoteRecord:
    queue, host = printable(record.queue), printable(record.host)
    return replace(record, owner=printable(record.owner), queue=queue, host=host)


def _event(event: TransferEvent) -> ShownEvent:
    return ShownEvent(at=event.at, text=printable(event.text))


def published_routes(policy: Policy) -> Iterator[ShownTransferQueue]:
    """Yield each transfer queue's remote cluster and limits."""
    for name, queue in policy.queues.items():
        yield ShownTransferQueue(
            queue=name,
            cluster=queue.cluster,
            pending_limit=queue.pending_limit,
            slots=queue.slots,
        )


def published_cluster(
    answer: ClusterQueryResult, last: ClusterSnapshot | None, now: datetime
) -> ShownCluster:
    """Return a cluster's published row: the last snapshot and the last query's error."""
    return ShownCluster(
        cluster=answer.cluster,
        asked_at=now,
        taken_at=last.taken_at if last else None,
        trouble=printable(answer.trouble),
        pending=last.pending if last else None,
        free_slots=last.free_slots if last else None,
        slots=last.batch_slots if last else None,
        used=last.used_batch_slots if last else None,
        besteffort_slots=last.besteffort_slots if last else None,
        queues=tuple(map(_queue, last.queues)) if last else (),
    )


def _queue(queue: QueueStatus) -> ShownQueue:
    return ShownQueue(
        name=queue.name,
        used=queue.slots_used,
        reserved=queue.slots_reserved,
        total=queue.slots_total,
        state=queue.state.text,
        facts=tuple(sorted(queue.state.facts)),
    )
