"""Encode a cluster snapshot, with its queues and some jobs, for other programs."""

import json
import zlib
from collections.abc import Container
from dataclasses import fields
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from gridbridge.model.cluster_snapshot import ClusterSnapshot, JobListRow, QueueInstanceStatus
from gridbridge.model.states import JobState, QueueInstanceState, StateFacts

_QUICK = 1  # zlib level: similar rows compress well even at the fastest
_COUNTS = ("pending", "free_slots", "besteffort_slots")
_QUEUE = tuple(field.name for field in fields(QueueInstanceStatus) if field.name != "state")


def encode_cluster_snapshot(snapshot: ClusterSnapshot, jobs: Container[int]) -> bytes:
    """Encode a cluster snapshot with the jobs of these ids."""
    table = {name: getattr(snapshot, name) for name in _COUNTS}
    table["queues"] = [_queue_row(queue) for queue in snapshot.queues]
    listed = ((number, rows) for number, rows in snapshot.jobs.items() if number in jobs)
    table["jobs"] = {number: [_job_row(row) for row in rows] for number, rows in listed}
    return zlib.compress(json.dumps(table, separators=(",", ":")).encode(), _QUICK)


def decode_cluster_snapshot(content: bytes, cluster: str, taken_at: datetime) -> ClusterSnapshot:
    """Decode a cluster snapshot; raises an exception for invalid content."""
    table = json.loads(zlib.decompress(content))
    return ClusterSnapshot(
        cluster=cluster,
        taken_at=taken_at,
        queues=tuple(map(_queue, table["queues"])),
        jobs={int(number): _jobs(int(number), rows) for number, rows in table["jobs"].items()},
        **{name: table[name] for name in _COUNTS},
    )


def _queue_row(queue: QueueInstanceStatus) -> list[Any]:
    return [_words(queue.state), *(getattr(queue, name) for name in _QUEUE)]


def _queue(row: list[Any]) -> QueueInstanceStatus:
    state, *values = row
    return QueueInstanceStatus(state=QueueInstanceState(*_read(state)), **dict(zip(_QUEUE, values, strict=True)))


def _job_row(job: JobListRow) -> list[Any]:
    since_s = job.since.timestamp() if job.since else None
    ranges = [[task_range.start, task_range.stop, task_range.step] for task_range in job.tasks]
    return [ranges, since_s, _words(job.state), job.name, job.owner, job.queue, job.slots]


def _jobs(number: int, rows: list[Any]) -> tuple[JobListRow, ...]:
    return tuple(
        JobListRow(
            job_id=number,
            tasks=tuple(range(*bounds) for bounds in ranges),
            since=None if since_s is None else datetime.fromtimestamp(since_s, UTC),
            state=_job_state(state),
            name=name,
            owner=owner,
            queue=queue,
            slots=slots,
        )
        for ranges, since_s, state, name, owner, queue, slots in rows
    )


@lru_cache(maxsize=256)
def _job_state(words: str) -> JobState:
    return JobState(*_read(words))


def _words(state: StateFacts) -> str:
    return f"{','.join(sorted(state.facts))} {state.text}"


def _read(words: str) -> tuple[tuple[str, ...], str]:
    facts, _, text = words.partition(" ")
    return tuple(filter(None, facts.split(","))), text
