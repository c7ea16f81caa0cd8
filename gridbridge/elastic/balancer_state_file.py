"""The balancer's tables of nodes, and of facts that last from round to round."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from datetime import datetime, timedelta

from sqlalchemy import Boolean, Column, RowMapping, Table, bindparam, delete, insert, select

from gridbridge.decisions.elastic import clock_step_correction
from gridbridge.decisions.elastic.node_acts_from_balance_plan import AdministratorNodeRequests
from gridbridge.model.elastic.balance_plan import WaitingJobsHistory
from gridbridge.model.elastic.elastic_nodes import (
    AdministratorNodeRequestKind,
    BalancerHostClocks,
    BalancerOwnedNode,
    ElasticNodeState,
    HostJoinStep,
    NodeStateCause,
    PoolFailureRecord,
)
from gridbridge.program.model_values_as_json import model_value_from_json, model_value_to_json
from gridbridge.state.column_types import METADATA, JsonColumn, PrintableTextColumn, UtcTimeColumn
from gridbridge.state.state_file import StateFile

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
    """Reads and writes the table of the balancer's nodes."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def all(self) -> tuple[BalancerOwnedNode, ...]:
        """Return all nodes, sorted by name."""
        return tuple(_owned(row) for row in self._database.rows(_ALL))

    def replace(self, nodes: Iterable[BalancerOwnedNode]) -> None:
        """Replace all stored nodes."""
        rows = [_row(node) for node in nodes]
        with self._database.transaction():
            self._database.execute(delete(NODES))
            if rows:
                self._database.execute(insert(NODES), rows)


class BalancerFactRows:
    """Reads and writes the balancer's facts, each under a key."""

    def __init__(self, database: StateFile) -> None:
        self._database = database
        self._upsert = database.upsert(FACTS)

    def all(self, prefix: str) -> Mapping[str, Mapping[str, object]]:
        """Return the facts whose keys begin with a prefix, by the remainder of the key."""
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


POOL, ASKED, WAITING, LAST, UNLISTED = "pool.", "asked.", "eligible", "last", "unlisted"
WATCHED, SILENT, CLOCKS = "watched", "silent", "clocks"
MONTHS = 3  # number of months whose costs are stored


