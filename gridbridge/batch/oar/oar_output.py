"""What OAR's programs print: bytes to records (facts: oarstat -f -J and oarnodes -J of 2.5.9).

Nothing at all means that there is nothing. A job's events come in no order: their ids have one.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from gridbridge.batch.oar.oar_commands import BREAK, RESUME, SUSPEND, WHOLE
from gridbridge.batch.state_letters import job_letters
from gridbridge.errors import ParseError
from gridbridge.model.campaigns.campaign_names import PREFIX
from gridbridge.model.states import UNSEEN, JobFact, JobState

ENDED = ("Terminated", "Error")
HELD = "Hold"
WAITING = ("Waiting", "toAckReservation")
WAITING_LETTER = "W"  # the state of a waiting job in a line
STARTED = ("toLaunch", "Launching")
ACTIVE = (*STARTED, "Running", "Suspended", "Resuming", "Finishing")  # they have resources
FACTS = {
    "Waiting": (JobFact.WAITING,),
    "toAckReservation": (JobFact.WAITING,),
    HELD: (JobFact.WAITING, JobFact.HELD),
    "toLaunch": (JobFact.RUNNING, JobFact.STARTING),
    "Launching": (JobFact.RUNNING, JobFact.STARTING),
    "Running": (JobFact.RUNNING,),
    "Suspended": (JobFact.RUNNING, JobFact.SUSPENDED, JobFact.BY_HAND),
    "Resuming": (JobFact.RUNNING, JobFact.SUSPENDED, JobFact.BY_HAND),
    "Finishing": (JobFact.RUNNING,),
    "toError": (JobFact.RUNNING, JobFact.DELETING),
}
ARRAYS = f"{PREFIX}."
BEST_EFFORT = "besteffort"  # the queue of jobs of that type, whatever queue they asked for
INNER = "inner="  # the type of a job on the resources of a container job
NEVER_HALTED = 2147483647  # available_upto, in seconds of the clock
MAY_REST = 2147483646  # the same, of a node that may be halted and woken
UNCHANGED = "UnChanged"  # next_state of a resource of which no change is under way
DELETED = "FRAG_JOB_REQUEST"
RELEASED = "RESUME_JOB"
ARRAY = slice(10, 19)  # columns of a line with --array
WITH_ARRAY = 80  # the width of such a line
LETTER_AT = {73: 61, WITH_ARRAY: 70}
SUSPENDED, RESUMED = f"SIGNAL_{SUSPEND}", f"SIGNAL_{RESUME}"  # oardel -s notes what it sent


class OarstatLine(NamedTuple):
    """A job in a line of oarstat --format 1."""

    id: str
    array: str  # empty without --array
    letter: str  # of its state

    @property
    def is_waiting(self) -> bool:
        """Whether the job waits for its start."""
        return self.letter == WAITING_LETTER


class OarJob:
    """One job as oarstat shows it."""

    __slots__ = (
        "after",
        "array",
        "copy_of",
        "events",
        "exit_code",
        "hosts",
        "id",
        "is_inner",
        "is_reservation",
        "message",
        "name",
        "owner",
        "place",
        "queue",
        "reserved",
        "resources",
        "started_at",
        "state",
        "stopped_at",
        "submitted_at",
        "wanted",
    )

    def __init__(self, shown: dict[str, object]) -> None:
        """Take what is shown; ParseError when something of it is missing."""
        try:
            self.id = str(_number(shown["Job_Id"]))
            self.array = str(_number(shown.get("array_id") or shown["Job_Id"]))
            self.place = _number(shown.get("array_index") or 1)
            self.name = str(shown["name"] or "")
            self.owner = str(shown["owner"])
            self.state = str(shown["state"])
            self.queue = str(shown["queue"])
            self.message = str(shown["message"] or "")
            self.submitted_at = _number(shown["submissionTime"])
            self.started_at = _number(shown["startTime"])
            self.stopped_at = _number(shown.get("stopTime") or 0)
            code = shown["exit_code"]
            self.exit_code = None if code is None else _number(code)
            self.copy_of = _number(shown.get("resubmit_job_id") or 0)
            self.resources = frozenset(map(str, _items(shown["assigned_resources"])))
            self.hosts = tuple(map(str, _items(shown["assigned_network_address"])))
            self.is_reservation = shown.get("reservation", "None") != "None"
            self.reserved = frozenset(_table(shown.get("reserved_resources")))
            self.after = frozenset(map(str, _items(shown.get("dependencies") or [])))
            self.wanted = str(shown.get("wanted_resources") or "")
            self.is_inner = any(
                str(kind).startswith(INNER) for kind in _items(shown.get("types") or [])
            )
            self.events = _events(shown["events"])
        except (KeyError, TypeError, ValueError) as error:
            raise ParseError(f"oarstat: no whole job: {error!r}") from error

    @property
    def account(self) -> str:
        """The transfer that it is of: its name, which can't be changed."""
        return self.name

    @property
    def is_of_array(self) -> bool:
        """Whether it is a task of an array under the name of a campaign's."""
        return self.name.startswith(ARRAYS)

    @property
    def is_besteffort(self) -> bool:
        """Whether it makes way for others."""
        return self.queue == BEST_EFFORT

    @property
    def script(self) -> str:
        """The name under which its script waits for it."""
        return f"array.{self.array}" if self.is_of_array else f"job.{self.id}"

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state in ENDED

    @property
    def is_waiting(self) -> bool:
        """Whether it may be started, as far as the server has come to what was asked."""
        return self.state in WAITING

    @property
    def is_starting(self) -> bool:
        """Whether what it is will soon be told: it waits, or is being started."""
        return self.state in (*WAITING, *STARTED)

    @property
    def is_active(self) -> bool:
        """Whether it has resources, or is about to have them."""
        return not (self.is_over or self.is_waiting or self.is_held)

    @property
    def is_running(self) -> bool:
        """Whether it runs, or was stopped by its keeper."""
        return self.state == "Running"

    @property
    def is_held(self) -> bool:
        """Whether it is held."""
        return self.state == HELD

    @property
    def is_deleted(self) -> bool:
        """Whether somebody deleted it, or OAR itself did; it may live on for a while."""
        return DELETED in self.event_types

    @property
    def is_new(self) -> bool:
        """Whether it is held as it was submitted: neither released nor deleted since."""
        return self.state == HELD and not {RELEASED, DELETED} & set(self.event_types)

    @property
    def is_suspended(self) -> bool:
        """Whether the last that its keeper was told is to stop, or OAR itself suspended it."""
        signals = [kind for kind in self.event_types if kind in (SUSPENDED, RESUMED)]
        return self.state == "Suspended" or (self.state in ACTIVE and signals[-1:] == [SUSPENDED])

    @property
    def event_types(self) -> list[str]:
        """What happened to it, in that order."""
        return [kind for kind, _ in self.events]

    @property
    def known(self) -> JobState:
        """What it is, as others call it; of an unknown state the word is shown."""
        if self.is_over:
            return UNSEEN
        word = "Suspended" if self.is_suspended else self.state
        facts = {
            *FACTS.get(word, (JobFact.UNKNOWN,)),
            *((JobFact.DELETING,) if self.is_deleted else ()),
        }
        return JobState(facts, word if JobFact.UNKNOWN in facts else job_letters(facts))

    def why(self, *kinds: str) -> str:
        """Return the words of the first event of these kinds, empty when there is none."""
        texts = (f"{kind}: {words}" for kind, words in self.events if kind in kinds)
        return next(texts, "")


