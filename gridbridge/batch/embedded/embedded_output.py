"""Writes and reads what the embedded cluster's program prints: blocks of key-value lines.

The last line is a point, which half an answer lacks. Hot programs load this module.
"""

from gridbridge.errors import ParseError
from gridbridge.model import key_value_lines

WHOLE = b".\n"
BETWEEN = b"\n"


class ClusterLine:
    """The cluster as a whole; every value here and below is text, empty where it says nothing."""

    host: str
    slots: str
    used: str
    waiting: str  # jobs that could start, campaigns' tasks apart
    yielding: str  # of those used: by jobs that make way
    queues: str  # the transfer queues, `NAME=USED/SLOTS` each

    def __init__(self, **values: str) -> None:
        _fill(self, values)


class JobLine:
    """A job that waits or runs."""

    id: str
    name: str
    account: str
    owner: str
    facts: str  # what it is, words of model.states
    state: str  # the same as it is shown
    slots: str
    since: str  # its start or submission, seconds since the epoch
    error: str  # why it could not be started
    message: str  # what else there is to know
    queue: str  # the transfer queue that it runs in
    wanted: str  # the queue that it asked for, or has to stay in
    array: str  # the number of its array
    place: str  # in that array

    def __init__(self, **values: str) -> None:
        _fill(self, values)


class EndLine:
    """The end of a job; neither exit status nor signal when nobody saw it."""

    account: str
    exit_status: str
    signal: str
    reason: str
    host: str
    user_s: str
    system_s: str
    wallclock_s: str
    killed_for: str  # a word of model.job.KilledFor
    place: str  # of a task in its array

    def __init__(self, **values: str) -> None:
        _fill(self, values)


Line = ClusterLine | JobLine | EndLine


def encode(*blocks: Line) -> bytes:
    """Write an answer."""
    return BETWEEN.join(key_value_lines.encode_lines(vars(block)) for block in blocks) + WHOLE


def read_jobs(answer: bytes) -> tuple[ClusterLine, list[JobLine]]:
    """Read the answer of `list`; ParseError for anything but a whole one."""
    blocks = _blocks(answer)
    if not blocks:
        raise ParseError("embedded: an answer without its cluster")
    cluster = ClusterLine(**key_value_lines.decode_lines(blocks[0], _keys(ClusterLine)))
    keys = _keys(JobLine)
    return cluster, [JobLine(**key_value_lines.decode_lines(block, keys)) for block in blocks[1:]]


def read_end(answer: bytes) -> EndLine | None:
    """Read the answer of `ended`: None when no end is known."""
    return next(iter(read_ends(answer)), None)


def read_ends(answer: bytes) -> list[EndLine]:
    """Read the answer of `ended` about an array: the ends of its tasks that are known."""
    keys = _keys(EndLine)
    return [EndLine(**key_value_lines.decode_lines(block, keys)) for block in _blocks(answer)]


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
