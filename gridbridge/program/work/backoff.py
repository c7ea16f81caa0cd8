"""Exponential back-off: each failure in a row doubles the pause before the next attempt."""

from collections.abc import Callable, Hashable

FIRST_S, LONGEST_S = 5.0, 300.0  # pauses; a qmaster writes most accounting records within seconds


def double_pause_after_failure(pause_s: float, first_s: float, longest_s: float) -> float:
    """Return the pause after one more failure in a row; 0 means no earlier failure."""
    return min(longest_s, 2 * pause_s or first_s)


class BackoffBySubject:
    """Tracks when an attempt on each subject, such as a transfer, may be repeated."""

    def __init__(self, clock: Callable[[], float], first_s: float = FIRST_S, longest_s: float = LONGEST_S) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._clock = clock
        # time of the next attempt and pause before it, by subject; last tried subject last
        self._next: dict[Hashable, tuple[float, float]] = {}

    def may_try(self, subject: Hashable) -> bool:
        """Return whether a subject may be tried now, and count the attempt if so."""
        now_s = self._clock()
        self._forget_old(now_s)
        due_at_s, last_s = self._next.get(subject, (now_s, 0.0))
        if now_s < due_at_s:
            return False
        wait_s = double_pause_after_failure(last_s, self._first_s, self._longest_s)
        self.forget(subject)
        self._next[subject] = now_s + wait_s, wait_s
        return True

    def forget(self, subject: Hashable) -> None:
        """Forget the failures of a subject, whose next attempt may then begin at once."""
        self._next.pop(subject, None)

    def _forget_old(self, now_s: float) -> None:
        """Forget subjects that could have been tried long ago and were not."""
        while self._next:
            subject, (due_at_s, _) = next(iter(self._next.items()))
            if now_s - due_at_s <= self._longest_s:
                return
            self.forget(subject)
