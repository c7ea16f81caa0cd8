"""When each cluster was asked, and in short what it answered."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy import Boolean, Column, Float, Table, delete, insert

from gridbridge.state.database.columns import COUNTED, METADATA, Json, Moment, Words
from gridbridge.state.database.core import Database

SNAPSHOTS = Table(
    "snapshots",
    METADATA,
    Column("id", COUNTED, primary_key=True),
    Column("cluster", Words, nullable=False),
    Column("taken_at", Moment, nullable=False),
    Column("ok", Boolean, nullable=False),
    Column("took_s", Float, nullable=False),
    Column("summary", Json, nullable=False),
)

_ADD = insert(SNAPSHOTS)


class Snapshots:
    """What is kept of the clusters' answers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(
        self,
        *,
        cluster: str,
        taken_at: datetime,
        ok: bool,
        took: timedelta,
        summary: Mapping[str, object],
    ) -> None:
        """Record that a cluster was asked, how long it took, and in short what it answered."""
        values = {"cluster": cluster, "taken_at": taken_at, "ok": ok}
        values |= {"took_s": took.total_seconds(), "summary": summary}
        self._database.execute(_ADD, values)

    def forget(self, before: datetime) -> None:
        """Remove answers from before that time."""
        self._database.execute(delete(SNAPSHOTS).where(SNAPSHOTS.c.taken_at < before))
