"""Reads the database of an OAR server by its REST interface: jobs with their events, and resources.

Queries use `/select_all`, because `/jobs/details` takes 5 s for 1000 jobs. An empty result would be answered like a
failed query, so each query joins one constant row.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

from gridbridge.batch.oar import oar_command_line_builders
from gridbridge.batch.oar.oar_output_parser import HELD, OarJob, OarResource, OarStatus
from gridbridge.batch.oar.oar_output_parser import WAITING as IDLE_STATES
from gridbridge.batch.oar.oar_rest_requests import JSON, OarRestAnswer, send_request
from gridbridge.batch.oar.oar_server_query_commands import ACTIVE, DELETED, MOST_LINES, OURS, WAITS, YIELDS
from gridbridge.errors import ParseError
from gridbridge.model.transfer_route import OarServerAccessSettings
from gridbridge.shell.program_runs import LIST_BYTES

Value = TypeVar("Value")
Row = Mapping[str, object]  # a row of OAR's database, by column
WHOLE = "gb_whole"  # column of the constant row
NO_RESOURCES = (*IDLE_STATES, HELD)  # states of jobs without resources
MOST_ROWS = 1_000_000
PORTION = 100  # ids or ranges of ids in one query, because Apache takes 8190 bytes of an address
COLUMNS = (
    "job_id, job_name, job_user, state, queue_name, message, submission_time, start_time, stop_time, exit_code,"
    " resubmit_job_id, array_id, array_index, reservation"
)
ASSIGNED = (
    "SELECT jobs.job_id, resources.resource_id, resources.network_address FROM jobs"
    " JOIN assigned_resources ON assigned_resources.moldable_job_id = jobs.assigned_moldable_job"
    " JOIN resources ON resources.resource_id = assigned_resources.resource_id WHERE "
)
RESOURCES = (
    "SELECT resources.*, gb_job, gb_queue FROM resources LEFT JOIN (SELECT assigned_resources.resource_id AS gb_used,"  # noqa: S608 - constants
    " jobs.job_id AS gb_job, jobs.queue_name AS gb_queue FROM assigned_resources"
    f" JOIN jobs ON jobs.assigned_moldable_job = assigned_resources.moldable_job_id WHERE {ACTIVE}) AS running"
    " ON gb_used = resources.resource_id"
)
WAITING = (
    "SELECT array_id, count(*) AS waiting FROM jobs"  # noqa: S608 - constants
    f" WHERE {WAITS} AND NOT {YIELDS} AND NOT {DELETED} GROUP BY array_id ORDER BY array_id LIMIT {MOST_LINES}"
)


class OarRestDatabase:
    MOST_ENDS = PORTION

    def __init__(self, server: OarServerAccessSettings) -> None:
        self._server = server
        self.host = urlsplit(server.api).netloc

    def find_jobs(self, condition: str) -> list[OarJob]:
        """Return jobs with their events, which the same query reads: an ended job's events are complete."""
        jobs: dict[int, Row] = {}
        events, assigned = defaultdict[int, list[Row]](list), defaultdict[int, list[Row]](list)
        for row in self._select(_jobs_and_events_query(condition), *COLUMNS.split(", "), "event_id"):
            jobs[number := number_in_column(row, "job_id")] = row
            events[number] += [row] if row["event_id"] is not None else []
        started = (job for job, row in jobs.items() if row["state"] not in NO_RESOURCES)
        for condition_on_ids in _conditions_on_ids("jobs.job_id", started):
            for row in self._select(ASSIGNED + condition_on_ids, "job_id", "resource_id", "network_address"):
                assigned[number_in_column(row, "job_id")].append(row)
        return [_oar_job(jobs[job], events[job], assigned[job]) for job in sorted(jobs)]

    def find_live_tasks(self, arrays: Sequence[str]) -> list[OarJob]:
        conditions = (
            oar_command_line_builders.live_array_tasks_condition(*portion) for portion in split_into_portions(arrays)
        )
        return [job for condition in conditions for job in self.find_jobs(condition)]

    def show_job(self, job: str) -> list[OarJob]:
        return self.find_jobs(f"job_id = {int(job)}")

    def show_job_and_usage(self, job: str) -> tuple[list[OarJob], Mapping[str, tuple[float, float]]]:
        return self.show_job(job), {}

    def query_status(self, job_ids: Collection[int], uncounted: Collection[int]) -> OarStatus:
        wanted = self.find_live_tasks([*map(str, sorted(job_ids))])
        by_id = {job.id: job for job in (*wanted, *self.find_jobs(OURS))}
        jobs = sorted(by_id.values(), key=lambda job: int(job.id))
        resources, yielding = self._resources_and_best_effort_jobs()
        waiting = (
            (number_in_column(row, "array_id"), number_in_column(row, "waiting"))
            for row in self._select(WAITING, "array_id")
        )
        pending = sum(count for array, count in waiting if array not in uncounted)
        return OarStatus(resources=resources, jobs=jobs, pending=min(pending, MOST_LINES), yielding=yielding)

    def list_resources(self) -> list[OarResource]:
        return self._resources_and_best_effort_jobs()[0]

    def _resources_and_best_effort_jobs(self) -> tuple[list[OarResource], frozenset[str]]:
        rows: dict[str, dict[str, object]] = {}
        jobs, yielding = defaultdict[str, list[str]](list), set[str]()
        for row in self._select(RESOURCES, "resource_id", "gb_job", "gb_queue"):
            number = str(row["resource_id"])
            rows[number] = {key: value for key, value in row.items() if key not in (WHOLE, "gb_job", "gb_queue")}
            if (job := row["gb_job"]) is not None:
                jobs[number].append(str(job))
                yielding |= {str(job)} if row["gb_queue"] == "besteffort" else set()
        resources = [OarResource(row | {"jobs": ", ".join(jobs[number])}) for number, row in rows.items()]
        return resources, frozenset(yielding)

    def _send_rest_request(self, method: str, path: str, body: bytes | None = None, kind: str = JSON) -> OarRestAnswer:
        return send_request(self._server, method, path, body, kind, LIST_BYTES)

    def _select(self, query: str, key: str, *columns: str) -> list[Row]:
        """Return the rows of an SQL query with these columns, of which `key` is never null.

        The answer's `total` is of an earlier query, so it may differ.
        """
        joined = f"FROM (SELECT 1 AS {WHOLE}) AS entire LEFT JOIN ({query}) AS found ON 1 = 1"
        words = urlencode({"query": joined, "limit": MOST_ROWS}, safe="(),'=*")
        table = self._send_rest_request("GET", f"/select_all?{words}").require_success().json_table()
        rows = require_rows(table.get("items"))
        found = [row for row in rows if row.get(key) is not None]
        are_whole = all(key in row for row in rows) and all(row.keys() >= {*columns} for row in found)
        if not rows or len(rows) >= MOST_ROWS or not are_whole:
            raise ParseError(f"{self.host}: /select_all: the answer is incomplete")
        return [*found]


