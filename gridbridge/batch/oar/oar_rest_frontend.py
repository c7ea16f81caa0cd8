"""Reaches an OAR server by its REST interface, which runs OAR's programs as the account that each request names.

Queries read OAR's database by `/select_all`, because `/jobs/details` takes 5 s for 1000 jobs. An empty result would be
answered like a failed query, so each query joins one constant row.
"""

import json
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

from gridbridge.batch.oar import oar_command_line_builders
from gridbridge.batch.oar.oar_output_parser import HELD, OarJob, OarResource, OarStatus
from gridbridge.batch.oar.oar_output_parser import WAITING as IDLE_STATES
from gridbridge.batch.oar.oar_rest_requests import BYTES, JSON, OarRestAnswer, send_request
from gridbridge.batch.oar.oar_server_query_commands import ACTIVE, DELETED, MOST_LINES, OURS, WAITS, YIELDS
from gridbridge.errors import CommandFailed, GridbridgeError, HostNotReached, ParseError
from gridbridge.model.job_request import JobSpec
from gridbridge.model.transfer_route import OarServerAccessSettings
from gridbridge.shell.program_runs import LIST_BYTES, CompletedProgram

Value = TypeVar("Value")
Row = Mapping[str, object]  # a row of OAR's database, by column

FOLDER = "/media/~/.gridbridge"  # where far.sh, too, stores the files of jobs
FORCED_FOLDER = "/media/force/~/.gridbridge"  # replaces an existing file
NOT_BEGUN = 75  # exit status for a submission that failed before oarsub ran, as of far.sh
KILLED_BEFORE, MISSING = 6, 404  # exit status of oardel; HTTP status
UNSAFE = '"$`\\'  # characters that the interface's shell would interpret
WHOLE = "gb_whole"  # column of the constant row
NO_RESOURCES = (*IDLE_STATES, HELD)  # states of jobs without resources
MOST_ROWS = 1_000_000
PORTION = 100  # ids or ranges of ids in one query, because Apache takes 8190 bytes of an address
DAY_S = 86400
EXITED = " command exited with status "
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


