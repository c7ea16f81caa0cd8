"""Limits the log lines that one person can cause in an interval, and counts suppressed lines."""

from collections import Counter
from collections.abc import Callable, Hashable
from logging import Logger

LINES = 20
INTERVAL_S = 60.0
WITHHELD = 1000


class LogLineQuotaByPerson:
    """Counts log lines for each person and limits them in each interval."""

    def __init__(self, clock: Callable[[], float], most: int = LINES, interval_s: float = INTERVAL_S) -> None:
        self._most = most
        self._interval_s = interval_s
        self._clock = clock
        self._begun_s = clock()
        self._count: Counter[Hashable] = Counter()

    def allows(self, person: Hashable) -> bool:
        """Count one more line about a person; say whether it may be logged."""
        self._count[person] += 1
        return self._count[person] <= self._most

    def left_out(self) -> dict[Hashable, int]:
        """Return the number of suppressed lines by person, once after each interval."""
        if self._clock() - self._begun_s < self._interval_s:
            return {}
        left_out = {person: n - self._most for person, n in self._count.items() if n > self._most}
        self._count.clear()
        self._begun_s = self._clock()
        return left_out

    def tell_left_out(self, log: Logger) -> None:
        """Log the number of suppressed lines for each uid when the interval is over."""
        for uid, count in self.left_out().items():
            log.warning("event=left_out uid=%s lines=%d", uid, count)


class WithheldLogLines:
    """Log lines that are held back: a limited number for each person, by subject."""

    def __init__(self, most: int = WITHHELD) -> None:
        self._most = most
        self._lines: dict[Hashable, dict[Hashable, list[str]]] = {}

    def keep(self, person: Hashable, subject: Hashable, line: str) -> None:
        """Hold back a line about a person's subject unless the person's limit is reached."""
        theirs = self._lines.setdefault(person, {})
        if sum(map(len, theirs.values())) < self._most:
            theirs.setdefault(subject, []).append(line)

    def take(self, person: Hashable, subject: Hashable) -> list[str]:
        """Return and forget the lines that are held back about a subject."""
        theirs = self._lines.get(person, {})
        lines = theirs.pop(subject, [])
        if not theirs:
            self._lines.pop(person, None)
        return lines
