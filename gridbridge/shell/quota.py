"""Limits the log lines that one person can cause in a while, and counts those left out."""

from collections import Counter
from collections.abc import Callable, Hashable
from logging import Logger

LINES = 20
INTERVAL_S = 60.0
WITHHELD = 1000


class LogQuota:
    """Counts the lines about each person; after the interval it says how many were left out."""

    def __init__(
        self,
        clock: Callable[[], float],
        most: int = LINES,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._most = most
        self._interval_s = interval_s
        self._clock = clock
        self._begun_s = clock()
        self._count: Counter[Hashable] = Counter()

    def allows(self, person: Hashable) -> bool:
        """Say whether one more line about somebody may be told, and count it."""
        self._count[person] += 1
        return self._count[person] <= self._most

    def left_out(self) -> dict[Hashable, int]:
        """Return how many lines about whom were left out, once after each interval."""
        if self._clock() - self._begun_s < self._interval_s:
            return {}
        left_out = {person: n - self._most for person, n in self._count.items() if n > self._most}
        self._count.clear()
        self._begun_s = self._clock()
        return left_out

    def tell_left_out(self, log: Logger) -> None:
        """Log of which uid how many lines were left out, when the interval is over."""
        for uid, count in self.left_out().items():
            log.warning("event=left_out uid=%s lines=%d", uid, count)


class WithheldLines:
    """Lines that were left out for now: a few of each person, the first of each subject."""

    def __init__(self, most: int = WITHHELD) -> None:
        self._most = most
        self._lines: dict[Hashable, dict[Hashable, list[str]]] = {}

    def keep(self, person: Hashable, subject: Hashable, line: str) -> None:
        """Keep a line about a person's subject, if there is room."""
        theirs = self._lines.setdefault(person, {})
        if sum(map(len, theirs.values())) < self._most:
            theirs.setdefault(subject, []).append(line)

    def take(self, person: Hashable, subject: Hashable) -> list[str]:
        """Return a subject's lines, and keep them no longer."""
        theirs = self._lines.get(person, {})
        lines = theirs.pop(subject, [])
        if not theirs:
            self._lines.pop(person, None)
        return lines
