"""Nodes that the balancer owns, and what else it keeps from round to round."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields

from sqlalchemy import Boolean, Column, RowMapping, Table, bindparam, delete, insert, select

from gridbridge.model.elastic.joining import JoinStep
from gridbridge.model.elastic.nodes import NodeState
from gridbridge.model.elastic.owned import Cause, Owned
from gridbridge.state.database.columns import METADATA, Json, Moment, Words
from gridbridge.state.database.core import Database

NODES = Table(
    "balance_nodes",
    METADATA,
    Column("name", Words, primary_key=True),
    Column("machine", Words, primary_key=True),
    Column("pool", Words, nullable=False),
    Column("state", Words, nullable=False),
    Column("address", Words, nullable=False),
    Column("host_key", Words, nullable=False),
    Column("step", Words, nullable=False),
    Column("cause", Words, nullable=False),
    Column("since", Moment, nullable=False),
    Column("up_since", Moment),
    Column("idle_since", Moment),
    Column("is_kept", Boolean, nullable=False),
)
FACTS = Table(
    "balance_facts",
    METADATA,
    Column("key", Words, primary_key=True),
    Column("value", Json, nullable=False),
)

_ALL = select(NODES).order_by(NODES.c.name, NODES.c.machine)
_FACTS = select(FACTS).where(FACTS.c.key.startswith(bindparam("prefix")))
_DROP = delete(FACTS).where(FACTS.c.key == bindparam("of_key"))


class Nodes:
    """What is kept of nodes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> tuple[Owned, ...]:
        """Return all of them, in the order of their names."""
        return tuple(_owned(row) for row in self._database.rows(_ALL))

    def replace(self, nodes: Iterable[Owned]) -> None:
        """Keep these and no others."""
        rows = [_row(one) for one in nodes]
        with self._database.transaction():
            self._database.execute(delete(NODES))
            if rows:
                self._database.execute(insert(NODES), rows)


class Facts:
    """Small things by a key: when something changed last, what a pool did, what somebody asked."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._upsert = database.upsert(FACTS)

    def all(self, prefix: str) -> Mapping[str, Mapping[str, object]]:
        """Return those whose keys begin so, by what follows."""
        rows = self._database.rows(_FACTS, prefix=prefix)
        return {row["key"].removeprefix(prefix): row["value"] for row in rows}

    def put(self, key: str, value: Mapping[str, object]) -> None:
        """Keep one."""
        self._database.execute(self._upsert, {"key": key, "value": value})

    def drop(self, key: str) -> None:
        """Forget one."""
        self._database.execute(_DROP, {"of_key": key})


def _row(node: Owned) -> dict[str, object]:
    words = {"state": node.state.value, "step": node.step.value, "cause": node.cause.value}
    return {**asdict(node), **words}


def _owned(row: RowMapping) -> Owned:
    told = {one.name: row[one.name] for one in fields(Owned)}
    told |= {
        "state": NodeState(told["state"]),
        "step": JoinStep(str(told["step"])),
        "cause": Cause(str(told["cause"])),
    }
    return Owned(**told)
