"""What a round looks at, as it was printed, and what no program of Grid Engine's tells."""

from dataclasses import dataclass
from datetime import datetime

from gridbridge.model.elastic.nodes import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """What a cell's programs printed, in the zone of the moment that is kept with it."""

    qstat: bytes  # qstat -u '*' -xml -f -r
    qhost: bytes  # qhost -xml, which may have -F
    qconf: bytes = b""  # a table in JSON of what qconf and other calls print; empty: nobody asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The rest."""

    now: datetime
    master: str = ""
    last_change: datetime | None = None
    nodes: tuple[Node, ...] = ()