class OarResource:
    """One resource, which is one slot, as oarnodes shows it."""

    __slots__ = (
        "host",
        "id",
        "is_alive",
        "is_drained",
        "is_settled",
        "is_slot",
        "is_suspected",
        "jobs",
        "properties",
        "standby_until",
        "tags",
        "upto",
    )

    def __init__(self, shown: dict[str, object]) -> None:
        """Take what is shown; ParseError when something of it is missing."""
        try:
            self.id = str(shown["resource_id"])
            self.host = str(shown["network_address"])
            self.is_alive = shown["state"] == "Alive"
            self.is_suspected = shown["state"] == "Suspected"
            self.is_drained = shown.get("drain") == "YES"
            self.is_slot = shown["type"] == "default"
            self.upto = _number(shown.get("available_upto", NEVER_HALTED))
            is_standby = shown["state"] == "Absent" and self.upto != NEVER_HALTED
            self.standby_until = self.upto if is_standby else 0
            self.is_settled = shown.get("next_state", UNCHANGED) == UNCHANGED
            self.tags = str(shown.get("gb_tags") or "")
            self.properties = shown
            self.jobs = frozenset(str(shown.get("jobs") or "").replace(",", " ").split())
        except (KeyError, ValueError) as error:
            raise ParseError(f"oarnodes: no whole resource: {error!r}") from error

    @property
    def is_halted(self) -> bool:
        """Whether it is absent because it was halted, and may be woken."""
        return self.standby_until == MAY_REST

    def can_run(self, now: float) -> bool:
        """Say whether it runs jobs: it is alive, or OAR halted it and wakes it for one.

        What it never halts is not in standby when it is absent.
        """
        return self.is_alive or now < self.standby_until