class BalancerStateRows:
    """The balancer's stored state: nodes, pool failures, requests, observations and costs."""

    def __init__(self, database: StateFile) -> None:
        self.database = database
        self.nodes = BalancerNodeRows(database)
        self._facts = BalancerFactRows(database)

    def follow(self, clocks: BalancerHostClocks) -> timedelta:
        """Shift all stored times by the step of the system clock; return the step."""
        row = self._facts.all(CLOCKS).get("")
        by = clock_step_correction.measure_clock_step(
            model_value_from_json(row, BalancerHostClocks) if row else None, clocks
        )
        with self.database.transaction():
            if by:
                self._change(lambda at: clock_step_correction.shift_time(at, by))
            self._facts.put(CLOCKS, model_value_to_json(clocks))
        return by

    def _change(self, change: clock_step_correction.TimeChange) -> None:
        self.nodes.replace([clock_step_correction.change_stored_times(node, change) for node in self.nodes.all()])
        records = self.records().items()
        self.keep_records({pool: clock_step_correction.change_stored_times(record, change) for pool, record in records})
        for key in (UNLISTED, SILENT, WAITING):
            moments = self._moments(key).items()
            self._keep_moments(key, {name: change(at) for name, at in moments})
        self.keep_watched(
            {
                job: clock_step_correction.change_stored_times(observation, change)
                for job, observation in self._watched()
            }
        )
        last = dict(self._facts.all(LAST).get("", {}))
        for key in ("change", "round"):
            if last.get(key):
                last[key] = change(datetime.fromisoformat(str(last[key]))).isoformat()
        if last:
            self._facts.put(LAST, last)

    def records(self, now: datetime | None = None) -> Mapping[str, PoolFailureRecord]:
        """Return the recent failures of each pool; times after `now` become `now`."""
        by_pool = {
            pool: model_value_from_json(record, PoolFailureRecord) for pool, record in self._facts.all(POOL).items()
        }
        if now is None:
            return by_pool
        return {
            pool: clock_step_correction.change_stored_times(record, clock_step_correction.future_time_limiter(now))
            for pool, record in by_pool.items()
        }

    def keep_records(self, records: Mapping[str, PoolFailureRecord]) -> None:
        """Store the failures of some pools, and delete the failures of all other pools."""
        for pool in self.records().keys() - records.keys():
            self._facts.drop(f"{POOL}{pool}")
        for pool, record in records.items():
            self._facts.put(f"{POOL}{pool}", model_value_to_json(record))

    def asked(self) -> AdministratorNodeRequests:
        """Return the pending requests of administrators, by kind."""
        requests = self.wishes()

        def wished(request: AdministratorNodeRequestKind) -> frozenset[str]:
            return frozenset(host for host, name in requests.items() if name == request.value)

        return AdministratorNodeRequests(
            drained=wished(AdministratorNodeRequestKind.DRAIN),
            kept=wished(AdministratorNodeRequestKind.KEEP),
            freed=wished(AdministratorNodeRequestKind.FREE),
        )

    def wishes(self) -> Mapping[str, str]:
        """Return the pending requests of administrators, by host name."""
        return {host: str(row.get("wish")) for host, row in self._facts.all(ASKED).items()}

    def ask(self, host: str, request: AdministratorNodeRequestKind) -> None:
        """Store an administrator's request for the next round."""
        self._facts.put(f"{ASKED}{host}", {"wish": request.value})

    def forget_asked(self, requests: AdministratorNodeRequests) -> None:
        """Delete requests that a round has carried out; keep requests that have changed since."""
        hosts_by_request: Mapping[str, frozenset[str]] = {
            AdministratorNodeRequestKind.DRAIN: requests.drained,
            AdministratorNodeRequestKind.KEEP: requests.kept,
            AdministratorNodeRequestKind.FREE: requests.freed,
        }
        for host, request in self.wishes().items():
            if host in hosts_by_request.get(request, ()):
                self._facts.drop(f"{ASKED}{host}")

    def unlisted(self) -> Mapping[str, datetime]:
        """Return the time since which each node's machine has been missing from the provider's list."""
        return self._moments(UNLISTED)

    def keep_unlisted(self, unlisted: Mapping[str, datetime]) -> None:
        """Replace the stored times since which machines have been missing from lists."""
        self._keep_moments(UNLISTED, unlisted)

    def silent(self) -> Mapping[str, datetime]:
        """Return the time since which each node's execution daemon has been silent, by the node's key."""
        return self._moments(SILENT)

    def keep_silent(self, silent: Mapping[str, datetime]) -> None:
        """Replace the stored times since which nodes have been silent."""
        self._keep_moments(SILENT, silent)

    def _moments(self, key: str) -> Mapping[str, datetime]:
        moments = self._facts.all(key).get("", {})
        return {node: datetime.fromisoformat(str(at)) for node, at in moments.items()}

    def _keep_moments(self, key: str, moments: Mapping[str, datetime]) -> None:
        self._facts.put(key, {node: at.isoformat() for node, at in moments.items()})

    def last_change(self) -> datetime | None:
        """Return the time of the last addition or removal of a node."""
        at = self._facts.all(LAST).get("", {}).get("change")
        return datetime.fromisoformat(str(at)) if at else None

    def spent(self, now: datetime) -> float:
        """Return the cost of nodes in the month of `now`."""
        return self._months().get(_month(now), 0.0)

    def _months(self) -> Mapping[str, float]:
        spent = self._facts.all(LAST).get("", {}).get("spent", {})
        return model_value_from_json(spent, dict[str, float])

    def last_round(self) -> datetime | None:
        """Return the time of the last round."""
        at = self._facts.all(LAST).get("", {}).get("round")
        return datetime.fromisoformat(str(at)) if at else None

    def note_round(self, now: datetime, changed: datetime | None, spent: float) -> None:
        """Store a round's time and the cost of its month.

        Costs of two older months are kept, because the clock may be set back. Costs of later months are deleted.
        """
        month = _month(now)
        earlier = sorted((past_month, cost) for past_month, cost in self._months().items() if past_month < month)
        value = {
            "change": changed.isoformat() if changed else "",
            "round": now.isoformat(),
            "spent": {**dict(earlier[1 - MONTHS :]), month: spent},
        }
        self._facts.put(LAST, value)

    def eligible(self, jobs: Iterable[int], now: datetime) -> Mapping[int, datetime]:
        """Return the time since which each job could have started; a new job gets `now`."""
        since = self._moments(WAITING)
        return {job: min(since.get(str(job), now), now) for job in jobs}

    def keep_eligible(self, eligible: Mapping[int, datetime]) -> None:
        """Replace the stored times since which waiting jobs could have started."""
        self._facts.put(WAITING, {str(job): at.isoformat() for job, at in eligible.items()})

    def watched(self, now: datetime) -> Mapping[int, WaitingJobsHistory]:
        """Return what the last round observed about each waiting job; times after `now` become `now`."""
        return {
            job: clock_step_correction.change_stored_times(observation, clock_step_correction.future_time_limiter(now))
            for job, observation in self._watched()
        }

    def _watched(self) -> list[tuple[int, WaitingJobsHistory]]:
        rows = self._facts.all(WATCHED).get("", {})
        return [(int(job), model_value_from_json(row, WaitingJobsHistory)) for job, row in rows.items()]

    def keep_watched(self, watched: Mapping[int, WaitingJobsHistory]) -> None:
        """Replace the stored observations of waiting jobs."""
        self._facts.put(WATCHED, {str(job): model_value_to_json(observation) for job, observation in watched.items()})


def _month(now: datetime) -> str:
    return f"{now:%Y-%m}"
