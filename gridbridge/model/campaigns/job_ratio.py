"""How many tasks of a campaign go to a cluster for each of its free slots."""

from dataclasses import dataclass
from enum import StrEnum


class JobRatioRule(StrEnum):
    """How a job ratio changes with what became of the tasks that were sent."""

    MEASURED = "measured"
    SLOW_START = "slow-start"
    TWO_WAY = "two-way"
    ADAPTIVE = "adaptive"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRatio:
    """What is kept of a campaign at a cluster from one cycle to the next."""

    campaign: int
    cluster: str
    ratio: float  # tasks for each free slot
    free: int = 0  # slots for which it was last used
    submitted: int = 0  # tasks that were sent by it, and of which nothing was learnt yet


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioTerms:
    """What a law looks at: one campaign at one cluster."""

    old: float  # the ratio
    slots: float  # of a task
    max_slots: int  # of the cluster
    free: int  # now
    submitted: int
    running: int
    waiting: int  # those that wait longer than a start takes
    allowed: int  # that many of them may
    fresh: int = 0  # those that wait since just now
    others: int = 0  # tasks of other campaigns that wait there as long as `waiting`
    ended: int = 0  # tasks that began there and have ended just now
    is_wiped: bool = False  # nikita deletes tasks that waited there


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRatioPrediction:
    """A new ratio, and the numbers that led to it."""

    campaign: int
    cluster: str
    law: JobRatioRule
    terms: RatioTerms
    ratio: float
    submitted: int  # of which nothing is learnt yet
