"""States of jobs and queues as sets of facts, of which several may hold at once.

Batch adapters derive facts from their system's state letters or words; people are shown the text.
"""

TYPE_CHECKING = False  # importing typing costs as much time as importing json
if TYPE_CHECKING:
    from collections.abc import Iterable


class JobStateFact:
    """The facts that may hold for a job."""

    WAITING = "waiting"  # the job has no host
    HELD = "held"  # a running job continues, but may not start again after a reschedule
    RUNNING = "running"  # the job has a host, even if suspended or in deletion
    STARTING = "starting"  # the job is on its way to the host and has not begun
    SUSPENDED = "suspended"
    BY_HAND = "by-hand"  # a person suspended the job
    BY_QUEUE = "by-queue"  # the job is suspended with its whole queue
    BY_THRESHOLD = "by-threshold"  # the queue's suspend threshold suspended the job
    DELETING = "deleting"
    ERROR = "error"  # the job does not start until somebody clears the error
    RESTARTED = "restarted"  # the job was started before
    FINISHED = "finished"
    UNKNOWN = "unknown"  # the adapter does not know a state letter or word of the job


class QueueInstanceStateFact:
    """The facts that may hold for a queue instance; each fact prevents batch job starts."""

    ERROR = "error"  # queue error, until somebody clears the error
    DISABLED = "disabled"  # disabled by a person
    OFF_HOURS = "off-hours"  # disabled or suspended by the calendar of the queue
    SUSPENDED = "suspended"  # suspended by a person, another queue or the calendar
    BY_HAND = "by-hand"  # a person suspended the queue
    UNREACHABLE = "unreachable"  # the host of the queue is silent
    LOADED = "loaded"  # a load threshold is passed or its load value is missing
    OVERLOADED = "overloaded"  # a suspend threshold is passed
    UNKNOWN = "unknown"  # the adapter does not know a state letter or word of the queue


# Job facts, the most important first: `JobState.word` is the first fact that holds.
WORDS = (
    JobStateFact.UNKNOWN,
    JobStateFact.DELETING,
    JobStateFact.ERROR,
    JobStateFact.SUSPENDED,
    JobStateFact.RUNNING,
    JobStateFact.HELD,
    JobStateFact.WAITING,
    JobStateFact.FINISHED,
)


class StateFacts:
    """An immutable set of facts with the text that people are shown."""

    __slots__ = ("facts", "text")

    def __init__(self, facts: "Iterable[str]" = (), text: str = "") -> None:
        self.facts = frozenset(facts)
        self.text = text

    def __eq__(self, state: object) -> bool:
        """Say whether two states have the same class, facts and text."""
        if not isinstance(state, StateFacts) or type(self) is not type(state):
            return NotImplemented
        return (self.facts, self.text) == (state.facts, state.text)

    def __hash__(self) -> int:
        """Return the hash of facts and text."""
        return hash((self.facts, self.text))

    def __repr__(self) -> str:
        """Show the class with its facts and text."""
        return f"{type(self).__name__}({sorted(self.facts)}, {self.text!r})"


class QueueInstanceState(StateFacts):
    """The state of a queue instance; without facts the queue is open."""

    __slots__ = ()


class JobState(StateFacts):
    """The state of a job; without facts no job list has shown the job."""

    __slots__ = ()

    @property
    def is_listed(self) -> bool:
        """Whether a job list showed the job."""
        return bool(self.facts)

    @property
    def word(self) -> str:
        """The most important fact about the job; UNKNOWN for an unlisted job."""
        return next((word for word in WORDS if word in self.facts), JobStateFact.UNKNOWN)

    @property
    def is_waiting(self) -> bool:
        """Whether the job has no host."""
        return JobStateFact.WAITING in self.facts

    @property
    def can_start(self) -> bool:
        """Whether the scheduler may start the job: no hold, error or deletion.

        For qstat a job with a future `-a` time or beyond its `-tc` limit looks startable too.
        """
        return self.is_waiting and not (self.is_held or self.is_error or self.is_deleting)

    @property
    def is_running(self) -> bool:
        """Whether the job occupies a host, even suspended or in deletion."""
        return JobStateFact.RUNNING in self.facts

    @property
    def has_begun(self) -> bool:
        """Whether the job's first process has been started."""
        return self.is_running and JobStateFact.STARTING not in self.facts

    @property
    def is_held(self) -> bool:
        """Whether the job has a hold, which stops a running job only after a reschedule."""
        return JobStateFact.HELD in self.facts

    @property
    def is_suspended(self) -> bool:
        """Whether the job is suspended, for any reason."""
        return JobStateFact.SUSPENDED in self.facts

    @property
    def is_by_hand(self) -> bool:
        """Whether a person suspended the job."""
        return JobStateFact.BY_HAND in self.facts

    @property
    def is_deleting(self) -> bool:
        """Whether the job was deleted but still exists."""
        return JobStateFact.DELETING in self.facts

    @property
    def is_error(self) -> bool:
        """Whether the job waits in error state until somebody clears the error."""
        return JobStateFact.ERROR in self.facts

    @property
    def is_restarted(self) -> bool:
        """Whether the job was started before."""
        return JobStateFact.RESTARTED in self.facts

    @property
    def is_put_back(self) -> bool:
        """Whether the job was rescheduled and waits for its next start."""
        return self.is_waiting and self.is_restarted


UNSEEN = JobState()  # the state of a job that no job list has shown
OPEN = QueueInstanceState()
