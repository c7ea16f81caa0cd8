"""Since when tasks of campaigns are not listed by their clusters, until their ends are known."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import BigInteger, Column, Table, select

from gridbridge.model.campaigns.cancellation import MissingSince
from gridbridge.state.database.campaign_tables import delete_places, forget_ended
from gridbridge.state.database.columns import METADATA, MomentColumn
from gridbridge.state.database.transaction import StateFile

MISSING = Table(
    "campaign_missing",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("array", BigInteger, primary_key=True, autoincrement=False),
    Column("place", BigInteger, primary_key=True, autoincrement=False),
    Column("since", MomentColumn, nullable=False),
)

Place = tuple[int, int, int]  # a campaign, an array, a place in it


class MissingTasks:
    """What is kept of them."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def all(self) -> Mapping[Place, datetime]:
        """Return since when each is missing."""
        rows = self._database.rows(select(MISSING))
        return {(row["campaign"], row["array"], row["place"]): row["since"] for row in rows}

    def note(self, missed: Iterable[MissingSince]) -> None:
        """Note what has changed, and forget the attempts that have ended."""
        missing: list[dict[str, object]] = []
        listed: list[dict[str, int]] = []
        for change in missed:
            key = {"campaign": change.campaign, "array": change.array, "place": change.place}
            if change.since:
                missing.append(key | {"since": change.since})
            else:
                listed.append(key)
        self._database.execute_each(self._database.upsert(MISSING), missing)
        delete_places(self._database, MISSING, listed)
        forget_ended(self._database, MISSING)
