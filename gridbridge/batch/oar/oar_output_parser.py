"""Parses the output of OAR's programs (measured: oarstat -f -J and oarnodes -J of 2.5.9)."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from gridbridge.batch.oar.oar_command_line_builders import BREAK, RESUME, SIGNAL_NUMBERS, SUSPEND, WHOLE
from gridbridge.batch.qstat_state_letters import render_job_state_letters
from gridbridge.errors import ParseError
from gridbridge.model.campaigns.campaign_file_and_array_names import PREFIX
from gridbridge.model.job_and_queue_states import UNSEEN, JobState, JobStateFact

ENDED = ("Terminated", "Error")
HELD = "Hold"
WAITING = ("Waiting", "toAckReservation")
WAITING_LETTER = "W"
STARTED = ("toLaunch", "Launching")
ACTIVE = (*STARTED, "Running", "Suspended", "Resuming", "Finishing")  # states in which a job has resources
FACTS = {
    "Waiting": (JobStateFact.WAITING,),
    "toAckReservation": (JobStateFact.WAITING,),
    HELD: (JobStateFact.WAITING, JobStateFact.HELD),
    "toLaunch": (JobStateFact.RUNNING, JobStateFact.STARTING),
    "Launching": (JobStateFact.RUNNING, JobStateFact.STARTING),
    "Running": (JobStateFact.RUNNING,),
    "Suspended": (JobStateFact.RUNNING, JobStateFact.SUSPENDED, JobStateFact.BY_HAND),
    "Resuming": (JobStateFact.RUNNING, JobStateFact.SUSPENDED, JobStateFact.BY_HAND),
    "Finishing": (JobStateFact.RUNNING,),
    "toError": (JobStateFact.RUNNING, JobStateFact.DELETING),
}
ARRAYS = f"{PREFIX}."
BEST_EFFORT = "besteffort"  # queue in which OAR puts each best-effort job
INNER = "inner="  # prefix of the job type that puts a job into a container job
NEVER_HALTED = 2147483647  # available_upto of an ordinary node
MAY_REST = 2147483646  # available_upto of a node that may be halted and woken
UNCHANGED = "UnChanged"  # next_state of a resource whose state does not change
DELETED = "FRAG_JOB_REQUEST"
RELEASED = "RESUME_JOB"
ARRAY = slice(10, 19)  # columns of the array id in a line of `oarstat --array`
WITH_ARRAY = 80  # width of a line of `oarstat --array`
LETTER_AT = {73: 61, WITH_ARRAY: 70}
PARTS_OF_STATUS = 4
_MOST = 2**63 - 1
# types of the events that `oardel -s` records; the REST interface takes only numbers of signals
SUSPENDED = (f"SIGNAL_{SUSPEND}", f"SIGNAL_{SIGNAL_NUMBERS[SUSPEND]}")
RESUMED = (f"SIGNAL_{RESUME}", f"SIGNAL_{SIGNAL_NUMBERS[RESUME]}")


class OarstatJobLine(NamedTuple):
    """A job as `oarstat --format 1` prints it in one line."""

    id: str
    array: str  # array id; empty without option --array
    letter: str

    @property
    def is_waiting(self) -> bool:
        return self.letter == WAITING_LETTER


class OarJob:
    """A job as `oarstat -f -J` prints it, with state, resources, events and exit code."""

    def __init__(self, printed_fields: dict[str, object]) -> None:
        """Read the fields that oarstat printed; raise ParseError if a field is missing."""
        try:
            self.id = str(_parse_integer(printed_fields["Job_Id"]))
            self.array = str(_parse_integer(printed_fields.get("array_id") or printed_fields["Job_Id"]))
            self.place = _parse_integer(printed_fields.get("array_index") or 1)
            self.name = str(printed_fields["name"] or "")
            self.owner = str(printed_fields["owner"])
            self.state = str(printed_fields["state"])
            self.queue = str(printed_fields["queue"])
            self.message = str(printed_fields["message"] or "")
            self.submitted_at = _parse_integer(printed_fields["submissionTime"])
            self.started_at = _parse_integer(printed_fields["startTime"])
            self.stopped_at = _parse_integer(printed_fields.get("stopTime") or 0)
            code = printed_fields["exit_code"]
            self.exit_code = None if code is None else _parse_integer(code)
            self.copy_of = _parse_integer(printed_fields.get("resubmit_job_id") or 0)
            self.resources = frozenset(map(str, _require_list(printed_fields["assigned_resources"])))
            self.hosts = tuple(map(str, _require_list(printed_fields["assigned_network_address"])))
            self.is_reservation = printed_fields.get("reservation", "None") != "None"
            self.reserved = frozenset(_require_table(printed_fields.get("reserved_resources")))
            self.after = frozenset(map(str, _require_list(printed_fields.get("dependencies") or [])))
            self.wanted = str(printed_fields.get("wanted_resources") or "")
            self.is_inner = any(
                str(kind).startswith(INNER) for kind in _require_list(printed_fields.get("types") or [])
            )
            events = sorted(_require_list(printed_fields["events"]), key=lambda event: int(event["event_id"]))
            self.events = [(str(event["type"]), str(event["description"]).strip()) for event in events]
        except (KeyError, TypeError, ValueError) as error:
            raise ParseError(f"oarstat: a job is incomplete: {error!r}") from error

    @property
    def account(self) -> str:
        """The job's name, which is the name of its transfer or array."""
        return self.name

    @property
    def is_array_task(self) -> bool:
        """Whether the job's name is that of a campaign's array."""
        return self.name.startswith(ARRAYS)

    @property
    def is_besteffort(self) -> bool:
        return self.queue == BEST_EFFORT

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def is_waiting(self) -> bool:
        """Whether the job waits and may start; True until OAR has carried out a requested hold or deletion."""
        return self.state in WAITING

    @property
    def is_waiting_or_starting(self) -> bool:
        """Whether the job waits or is starting; its state may change soon."""
        return self.state in (*WAITING, *STARTED)

    @property
    def has_or_gets_resources(self) -> bool:
        return not (self.has_ended or self.is_waiting or self.is_held)

    @property
    def is_running(self) -> bool:
        """Whether the job runs; a job that keeper.pl has stopped also counts as running."""
        return self.state == "Running"

    @property
    def is_held(self) -> bool:
        return self.state == HELD

    @property
    def event_types(self) -> list[str]:
        """The types of the job's events, the oldest event first."""
        return [kind for kind, _ in self.events]

    @property
    def script_file_name(self) -> str:
        """The name of the file that stores the job's script until the start."""
        return f"array.{self.array}" if self.is_array_task else f"job.{self.id}"

    @property
    def is_deleted(self) -> bool:
        """Whether a user or OAR deleted the job; a deleted job may live for a while."""
        return DELETED in self.event_types

    @property
    def is_held_since_submission(self) -> bool:
        """Whether the job has been held since its submission, and neither released nor deleted."""
        return self.state == HELD and not {RELEASED, DELETED} & set(self.event_types)

    @property
    def is_suspended(self) -> bool:
        """Whether OAR has suspended the job, or the last signal told keeper.pl to stop the job."""
        signals = [kind for kind in self.event_types if kind in (*SUSPENDED, *RESUMED)]
        return self.state == "Suspended" or (self.state in ACTIVE and bool(signals) and signals[-1] in SUSPENDED)

    @property
    def job_state(self) -> JobState:
        """The job's state as facts; for an unknown state OAR's own word is kept."""
        if self.has_ended:
            return UNSEEN
        word = "Suspended" if self.is_suspended else self.state
        facts = {*FACTS.get(word, (JobStateFact.UNKNOWN,)), *((JobStateFact.DELETING,) if self.is_deleted else ())}
        return JobState(facts, word if JobStateFact.UNKNOWN in facts else render_job_state_letters(facts))

    def first_event_text(self, *kinds: str) -> str:
        texts = (f"{kind}: {words}" for kind, words in self.events if kind in kinds)
        return next(texts, "")


