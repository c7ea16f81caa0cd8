"""Limit how long one owner's hanging commands delay the other owners' campaigns.

Commands run one after another as the owner, and execute that person's shell start files. A call
that fails after five seconds pauses all calls of this owner at this cluster. Each further such
failure doubles the pause. One owner's calls at a cluster get one minute per cycle.
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

# A call that fails after this time may have hung: a usual call takes less than a second.
HANGS_S = 5.0
TURN_S = 60.0  # per cycle, person and cluster; as long as the longest call

# errors that are replies: the call did not hang
ANSWERS = (AlreadySubmitted, ArrayRefused, CampaignEnded, CampaignRefused)

T = TypeVar("T")
Pair = tuple[int, str]  # a person and a cluster

_log = logging.getLogger(__name__)


class NotAsked(GridbridgeError):
    """A call was postponed to a later cycle; no command ran."""


class HeldUp(NotAsked):
    """A call was postponed because the owner's last call at this cluster hung."""


@dataclass(slots=True)
class _Pause:
    until_s: float
    for_s: float


class OwnerTimeBudget:
    """Limits the time that each owner's calls at each cluster may take."""

    def __init__(self, campaigns: CampaignRows, clock: Clock, failures: Failures) -> None:
        self._campaigns = campaigns
        self._clock = clock
        self._failures = failures
        self._taken_s: dict[Pair, float] = {}  # in this cycle
        self._pauses: dict[Pair, _Pause] = {}
        self._owners: dict[int, int] = {}

    def begin(self) -> None:
        """Start a new cycle with a full budget for every owner."""
        self._taken_s.clear()

    def take(
        self, array: Array, act: Callable[[], T], has_failed: Callable[[T], bool] = lambda _: False
    ) -> T:
        """Run a call for an array; NotAsked if its owner's budget is used up or paused."""
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
        """Add a call's duration to the budget, and pause an owner whose call hung.

        Each pause is twice as long as the previous one.
        """
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
