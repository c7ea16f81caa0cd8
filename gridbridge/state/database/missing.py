"""Since when tasks of campaigns are not listed by their clusters, until their ends are known."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import BigInteger, Column, Table, and_, bindparam, delete, exists, select

from gridbridge.model.campaigns.campaign import Outcome
from gridbridge.model.campaigns.wiping import Missed
from gridbridge.state.database.campaign_tables import ATTEMPTS
from gridbridge.state.database.columns import METADATA, Moment
from gridbridge.state.database.core import Database

MISSING = Table(
    "campaign_missing",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("array", BigInteger, primary_key=True, autoincrement=False),
    Column("place", BigInteger, primary_key=True, autoincrement=False),
    Column("since", Moment, nullable=False),
)

_KEY = ("campaign", "array", "place")
_LISTED = delete(MISSING).where(*(MISSING.c[name] == bindparam(f"of_{name}") for name in _KEY))
_PENDING = exists().where(
    and_(*(ATTEMPTS.c[name] == MISSING.c[name] for name in _KEY)),
    ATTEMPTS.c.outcome == Outcome.PENDING,
)
Place = tuple[int, int, int]  # a campaign, an array, a place in it


class MissingTasks:
    """What is kept of them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> Mapping[Place, datetime]:
        """Return since when each is missing."""
        rows = self._database.rows(select(MISSING))
        return {(row["campaign"], row["array"], row["place"]): row["since"] for row in rows}

    def note(self, missed: Iterable[Missed]) -> None:
        """Note what has changed, and forget the attempts that have ended."""
        for one in missed:
            values = asdict(one)
            if one.since:
                self._database.execute(self._database.upsert(MISSING), values)
            else:
                of = {f"of_{name}": values[name] for name in _KEY}
                self._database.execute(_LISTED, of)
        if self._database.rows(select(MISSING.c.campaign).limit(1)):
            self._database.execute(delete(MISSING).where(~_PENDING))
