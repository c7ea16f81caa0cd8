"""Spool messages and verdicts that processes of different accounts exchange.

A message file is `key=value` lines (key_value_lines.py) of at most 4096 bytes, so that a single
write stores the whole message.
"""

from gridbridge.errors import ParseError
from gridbridge.model import key_value_lines

MAX_BYTES = 4096
MOST_REASON = 200  # characters of a reason that the service stores and logs
MOST_VALUE = 256  # characters of other values; a host name is as long
REQUEUE = 99  # sge_shepherd(8): Grid Engine runs the task again after this exit status
ERROR = 100  # sge_shepherd(8): this exit status puts the job into error state


class TransferMessageKind:
    """The kind of a spool message."""

    RECORD = "record"  # from the starter: its progress; the file proves the owner of the transfer
    ASK = "ask"  # from a restarted task's starter: query for a transfer to adopt
    INTENT = "intent"  # from a method: the state that the local job should have
    SPARED = "spared"  # from a method: the local h_rt has passed; the remote limit decides
    ENDED = "ended"  # from the remote wrapper: the job's end and usage
    CLOSED = "closed"  # from the starter: the transfer is over and has no job any more


class StarterPhase:
    """A starter's progress; the starter records each phase before the next act."""

    SUBMITTING = "submitting"  # a remote job may exist, held, under the transfer's name
    HELD = "held"  # the remote job id is known
    RELEASED = "released"  # the remote job has its real name and may run


class TransferOutcome:
    """The end of a transfer for the local job, which its starter performs."""

    EXIT = "exit"  # the job exited with exit_status
    SIGNAL = "signal"  # the job was killed by `signal`
    REQUEUE = "requeue"  # exit 99: no remote job lives, so Grid Engine runs the task again
    RECALL = "recall"  # no end: the service recalls the job if the job still waits
    AGREE = "agree"  # no end: `desired` is the true local state, not the state from methods
    ERROR = "error"  # exit 100: an administrator must act; see `reason`

    WISHES = (RECALL, AGREE)


class TransferFailureCause:
    """The cause of a failure or delay, by which programs decide."""

    UNKNOWN = "unknown"  # a cause that this version does not know
    UNREACHED = "unreached"  # the cluster gave no answer, or rejected the job for now
    DENIED = "denied"  # the cluster rejects all jobs from this site
    BLOCKED = "blocked"  # the cluster put the job into the error state
    VANISHED = "vanished"  # the cluster neither lists the job nor has its accounting record
    DISPUTED = "disputed"  # the job's remote accounting records contradict each other
    LOST = "lost"  # nobody at the cluster saw the job's end
    PREEMPTED = "preempted"  # the cluster preempted the job
    HOST = "host"  # the remote host could not start the job
    BARRED = "barred"  # the cluster refuses the job's owner, or a limit of the owner is reached
    FILES = "files"  # the job's files can't be carried
    REFUSED = "refused"  # the cluster refused the job's request
    UNMAPPABLE = "unmappable"  # the job's request can't be translated for the cluster
    JOB = "job"  # the job's own shell, input or output is missing
    HERE = "here"  # the starter failed for a reason at home
    RECALLED = "recalled"  # home recalled the job
    FENCED = "fenced"  # home held the claim, or the claim failed
    UNGRANTED = "ungranted"  # the job got no claim grant
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
    at: str  # epoch seconds by the writer's clock; the wrapper uses the file's time
    remote: str  # cluster
    queue: str  # the local transfer queue
    phase: str
    remote_id: str
    wake: str  # name of the starter's FIFO in the spool's wake directory
    desired: str
    outcome: str
    exit_status: str
    signal: str  # signal number
    wallclock_s: str
    user_s: str
    system_s: str
    max_rss_kb: str
    host: str
    reason: str  # a sentence for people
    cause: str
    stage: str  # the remote folder of the job's files; empty: none, or removed
    claim: str  # in a record: model.transfer.claim; in an end: the side that fenced the job
    guard: str  # in a record: guard of a rescheduled task (model.transfer.guard)
    restarted: str  # in an ask: yes from a rescheduled task
    submitted: str  # in a record or ask: submission time of the local job (numbers wrap)
    rerun: str  # yes or no: the local job may run again (qsub -r); empty: unset

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
        """Say whether the message fully tells a job's end; a cut message does not."""
        parts = {TransferOutcome.EXIT: self.exit_status, TransferOutcome.SIGNAL: self.signal}
        return bool(parts.get(self.outcome, self.outcome))


KEYS = tuple(TransferMessage.__annotations__)
CAUSES = frozenset(value for name, value in vars(TransferFailureCause).items() if name.isupper())


def encode_transfer_message(message: TransferMessage) -> bytes:
    """Encode a message for its spool file."""
    return key_value_lines.encode_key_value_lines(vars(message))


def encode_message_cutting_reason(message: TransferMessage) -> bytes:
    """Encode a message in at most MAX_BYTES bytes; a long reason is cut."""
    while len(data := encode_transfer_message(message)) > MAX_BYTES and message.reason:
        message = message.but(reason=message.reason[: len(message.reason) // 2])
    return data


def shorten_reason(sentence: str) -> str:
    """Return an outside sentence, cut to the length of stored and logged reasons."""
    return sentence if len(sentence) <= MOST_REASON else f"{sentence[: MOST_REASON - 3]}..."


def find_key_of_too_long_value(message: TransferMessage) -> str:
    """Return the key of a value that is too long to store, '' for none.

    A reason is cut later, and only a record keeps a stage folder, so neither value counts.
    """
    free = ("reason", "stage") if message.kind == TransferMessageKind.RECORD else ("reason",)
    values = vars(message).items()
    return next((key for key, value in values if len(value) > MOST_VALUE and key not in free), "")


def decode_transfer_message(data: bytes) -> TransferMessage:
    """Decode a message; ParseError for bytes that encode_message never writes.

    A failure cause from a newer program becomes UNKNOWN.
    """
    if len(data) > MAX_BYTES:
        raise ParseError(f"a message has at most {MAX_BYTES} bytes")
    message = TransferMessage(**key_value_lines.decode_key_value_lines(data, KEYS))
    if message.cause and message.cause not in CAUSES:
        message.cause = TransferFailureCause.UNKNOWN
    return message