class OarRestFrontend:
    MOST_ENDS = PORTION

    def __init__(self, server: OarServerAccessSettings) -> None:
        self._server = server
        self.host = urlsplit(server.api).netloc

    def explain_request_refusal(self, spec: JobSpec) -> str:
        """Return which text of a request can't pass the interface's shell unchanged; empty if there is none."""
        request = spec.request
        texts = (
            oar_command_line_builders.oarsub_property_condition(request),
            request.targets,
            request.project,
            *request.types,
        )
        wrong = [text for text in texts if not text.isprintable() or any(sign in text for sign in UNSAFE)]
        return f"OAR's REST interface passes no {' '.join(UNSAFE)} on: {wrong[0]}" if wrong else ""

    def submit_held_job(self, spec: JobSpec, content: bytes) -> CompletedProgram:
        """Submit a held job, then store its file; without the file the held job is deleted again."""
        try:
            self.require_account()
            self._require_private_folder()
        except HostNotReached:
            raise
        except GridbridgeError as error:
            return CompletedProgram(("oarsub",), NOT_BEGUN, b"", str(error).encode())
        answer = _program_end("oarsub", self._send("POST", "/jobs", _oarsub_request(spec)))
        number = answer.stdout.partition(b"OAR_JOB_ID=")[2].partition(b"\n")[0].decode()
        if answer.status or not number.isdecimal():
            return answer
        name = f"{'array' if spec.tasks else 'job'}.{number}"
        try:
            self._store(name, b"#%d\n%b" % (len(content), content))
        except GridbridgeError as error:
            self._delete_array_and_files(number, name)
            return CompletedProgram(("oarsub",), NOT_BEGUN, b"", str(error).encode())
        self._remove_old_scripts()
        return answer

    def require_account(self) -> None:
        """Raise HostNotReached if the interface acts as another account than the access says."""
        table = self._send("GET", "/whoami").require_success().json_table()
        if table.get("authenticated_user") != self._server.api_account:
            why = f"{self.host} acts as {table.get('authenticated_user')!r}; expected {self._server.api_account!r}"
            raise HostNotReached(("GET /whoami",), None, b"", why.encode(), host=self.host)

    def _require_private_folder(self) -> None:
        mode = json.dumps({"mode": "700"}).encode()
        path = "/media/chmod/~/.gridbridge"
        if not self._send("POST", path, mode).is_success:
            self._store("new.rest", b"")  # makes the folder
            self._send("POST", path, mode).require_success()

    def _store(self, name: str, content: bytes) -> None:
        path = f"{FORCED_FOLDER}/{name}"
        self._send("POST", path, content, BYTES).require_success()

    def find_whole_scripts(self, names: Iterable[str]) -> Collection[str]:
        return [name for name in names if self._is_whole(name)]

    def _is_whole(self, name: str) -> bool:
        answer = self._send("GET", f"{FOLDER}/{name}")
        if answer.status == MISSING:
            return False
        size, _, content = answer.require_success().content.partition(b"\n")
        return size == b"#%d" % len(content)

    def find_jobs(self, condition: str) -> list[OarJob]:
        """Return jobs with their events, which the same query reads: an ended job's events are complete."""
        jobs: dict[int, Row] = {}
        events, assigned = defaultdict[int, list[Row]](list), defaultdict[int, list[Row]](list)
        for row in self._select(_jobs_and_events_query(condition), "job_id"):
            jobs[number := _number(row, "job_id")] = row
            events[number] += [row] if row["event_id"] is not None else []
        started = (job for job, row in jobs.items() if row["state"] not in NO_RESOURCES)
        for condition_on_ids in _conditions_on_ids("jobs.job_id", started):
            for row in self._select(ASSIGNED + condition_on_ids, "job_id"):
                assigned[_number(row, "job_id")].append(row)
        return [_oar_job(jobs[job], events[job], assigned[job]) for job in sorted(jobs)]

    def find_live_tasks(self, arrays: Sequence[str]) -> list[OarJob]:
        conditions = (oar_command_line_builders.live_array_tasks_condition(*portion) for portion in _portions(arrays))
        return [job for condition in conditions for job in self.find_jobs(condition)]

    def show_job(self, job: str) -> list[OarJob]:
        return self.find_jobs(f"job_id = {int(job)}")

    def show_job_and_usage(self, job: str) -> tuple[list[OarJob], Mapping[str, tuple[float, float]]]:
        return self.show_job(job), {}

    def query_status(self, job_ids: Collection[int], uncounted: Collection[int]) -> OarStatus:
        wanted = self.find_live_tasks([*map(str, sorted(job_ids))])
        by_id = {job.id: job for job in (*wanted, *self.find_jobs(OURS))}
        jobs = sorted(by_id.values(), key=lambda job: int(job.id))
        resources, yielding = self._resources_and_yielding_jobs()
        waiting = ((_number(row, "array_id"), _number(row, "waiting")) for row in self._select(WAITING, "array_id"))
        pending = sum(count for array, count in waiting if array not in uncounted)
        return OarStatus(resources=resources, jobs=jobs, pending=min(pending, MOST_LINES), yielding=yielding)

    def list_resources(self) -> list[OarResource]:
        return self._resources_and_yielding_jobs()[0]

    def _resources_and_yielding_jobs(self) -> tuple[list[OarResource], frozenset[str]]:
        rows: dict[str, dict[str, object]] = {}
        jobs, yielding = defaultdict[str, list[str]](list), set[str]()
        for row in self._select(RESOURCES, "resource_id"):
            number = str(row["resource_id"])
            rows[number] = {key: value for key, value in row.items() if key not in (WHOLE, "gb_job", "gb_queue")}
            if (job := row["gb_job"]) is not None:
                jobs[number].append(str(job))
                yielding |= {str(job)} if row["gb_queue"] == "besteffort" else set()
        return [OarResource(row | {"jobs": ", ".join(jobs[number])}) for number, row in rows.items()], frozenset(
            yielding
        )

    def hold(self, job: str) -> CompletedProgram:
        return self._act("oarhold", f"/jobs/{int(job)}/holds/new")

    def resume(self, job: str) -> CompletedProgram:
        return self._act("oarresume", f"/jobs/{int(job)}/resumptions/new")

    def resume_arrays(self, arrays: Iterable[str]) -> CompletedProgram:
        ends = [self._act("oarresume", f"/jobs/array/{int(array)}/resumptions/new") for array in arrays]
        return _worst_end(ends)

    def signal(self, job: str, name: str) -> CompletedProgram:
        return self._act("oardel", f"/jobs/{int(job)}/signals/{oar_command_line_builders.SIGNAL_NUMBERS[name]}")

    def delete(self, job: str) -> CompletedProgram:
        return self._delete_with_files(f"/jobs/{int(job)}/deletions/new", f"job.{job}")

    def delete_array(self, array: str) -> CompletedProgram:
        name = f"array.{array}"
        return self._delete_with_files(f"/jobs/array/{int(array)}/deletions/new", name, f"{name}.begun")

    def delete_tasks(self, array: str, indices: Mapping[str, str]) -> CompletedProgram:
        """Delete tasks one by one, because the interface takes no list of jobs."""
        return _worst_end([self._act("oardel", f"/jobs/{int(job)}/deletions/new") for job in indices])

    def _delete_with_files(self, path: str, *names: str) -> CompletedProgram:
        answer = self._act("oardel", path)
        if answer.status in (0, KILLED_BEFORE):
            self._remove_files(names)
        return answer

    def _delete_array_and_files(self, number: str, name: str) -> None:
        """Delete a job or array that was just submitted; raise CommandFailed if it may stay."""
        way = "array/" if name.startswith("array.") else ""
        self._delete_with_files(f"/jobs/{way}{number}/deletions/new", name).require_success()

    def _remove_files(self, names: Iterable[str]) -> None:
        for name in names:  # a started job has removed its file itself
            with suppress(GridbridgeError):
                self._send("DELETE", f"{FOLDER}/{name}")

    def _remove_old_scripts(self) -> None:
        """Remove at most PORTION files, older than a day, of ended jobs: nothing else removes what never started."""
        with suppress(GridbridgeError, ValueError, KeyError, TypeError):
            table = self._send("GET", "/media/ls/~/.gridbridge").require_success().json_table()
            latest = _number(table, "api_timestamp") - DAY_S
            items = [item for item in _require_rows(table["items"]) if _number(item, "mtime") < latest]
            parts = (str(item["name"]).split(".") for item in items)
            old = {int(words[1]): words[0] for words in parts if len(words) == 2 and words[1].isdecimal()}
            for numbers in [*_portions(sorted(old))][:1]:
                living = {int(job.array) for job in self.find_live_tasks([*map(str, numbers)])}
                names = [f"{old[number]}.{number}" for number in numbers if number not in living]
                self._remove_files([*names, *(f"{name}.begun" for name in names if name.startswith("array."))])

    def query_version(self) -> str:
        table = self._send("GET", "/version").require_success().json_table()
        return f"OAR {str(table.get('oar_version', '')).partition(' ')[0]}"

    def query_clock_s(self) -> float:
        try:
            return float(str(self._send("GET", "/version").require_success().json_table()["api_timestamp"]))
        except (KeyError, ValueError) as error:
            raise ParseError(f"{self.host}: the answer to /version has no time") from error

    def _act(self, program: str, path: str) -> CompletedProgram:
        return _program_end(program, self._send("POST", path, b"{}"))

    def _send(self, method: str, path: str, body: bytes | None = None, kind: str = JSON) -> OarRestAnswer:
        return send_request(self._server, method, path, body, kind, LIST_BYTES)

    def _select(self, query: str, key: str) -> list[Row]:
        """Return the rows of an SQL query; `key` is a column that is never null.

        The answer's `total` is of an earlier query, so it may differ.
        """
        joined = f"FROM (SELECT 1 AS {WHOLE}) AS entire LEFT JOIN ({query}) AS found ON 1 = 1"
        words = urlencode({"query": joined, "limit": MOST_ROWS}, safe="(),'=*")
        table = self._send("GET", f"/select_all?{words}").require_success().json_table()
        rows = _require_rows(table.get("items"))
        if not rows or len(rows) >= MOST_ROWS or any(key not in row for row in rows):
            raise ParseError(f"{self.host}: /select_all: the answer is incomplete")
        return [row for row in rows if row[key] is not None]


