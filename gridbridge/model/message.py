"""Spool messages and verdicts: what processes of different people tell each other.

On disk a message is lines of `key=value` (lines.py), at most 4096 bytes, so that one write puts
it there.
"""

from gridbridge.errors import ParseError
from gridbridge.model import key_value_lines

MAX_BYTES = 4096
MOST_REASON = 200  # characters of a sentence that the service keeps, and tells in its log
MOST_VALUE = 256  # of any other: as long as a host's name
REQUEUE = 99  # sge_shepherd(8): an exit status by which Grid Engine runs the task again
ERROR = 100  # sge_shepherd(8): the one by which it puts the job into the error state


class MessageKind:
    """What a message is about."""

    RECORD = "record"  # the starter: how far it is; the file proves who owns the transfer
    ASK = "ask"  # a restarted task's starter: asks for a transfer to adopt
    INTENT = "intent"  # a method: what the local job should be now
    SPARED = "spared"  # a method: the local h_rt has passed, which ends nothing
    ENDED = "ended"  # the remote wrapper: the job's end, with its usage
    CLOSED = "closed"  # the starter: this transfer is over and has no job any more


class StarterPhase:
    """How far a starter has come; each is written before the act that follows it."""

    SUBMITTING = "submitting"  # a remote job may exist, held, under the transfer's name
    HELD = "held"  # its id is known
    RELEASED = "released"  # it has its real name and may run


class TransferOutcome:
    """How a transfer ends for the local job; what the starter does last."""

    EXIT = "exit"  # with exit_status
    SIGNAL = "signal"  # killed by it
    REQUEUE = "requeue"  # 99: nothing lives elsewhere, run it again
    RECALL = "recall"  # no end: the service wants the job brought home, if it waits
    AGREE = "agree"  # no end: the local job is as `desired` says, not as its methods reported
    ERROR = "error"  # 100: an administrator has to look; reason

    WISHES = (RECALL, AGREE)


class FailureCause:
    """Why something failed or did not go on; programs decide by it, never by the reason's words."""

    UNKNOWN = "unknown"  # a word that this version does not know
    UNREACHED = "unreached"  # the cluster did not take it, for now, or did not answer
    DENIED = "denied"  # the cluster takes no job that comes from here
    BLOCKED = "blocked"  # the cluster put the job into the error state
    VANISHED = "vanished"  # the cluster neither lists it nor accounts for it
    DISPUTED = "disputed"  # its records there tell different ends
    LOST = "lost"  # nobody there saw its end
    PREEMPTED = "preempted"  # the cluster needed its place
    HOST = "host"  # its host there could not even begin
    BARRED = "barred"  # the cluster does not let in this person, or has enough of theirs
    FILES = "files"  # its files can't be carried
    REFUSED = "refused"  # the cluster refused its request
    UNMAPPABLE = "unmappable"  # its request can't be translated for the cluster
    JOB = "job"  # its own shell, input or output is not there
    HERE = "here"  # its starter could not go on for a reason at home
    RECALLED = "recalled"  # home took it back
    FENCED = "fenced"  # home had its claim, or the claim could not be made
    UNGRANTED = "ungranted"  # no grant of ours came
    DROPPED = "dropped"  # gridbridge.toml no longer has its cluster


class DesiredJobState:
    """The state that the local job should have; DEAD wins over whatever comes later."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    DEAD = "dead"


class StarterMessage:
    """One message; every value is text, empty where the kind has no use for it."""

    kind: str
    transfer: str
    at: str  # seconds since the epoch, by the writer's clock; the wrapper leaves it to its file
    remote: str  # cluster
    queue: str  # the local transfer queue
    phase: str
    remote_id: str
    wake: str  # the starter's FIFO: a name in the spool's wake directory
    desired: str
    outcome: str
    exit_status: str
    signal: str  # a number
    wallclock_s: str
    user_s: str
    system_s: str
    max_rss_kb: str
    host: str
    reason: str  # for readers
    cause: str
    stage: str  # the folder there that holds its files; empty: none, or no more
    claim: str  # of a record: model.claim; of an end: whose claim kept the job from running
    guard: str  # of a record: what keeps a task that is put back from starting (model.guard)
    restarted: str  # of an ask: yes by a task that was put back
    submitted: str  # of a record, an ask: when the local job was; its number may be given anew
    rerun: str  # yes or no: the local job may be run again (qsub -r); empty: it does not say

    def __init__(self, **values: str) -> None:
        for key in KEYS:
            setattr(self, key, values.get(key, ""))

    def __eq__(self, message: object) -> bool:
        return isinstance(message, StarterMessage) and vars(self) == vars(message)

    def __repr__(self) -> str:
        return f"Message({encode_message(self).decode().strip().replace(chr(10), ', ')})"

    def but(self, **values: str) -> "StarterMessage":
        """Return the same message with some values replaced."""
        return StarterMessage(**(vars(self) | values))

    def tells_end(self) -> bool:
        """Say whether the message tells fully how a job ended; a cut message does not."""
        parts = {TransferOutcome.EXIT: self.exit_status, TransferOutcome.SIGNAL: self.signal}
        return bool(parts.get(self.outcome, self.outcome))


KEYS = tuple(StarterMessage.__annotations__)
CAUSES = frozenset(value for name, value in vars(FailureCause).items() if name.isupper())


def encode_message(message: StarterMessage) -> bytes:
    """Write a message as it lies on disk."""
    return key_value_lines.encode_lines(vars(message))


def encode_short_message(message: StarterMessage) -> bytes:
    """Write a message of at most MAX_BYTES: a reason that makes it longer is cut."""
    while len(data := encode_message(message)) > MAX_BYTES and message.reason:
        message = message.but(reason=message.reason[: len(message.reason) // 2])
    return data


def shorten_reason(sentence: str) -> str:
    """Return a sentence from outside as it is kept and told in the log."""
    return sentence if len(sentence) <= MOST_REASON else f"{sentence[: MOST_REASON - 3]}..."


def find_too_long_key(message: StarterMessage) -> str:
    """Return the key of a value that is too long to be kept, empty when there is none.

    A reason is cut anyway, and a folder is kept in the record alone, so neither counts here.
    """
    free = ("reason", "stage") if message.kind == MessageKind.RECORD else ("reason",)
    values = vars(message).items()
    return next((key for key, value in values if len(value) > MOST_VALUE and key not in free), "")


def decode_message(data: bytes) -> StarterMessage:
    """Read a message; ParseError for anything that encode would not have written.

    A cause that a newer program gives is an unknown one.
    """
    if len(data) > MAX_BYTES:
        raise ParseError(f"a message has at most {MAX_BYTES} bytes")
    message = StarterMessage(**key_value_lines.decode_lines(data, KEYS))
    if message.cause and message.cause not in CAUSES:
        message.cause = FailureCause.UNKNOWN
    return message
