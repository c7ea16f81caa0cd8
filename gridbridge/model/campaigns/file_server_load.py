"""File servers, whose load limits the number of campaign tasks: rules, measured loads and limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FileServerRule:
    """The keys of a section [storage.NAME] that limit the tasks at the clusters of a storage area."""

    storage: str
    clusters: tuple[str, ...]  # the clusters that see the storage area
    max_jobs: int = 0  # largest number of tasks at these clusters together; 0: no such limit
    has_load: bool = False  # whether a program reports the file server's load
    target: float = 1.0  # the load at which the rule keeps the file server
    gain: float = 0.5  # relative change of the limit for a relative deviation of the load
    integral_s: float = (
        60.0  # the time in which a lasting deviation changes the limit once more, as much as `gain` does
    )
    step: int = 10  # largest change of the limit in a cycle, in tasks
    keep_s: float = 120.0  # how long the limit stays when no load is reported


@dataclass(frozen=True, slots=True, kw_only=True)
class FileServerLimit:
    """How many tasks may be at the clusters of a storage area, and the state of the PI rule."""

    storage: str
    at: datetime  # time of the cycle that decided the limit
    limit: float  # number of tasks, rounded down for the cycle; the fraction matters to later cycles
    base: float  # integral term: the limit when the load is at its target
    tasks: int  # number of tasks at the clusters after the cycle's sends
    load: float | None = None  # load reported in this cycle; None: no report
    load_at: datetime | None = None  # time of the last reported load


@dataclass(frozen=True, slots=True, kw_only=True)
class FileServerSituation:
    """The rules, loads and last limits of file servers in a cycle."""

    rules: tuple[FileServerRule, ...] = ()
    loads: Mapping[str, float] = field(default_factory=dict)  # reported load, by storage area
    limits: tuple[FileServerLimit, ...] = ()  # limits of the last cycle