def _jobs_and_events_query(condition: str) -> str:
    """Return the query for jobs that meet a condition, with a row for each event, and a row if there is none."""
    jobs = f"SELECT {COLUMNS} FROM jobs WHERE {condition}"  # noqa: S608 - conditions of oar_command_line_builders quote their values
    events = "event_logs.event_id, event_logs.type, event_logs.description"
    return (
        f"SELECT wanted.*, {events} FROM ({jobs}) AS wanted LEFT JOIN event_logs ON event_logs.job_id = wanted.job_id"  # noqa: S608
    )


def _oar_job(row: Row, events: list[Row], assigned: list[Row]) -> OarJob:
    assigned = sorted(assigned, key=lambda resource: number_in_column(resource, "resource_id"))
    return OarJob(
        {
            "Job_Id": row["job_id"],
            "array_id": row["array_id"],
            "array_index": row["array_index"],
            "name": row["job_name"],
            "owner": row["job_user"],
            "state": row["state"],
            "queue": row["queue_name"],
            "message": row["message"],
            "submissionTime": row["submission_time"],
            "startTime": row["start_time"],
            "stopTime": row["stop_time"],
            "exit_code": row["exit_code"],
            "resubmit_job_id": row["resubmit_job_id"],
            "reservation": row["reservation"],
            "assigned_resources": [resource["resource_id"] for resource in assigned],
            "assigned_network_address": list(dict.fromkeys(resource["network_address"] for resource in assigned)),
            "events": events,
        }
    )


def number_in_column(row: Row, column: str) -> int:
    try:
        return int(str(row[column]))
    except (KeyError, ValueError) as error:
        raise ParseError(f"OAR's REST interface: {column} is no number") from error


def require_rows(items: object) -> list[dict[str, object]]:
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ParseError("OAR's REST interface: an answer without rows")
    return items


def _conditions_on_ids(column: str, ids: Iterable[int]) -> Iterator[str]:
    """Yield SQL conditions that together hold for these ids alone."""
    spans: list[list[int]] = []
    for number in sorted(ids):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    for portion in split_into_portions(spans):
        yield " OR ".join(f"{column} BETWEEN {first} AND {last}" for first, last in portion)


def split_into_portions(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    for first in range(0, len(values), PORTION):
        yield values[first : first + PORTION]
