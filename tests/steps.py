"""How much work something is, in lines of Python that run: the same on every machine."""

import sys
from collections.abc import Callable
from types import FrameType


def steps(act: Callable[[], object]) -> int:
    """Do it, and return how many lines ran; a loop's line counts each time."""
    count = 0

    def look(_frame: FrameType, event: str, _value: object) -> object:
        nonlocal count
        count += event == "line"
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        act()
    finally:
        sys.settrace(before)
    return count
