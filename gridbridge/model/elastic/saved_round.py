"""What a round looks at, as it was printed, and what no program of a batch system tells."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.model.elastic.balance_plan import WatchedWaitingJobs
from gridbridge.model.elastic.node import ElasticNode


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedProgramOutputs:
    """What a cell's programs printed, in the zone of the moment that is kept with it."""

    qstat: bytes = b""  # qstat -u '*' -xml -f -r
    qhost: bytes = b""  # qhost -xml, which may have -F
    qconf: bytes = b""  # a table in JSON of what qconf and other calls print; empty: nobody asked
    oar: bytes = b""  # of an OAR server, which has none of those: oarnodes -J, oarstat -f -J


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedBalancerRound:
    """The rest; a situation says what each of them is."""

    now: datetime
    master: str = ""
    last_change: datetime | None = None
    nodes: tuple[ElasticNode, ...] = ()
    best_effort: frozenset[str] = frozenset()
    eligible_since: Mapping[int, datetime] = field(default_factory=dict)
    watched: Mapping[int, WatchedWaitingJobs] = field(default_factory=dict)
    runtimes: Mapping[tuple[str, str], float] = field(default_factory=dict)
    elsewhere: Mapping[str, float] = field(default_factory=dict)
    elsewhere_free: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, datetime] = field(default_factory=dict)
    spent: float = 0.0
