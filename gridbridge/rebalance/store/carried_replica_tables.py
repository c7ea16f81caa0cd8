"""Which replicas the service had made and removed: noted before it is done, and how it ended."""

from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import datetime

from sqlalchemy import BigInteger, Column, Table, and_, bindparam, delete, select, update

from gridbridge.model.rebalance.delegation import CarriedReplica
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


class CarriedReplicas:
    """What is kept of them."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def all(self) -> tuple[CarriedReplica, ...]:
        """Return them, the oldest first."""
        return tuple(CarriedReplica(**row) for row in self._database.rows(_ALL))

    def begin(self, carried: Iterable[CarriedReplica]) -> None:
        """Note what is to be done; again for what goes on."""
        rows = [asdict(replica) for replica in carried]
        if rows:
            self._database.execute(self._database.upsert(CARRIED), rows)

    def end(self, token: str, at: datetime, why: str) -> None:
        """Note how it ended; `why` is empty for what was done."""
        self._database.execute(_END, {"of": token, "ended_at": at, "why": why})

    def forget(self, before: datetime) -> None:
        """Forget what ended before a time."""
        self._database.execute(
            delete(CARRIED).where(
                and_(CARRIED.c.ended_at.is_not(None), CARRIED.c.ended_at < before)
            )
        )
