"""Lines of `key=value`, the form of all messages between gridbridge processes.

A value is printable ASCII. Every other byte, and `%`, is written `%XX`, so that sh and Python can read and
write the lines. The module imports only the errors, for fast starters.

A message file is `key=value` lines (key_value_lines.py) of at most 4096 bytes, so that a single write stores
the whole message.
"""

from gridbridge.errors import ParseError

_HEX = "0123456789ABCDEF"


def encode_key_value_lines(values: dict[str, str]) -> bytes:
    """Encode values as lines of key=value, without empty values."""
    return "".join(f"{key}={_quote(value)}\n" for key, value in values.items() if value).encode()


def decode_key_value_lines(data: bytes, keys: tuple[str, ...] | None) -> dict[str, str]:
    """Decode key=value lines; ParseError for invalid keys or escapes, or a truncated end.

    Unknown and repeated keys are errors. With `keys` None, every key is allowed.
    """
    if not data.endswith(b"\n"):
        raise ParseError("the last line is incomplete")
    values: dict[str, str] = {}
    for line in data[:-1].split(b"\n"):
        key, equals, value = line.decode("latin-1").partition("=")
        is_known = keys is None or key in keys
        if not equals or not is_known or key in values or not line.isascii():
            raise ParseError(f"unknown, repeated or broken line {line[:40]!r}")
        values[key] = _unquote(value)
    return values


def _quote(value: str) -> str:
    raw = value.encode("utf-8", "surrogateescape")
    if raw.isalnum() or not any(byte < 0x20 or byte > 0x7E or byte == 0x25 for byte in raw):
        return value
    return "".join(chr(byte) if 0x20 <= byte <= 0x7E and byte != 0x25 else f"%{byte:02X}" for byte in raw)


def _unquote(value: str) -> str:
    if "%" not in value:
        return value
    head, *escaped = value.split("%")
    try:
        raw = b"".join(
            bytes((_HEX.index(part[0]) * 16 + _HEX.index(part[1]),)) + part[2:].encode("ascii") for part in escaped
        )
    except (ValueError, IndexError) as error:
        raise ParseError(f"bad escape in {value[:40]!r}") from error
    return (head.encode("ascii") + raw).decode("utf-8", "surrogateescape")


MAX_BYTES = 4096
MOST_REASON = 200  # largest number of characters in a stored or logged reason
MOST_VALUE = 256  # largest number of characters in any other value, such as a host name
REQUEUE = 99  # exit status after which Grid Engine runs the task again (sge_shepherd(8))
ERROR = 100  # exit status that puts the job into error state (sge_shepherd(8))


class TransferMessageKind:
    """The kind of a spool message."""

    RECORD = "record"  # from the starter: the progress; the file proves the transfer's owner
    ASK = "ask"  # from a restarted task's starter: a query for the transfer to adopt
    INTENT = "intent"  # from a method: the state that the local job should have
    SPARED = "spared"  # from a method: the local h_rt has passed and the job goes on
    ENDED = "ended"  # from the remote wrapper: the job's end and usage
    CLOSED = "closed"  # from the starter: the transfer is over and has no job any more


class StarterPhase:
    """The phase of a starter's progress, recorded before the starter's next act."""

    SUBMITTING = "submitting"  # a remote job may exist, held, under the transfer's name
    HELD = "held"  # the remote job id is known
    RELEASED = "released"  # the remote job has its real name and may run


class TransferOutcome:
    """The end of a transfer for the local job, which the job's starter carries out."""

    EXIT = "exit"  # the job exited with the status in key `exit_status`
    SIGNAL = "signal"  # the job was killed by the signal in key `signal`
    REQUEUE = "requeue"  # exit 99: no remote job lives, so Grid Engine runs the task again
    RECALL = "recall"  # a request, no end: bring the job home if the job still waits
    AGREE = "agree"  # a request, no end: bring the remote job to the state in key `desired`
    ERROR = "error"  # exit 100: the job enters the error state, for an administrator

    WISHES = (RECALL, AGREE)