def _oarsub_request(spec: JobSpec) -> bytes:
    """Return the request for oarsub(1); the command has no character that the interface's shell would interpret."""
    request = spec.request
    words: dict[str, object] = {
        "name": spec.transfer,
        "hold": 1,
        "directory": "/",
        "stdout": "/dev/null",
        "stderr": "/dev/null",
        "resource": oar_command_line_builders.oarsub_resource_option(request, spec.slots),
        "command": _command("array", "OAR_ARRAY_ID") if spec.tasks else _command("job", "OAR_JOB_ID"),
        "property": oar_command_line_builders.oarsub_property_condition(request),
        "queue": request.targets,
        "project": request.project,
        "type": list(request.types),
        "array": str(spec.tasks or ""),
    }
    return json.dumps({key: value for key, value in words.items() if value}).encode()


def _command(kind: str, variable: str) -> str:
    """Return a command for sh and csh that runs a job's stored file, as oar_command_line_builders.TASK_COMMAND does."""
    path = f"join q(), @ENV{{HOME}}, q(/.gridbridge/{kind}.), @ENV{{{variable}}}"
    check = f"grep {{ -r or kill {oar_command_line_builders.UNSTARTED}, getpid }} {path}"
    return f"exec /usr/bin/perl -MPOSIX -e 'exec q(/usr/bin/perl), {check}'"


