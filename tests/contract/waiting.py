"""Waits for a condition, or for a constant value, within a time limit."""

import time
from collections.abc import Callable
from typing import TypeVar

PAUSE_S = 0.05
BACK_OFF = 0.02  # pause between two calls, as a share of the time waited

T = TypeVar("T")


def until(look: Callable[[], T], what: str, limit_s: float = 60, pause_s: float = PAUSE_S) -> T:
    """Wait until `look` returns a true value, and return that value; fail with the last value."""
    began = time.monotonic()
    while not (seen := look()):
        waited_s = time.monotonic() - began
        assert waited_s < limit_s, f"waited {limit_s:g} s for {what}; last: {seen!r}"
        time.sleep(pause_s + waited_s * BACK_OFF)
    return seen


def stays(look: Callable[[], object], for_s: float = 0.5) -> bool:
    deadline, first = time.monotonic() + for_s, look()
    while time.monotonic() < deadline:
        time.sleep(PAUSE_S)
        if look() != first:
            return False
    return True