class OarResource:
    """An OAR resource as oarnodes prints it; one resource is one slot."""

    def __init__(self, printed_fields: dict[str, object]) -> None:
        """Read the fields that oarnodes printed; raise ParseError if a field is missing."""
        try:
            self.id = str(printed_fields["resource_id"])
            self.host = str(printed_fields["network_address"])
            self.is_alive = printed_fields["state"] == "Alive"
            self.is_suspected = printed_fields["state"] == "Suspected"
            self.is_drained = printed_fields.get("drain") == "YES"
            self.is_slot = printed_fields["type"] == "default"
            self.upto = _parse_integer(printed_fields.get("available_upto", NEVER_HALTED))
            is_standby = printed_fields["state"] == "Absent" and self.upto != NEVER_HALTED
            self.standby_until = self.upto if is_standby else 0
            self.is_settled = printed_fields.get("next_state", UNCHANGED) == UNCHANGED
            self.tags = str(printed_fields.get("gb_tags") or "")
            self.properties = printed_fields
            self.jobs = frozenset(str(printed_fields.get("jobs") or "").replace(",", " ").split())
        except (KeyError, ValueError) as error:
            raise ParseError(f"oarnodes: a resource is incomplete: {error!r}") from error

    @property
    def is_halted(self) -> bool:
        """Whether the node is halted and can be woken."""
        return self.standby_until == MAY_REST

    def can_run_jobs(self, now: float) -> bool:
        """Say whether the resource is alive, or its node is halted and OAR wakes the node for a job."""
        return self.is_alive or now < self.standby_until


