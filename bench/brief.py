"""Small sizes for all measurements: `make bench BRIEF=1` runs every part of them in ten minutes.

What a part measures and how it judges stays the same. A target that holds for whole sizes alone is
told as not judged.
"""

import os
import sys
from typing import TypeVar

IS_BRIEF = os.environ.get("BRIEF", "") not in ("", "0")
NOT_JUDGED = "not judged"

Amount = TypeVar("Amount")


def sized(whole: Amount, small: Amount) -> Amount:
    """Return how much is measured."""
    return small if IS_BRIEF else whole


def judged(misses: list[str]) -> list[str]:
    """Return the misses of targets for whole sizes; of small ones tell them, and return none."""
    if IS_BRIEF:
        for miss in misses:
            print(f"{NOT_JUDGED}: {miss}", file=sys.stderr)
        return []
    return misses
