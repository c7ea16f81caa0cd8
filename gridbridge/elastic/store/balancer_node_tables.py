"""SQL tables of the balancer's nodes, and of its facts between rounds."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields

from sqlalchemy import Boolean, Column, RowMapping, Table, bindparam, delete, insert, select

from gridbridge.model.elastic.elastic_nodes import ElasticNodeState, HostJoinStep
from gridbridge.model.elastic.owned_nodes import BalancerOwnedNode, NodeStateCause
from gridbridge.state.database.column_types import METADATA, JsonColumn, PrintableTextColumn, UtcTimeColumn
from gridbridge.state.database.transaction import StateFile

NODES = Table(
    "balance_nodes",
    METADATA,
    Column("name", PrintableTextColumn, primary_key=True),
    Column("machine", PrintableTextColumn, primary_key=True),
    Column("pool", PrintableTextColumn, nullable=False),
    Column("state", PrintableTextColumn, nullable=False),
    Column("address", PrintableTextColumn, nullable=False),
    Column("host_key", PrintableTextColumn, nullable=False),
    Column("step", PrintableTextColumn, nullable=False),
    Column("cause", PrintableTextColumn, nullable=False),
    Column("since", UtcTimeColumn, nullable=False),
    Column("up_since", UtcTimeColumn),
    Column("idle_since", UtcTimeColumn),
    Column("is_kept", Boolean, nullable=False),
)
FACTS = Table(
    "balance_facts",
    METADATA,
    Column("key", PrintableTextColumn, primary_key=True),
    Column("value", JsonColumn, nullable=False),
)

_ALL = select(NODES).order_by(NODES.c.name, NODES.c.machine)
_FACTS = select(FACTS).where(FACTS.c.key.startswith(bindparam("prefix")))
_DROP = delete(FACTS).where(FACTS.c.key == bindparam("of_key"))


class BalancerNodeRows:
    """The stored rows of the balancer's nodes."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def all(self) -> tuple[BalancerOwnedNode, ...]:
        """Return all nodes, sorted by name."""
        return tuple(_owned(row) for row in self._database.rows(_ALL))

    def replace(self, nodes: Iterable[BalancerOwnedNode]) -> None:
        """Replace all stored nodes by these."""
        rows = [_row(node) for node in nodes]
        with self._database.transaction():
            self._database.execute(delete(NODES))
            if rows:
                self._database.execute(insert(NODES), rows)


class BalancerFactRows:
    """Stored key-value facts of the balancer: last change, pool failures, requests."""

    def __init__(self, database: StateFile) -> None:
        self._database = database
        self._upsert = database.upsert(FACTS)

    def all(self, prefix: str) -> Mapping[str, Mapping[str, object]]:
        """Return the facts whose keys begin with a prefix, by the rest of the key."""
        rows = self._database.rows(_FACTS, prefix=prefix)
        return {row["key"].removeprefix(prefix): row["value"] for row in rows}

    def put(self, key: str, value: Mapping[str, object]) -> None:
        """Store a fact under its key."""
        self._database.execute(self._upsert, {"key": key, "value": value})

    def drop(self, key: str) -> None:
        """Delete the fact of a key."""
        self._database.execute(_DROP, {"of_key": key})


def _row(node: BalancerOwnedNode) -> dict[str, object]:
    words = {"state": node.state.value, "step": node.step.value, "cause": node.cause.value}
    return {**asdict(node), **words}


def _owned(row: RowMapping) -> BalancerOwnedNode:
    values = {field.name: row[field.name] for field in fields(BalancerOwnedNode)}
    values |= {
        "state": ElasticNodeState(values["state"]),
        "step": HostJoinStep(str(values["step"])),
        "cause": NodeStateCause(str(values["cause"])),
    }
    return BalancerOwnedNode(**values)