class OarStatus(NamedTuple):
    """The answer to a query about a whole OAR server."""

    resources: list[OarResource]
    jobs: list[OarJob]  # wanted jobs, and jobs with a transfer's name, by job id
    pending: int  # ordinary waiting jobs
    yielding: frozenset[str]  # ids of best-effort jobs that have resources


def parse_oar_status(answer: bytes) -> OarStatus:
    """Parse the answer to oar_status_query_argv; if a job is in both lists, the second list counts."""
    nodes, waiting, active, counted = split_combined_oar_answer(answer, PARTS_OF_STATUS)
    by_id = {int(job.id): job for job in parse_oar_jobs_without_details(waiting) + parse_oarstat_jobs(active)}
    lines = tuple(parse_oarstat_lines(counted))
    return OarStatus(
        resources=parse_oar_resources(nodes),
        jobs=[by_id[number] for number in sorted(by_id)],
        pending=sum(line.is_waiting for line in lines),
        yielding=frozenset(line.id for line in lines if not line.is_waiting),
    )


def parse_oarstat_jobs(answer: bytes) -> list[OarJob]:
    """Parse oarstat's JSON into jobs, ordered by job id; empty output means no jobs."""
    return sorted(map(OarJob, _parse_json_objects(answer)), key=lambda job: int(job.id))


def split_combined_oar_answer(answer: bytes, least: int = 2) -> list[bytes]:
    """Split the output of several programs; raise ParseError if a part or the last line is missing."""
    parts = answer.removesuffix(WHOLE).split(BREAK)
    if len(parts) < least or not answer.endswith(WHOLE):
        raise ParseError("oarnodes and oarstat: the answer is incomplete")
    return parts


def parse_oar_jobs_without_details(answer: bytes) -> list[OarJob]:
    """Parse the jobs of `oarstat -J`, which prints neither events nor ends."""
    return [OarJob({"exit_code": None, "events": []} | shown) for shown in _parse_json_objects(answer)]


def parse_oarstat_lines(answer: bytes) -> Iterator[OarstatJobLine]:
    """Yield the jobs in lines of plain oarstat; skip lines that do not have its number of characters."""
    for text in answer.decode("utf-8", "surrogateescape").split("\n"):
        job, at = text.partition(" ")[0], LETTER_AT.get(len(text))
        if at is not None and job.isdecimal():
            yield OarstatJobLine(job, text[ARRAY].strip() if len(text) == WITH_ARRAY else "", text[at])


def parse_oar_job_end_and_usage(answer: bytes) -> tuple[list[OarJob], dict[str, tuple[float, float]]]:
    """Parse a job, and the CPU times that keeper.pl recorded: {user: (user time, system time)}."""
    job, _, usage = answer.partition(BREAK)
    used = {}
    for line in usage.decode("ascii", "replace").splitlines():
        with suppress(ValueError):  # malformed lines are skipped
            account, user_s, system_s = line.split(" ")
            used[account] = float(user_s), float(system_s)
    return parse_oarstat_jobs(job), used


def parse_oar_resources(answer: bytes) -> list[OarResource]:
    """Parse oarnodes' JSON into resources; empty output means no nodes."""
    return list(map(OarResource, _parse_json_objects(answer)))


def oar_property_names(resources: list[OarResource]) -> frozenset[str]:
    """Return the property names of all resources; raise ParseError if there are no resources."""
    if names := frozenset(name.lower() for resource in resources for name in resource.properties):
        return names
    raise ParseError("oarnodes: no resources printed")


def _parse_json_objects(answer: bytes) -> list[dict[str, object]]:
    if not answer.strip():
        return []
    try:
        shown = json.loads(answer.decode("utf-8", "surrogateescape"), strict=False)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"OAR: the output is not JSON: {error}") from error
    if not isinstance(shown, dict) or not all(isinstance(entry, dict) for entry in shown.values()):
        raise ParseError("OAR: the JSON has an unknown structure")
    return list(shown.values())


def _require_list(value: object) -> list[dict[str, str]]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _require_table(value: object) -> dict[str, object]:
    if not isinstance(value, dict | None):
        raise TypeError(f"{value!r} is not a table")
    return value or {}


def _parse_integer(value: object) -> int:
    """Parse an integer; raise ValueError for a number that no column of OAR's database can have."""
    number = int(str(value))
    if abs(number) > _MOST:
        raise ValueError(f"{str(value)[:40]} is too large")
    return number
