"""A decision as it is kept: what a program decided, and from which rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One row of the state file; its inputs are enough to decide again."""

    number: int
    at: datetime
    program: str
    sentence: str
    inputs: Mapping[str, object]  # as JSON has them
