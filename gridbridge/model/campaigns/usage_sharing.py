"""Whose campaigns go first, and what is kept of what each has used."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class ShareBy(StrEnum):
    """Who shares the free slots evenly."""

    NONE = "none"  # nobody: first come, first served
    USER = "user"
    PROJECT = "project"
    GROUP = "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayedUsage:
    """What a campaign's tasks used at a cluster; all of its numbers decay alike."""

    campaign: int
    cluster: str
    at: datetime  # the numbers are those of then
    used_s: float = 0.0  # slot-seconds of all that ended
    success_s: float = 0.0  # seconds of those that succeeded
    successes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSharing:
    """What decides about the order of campaigns besides their age."""

    priorities: str = ""  # USER=NUMBER and @GROUP=NUMBER, with blanks between
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of owners, primary first
    by: ShareBy = ShareBy.NONE
    first_tasks: int = 0  # of who shares, which come before all shares
    used_s: Mapping[str, float] = field(default_factory=dict)  # by who shares, decayed
    mean_s: Mapping[int, Mapping[str, float]] = field(default_factory=dict)  # campaign, cluster
