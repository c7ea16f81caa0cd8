"""Messages between gridbridge's programs: files of lines `key=value`, readable by sh and Python.

In values `%` and bytes that are not printable ASCII become `%XX`. One write stores a whole message (at most
4096 bytes).
"""

from gridbridge.errors import ParseError

_HEX = "0123456789ABCDEF"


def encode_key_value_lines(values: dict[str, str]) -> bytes:
    """Encode values as lines `key=value`, without the empty values."""
    return "".join(f"{key}={_quote_message_value(value)}\n" for key, value in values.items() if value).encode()


def decode_key_value_lines(data: bytes, keys: tuple[str, ...] | None) -> dict[str, str]:
    """Decode lines `key=value`; raise ParseError for a bad line or a key outside `keys` (None: any key)."""
    if not data.endswith(b"\n"):
        raise ParseError("the last line is incomplete")
    values: dict[str, str] = {}
    for line in data[:-1].split(b"\n"):
        key, equals, value = line.decode("latin-1").partition("=")
        is_known = keys is None or key in keys
        if not equals or not is_known or key in values or not line.isascii():
            raise ParseError(f"line {line[:40]!r}: no key=value, or an unknown or repeated key")
        values[key] = _unquote_message_value(value)
    return values


def _quote_message_value(value: str) -> str:
    raw = value.encode("utf-8", "surrogateescape")
    if raw.isalnum() or not any(byte < 0x20 or byte > 0x7E or byte == 0x25 for byte in raw):
        return value
    return "".join(chr(byte) if 0x20 <= byte <= 0x7E and byte != 0x25 else f"%{byte:02X}" for byte in raw)


def _unquote_message_value(value: str) -> str:
    if "%" not in value:
        return value
    head, *escaped = value.split("%")
    try:
        raw = b"".join(
            bytes((_HEX.index(part[0]) * 16 + _HEX.index(part[1]),)) + part[2:].encode("ascii") for part in escaped
        )
    except (ValueError, IndexError) as error:
        raise ParseError(f"{value[:40]!r}: an invalid escape; expected %XX") from error
    return (head.encode("ascii") + raw).decode("utf-8", "surrogateescape")


MAX_BYTES = 4096
MOST_REASON = 200  # a stored or logged reason has at most this many characters
MOST_VALUE = 256  # a value other than a reason has at most this many characters
REQUEUE = 99  # exit status after which Grid Engine runs the task again (sge_shepherd(8))
ERROR = 100  # exit status after which Grid Engine puts the job into error state (sge_shepherd(8))


class TransferMessageKind:
    RECORD = "record"  # from a starter: the progress of a transfer
    ASK = "ask"  # from a restarted task's starter, which asks which transfer the task has
    INTENT = "intent"  # from a method of the queue: the desired state of the local job
    SPARED = "spared"  # from a method of the queue: the local job continues beyond its time limit h_rt
    ENDED = "ended"  # from the remote job's wrapper script: how the job ended, and its usage
    CLOSED = "closed"  # from a starter: no job of the transfer exists any more


class StarterPhase:
    """How far a starter has come; the starter records the phase before its next step."""

    SUBMITTING = "submitting"  # a held remote job may exist
    HELD = "held"  # the remote job id is known
    RELEASED = "released"  # the remote job may run


class TransferOutcome:
    """What the starter must do next: end as the remote job ended, or first act on the remote job."""

    EXIT = "exit"
    SIGNAL = "signal"  # the remote job was killed by the signal with number `signal`
    REQUEUE = "requeue"  # there is no remote job: exit with 99, so that Grid Engine runs the task again
    RECALL = "recall"  # bring the job home, if the remote job still waits
    AGREE = "agree"  # suspend, resume or delete the remote job, so that it is in state `desired`
    ERROR = "error"  # exit with 100, so that Grid Engine puts the local job into error state

    WISHES = (RECALL, AGREE)