def _program_end(program: str, answer: OarRestAnswer) -> CompletedProgram:
    """Return how a program of OAR ended that the interface ran; raise CommandFailed if it says nothing of an end."""
    if answer.is_success:
        try:
            output = str(answer.json_table()["cmd_output"])
        except (ParseError, KeyError) as error:
            why = f"{error}: the outcome is unknown".encode()
            raise CommandFailed(answer.request, None, b"", why) from error
        return CompletedProgram((program,), 0, output.encode(), b"")
    who, is_end, rest = answer.message().partition(EXITED)
    number, _, output = rest.partition(": ")
    if not is_end or not number.isdecimal():
        answer.require_success()
    text = output.rpartition("\nCmd:\n")[0] or output.rpartition(". (Command was: ")[0] or output
    status = int(number) if who == "Oarsub" else os.waitstatus_to_exitcode(int(number))  # others: a wait status
    return CompletedProgram((program,), status, b"", text.encode())


def _worst_end(ends: Sequence[CompletedProgram]) -> CompletedProgram:
    """Return the first end of those with the largest exit status, KILLED_BEFORE counting as success."""
    return max(ends, key=lambda end: (end.status not in (0, KILLED_BEFORE), end.status))


def _jobs_and_events_query(condition: str) -> str:
    """Return the query for jobs that meet a condition, with a row for each event, and a row if there is none."""
    jobs = f"SELECT {COLUMNS} FROM jobs WHERE {condition}"  # noqa: S608 - conditions of oar_command_line_builders quote their values
    events = "event_logs.event_id, event_logs.type, event_logs.description"
    return (
        f"SELECT wanted.*, {events} FROM ({jobs}) AS wanted LEFT JOIN event_logs ON event_logs.job_id = wanted.job_id"  # noqa: S608
    )


def _oar_job(row: Row, events: list[Row], assigned: list[Row]) -> OarJob:
    assigned = sorted(assigned, key=lambda resource: _number(resource, "resource_id"))
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


def _number(row: Row, column: str) -> int:
    try:
        return int(str(row[column]))
    except (KeyError, ValueError) as error:
        raise ParseError(f"OAR's REST interface: {column} is no number") from error


def _require_rows(items: object) -> list[dict[str, object]]:
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
    for portion in _portions(spans):
        yield " OR ".join(f"{column} BETWEEN {first} AND {last}" for first, last in portion)


def _portions(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    for first in range(0, len(values), PORTION):
        yield values[first : first + PORTION]
