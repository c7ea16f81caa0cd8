"""The table of tasks that clusters do not list, with the time since when.

A row stays until the cluster lists the task again or its end is known.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import BigInteger, Column, Table, select

from gridbridge.model.campaigns.cancellation import TaskMissingSince
from gridbridge.state.database.campaign_tables import (
    delete_rows_of_attempts,
    delete_rows_of_ended_attempts,
)
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

Place = tuple[int, int, int]  # a campaign, an array, an index in the array


class MissingTaskRows:
    """Reads and writes the table of missing tasks."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def all(self) -> Mapping[Place, datetime]:
        """Return since when each missing task is missing, by campaign, array and index."""
        rows = self._database.rows(select(MISSING))
        return {(row["campaign"], row["array"], row["place"]): row["since"] for row in rows}

    def note(self, missed: Iterable[TaskMissingSince]) -> None:
        """Store changes of missing tasks, and delete rows of ended attempts."""
        missing: list[dict[str, object]] = []
        listed: list[dict[str, int]] = []
        for change in missed:
            key = {"campaign": change.campaign, "array": change.array, "place": change.place}
            if change.since:
                missing.append(key | {"since": change.since})
            else:
                listed.append(key)
        self._database.execute_each(self._database.upsert(MISSING), missing)
        delete_rows_of_attempts(self._database, MISSING, listed)
        delete_rows_of_ended_attempts(self._database, MISSING)
