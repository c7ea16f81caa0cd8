"""SQL table of the replica acts that the service requested, and of their outcomes."""

from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import datetime

from sqlalchemy import BigInteger, Column, Table, and_, bindparam, delete, select, update

from gridbridge.model.rebalance.datasets import CarriedReplica
from gridbridge.state.database.columns import METADATA, MomentColumn, PrintableText
from gridbridge.state.database.transaction import StateFile

CARRIED = Table(
    "carried_replicas",
    METADATA,
    Column("token", PrintableText, primary_key=True),
    Column("dataset", PrintableText, nullable=False),
    Column("target", PrintableText, nullable=False),
    Column("source", PrintableText, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("began_at", MomentColumn, nullable=False),
    Column("ended_at", MomentColumn),
    Column("why", PrintableText, nullable=False),
)

_ALL = select(*(CARRIED.c[field.name] for field in fields(CarriedReplica))).order_by(
    CARRIED.c.began_at, CARRIED.c.token
)
_END = (
    update(CARRIED)
    .where(CARRIED.c.token == bindparam("of"))
    .values(ended_at=bindparam("ended_at"), why=bindparam("why"))
)


class CarriedReplicaRows:
    """The stored acts on replicas: each is recorded before it begins and when it ends."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def all(self) -> tuple[CarriedReplica, ...]:
        """Return all acts, the oldest first."""
        return tuple(CarriedReplica(**row) for row in self._database.rows(_ALL))

    def begin(self, carried: Iterable[CarriedReplica]) -> None:
        """Record acts before they begin; a continued act is recorded again."""
        rows = [asdict(replica) for replica in carried]
        if rows:
            self._database.execute(self._database.upsert(CARRIED), rows)

    def end(self, token: str, at: datetime, why: str) -> None:
        """Record the end of an act; `why` is empty for success."""
        self._database.execute(_END, {"of": token, "ended_at": at, "why": why})

    def forget(self, before: datetime) -> None:
        """Delete the acts that ended before a time."""
        self._database.execute(
            delete(CARRIED).where(
                and_(CARRIED.c.ended_at.is_not(None), CARRIED.c.ended_at < before)
            )
        )
