"""What OAR's energy saving wants of nodes' power, as its hooks noted it."""

from dataclasses import dataclass
from enum import StrEnum


class RequestedPowerState(StrEnum):
    """What is wanted of a node; a file's name begins with it."""

    WAKE = "wake"
    SLEEP = "sleep"


@dataclass(frozen=True, slots=True, kw_only=True)
class OarPowerRequest:
    """One call of a hook."""

    file: str  # its name
    at_s: float  # when it was written, since 1970
    wish: RequestedPowerState
    hosts: tuple[str, ...]
