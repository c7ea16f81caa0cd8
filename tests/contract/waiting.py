"""Waiting with a limit, for something to become so or to stay so."""

import time
from collections.abc import Callable
from typing import TypeVar

PAUSE_S = 0.05

T = TypeVar("T")


def until(look: Callable[[], T], what: str, limit_s: float = 60, pause_s: float = PAUSE_S) -> T:
    """Wait until `look` returns something true, and return that; fail with the last state."""
    deadline = time.monotonic() + limit_s
    while not (seen := look()):
        assert time.monotonic() < deadline, f"waited {limit_s:g} s for {what}; last: {seen!r}"
        time.sleep(pause_s)
    return seen


def stays(look: Callable[[], object], for_s: float = 0.5) -> bool:
    """Say whether what `look` returns is the same for so long."""
    deadline, first = time.monotonic() + for_s, look()
    while time.monotonic() < deadline:
        time.sleep(PAUSE_S)
        if look() != first:
            return False
    return True
