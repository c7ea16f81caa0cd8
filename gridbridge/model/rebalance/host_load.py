"""How loaded a host is, before and after what is advised."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLoad:
    """One host: its disk, a part of what it may hold, 0 to 1, and its load, 0 to 100 by default."""

    host: str
    disk: float
    score: float
    disk_after: float
    score_after: float
