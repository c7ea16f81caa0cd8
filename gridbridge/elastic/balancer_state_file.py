"""The balancer's tables of nodes, and of facts that later rounds need."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from datetime import datetime, timedelta

from sqlalchemy import Boolean, Column, RowMapping, Table, bindparam, delete, insert, select

from gridbridge.decisions.elastic import clock_step_correction
from gridbridge.decisions.elastic.node_acts_from_balance_plan import AdministratorNodeRequests
from gridbridge.model import host_clocks
from gridbridge.model.elastic import elastic_nodes
from gridbridge.model.elastic.balance_plan import WaitingJobsHistory
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
    def __init__(self, database: StateFile) -> None:
        self._database = database

    def load_all_nodes(self) -> tuple[elastic_nodes.BalancerOwnedNode, ...]:
        """Return all nodes, sorted by name."""
        return tuple(_node_of_state_file_row(row) for row in self._database.rows(_ALL))

    def replace_all_nodes(self, nodes: Iterable[elastic_nodes.BalancerOwnedNode]) -> None:
        rows = [_state_file_row_of_node(node) for node in nodes]
        with self._database.transaction():
            self._database.execute(delete(NODES))
            if rows:
                self._database.execute(insert(NODES), rows)


def _state_file_row_of_node(node: elastic_nodes.BalancerOwnedNode) -> dict[str, object]:
    return asdict(node) | {"state": node.state.value, "step": node.step.value, "cause": node.cause.value}


def _node_of_state_file_row(row: RowMapping) -> elastic_nodes.BalancerOwnedNode:
    values = {field.name: row[field.name] for field in fields(elastic_nodes.BalancerOwnedNode)}
    values |= {
        "state": elastic_nodes.ElasticNodeState(values["state"]),
        "step": elastic_nodes.HostJoinStep(str(values["step"])),
        "cause": elastic_nodes.NodeStateCause(str(values["cause"])),
    }
    return elastic_nodes.BalancerOwnedNode(**values)


POOL, ASKED, WAITING, LAST, UNLISTED = "pool.", "asked.", "eligible", "last", "unlisted"
WATCHED, SILENT, CLOCKS = "watched", "silent", "clocks"
REQUEST_FIELDS = {  # fields of AdministratorNodeRequests
    elastic_nodes.AdministratorNodeRequestKind.DRAIN: "drained",
    elastic_nodes.AdministratorNodeRequestKind.KEEP: "kept",
    elastic_nodes.AdministratorNodeRequestKind.FREE: "freed",
}
MONTHS = 3  # number of months whose costs are stored


class BalancerStateRows:
    def __init__(self, database: StateFile) -> None:
        self.database = database
        self.nodes = BalancerNodeRows(database)
        self._upsert = database.upsert(FACTS)

    def _read_facts_by_key_prefix(self, prefix: str) -> Mapping[str, Mapping[str, object]]:
        """Return the facts whose keys begin with a prefix, by key without the prefix."""
        rows = self.database.rows(_FACTS, prefix=prefix)
        return {row["key"].removeprefix(prefix): row["value"] for row in rows}

    def _read_balancer_fact(self, key: str) -> Mapping[str, object]:
        return self._read_facts_by_key_prefix(key).get("", {})

    def _store_balancer_fact(self, key: str, value: Mapping[str, object]) -> None:
        self.database.execute(self._upsert, {"key": key, "value": value})

    def shift_times_to_clock(self, clocks: host_clocks.HostClockReadings) -> timedelta:
        """Shift all stored times by the step of the system clock; return the step."""
        row = self._read_balancer_fact(CLOCKS)
        by = host_clocks.measure_clock_step(
            model_value_from_json(row, host_clocks.HostClockReadings) if row else None, clocks
        )
        with self.database.transaction():
            if by:
                self._change_all_stored_times(lambda at: clock_step_correction.shift_time_by_clock_step(at, by))
            self._store_balancer_fact(CLOCKS, model_value_to_json(clocks))
        return by

    def _change_all_stored_times(self, change: clock_step_correction.TimeChange) -> None:
        self.nodes.replace_all_nodes(
            [clock_step_correction.map_record_times(node, change) for node in self.nodes.load_all_nodes()]
        )
        self.store_pool_failure_records(self._pool_records_with_changed_times(change))
        for key in (UNLISTED, SILENT, WAITING):
            self._store_times_of_fact(key, {name: change(at) for name, at in self._read_times_of_fact(key).items()})
        self.store_waiting_job_histories(self._job_histories_with_changed_times(change))
        last = dict(self._read_balancer_fact(LAST))
        for key in ("change", "round"):
            if last.get(key):
                last[key] = change(datetime.fromisoformat(str(last[key]))).isoformat()
        if last:
            self._store_balancer_fact(LAST, last)

    def pool_failure_records(self, now: datetime | None = None) -> Mapping[str, elastic_nodes.PoolFailureRecord]:
        """Return the recent failures of each pool; times after `now` are replaced by `now`."""
        if now is not None:
            return self._pool_records_with_changed_times(clock_step_correction.future_time_limiter(now))
        return {
            pool: model_value_from_json(record, elastic_nodes.PoolFailureRecord)
            for pool, record in self._read_facts_by_key_prefix(POOL).items()
        }

    def _pool_records_with_changed_times(
        self, change: clock_step_correction.TimeChange
    ) -> Mapping[str, elastic_nodes.PoolFailureRecord]:
        records = self.pool_failure_records().items()
        return {pool: clock_step_correction.map_record_times(record, change) for pool, record in records}

    def store_pool_failure_records(self, records: Mapping[str, elastic_nodes.PoolFailureRecord]) -> None:
        """Store the failures of some pools, and delete the failures of all other pools."""
        for pool in self.pool_failure_records().keys() - records.keys():
            self.database.execute(_DROP, {"of_key": f"{POOL}{pool}"})
        for pool, record in records.items():
            self._store_balancer_fact(f"{POOL}{pool}", model_value_to_json(record))

    def administrator_requests(self) -> AdministratorNodeRequests:
        hosts = {
            kind: frozenset(h for h, wish in self.administrator_requests_by_host().items() if wish == kind)
            for kind in REQUEST_FIELDS
        }
        return AdministratorNodeRequests(**{REQUEST_FIELDS[kind]: hosts[kind] for kind in REQUEST_FIELDS})

    def administrator_requests_by_host(self) -> Mapping[str, str]:
        return {host: str(row.get("wish")) for host, row in self._read_facts_by_key_prefix(ASKED).items()}

    def store_administrator_request(self, host: str, request: elastic_nodes.AdministratorNodeRequestKind) -> None:
        self._store_balancer_fact(f"{ASKED}{host}", {"wish": request.value})

    def delete_administrator_requests(self, requests: AdministratorNodeRequests) -> None:
        """Delete requests that a round has carried out, unless they have changed in the meantime."""
        done: dict[str, frozenset[str]] = {kind: getattr(requests, name) for kind, name in REQUEST_FIELDS.items()}
        for host, request in self.administrator_requests_by_host().items():
            if host in done.get(request, ()):
                self.database.execute(_DROP, {"of_key": f"{ASKED}{host}"})

    def machine_missing_times(self) -> Mapping[str, datetime]:
        """Return when each missing machine disappeared from the provider's list, by node key."""
        return self._read_times_of_fact(UNLISTED)

    def store_machine_missing_times(self, unlisted: Mapping[str, datetime]) -> None:
        self._store_times_of_fact(UNLISTED, unlisted)

    def silence_start_times(self) -> Mapping[str, datetime]:
        """Return when each silent execution daemon fell silent, by node key."""
        return self._read_times_of_fact(SILENT)

    def store_silence_start_times(self, silent: Mapping[str, datetime]) -> None:
        self._store_times_of_fact(SILENT, silent)

    def _read_times_of_fact(self, key: str) -> Mapping[str, datetime]:
        return {node: datetime.fromisoformat(str(at)) for node, at in self._read_balancer_fact(key).items()}

    def _store_times_of_fact(self, key: str, moments: Mapping[str, datetime]) -> None:
        self._store_balancer_fact(key, {node: at.isoformat() for node, at in moments.items()})

    def last_node_change_time(self) -> datetime | None:
        return self._read_last_round_time("change")

    def _read_last_round_time(self, key: str) -> datetime | None:
        at = self._read_balancer_fact(LAST).get(key)
        return datetime.fromisoformat(str(at)) if at else None

    def month_cost(self, now: datetime) -> float:
        return self._node_costs_by_month().get(f"{now:%Y-%m}", 0.0)

    def _node_costs_by_month(self) -> Mapping[str, float]:
        return model_value_from_json(self._read_balancer_fact(LAST).get("spent", {}), dict[str, float])

    def last_round_time(self) -> datetime | None:
        return self._read_last_round_time("round")

    def store_round_time_and_cost(self, now: datetime, changed: datetime | None, spent: float) -> None:
        """Store the time of a round and the cost of the month; the costs of two older months are kept."""
        month = f"{now:%Y-%m}"
        costs = dict(sorted(item for item in self._node_costs_by_month().items() if item[0] < month)[1 - MONTHS :]) | {
            month: spent
        }
        change = changed.isoformat() if changed else ""
        self._store_balancer_fact(LAST, {"change": change, "round": now.isoformat(), "spent": costs})

    def job_eligible_times(self, jobs: Iterable[int], now: datetime) -> Mapping[int, datetime]:
        """Return since when each job could have started; for a new job, `now`."""
        since = self._read_times_of_fact(WAITING)
        return {job: min(since.get(str(job), now), now) for job in jobs}

    def store_job_eligible_times(self, eligible: Mapping[int, datetime]) -> None:
        self._store_times_of_fact(WAITING, {str(job): at for job, at in eligible.items()})

    def job_histories(self, now: datetime) -> Mapping[int, WaitingJobsHistory]:
        """Return what the last round observed about each waiting job; times after `now` are replaced by `now`."""
        return self._job_histories_with_changed_times(clock_step_correction.future_time_limiter(now))

    def _job_histories_with_changed_times(
        self, change: clock_step_correction.TimeChange
    ) -> Mapping[int, WaitingJobsHistory]:
        rows = {
            int(job): model_value_from_json(row, WaitingJobsHistory)
            for job, row in self._read_balancer_fact(WATCHED).items()
        }
        return {job: clock_step_correction.map_record_times(row, change) for job, row in rows.items()}

    def store_waiting_job_histories(self, watched: Mapping[int, WaitingJobsHistory]) -> None:
        self._store_balancer_fact(
            WATCHED, {str(job): model_value_to_json(observation) for job, observation in watched.items()}
        )
