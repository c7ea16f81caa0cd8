"""The tasks that nikita wipes: noted before they are deleted, until their ends are known."""

from collections.abc import Iterable, Mapping

from sqlalchemy import BigInteger, Column, Table, and_, delete, exists, func, select

from gridbridge.model.campaigns.campaign import Outcome
from gridbridge.model.campaigns.wiping import Mark, Wipe, WipedFor
from gridbridge.state.database.campaign_tables import ATTEMPTS
from gridbridge.state.database.columns import METADATA, Words
from gridbridge.state.database.core import Database

MARKS = Table(
    "campaign_marks",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("array", BigInteger, primary_key=True, autoincrement=False),
    Column("place", BigInteger, primary_key=True, autoincrement=False),
    Column("wiped_for", Words, nullable=False),
)

_OF_ARRAY = and_(ATTEMPTS.c.campaign == MARKS.c.campaign, ATTEMPTS.c.array == MARKS.c.array)
_PENDING = exists().where(
    _OF_ARRAY, ATTEMPTS.c.place == MARKS.c.place, ATTEMPTS.c.outcome == Outcome.PENDING
)
Marked = Mapping[tuple[int, int], Mapping[int, Mark]]  # of campaigns' arrays, by places


class Marks:
    """What is kept of them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> Marked:
        """Return all marks."""
        found: dict[tuple[int, int], dict[int, Mark]] = {}
        for row in self._database.rows(select(MARKS)):
            mark = Mark(wiped_for=WipedFor(row["wiped_for"]))
            found.setdefault((row["campaign"], row["array"]), {})[row["place"]] = mark
        return found

    def put(self, wipe: Wipe) -> None:
        """Mark tasks; one that was marked before gets the new mark."""
        with self._database.transaction():
            for key in _keys(wipe):
                row = key | {"wiped_for": wipe.wiped_for}
                self._database.execute(self._database.upsert(MARKS), row)

    def cancel(self, campaign: int, task: int) -> int:
        """Mark the attempts of a task whose ends are not known; return how many they are."""
        of = (ATTEMPTS.c.campaign == campaign, ATTEMPTS.c.task == task)
        query = select(ATTEMPTS.c.campaign, ATTEMPTS.c.array, ATTEMPTS.c.place)
        with self._database.transaction():
            rows = self._database.rows(query.where(*of, ATTEMPTS.c.outcome == Outcome.PENDING))
            for row in rows:
                values = dict(row) | {"wiped_for": WipedFor.UNWANTED}
                self._database.execute(self._database.upsert(MARKS), values)
        return len(rows)

    def remove(self, wipe: Wipe) -> None:
        """Take marks off: these tasks are not deleted any more."""
        with self._database.transaction():
            for key in _keys(wipe):
                of = and_(*(MARKS.c[name] == value for name, value in key.items()))
                self._database.execute(delete(MARKS).where(of))

    def tidy(self) -> None:
        """Forget the marks of attempts that have ended."""
        if self._database.rows(select(MARKS.c.campaign).limit(1)):
            self._database.execute(delete(MARKS).where(~_PENDING))

    def wiped(self, campaign: int, task: int) -> int:
        """Return how many attempts of a task were wiped before they started."""
        of = (ATTEMPTS.c.campaign == campaign, ATTEMPTS.c.task == task)
        query = select(func.count().label("times")).where(*of, ATTEMPTS.c.outcome == Outcome.WIPED)
        return int(self._database.rows(query)[0]["times"])


def _keys(wipe: Wipe) -> Iterable[dict[str, int]]:
    for places in wipe.places:
        for place in places:
            yield {"campaign": wipe.campaign, "array": wipe.array, "place": place}