class TransferFailureCause:
    UNKNOWN = "unknown"  # a cause that only a newer version of gridbridge knows
    UNREACHED = "unreached"  # the cluster gave no answer, or refuses the job at the moment
    DENIED = "denied"  # the cluster refuses all jobs from this site
    BLOCKED = "blocked"  # the cluster put the remote job into error state
    VANISHED = "vanished"  # the remote job is neither in the cluster's job list nor in its accounting
    DISPUTED = "disputed"  # the accounting records of the remote job contradict each other
    LOST = "lost"  # the accounting shows neither exit status nor signal of the remote job
    PREEMPTED = "preempted"
    HOST = "host"  # the remote host could not start the job
    BARRED = "barred"  # the cluster refuses the owner's jobs, maybe because of a limit
    FILES = "files"
    REFUSED = "refused"  # the cluster will never accept what the job requests
    UNMAPPABLE = "unmappable"  # what the job requests can't be translated for the cluster
    JOB = "job"  # the job's shell, input or output is missing
    HERE = "here"  # the starter failed at the home cluster
    RECALLED = "recalled"
    FENCED = "fenced"  # the remote job did not hold the claim, so it did not run the task
    UNGRANTED = "ungranted"  # the remote job was not granted the claim in time
    DROPPED = "dropped"  # the remote cluster is missing from gridbridge.toml


class DesiredLocalJobState:
    """The desired state of a local job; DEAD is final."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    DEAD = "dead"


class TransferMessage:
    """A message in the spool; all values are texts, and unused values are empty."""

    kind: str
    transfer: str
    at: str  # when the message was sent, in epoch seconds of the sender's clock
    remote: str
    queue: str
    phase: str
    remote_id: str
    wake: str  # name of the FIFO that wakes the starter
    desired: str
    outcome: str
    exit_status: str
    signal: str  # number of the signal that killed the job
    wallclock_s: str
    user_s: str
    system_s: str
    max_rss_kb: str
    host: str
    reason: str
    cause: str
    stage: str  # remote folder of the job's copied files; empty: no folder
    claim: str  # in a record: the claim's name; in an end message: the claim's holder, unless the remote job held it
    guard: str
    restarted: str  # yes: the task was started before and was rescheduled
    submitted: str  # submission time of the local job; needed because job numbers repeat
    rerun: str  # whether the local job may run again (qsub -r): yes, no, or empty (the queue decides)

    def __init__(self, **values: str) -> None:
        for key in KEYS:
            setattr(self, key, values.get(key, ""))

    def __eq__(self, message: object) -> bool:
        return isinstance(message, TransferMessage) and vars(self) == vars(message)

    def __repr__(self) -> str:
        values = encode_transfer_message(self).decode().strip().replace("\n", ", ")
        return f"{type(self).__name__}({values})"

    def with_changes(self, **values: str) -> "TransferMessage":
        return TransferMessage(**(vars(self) | values))

    def has_complete_outcome(self) -> bool:
        """Say whether the message has a job's complete outcome, of which a cut message lacks a part."""
        parts = {TransferOutcome.EXIT: self.exit_status, TransferOutcome.SIGNAL: self.signal}
        return bool(parts.get(self.outcome, self.outcome))


KEYS = tuple(TransferMessage.__annotations__)
CAUSES = frozenset(value for name, value in vars(TransferFailureCause).items() if name.isupper())


def encode_transfer_message(message: TransferMessage) -> bytes:
    return encode_key_value_lines(vars(message))


def encode_message_cutting_reason(message: TransferMessage) -> bytes:
    """Encode a message; if it is longer than MAX_BYTES, shorten its reason."""
    while len(data := encode_transfer_message(message)) > MAX_BYTES and message.reason:
        message = message.with_changes(reason=message.reason[: len(message.reason) // 2])
    return data


def shorten_reason_for_storage(sentence: str) -> str:
    """Shorten another program's sentence so that it can be stored as a reason."""
    return sentence if len(sentence) <= MOST_REASON else f"{sentence[: MOST_REASON - 3]}..."


def find_key_of_too_long_value(message: TransferMessage) -> str:
    """Return the first key whose value is too long, else ''; the reason and a record's folder may be long."""
    free = ("reason", "stage") if message.kind == TransferMessageKind.RECORD else ("reason",)
    values = vars(message).items()
    return next((key for key, value in values if len(value) > MOST_VALUE and key not in free), "")


def decode_transfer_message(data: bytes) -> TransferMessage:
    """Decode a message; raise ParseError for invalid bytes; a newer version's cause becomes UNKNOWN."""
    if len(data) > MAX_BYTES:
        raise ParseError(f"message: {len(data)} bytes; expected at most {MAX_BYTES}")
    message = TransferMessage(**decode_key_value_lines(data, KEYS))
    if message.cause and message.cause not in CAUSES:
        message.cause = TransferFailureCause.UNKNOWN
    return message
