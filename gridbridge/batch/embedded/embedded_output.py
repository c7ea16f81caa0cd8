"""Writes and parses the output of the embedded cluster's program: blocks of key-value lines.

The last line is a point, which shows that an answer is complete. Hot programs load this module.
"""

from gridbridge.errors import ParseError
from gridbridge.model import key_value_lines

WHOLE = b".\n"
BETWEEN = b"\n"


class PrintedEmbeddedCluster:
    """The printed state of a whole embedded cluster; all values are text."""

    host: str
    slots: str
    used: str
    waiting: str  # waiting jobs that could start, without campaign tasks
    yielding: str  # used slots of preemptible jobs
    queues: str  # transfer queues, `NAME=USED/SLOTS` each

    def __init__(self, **values: str) -> None:
        _fill(self, values)


class PrintedEmbeddedJob:
    """The printed state of a waiting or running embedded job."""

    id: str
    name: str
    account: str
    owner: str
    facts: str  # state facts of model.states
    state: str  # state letters as in qstat
    slots: str
    since: str  # start or submission, in seconds since the epoch
    error: str  # why the job could not start
    message: str  # additional message for the owner
    queue: str  # transfer queue of the running job
    wanted: str  # requested queue, or the only queue in which the job may start
    array: str  # id of the job's array
    place: str  # index in the array

    def __init__(self, **values: str) -> None:
        _fill(self, values)


class PrintedEmbeddedJobEnd:
    """The printed end of an embedded job; no status and no signal if nobody saw the end."""

    account: str
    exit_status: str
    signal: str
    reason: str
    host: str
    user_s: str
    system_s: str
    wallclock_s: str
    killed_for: str  # value of model.job.JobKillReason; empty: not killed
    place: str  # index of a task in its array

    def __init__(self, **values: str) -> None:
        _fill(self, values)


Line = PrintedEmbeddedCluster | PrintedEmbeddedJob | PrintedEmbeddedJobEnd


def encode_embedded_answer(*blocks: Line) -> bytes:
    """Encode an answer as blocks of key-value lines with a final point."""
    return BETWEEN.join(key_value_lines.encode_key_value_lines(vars(block)) for block in blocks) + WHOLE


def parse_embedded_cluster_and_jobs(answer: bytes) -> tuple[PrintedEmbeddedCluster, list[PrintedEmbeddedJob]]:
    """Parse the answer of the verb `list`; ParseError if it is incomplete."""
    blocks = _blocks(answer)
    if not blocks:
        raise ParseError("embedded: an answer without its cluster")
    cluster = PrintedEmbeddedCluster(**key_value_lines.decode_key_value_lines(blocks[0], _keys(PrintedEmbeddedCluster)))
    keys = _keys(PrintedEmbeddedJob)
    return cluster, [PrintedEmbeddedJob(**key_value_lines.decode_key_value_lines(block, keys)) for block in blocks[1:]]


def parse_embedded_job_end(answer: bytes) -> PrintedEmbeddedJobEnd | None:
    """Parse the answer of the verb `ended`; None if the job's end is unknown."""
    return next(iter(parse_embedded_task_ends(answer)), None)


def parse_embedded_task_ends(answer: bytes) -> list[PrintedEmbeddedJobEnd]:
    """Parse the answer of the verb `ended` for an array: the known ends of its tasks."""
    keys = _keys(PrintedEmbeddedJobEnd)
    return [PrintedEmbeddedJobEnd(**key_value_lines.decode_key_value_lines(block, keys)) for block in _blocks(answer)]


def _blocks(answer: bytes) -> list[bytes]:
    if not (BETWEEN + answer).endswith(BETWEEN + WHOLE):
        raise ParseError("embedded: not a whole answer")
    body = answer.removesuffix(WHOLE)
    return [block.removesuffix(b"\n") + b"\n" for block in body.split(b"\n\n")] if body else []


def _keys(kind: type[Line]) -> tuple[str, ...]:
    return tuple(kind.__annotations__)


def _fill(block: Line, values: dict[str, str]) -> None:
    for key in _keys(type(block)):
        setattr(block, key, values.get(key, ""))
