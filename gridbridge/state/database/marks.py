"""The tasks that nikita wipes: noted before they are deleted, until their ends are known."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import BigInteger, Column, Table, and_, delete, exists, func, select

from gridbridge.model.campaigns.campaign import Outcome
from gridbridge.model.campaigns.making_way.contest import Request, Tried, Way
from gridbridge.model.campaigns.wiping import Mark, Wipe, WipedFor
from gridbridge.state.database.campaign_tables import ATTEMPTS
from gridbridge.state.database.columns import METADATA, Moment, Words
from gridbridge.state.database.core import Database

KEY = ("campaign", "array", "place")
MARKS = Table(
    "campaign_marks",
    METADATA,
    *(Column(name, BigInteger, primary_key=True, autoincrement=False) for name in KEY),
    Column("wiped_for", Words, nullable=False),
)

_OF_ARRAY = and_(ATTEMPTS.c.campaign == MARKS.c.campaign, ATTEMPTS.c.array == MARKS.c.array)
_PENDING = exists().where(
    _OF_ARRAY, ATTEMPTS.c.place == MARKS.c.place, ATTEMPTS.c.outcome == Outcome.PENDING
)
WAYS = Table(
    "campaign_ways",
    METADATA,
    *(Column(name, BigInteger, primary_key=True, autoincrement=False) for name in KEY),
    Column("cluster", Words, nullable=False),
    Column("job", BigInteger, nullable=False),
    Column("task", BigInteger, nullable=False),
    Column("lacked", Words, nullable=False),
    Column("at", Moment, nullable=False, index=True),
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


class Ways:
    """For which local jobs tasks ended, as long as their campaigns are known."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, way: Way, at: datetime) -> None:
        """Note the tasks of one."""
        with self._database.transaction():
            for one in way.tasks:
                key = {"campaign": one.campaign, "array": one.array, "place": one.place}
                known = {"cluster": way.cluster, "job": way.job, "task": way.task, "at": at}
                row = key | known | {"lacked": ",".join(way.lacked)}
                self._database.execute(self._database.upsert(WAYS), row)

    def tried(self, since: datetime) -> Tried:
        """Return for which jobs tasks ended later than that, and when."""
        found: dict[Request, tuple[datetime, ...]] = {}
        query = select(WAYS.c.cluster, WAYS.c.job, WAYS.c.task, WAYS.c.at).distinct()
        for row in self._database.rows(query.where(WAYS.c.at > since).order_by(WAYS.c.at)):
            key = row["cluster"], row["job"], row["task"]
            found[key] = (*found.get(key, ()), row["at"])
        return found


def _keys(wipe: Wipe) -> Iterable[dict[str, int]]:
    for places in wipe.places:
        for place in places:
            yield {"campaign": wipe.campaign, "array": wipe.array, "place": place}
