"""What the balancer keeps from round to round, beside its nodes."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from gridbridge.decisions.elastic.round import Asked
from gridbridge.model.elastic.owned import PoolRecord
from gridbridge.services.journal import decode, encode
from gridbridge.state.database import Database
from gridbridge.state.database.elastic.nodes import Facts, Nodes

POOL, ASKED, WAITING, LAST = "pool.", "asked.", "eligible", "last"
DRAIN, KEEP, FREE = "drain", "keep", "free"


class Memory:
    """The balancer's own state file."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.nodes = Nodes(database)
        self._facts = Facts(database)

    def records(self) -> Mapping[str, PoolRecord]:
        """Return what went wrong with pools of late."""
        return {pool: decode(one, PoolRecord) for pool, one in self._facts.all(POOL).items()}

    def keep_records(self, records: Mapping[str, PoolRecord]) -> None:
        """Keep it."""
        for pool, record in records.items():
            self._facts.put(f"{POOL}{pool}", encode(record))

    def asked(self) -> Asked:
        """Return what administrators asked for since the last round."""
        found = self.wishes()

        def wished(wish: str) -> frozenset[str]:
            return frozenset(host for host, one in found.items() if one == wish)

        return Asked(drained=wished(DRAIN), kept=wished(KEEP), freed=wished(FREE))

    def wishes(self) -> Mapping[str, str]:
        """Return the same by the names of hosts."""
        return {host: str(one.get("wish")) for host, one in self._facts.all(ASKED).items()}

    def ask(self, host: str, wish: str) -> None:
        """Note what an administrator asks for; the next round does it."""
        self._facts.put(f"{ASKED}{host}", {"wish": wish})

    def forget_asked(self, asked: Asked) -> None:
        """Forget what was taken up."""
        for host in (*asked.drained, *asked.kept, *asked.freed):
            self._facts.drop(f"{ASKED}{host}")

    def last_change(self) -> datetime | None:
        """Return when a node last came or went."""
        at = self._facts.all(LAST).get("", {}).get("change")
        return datetime.fromisoformat(str(at)) if at else None

    def spent(self, now: datetime) -> float:
        """Return what nodes have cost in this month."""
        told = self._facts.all(LAST).get("", {})
        return float(str(told.get("spent", 0.0))) if told.get("month") == f"{now:%Y-%m}" else 0.0

    def last_round(self) -> datetime | None:
        """Return when the last round was."""
        at = self._facts.all(LAST).get("", {}).get("round")
        return datetime.fromisoformat(str(at)) if at else None

    def note_round(self, now: datetime, changed: datetime | None, spent: float) -> None:
        """Note a round."""
        value = {
            "change": changed.isoformat() if changed else "",
            "month": f"{now:%Y-%m}",
            "round": now.isoformat(),
            "spent": spent,
        }
        self._facts.put(LAST, value)

    def eligible(self, jobs: Iterable[int], now: datetime) -> Mapping[int, datetime]:
        """Return since when each of these jobs could start: since a round first saw it."""
        known = self._facts.all(WAITING).get("", {})
        return {
            job: datetime.fromisoformat(str(known[str(job)])) if str(job) in known else now
            for job in jobs
        }

    def keep_eligible(self, eligible: Mapping[int, datetime]) -> None:
        """Keep it; jobs that wait no more are forgotten."""
        self._facts.put(WAITING, {str(job): at.isoformat() for job, at in eligible.items()})