class TransferFailureCause:
    """The cause of a failure or delay, by which programs decide."""

    UNKNOWN = "unknown"  # a cause that this version does not know
    UNREACHED = "unreached"  # the cluster gave no answer or rejected the job temporarily
    DENIED = "denied"  # the cluster rejects all jobs from this site
    BLOCKED = "blocked"  # the cluster put the job into the error state
    VANISHED = "vanished"  # the cluster neither lists the job nor has its accounting record
    DISPUTED = "disputed"  # the job's remote accounting records contradict each other
    LOST = "lost"  # the remote cluster has no exit status or signal of the job
    PREEMPTED = "preempted"  # the cluster preempted the job
    HOST = "host"  # the remote host could not start the job
    BARRED = "barred"  # the cluster refuses the job's owner, or a limit of the owner is reached
    FILES = "files"  # the job's files can't be carried
    REFUSED = "refused"  # the cluster refused the job's request
    UNMAPPABLE = "unmappable"  # the job's request can't be translated for the cluster
    JOB = "job"  # the job's own shell, input or output is missing
    HERE = "here"  # the starter failed at the home cluster
    RECALLED = "recalled"  # home recalled the job
    FENCED = "fenced"  # the remote job ended because home held the claim, or the claim failed
    UNGRANTED = "ungranted"  # the remote job got no claim grant
    DROPPED = "dropped"  # gridbridge.toml no longer has the remote cluster


class DesiredLocalJobState:
    """The state that the local job should have; DEAD is final."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    DEAD = "dead"


class TransferMessage:
    """One spool message; every value is text, and unused values are empty."""

    kind: str
    transfer: str
    at: str  # time of writing in epoch seconds, by the writer's clock
    remote: str  # name of the remote cluster
    queue: str  # name of the local transfer queue
    phase: str
    remote_id: str
    wake: str  # name of the starter's FIFO in the spool's wake directory
    desired: str
    outcome: str
    exit_status: str
    signal: str  # number of the signal that killed the job
    wallclock_s: str
    user_s: str
    system_s: str
    max_rss_kb: str
    host: str
    reason: str  # cause in a sentence for people
    cause: str
    stage: str  # the remote folder of the job's files; empty: none, or removed
    claim: str  # claim on the remote job; in an end message, the side that fenced the job
    guard: str  # kind of guard on the local task, in a record (model.transfer.guard)
    restarted: str  # yes: the task that asks was rescheduled
    submitted: str  # submission time of the local job, because job numbers wrap
    rerun: str  # whether the local job may run again (qsub -r): yes, no, or empty

    def __init__(self, **values: str) -> None:
        for key in KEYS:
            setattr(self, key, values.get(key, ""))

    def __eq__(self, message: object) -> bool:
        return isinstance(message, TransferMessage) and vars(self) == vars(message)

    def __repr__(self) -> str:
        values = encode_transfer_message(self).decode().strip().replace("\n", ", ")
        return f"{type(self).__name__}({values})"

    def but(self, **values: str) -> "TransferMessage":
        """Return a copy of the message with some values replaced."""
        return TransferMessage(**(vars(self) | values))

    def tells_end(self) -> bool:
        """Say whether the message has a job's complete end; a truncated message has not."""
        parts = {TransferOutcome.EXIT: self.exit_status, TransferOutcome.SIGNAL: self.signal}
        return bool(parts.get(self.outcome, self.outcome))


KEYS = tuple(TransferMessage.__annotations__)
CAUSES = frozenset(value for name, value in vars(TransferFailureCause).items() if name.isupper())


def encode_transfer_message(message: TransferMessage) -> bytes:
    """Encode a message for its spool file."""
    return encode_key_value_lines(vars(message))


def encode_message_cutting_reason(message: TransferMessage) -> bytes:
    """Encode a message in at most MAX_BYTES bytes; a long reason is shortened."""
    while len(data := encode_transfer_message(message)) > MAX_BYTES and message.reason:
        message = message.but(reason=message.reason[: len(message.reason) // 2])
    return data


def shorten_reason_for_storage(sentence: str) -> str:
    """Cut another program's sentence to the length of stored and logged reasons."""
    return sentence if len(sentence) <= MOST_REASON else f"{sentence[: MOST_REASON - 3]}..."


def find_key_of_too_long_value(message: TransferMessage) -> str:
    """Return the key of a value that is too long to store, '' for none.

    Reasons and stage folders are exempt: a reason is cut later, and only a record has a folder.
    """
    free = ("reason", "stage") if message.kind == TransferMessageKind.RECORD else ("reason",)
    values = vars(message).items()
    return next((key for key, value in values if len(value) > MOST_VALUE and key not in free), "")


def decode_transfer_message(data: bytes) -> TransferMessage:
    """Decode a message; ParseError for bytes that encode_transfer_message never writes.

    A failure cause from a newer program becomes UNKNOWN.
    """
    if len(data) > MAX_BYTES:
        raise ParseError(f"a message has at most {MAX_BYTES} bytes")
    message = TransferMessage(**decode_key_value_lines(data, KEYS))
    if message.cause and message.cause not in CAUSES:
        message.cause = TransferFailureCause.UNKNOWN
    return message
