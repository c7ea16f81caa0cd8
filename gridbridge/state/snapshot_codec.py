"""What a cluster answered as bytes, for programs that did not ask: its queues, and some jobs."""

import json
import zlib
from collections.abc import Container
from dataclasses import fields
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from gridbridge.model.snapshot import ClusterSnapshot, JobStatus, QueueStatus
from gridbridge.model.states import JobState, QueueState, StateFacts

_QUICK = 1  # zlib's level: rows are alike
_COUNTS = ("pending", "free_slots", "besteffort_slots")
_QUEUE = tuple(field.name for field in fields(QueueStatus) if field.name != "state")


def encode(seen: ClusterSnapshot, jobs: Container[int]) -> bytes:
    """Write an answer with the jobs of these ids."""
    said = {name: getattr(seen, name) for name in _COUNTS}
    said["queues"] = [_queue_row(one) for one in seen.queues]
    listed = ((number, rows) for number, rows in seen.jobs.items() if number in jobs)
    said["jobs"] = {number: [_job_row(one) for one in rows] for number, rows in listed}
    return zlib.compress(json.dumps(said, separators=(",", ":")).encode(), _QUICK)


def decode(content: bytes, cluster: str, taken_at: datetime) -> ClusterSnapshot:
    """Read it; some exception for anything else."""
    said = json.loads(zlib.decompress(content))
    return ClusterSnapshot(
        cluster=cluster,
        taken_at=taken_at,
        queues=tuple(map(_queue, said["queues"])),
        jobs={int(number): _jobs(int(number), rows) for number, rows in said["jobs"].items()},
        **{name: said[name] for name in _COUNTS},
    )


def _queue_row(one: QueueStatus) -> list[Any]:
    return [_words(one.state), *(getattr(one, name) for name in _QUEUE)]


def _queue(row: list[Any]) -> QueueStatus:
    state, *values = row
    return QueueStatus(state=QueueState(*_read(state)), **dict(zip(_QUEUE, values, strict=True)))


def _job_row(one: JobStatus) -> list[Any]:
    since_s = one.since.timestamp() if one.since else None
    places = [[some.start, some.stop, some.step] for some in one.tasks]
    return [places, since_s, _words(one.state), one.name, one.owner, one.queue, one.slots]


def _jobs(number: int, rows: list[Any]) -> tuple[JobStatus, ...]:
    return tuple(
        JobStatus(
            job_id=number,
            tasks=tuple(range(*some) for some in places),
            since=None if since_s is None else datetime.fromtimestamp(since_s, UTC),
            state=_job_state(state),
            name=name,
            owner=owner,
            queue=queue,
            slots=slots,
        )
        for places, since_s, state, name, owner, queue, slots in rows
    )


@lru_cache(maxsize=256)
def _job_state(words: str) -> JobState:
    return JobState(*_read(words))


def _words(state: StateFacts) -> str:
    return f"{','.join(sorted(state.facts))} {state.text}"


def _read(words: str) -> tuple[tuple[str, ...], str]:
    facts, _, text = words.partition(" ")
    return tuple(filter(None, facts.split(","))), text
