"""What the clocks of the balancer's machine say at a moment."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerHostClocks:
    """The clock that can be set, and the one that nobody sets."""

    boot: str  # which start of the machine it is; empty: not known
    wall: datetime
    steady_s: float  # it goes on while the machine sleeps, and begins anew when it starts
