"""The tables of cluster queries: when each ran, a summary, and the last full snapshot."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Boolean, Column, Float, LargeBinary, Table, and_, bindparam, delete, insert, select

from gridbridge.state.database.column_types import COUNTED, METADATA, JsonColumn, PrintableTextColumn, UtcTimeColumn
from gridbridge.state.database.transaction import StateFile

SNAPSHOTS = Table(
    "snapshots",
    METADATA,
    Column("id", COUNTED, primary_key=True),
    Column("cluster", PrintableTextColumn, nullable=False),
    Column("taken_at", UtcTimeColumn, nullable=False),
    Column("ok", Boolean, nullable=False),
    Column("took_s", Float, nullable=False),
    Column("summary", JsonColumn, nullable=False),
)
ANSWERS = Table(
    "answers",
    METADATA,
    Column("cluster", PrintableTextColumn, primary_key=True),
    Column("place", PrintableTextColumn, nullable=False),
    Column("asked_at", UtcTimeColumn, nullable=False),
    Column("every_s", Float, nullable=False),
    Column("covers", PrintableTextColumn, nullable=False),
    Column("trouble", PrintableTextColumn, nullable=False),
    Column("digest", PrintableTextColumn, nullable=False),
)
CONTENTS = Table(
    "answer_contents",
    METADATA,
    Column("cluster", PrintableTextColumn, primary_key=True),
    Column("digest", PrintableTextColumn, nullable=False),
    Column("content", LargeBinary, nullable=False),
)

_ADD = insert(SNAPSHOTS)
_DIGEST = select(CONTENTS.c.digest).where(CONTENTS.c.cluster == bindparam("cluster"))
_LAST = (
    select(ANSWERS, CONTENTS.c.content)
    .outerjoin_from(
        ANSWERS, CONTENTS, and_(ANSWERS.c.cluster == CONTENTS.c.cluster, ANSWERS.c.digest == CONTENTS.c.digest)
    )
    .where(ANSWERS.c.cluster == bindparam("cluster"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastClusterQueryResult:
    """The last query result of a cluster, shared between programs."""

    place: str  # program version and address of the query
    asked_at: datetime
    every_s: float  # interval of the next regular query; 0 for none
    covers: frozenset[str] = frozenset()  # arrays submitted before the query
    trouble: str = ""  # error of a failed query
    content: bytes = b""  # encoded snapshot


class ClusterQueryLogRows:
    """Writes the log of cluster queries."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def record(
        self, *, cluster: str, taken_at: datetime, ok: bool, took: timedelta, summary: Mapping[str, object]
    ) -> None:
        """Record a cluster query with its duration and a summary of the result."""
        values = {"cluster": cluster, "taken_at": taken_at, "ok": ok}
        values |= {"took_s": took.total_seconds(), "summary": summary}
        self._database.execute(_ADD, values)

    def forget(self, before: datetime) -> None:
        """Delete the log entries of cluster queries from before a time."""
        self._database.execute(delete(SNAPSHOTS).where(SNAPSHOTS.c.taken_at < before))


class LastClusterQueryRows:
    """Reads and writes the last query result of each cluster."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def put(self, cluster: str, answer: LastClusterQueryResult) -> None:
        """Replace a cluster's last query result; the snapshot is written only if it has changed."""
        digest = hashlib.sha256(answer.content).hexdigest()
        of = {"cluster": cluster, "digest": digest}
        head = {"place": answer.place, "asked_at": answer.asked_at, "every_s": answer.every_s}
        head |= {"covers": " ".join(sorted(answer.covers)), "trouble": answer.trouble}
        with self._database.transaction():
            stored = self._database.rows(_DIGEST, cluster=cluster)
            if [row["digest"] for row in stored] != [digest]:
                values = of | {"content": answer.content}
                self._database.execute(self._database.upsert(CONTENTS), values)
            self._database.execute(self._database.upsert(ANSWERS), of | head)

    def find(self, cluster: str) -> LastClusterQueryResult | None:
        """Return a cluster's last query result; None if the cluster was never queried."""
        for row in self._database.rows(_LAST, cluster=cluster):
            columns = {name: row[name] for name in ("place", "asked_at", "every_s", "trouble")}
            covers, content = frozenset(row["covers"].split()), row["content"] or b""
            return LastClusterQueryResult(**columns, covers=covers, content=content)
        return None
