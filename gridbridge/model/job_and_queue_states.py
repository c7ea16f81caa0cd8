"""Defines the state of a job or queue instance as a set of facts, such as running and suspended."""

TYPE_CHECKING = False  # importing typing costs as much time as importing json
if TYPE_CHECKING:
    from collections.abc import Iterable


class JobStateFact:
    """The facts of which a job's state consists."""

    WAITING = "waiting"  # the job has no host
    HELD = "held"  # the job may not start, but a running job continues
    RUNNING = "running"  # the job has a host, even while suspended or being deleted
    STARTING = "starting"  # the job has a host, but no process yet
    SUSPENDED = "suspended"
    BY_HAND = "by-hand"  # a person suspended the job
    BY_QUEUE = "by-queue"  # the job is suspended with its whole queue
    BY_THRESHOLD = "by-threshold"  # the queue's suspend threshold suspended the job
    DELETING = "deleting"
    ERROR = "error"  # the job waits until somebody clears the error
    RESTARTED = "restarted"
    FINISHED = "finished"
    UNKNOWN = "unknown"  # a letter or word of the job's state is unknown


class QueueStartBlocker:
    """The facts of which a queue instance's state consists; each fact keeps batch jobs from starting."""

    ERROR = "error"  # queue error, until somebody clears the error
    DISABLED = "disabled"  # disabled by a person
    OFF_HOURS = "off-hours"  # disabled or suspended by the queue's calendar
    SUSPENDED = "suspended"  # suspended by a person, another queue or the calendar
    BY_HAND = "by-hand"  # a person suspended the queue
    UNREACHABLE = "unreachable"  # the host does not answer
    LOADED = "loaded"  # a load value has reached its load threshold or is missing
    OVERLOADED = "overloaded"  # a load value has reached its suspend threshold
    UNKNOWN = "unknown"  # a letter or word of the queue's state is unknown


# the most important fact first
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
    """An immutable set of facts, with the text that users see."""

    __slots__ = ("facts", "text")

    def __init__(self, facts: "Iterable[str]" = (), text: str = "") -> None:
        self.facts = frozenset(facts)
        self.text = text

    def __eq__(self, state: object) -> bool:
        if not isinstance(state, StateFacts) or type(self) is not type(state):
            return NotImplemented
        return (self.facts, self.text) == (state.facts, state.text)

    def __hash__(self) -> int:
        return hash((self.facts, self.text))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sorted(self.facts)}, {self.text!r})"


class QueueInstanceState(StateFacts):
    """The state of a queue instance; a queue instance without facts is open."""

    __slots__ = ()


class StateFactProperty:
    """A property of a job's state: whether the state has a fact."""

    def __init__(self, fact: str) -> None:
        self._fact = fact

    def __get__(self, state: StateFacts, _: "type[StateFacts]") -> bool:
        return self._fact in state.facts


class JobState(StateFacts):
    """The state of a job; a job without facts was in no job list."""

    __slots__ = ()

    is_waiting = StateFactProperty(JobStateFact.WAITING)  # the job has no host
    is_running = StateFactProperty(JobStateFact.RUNNING)  # the job has a host, even while suspended or being deleted
    is_held = StateFactProperty(JobStateFact.HELD)  # a hold does not stop a running job
    is_suspended = StateFactProperty(JobStateFact.SUSPENDED)  # for any reason
    is_by_hand = StateFactProperty(JobStateFact.BY_HAND)  # a person suspended the job
    is_deleting = StateFactProperty(JobStateFact.DELETING)  # the job was deleted but still exists
    is_error = StateFactProperty(JobStateFact.ERROR)  # the job waits until somebody clears the error
    is_restarted = StateFactProperty(JobStateFact.RESTARTED)  # the job was started before

    @property
    def is_listed(self) -> bool:
        """Whether the job was in a job list."""
        return bool(self.facts)

    @property
    def word(self) -> str:
        """The most important fact about the job; UNKNOWN if the job was in no job list."""
        return next((word for word in WORDS if word in self.facts), JobStateFact.UNKNOWN)

    @property
    def can_start(self) -> bool:
        """Whether the job waits without a hold, an error or a deletion, so that the scheduler may start the job.

        A future start time (`-a`) and a limit of running tasks (`-tc`) are ignored, because qstat hides both.
        """
        return self.is_waiting and not (self.is_held or self.is_error or self.is_deleting)

    @property
    def has_begun(self) -> bool:
        """Whether the job's first process was started."""
        return self.is_running and JobStateFact.STARTING not in self.facts

    @property
    def is_put_back(self) -> bool:
        """Whether the job was started before, and waits for its next start."""
        return self.is_waiting and self.is_restarted


UNSEEN = JobState()  # state of a job that was in no job list
OPEN = QueueInstanceState()
