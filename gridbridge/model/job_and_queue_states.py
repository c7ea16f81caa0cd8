"""The state of a job or queue instance, as a set of facts such as `running` and `suspended`."""

TYPE_CHECKING = False  # saves the import of typing, which is slow
if TYPE_CHECKING:
    from collections.abc import Iterable


class JobStateFact:
    WAITING = "waiting"  # the job has no host
    HELD = "held"  # the job must not start; if it runs already, it continues
    RUNNING = "running"  # the job has a host, even if it is suspended or being deleted
    STARTING = "starting"  # the job has a host, but no process yet
    SUSPENDED = "suspended"
    BY_HAND = "by-hand"  # suspended by a person
    BY_QUEUE = "by-queue"  # suspended because its whole queue is suspended
    BY_THRESHOLD = "by-threshold"  # suspended because a load value reached the queue's suspend threshold
    DELETING = "deleting"
    ERROR = "error"  # the job waits until somebody clears the error
    RESTARTED = "restarted"
    FINISHED = "finished"
    UNKNOWN = "unknown"  # gridbridge does not know a letter or word of the job's state


class QueueStartBlocker:
    """The facts of a queue instance's state; each fact keeps batch jobs from starting."""

    ERROR = "error"  # the queue is in error until somebody clears the error
    DISABLED = "disabled"
    OFF_HOURS = "off-hours"  # disabled or suspended by the queue's calendar
    SUSPENDED = "suspended"  # suspended by a person, another queue or the calendar
    BY_HAND = "by-hand"
    UNREACHABLE = "unreachable"
    LOADED = "loaded"  # a load value has reached its load threshold or is missing
    OVERLOADED = "overloaded"  # a load value has reached its suspend threshold
    UNKNOWN = "unknown"  # gridbridge does not know a letter or word of the queue's state


# Facts about jobs, the most important first.
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


class JobOrQueueStateFacts:
    """An immutable set of facts about a job or queue instance, and the state as a text for users."""

    __slots__ = ("facts", "text")

    def __init__(self, facts: "Iterable[str]" = (), text: str = "") -> None:
        self.facts = frozenset(facts)
        self.text = text

    def __eq__(self, state: object) -> bool:
        if not isinstance(state, JobOrQueueStateFacts) or type(self) is not type(state):
            return NotImplemented
        return (self.facts, self.text) == (state.facts, state.text)

    def __hash__(self) -> int:
        return hash((self.facts, self.text))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sorted(self.facts)}, {self.text!r})"


class QueueInstanceState(JobOrQueueStateFacts):
    """The state of a queue instance; a queue instance without facts is open."""

    __slots__ = ()


class StateFactProperty:
    """A property of job states, true if the state has a given fact."""

    def __init__(self, fact: str) -> None:
        self._fact = fact

    def __get__(self, state: JobOrQueueStateFacts, _: "type[JobOrQueueStateFacts]") -> bool:
        return self._fact in state.facts


class JobState(JobOrQueueStateFacts):
    """The state of a job; a state without facts means that the job was in no job list."""

    __slots__ = ()

    is_waiting = StateFactProperty(JobStateFact.WAITING)
    is_running = StateFactProperty(JobStateFact.RUNNING)
    is_held = StateFactProperty(JobStateFact.HELD)
    is_suspended = StateFactProperty(JobStateFact.SUSPENDED)
    is_by_hand = StateFactProperty(JobStateFact.BY_HAND)
    is_deleting = StateFactProperty(JobStateFact.DELETING)  # the job was deleted but still exists
    is_error = StateFactProperty(JobStateFact.ERROR)
    is_restarted = StateFactProperty(JobStateFact.RESTARTED)  # the job was started before

    @property
    def is_listed(self) -> bool:
        return bool(self.facts)

    @property
    def most_important_fact(self) -> str:
        """The most important fact about the job; UNKNOWN if the job was in no job list."""
        return next((word for word in WORDS if word in self.facts), JobStateFact.UNKNOWN)

    @property
    def can_start(self) -> bool:
        """Whether the scheduler may start the job; `-a` and `-tc` are ignored, because qstat hides both."""
        return self.is_waiting and not (self.is_held or self.is_error or self.is_deleting)

    @property
    def has_begun(self) -> bool:
        """Whether the job's first process was started."""
        return self.is_running and JobStateFact.STARTING not in self.facts

    @property
    def is_put_back(self) -> bool:
        """Whether the job was started before, and now waits to be started again."""
        return self.is_waiting and self.is_restarted


UNSEEN = JobState()
OPEN = QueueInstanceState()
