"""The tables about queries of clusters: a log of the queries, and the last result for each cluster."""

import hashlib
import json
import zlib
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import Boolean, Column, LargeBinary, Table, and_, bindparam, delete, insert, select

from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot, QueueInstanceStatus
from gridbridge.model.job_and_queue_states import JobOrQueueStateFacts, JobState, QueueInstanceState
from gridbridge.state import column_types
from gridbridge.state.state_file import StateFile

SNAPSHOTS = Table(
    "snapshots",
    column_types.METADATA,
    column_types.row_number_column("id"),
    *column_types.text_columns("cluster"),
    *column_types.time_columns("taken_at"),
    Column("ok", Boolean, nullable=False),
    *column_types.float_columns("took_s"),
    Column("summary", column_types.JsonColumn, nullable=False),
)
ANSWERS = Table(
    "answers",
    column_types.METADATA,
    *column_types.text_key_columns("cluster"),
    *column_types.text_columns("place"),
    *column_types.time_columns("asked_at"),
    *column_types.float_columns("every_s"),
    *column_types.text_columns("covers", "trouble", "digest"),
)
CONTENTS = Table(
    "answer_contents",
    column_types.METADATA,
    *column_types.text_key_columns("cluster"),
    *column_types.text_columns("digest"),
    Column("content", LargeBinary, nullable=False),
)
_LAST = (
    select(ANSWERS, CONTENTS.c.content)
    .outerjoin_from(
        ANSWERS, CONTENTS, and_(ANSWERS.c.cluster == CONTENTS.c.cluster, ANSWERS.c.digest == CONTENTS.c.digest)
    )
    .where(ANSWERS.c.cluster == bindparam("cluster"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastClusterQueryResult:
    place: str  # version of the program that queried, and what it queried
    asked_at: datetime
    every_s: float  # seconds between regular queries; 0: there are no regular queries
    covers: frozenset[str] = frozenset()  # names of the arrays that were submitted before the query
    trouble: str = ""
    content: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastClusterQuery:
    """A cluster's waiting tasks and free slots at a time; None: the cluster did not answer, or did not say."""

    cluster: str
    at: datetime
    pending: int | None
    free_slots: int | None


class ClusterQueryLog:
    def __init__(self, database: StateFile) -> None:
        self._database = database

    def record_query(
        self, *, cluster: str, taken_at: datetime, ok: bool, took: timedelta, summary: Mapping[str, object]
    ) -> None:
        values = {
            "cluster": cluster,
            "taken_at": taken_at,
            "ok": ok,
            "took_s": took.total_seconds(),
            "summary": summary,
        }
        self._database.execute(insert(SNAPSHOTS), values)

    def queries_since(self, at: datetime) -> tuple[PastClusterQuery, ...]:
        """Return all queries from a time on, oldest first."""
        rows = self._database.rows(select(SNAPSHOTS).where(SNAPSHOTS.c.taken_at >= at).order_by(SNAPSHOTS.c.taken_at))
        return tuple(
            PastClusterQuery(
                cluster=row["cluster"],
                at=row["taken_at"],
                pending=row["summary"].get("pending") if row["ok"] else None,
                free_slots=row["summary"].get("free_slots") if row["ok"] else None,
            )
            for row in rows
        )

    def delete_old_queries(self, before: datetime) -> None:
        self._database.execute(delete(SNAPSHOTS).where(SNAPSHOTS.c.taken_at < before))


class LastClusterQueryRows:
    def __init__(self, database: StateFile) -> None:
        self._database = database

    def store_last_query_result(self, cluster: str, answer: LastClusterQueryResult) -> None:
        """Replace a cluster's last query result; an unchanged snapshot is not written again."""
        values = asdict(answer) | {"covers": " ".join(sorted(answer.covers))}
        content = values.pop("content")
        of = {"cluster": cluster, "digest": hashlib.sha256(content).hexdigest()}
        query = select(CONTENTS.c.digest).where(CONTENTS.c.cluster == cluster)
        with self._database.transaction():
            if [row["digest"] for row in self._database.rows(query)] != [of["digest"]]:
                self._database.execute(self._database.upsert(CONTENTS), of | {"content": content})
            self._database.execute(self._database.upsert(ANSWERS), of | values)

    def find_last_query_result(self, cluster: str) -> LastClusterQueryResult | None:
        for row in self._database.rows(_LAST, cluster=cluster):
            columns = {name: row[name] for name in ("place", "asked_at", "every_s", "trouble")}
            covers, content = frozenset(row["covers"].split()), row["content"] or b""
            return LastClusterQueryResult(**columns, covers=covers, content=content)
        return None


_QUICK = 1  # zlib's fastest compression level, because similar rows still become small
_COUNTS = ("pending", "free_slots", "besteffort_slots")
_QUEUE = tuple(field.name for field in fields(QueueInstanceStatus) if field.name != "state")


def encode_cluster_snapshot(snapshot: ClusterSnapshot, jobs: Container[int]) -> bytes:
    """Encode a cluster snapshot, with only those of its jobs whose ids are in `jobs`."""
    table = {name: getattr(snapshot, name) for name in _COUNTS}
    table["queues"] = [
        [_encode_state_facts(queue.state), *(getattr(queue, name) for name in _QUEUE)] for queue in snapshot.queues
    ]
    listed = ((number, rows) for number, rows in snapshot.jobs.items() if number in jobs)
    table["jobs"] = {number: [_encode_job_row(row) for row in rows] for number, rows in listed}
    return zlib.compress(json.dumps(table, separators=(",", ":")).encode(), _QUICK)


def decode_cluster_snapshot(content: bytes, cluster: str, taken_at: datetime) -> ClusterSnapshot:
    """Decode a cluster snapshot; invalid content may raise any exception."""
    table = json.loads(zlib.decompress(content))
    return ClusterSnapshot(
        cluster=cluster,
        taken_at=taken_at,
        queues=tuple(map(_decode_queue_instance_row, table["queues"])),
        jobs={int(number): _decode_job_rows(int(number), rows) for number, rows in table["jobs"].items()},
        **{name: table[name] for name in _COUNTS},
    )


def _decode_queue_instance_row(row: list[Any]) -> QueueInstanceStatus:
    state, *values = row
    return QueueInstanceStatus(
        state=QueueInstanceState(*_split_state_text(state)), **dict(zip(_QUEUE, values, strict=True))
    )


def _encode_job_row(job: ClusterJobListRow) -> list[Any]:
    since_s = job.since.timestamp() if job.since else None
    ranges = [[task_range.start, task_range.stop, task_range.step] for task_range in job.tasks]
    return [ranges, since_s, _encode_state_facts(job.state), job.name, job.owner, job.queue, job.slots]


def _decode_job_rows(number: int, rows: list[Any]) -> tuple[ClusterJobListRow, ...]:
    return tuple(
        ClusterJobListRow(
            job_id=number,
            tasks=tuple(range(*bounds) for bounds in ranges),
            since=None if since_s is None else datetime.fromtimestamp(since_s, UTC),
            state=_decode_job_state(state),
            name=name,
            owner=owner,
            queue=queue,
            slots=slots,
        )
        for ranges, since_s, state, name, owner, queue, slots in rows
    )


@lru_cache(maxsize=256)
def _decode_job_state(words: str) -> JobState:
    return JobState(*_split_state_text(words))


def _encode_state_facts(state: JobOrQueueStateFacts) -> str:
    return f"{','.join(sorted(state.facts))} {state.text}"


def _split_state_text(words: str) -> tuple[tuple[str, ...], str]:
    facts, _, text = words.partition(" ")
    return tuple(filter(None, facts.split(","))), text
