"""What Grid Engine's state letters say about a job: sge_status(5) and qstat(1).

The letters come in groups such as `hqw`, `Rr`, `dS` or `EhRqw`. They are read one by one, so
that a combination nobody listed still keeps its facts.
"""

import logging
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

_LOG = logging.getLogger(__name__)


class JobState(Enum):
    """The one word for a job, when only one word is wanted; see `JobLetters` for the rest."""

    WAITING = "waiting"
    HELD = "held"
    RUNNING = "running"
    SUSPENDED = "suspended"
    DELETING = "deleting"
    ERROR = "error"
    FINISHED = "finished"
    UNKNOWN = "unknown"


class SuspendedBy(Enum):
    """Who suspended a job; resuming it takes the same hand."""

    NOBODY = ""
    USER = "s"  # qmod -sj
    QUEUE = "S"  # the queue is suspended: by qmod -sq, a calendar or a superordinate queue
    THRESHOLD = "T"  # the queue's suspend_thresholds


# The first that matches is the word: a deleted job is nothing else, whatever it was before.
_WORDS = (
    ("d", JobState.DELETING),
    ("E", JobState.ERROR),
    ("sST", JobState.SUSPENDED),
    ("rt", JobState.RUNNING),
    ("h", JobState.HELD),
    ("qw", JobState.WAITING),
    ("z", JobState.FINISHED),
)
_KNOWN = frozenset("dEsSTrthqwzR")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLetters:
    """A job's state letters as facts; several may hold, as in a held running job (`hr`)."""

    letters: str
    word: JobState

    @property
    def is_pending(self) -> bool:
        """Whether it has no host (q, w)."""
        return self._has("qw")

    @property
    def can_start(self) -> bool:
        """Whether the scheduler may start it: pending without hold, error or deletion.

        A job with `-a` in the future or beyond `-tc` looks the same to qstat.
        """
        return self.is_pending and not self._has("hEd")

    @property
    def is_running(self) -> bool:
        """Whether it occupies a host (r, t), though it may be suspended or being deleted."""
        return self._has("rtsST")

    @property
    def has_begun(self) -> bool:
        """Whether its first process was started (r): not one that is on its way to a host (t)."""
        return self._has("r") or (self.is_suspended and not self._has("t"))

    @property
    def is_held(self) -> bool:
        """Whether a hold is on it (h); a running job runs on and is held once requeued."""
        return self._has("h")

    @property
    def is_suspended(self) -> bool:
        """Whether anybody suspended it (s, S, T)."""
        return self._has("sST")

    @property
    def suspended_by(self) -> SuspendedBy:
        """Name the strongest: the user before the queue before its thresholds."""
        return next((by for by in SuspendedBy if by.value and by.value in self.letters), _NOBODY)

    @property
    def is_deleting(self) -> bool:
        """Whether somebody deleted it and it is not gone yet (d)."""
        return self._has("d")

    @property
    def is_error(self) -> bool:
        """Whether it waits for `qmod -cj` (E)."""
        return self._has("E")

    @property
    def is_restarted(self) -> bool:
        """Whether it was started before (R)."""
        return self._has("R")

    @property
    def is_put_back(self) -> bool:
        """Whether it waits to be started again (Rq, hRq)."""
        return self.is_pending and self.is_restarted

    def _has(self, letters: str) -> bool:
        return any(letter in self.letters for letter in letters)


_NOBODY = SuspendedBy.NOBODY
UNSEEN = JobLetters(letters="", word=JobState.UNKNOWN)  # of a job that no answer listed yet


@lru_cache(maxsize=256)
def read_letters(letters: str) -> JobLetters:
    """Read state letters; with an unknown one, or none, the word is UNKNOWN.

    The cache makes the warning come once for each new combination.
    """
    if letters and _KNOWN.issuperset(letters):
        return JobLetters(letters=letters, word=_word(letters))
    _LOG.warning("event=unknown_job_state letters=%r", letters)
    return JobLetters(letters=letters, word=JobState.UNKNOWN)


def _word(letters: str) -> JobState:
    matches = (word for marks, word in _WORDS if any(mark in letters for mark in marks))
    return next(matches, JobState.UNKNOWN)
