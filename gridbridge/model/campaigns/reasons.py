"""Why a campaign's tasks did or did not go to a cluster in the last cycle, in numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Cause(StrEnum):
    """Why; a closed set."""

    SENT = "sent"
    NO_ANSWER = "no_answer"
    TRIED = "tried"  # a test has its task there
    FULL = "full"  # too few free slots for one task
    MAX_JOBS = "max_jobs"  # as many of its tasks are there as its JDL allows
    OTHERS_FIRST = "others_first"  # what is free goes to others, or to what waits there


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Of one campaign and one cluster."""

    campaign: int
    cluster: str
    cause: Cause
    sent: int = 0  # tasks, in that cycle
    free_slots: int = 0
    slots: int = 1  # of one task
    listed: int = 0  # of its tasks there
    waiting: int = 0  # of those, not running yet
    max_jobs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCycle:
    """The last cycle, as everybody may see it."""

    at: datetime
    free_slots: Mapping[str, int] = field(default_factory=dict)  # of the clusters that answered
    reasons: tuple[Reason, ...] = ()
