"""What a job or a queue is: facts of two closed sets, several of them at once.

Each adapter reads them from its own system's letters or words; the text is what people are shown.
"""

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Iterable


class JobFact:
    """What may be true of a job."""

    WAITING = "waiting"  # it has no host
    HELD = "held"  # one that runs goes on, and may not start again once it was put back
    RUNNING = "running"  # it has a host, though it may be suspended or be being deleted
    STARTING = "starting"  # it is on its way to that host: it has not begun
    SUSPENDED = "suspended"
    BY_HAND = "by-hand"  # who suspended it: somebody, ...
    BY_QUEUE = "by-queue"  # ... what suspended its whole queue, ...
    BY_THRESHOLD = "by-threshold"  # ... or its queue's load
    DELETING = "deleting"
    ERROR = "error"  # it is not started until somebody clears that
    RESTARTED = "restarted"  # it was started before
    FINISHED = "finished"
    UNKNOWN = "unknown"  # there is something that the adapter does not know


class QueueFact:
    """What may be true of a queue on one host; each of them keeps batch jobs from starting."""

    ERROR = "error"  # until somebody clears the error
    DISABLED = "disabled"  # by hand
    OFF_HOURS = "off-hours"  # disabled or suspended by its calendar
    SUSPENDED = "suspended"  # by hand, another queue or its calendar
    BY_HAND = "by-hand"  # that somebody suspended it
    UNREACHABLE = "unreachable"  # its host is silent
    LOADED = "loaded"  # a load threshold is passed, or a value of it missing
    OVERLOADED = "overloaded"  # a suspend threshold is passed
    UNKNOWN = "unknown"  # there is something that the adapter does not know


# The first that holds is the word for a job: a deleted one is nothing else, whatever it was before.
WORDS = (
    JobFact.UNKNOWN,
    JobFact.DELETING,
    JobFact.ERROR,
    JobFact.SUSPENDED,
    JobFact.RUNNING,
    JobFact.HELD,
    JobFact.WAITING,
    JobFact.FINISHED,
)


class StateFacts:
    """Facts, and the text that people are shown; nobody changes one."""

    __slots__ = ("facts", "text")

    def __init__(self, facts: "Iterable[str]" = (), text: str = "") -> None:
        self.facts = frozenset(facts)
        self.text = text

    def __eq__(self, state: object) -> bool:
        """Say whether it is of the same kind, with the same facts and text."""
        if not isinstance(state, StateFacts) or type(self) is not type(state):
            return NotImplemented
        return (self.facts, self.text) == (state.facts, state.text)

    def __hash__(self) -> int:
        """Equal ones have the same."""
        return hash((self.facts, self.text))

    def __repr__(self) -> str:
        """Show what it was made from."""
        return f"{type(self).__name__}({sorted(self.facts)}, {self.text!r})"


class QueueState(StateFacts):
    """A queue on one host; without facts it is open."""

    __slots__ = ()


class JobState(StateFacts):
    """A job of a batch system; without facts it is not listed, or was not yet."""

    __slots__ = ()

    @property
    def is_listed(self) -> bool:
        """Whether an answer had it."""
        return bool(self.facts)

    @property
    def word(self) -> str:
        """The one fact for when only one is wanted; UNKNOWN for a job that is not listed."""
        return next((word for word in WORDS if word in self.facts), JobFact.UNKNOWN)

    @property
    def is_waiting(self) -> bool:
        """Whether it has no host."""
        return JobFact.WAITING in self.facts

    @property
    def can_start(self) -> bool:
        """Whether the scheduler may start it: no hold, error or deletion keeps it.

        A job with `-a` in the future or beyond `-tc` looks the same to qstat.
        """
        return self.is_waiting and not (self.is_held or self.is_error or self.is_deleting)

    @property
    def is_running(self) -> bool:
        """Whether it occupies a host, though it may be suspended or be being deleted."""
        return JobFact.RUNNING in self.facts

    @property
    def has_begun(self) -> bool:
        """Whether its first process was started."""
        return self.is_running and JobFact.STARTING not in self.facts

    @property
    def is_held(self) -> bool:
        """Whether a hold is on it; a running job runs on and is held once it is put back."""
        return JobFact.HELD in self.facts

    @property
    def is_suspended(self) -> bool:
        """Whether anybody suspended it."""
        return JobFact.SUSPENDED in self.facts

    @property
    def is_by_hand(self) -> bool:
        """Whether it was somebody who suspended it."""
        return JobFact.BY_HAND in self.facts

    @property
    def is_deleting(self) -> bool:
        """Whether somebody deleted it and it is not gone yet."""
        return JobFact.DELETING in self.facts

    @property
    def is_error(self) -> bool:
        """Whether it waits until somebody clears its error."""
        return JobFact.ERROR in self.facts

    @property
    def is_restarted(self) -> bool:
        """Whether it was started before."""
        return JobFact.RESTARTED in self.facts

    @property
    def is_put_back(self) -> bool:
        """Whether it waits to be started again."""
        return self.is_waiting and self.is_restarted


UNSEEN = JobState()  # of a job that no answer lists, or listed yet
OPEN = QueueState()
