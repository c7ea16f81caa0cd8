"""Whose calls wait: nobody holds the others up by programs of their own that hang at a cluster.

What acts as an owner runs that person's own start files and processes, one call after another. A
call that fails after five seconds pauses all calls of its owner at its cluster, each time for twice
as long, and one owner's calls there get a minute of a cycle.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from gridbridge.campaigns.acts.array_submission import (
    ArrayRefused,
    CampaignEnded,
    CampaignRefused,
)
from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.errors import AlreadySubmitted, GridbridgeError
from gridbridge.model.campaigns.campaign import Array
from gridbridge.model.campaigns.campaign_sections import Failures
from gridbridge.shell.clock import Clock

# A call that takes so long and fails may hang: the usual one takes less than a second.
HANGS_S = 5.0
TURN_S = 60.0  # of a cycle, for one person at one cluster; as long as the longest call

ANSWERS = (AlreadySubmitted, ArrayRefused, CampaignEnded, CampaignRefused)  # nothing hung

T = TypeVar("T")
Pair = tuple[int, str]  # a person and a cluster

_log = logging.getLogger(__name__)


class NotAsked(GridbridgeError):
    """A call was left for a later cycle: nothing was done."""


class HeldUp(NotAsked):
    """It was, for one of that person's at that cluster hung just now."""


@dataclass(slots=True)
class _Pause:
    until_s: float
    for_s: float


class OwnerTimeBudget:
    """What each person's calls at each cluster have taken."""

    def __init__(self, campaigns: CampaignRows, clock: Clock, failures: Failures) -> None:
        self._campaigns = campaigns
        self._clock = clock
        self._failures = failures
        self._taken_s: dict[Pair, float] = {}  # in this cycle
        self._pauses: dict[Pair, _Pause] = {}
        self._owners: dict[int, int] = {}

    def begin(self) -> None:
        """Begin a cycle."""
        self._taken_s.clear()

    def take(
        self, array: Array, act: Callable[[], T], has_failed: Callable[[T], bool] = lambda _: False
    ) -> T:
        """Call for an array; NotAsked where its owner has had their turn there, or is paused."""
        pair = self._owner(array.campaign), array.cluster
        self._require(pair)
        began_s = self._clock.steady_s()
        is_bad = True
        try:
            result = act()
            is_bad = has_failed(result)
        except ANSWERS:
            is_bad = False
            raise
        finally:
            self._note(pair, self._clock.steady_s() - began_s, is_bad=is_bad)
        return result

    def _require(self, pair: Pair) -> None:
        pause = self._pauses.get(pair)
        if pause and self._clock.steady_s() < pause.until_s:
            raise HeldUp(f"a call as its owner at {pair[1]} took too long, so the others wait")
        if self._taken_s.get(pair, 0.0) >= TURN_S:
            raise NotAsked(f"its owner has had {TURN_S:.0f} s at {pair[1]} in this cycle")

    def _note(self, pair: Pair, took_s: float, *, is_bad: bool) -> None:
        """Note a call; one that hung is followed by a pause, each twice as long as the last."""
        self._taken_s[pair] = self._taken_s.get(pair, 0.0) + took_s
        if not is_bad or took_s < HANGS_S:
            self._pauses.pop(pair, None)
            return
        before, limits = self._pauses.get(pair), self._failures
        pause_s = min(2 * before.for_s if before else limits.probe_s, limits.probe_max_s)
        self._pauses[pair] = _Pause(until_s=self._clock.steady_s() + pause_s, for_s=pause_s)
        message = "event=held_up uid=%d cluster=%s took_s=%.0f pause_s=%.0f"
        _log.warning(message, *pair, took_s, pause_s)

    def _owner(self, campaign: int) -> int:
        if campaign not in self._owners:
            stored_campaign = self._campaigns.find(campaign)
            self._owners[campaign] = stored_campaign.uid if stored_campaign else -1
        return self._owners[campaign]
