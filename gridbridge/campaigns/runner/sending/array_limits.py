"""Query the array limits of clusters every ten minutes: administrators seldom change them."""

import logging
from collections.abc import Iterable, Mapping

from gridbridge.batch.adapters import adapter_of
from gridbridge.batch.clusters import away
from gridbridge.errors import GridbridgeError, plain_words
from gridbridge.model.job import ArrayLimits
from gridbridge.model.policy import Policy
from gridbridge.shell.clock import Clock

ASKED_S = 600.0  # maximum age of cached limits
AGAIN_S = 60.0  # pause after a failed query

_log = logging.getLogger(__name__)


class ArrayLimitQueries:
    """Caches the array limits that clusters reported."""

    def __init__(self, policy: Policy, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._known: dict[str, ArrayLimits] = {}
        self._asks_at_s: dict[str, float] = {}

    def of(self, clusters: Iterable[str]) -> Mapping[str, ArrayLimits]:
        """Return the array limits by cluster; a cluster that reports none is missing.

        The clusters must have answered a query in this cycle.
        """
        now_s = self._clock.steady_s()
        for name in clusters:
            if now_s >= self._asks_at_s.get(name, now_s):
                self._asks_at_s[name] = now_s + (ASKED_S if self._ask(name) else AGAIN_S)
        return self._known

    def _ask(self, name: str) -> bool:
        """Query one cluster's limits; False if the query failed."""
        where = away(self._policy, name)
        system = adapter_of(where).array_ends
        if not system:
            return True
        try:
            self._known[name] = system.array_limits(where)
        except (GridbridgeError, OSError) as error:
            _log.warning("event=no_limits cluster=%s why=%r", name, plain_words(error))
            return False
        return True