def read_jobs(answer: bytes) -> list[OarJob]:
    """Return the jobs of an answer of oarstat, in the order of their ids."""
    return sorted(map(OarJob, _objects(answer)), key=lambda job: int(job.id))


def read_parts(answer: bytes, least: int = 2) -> list[bytes]:
    """Return the parts of an answer; ParseError when a part or the end is missing."""
    parts = answer.removesuffix(WHOLE).split(BREAK)
    if len(parts) < least or not answer.endswith(WHOLE):
        raise ParseError("oarnodes and oarstat: not a whole answer")
    return parts


def read_cluster(answer: bytes) -> tuple[list[OarResource], list[OarJob]]:
    """Return the nodes and the jobs of an answer that begins with them."""
    nodes, jobs, *_ = read_parts(answer)
    return read_resources(nodes), read_jobs(jobs)


def read_brief(answer: bytes) -> list[OarJob]:
    """Return the jobs of `oarstat -J` without `-f`, which shows neither events nor ends."""
    return [OarJob({"exit_code": None, "events": []} | shown) for shown in _objects(answer)]


def read_lines(answer: bytes) -> Iterator[OarstatLine]:
    """Give the jobs of lines; a line that a line feed in a name cuts has not the right width."""
    for text in answer.decode("utf-8", "surrogateescape").split("\n"):
        job, at = text.partition(" ")[0], LETTER_AT.get(len(text))
        if at is not None and job.isdecimal():
            yield OarstatLine(job, text[ARRAY].strip() if len(text) == WITH_ARRAY else "", text[at])


def read_end(answer: bytes) -> tuple[list[OarJob], dict[str, tuple[float, float]]]:
    """Return what `show_end` shows: the job, and by account the user and system time it used."""
    job, _, usage = answer.partition(BREAK)
    used = {}
    for line in usage.decode("ascii", "replace").splitlines():
        with suppress(ValueError):  # one that tells nothing
            account, user_s, system_s = line.split(" ")
            used[account] = float(user_s), float(system_s)
    return read_jobs(job), used


def read_resources(answer: bytes) -> list[OarResource]:
    """Return the resources of an answer of oarnodes."""
    return list(map(OarResource, _objects(answer)))


def read_properties(answer: bytes) -> frozenset[str]:
    """Return the names of the properties that resources have, of an answer of oarnodes.

    ParseError without any resource: that tells nothing.
    """
    if names := frozenset(name.lower() for resource in _objects(answer) for name in resource):
        return names
    raise ParseError("oarnodes: no resource")


def _objects(answer: bytes) -> list[dict[str, object]]:
    if not answer.strip():
        return []
    try:
        shown = json.loads(answer.decode("utf-8", "surrogateescape"), strict=False)
    except ValueError as error:
        raise ParseError(f"OAR: no JSON: {error}") from error
    if not isinstance(shown, dict) or not all(isinstance(entry, dict) for entry in shown.values()):
        raise ParseError("OAR: JSON of another form")
    return list(shown.values())


def _events(shown: object) -> tuple[tuple[str, str], ...]:
    events = sorted(_items(shown), key=lambda event: int(event["event_id"]))
    return tuple((str(event["type"]), str(event["description"]).strip()) for event in events)


def _items(shown: object) -> list[dict[str, str]]:
    if not isinstance(shown, list):
        raise TypeError(f"{shown!r} is no list")
    return shown


def _table(shown: object) -> dict[str, object]:
    if not isinstance(shown, dict | None):
        raise TypeError(f"{shown!r} is no table")
    return shown or {}


def _number(shown: object) -> int:
    return int(str(shown))
