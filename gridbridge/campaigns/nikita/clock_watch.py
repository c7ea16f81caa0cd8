"""Watches this host's clocks from cycle to cycle: from cron each is a run of its own."""

import logging

from gridbridge.campaigns.store import host_clocks
from gridbridge.decisions.campaigns.failures.clock_jumps import with_jumps
from gridbridge.errors import StateError
from gridbridge.model.campaigns.cancellation import CancellationClocks, ClockJump
from gridbridge.model.places import NIKITA_CLOCKS
from gridbridge.shell import host
from gridbridge.shell.clock import Clock

_log = logging.getLogger(__name__)


class ClockWatch:
    """What is known of them."""

    def __init__(self, clock: Clock, path: str = NIKITA_CLOCKS) -> None:
        self._clock = clock
        self._path = path
        self._seen: CancellationClocks | None = None

    def look(self) -> tuple[ClockJump, ...]:
        """Return by how much the clock was set forward, and when."""
        before = host_clocks.read(self._path)
        now = CancellationClocks(
            boot=host.boot(), wall=self._clock.now(), steady_s=self._clock.steady_s()
        )
        self._seen = with_jumps(before, now)
        for jump in self._seen.leaps[len(before.leaps) if before else 0 :]:
            _log.warning("event=clock_set by_s=%+.0f", jump.by_s)
        return self._seen.leaps

    def keep(self) -> None:
        """Keep what was seen; what can't be kept is seen again by the next cycle."""
        try:
            if self._seen:
                host_clocks.put(self._seen, self._path)
        except StateError as error:
            _log.warning("event=not_kept why=%r", str(error))
