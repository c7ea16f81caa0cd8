"""The tasks that nikita wipes: noted before they are deleted, until their ends are known."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import BigInteger, Column, Table, func, not_, select, true

from gridbridge.model.campaigns.campaign import TaskOutcome
from gridbridge.model.campaigns.cancellation import (
    IF_WAITING,
    ArrayCancellation,
    CancellationMark,
    WipedFor,
)
from gridbridge.model.campaigns.preemption import Preemption, Request, Tried
from gridbridge.state.database.campaign_tables import ATTEMPTS, PLACE, delete_places, forget_ended
from gridbridge.state.database.columns import METADATA, MomentColumn, PrintableText
from gridbridge.state.database.transaction import StateFile

MARKS = Table(
    "campaign_marks",
    METADATA,
    *(Column(name, BigInteger, primary_key=True, autoincrement=False) for name in PLACE),
    Column("wiped_for", PrintableText, nullable=False),
)

WAYS = Table(
    "campaign_ways",
    METADATA,
    *(Column(name, BigInteger, primary_key=True, autoincrement=False) for name in PLACE),
    Column("cluster", PrintableText, nullable=False),
    Column("job", BigInteger, nullable=False),
    Column("task", BigInteger, nullable=False),
    Column("lacked", PrintableText, nullable=False),
    Column("at", MomentColumn, nullable=False, index=True),
)
_UNWANTED = MARKS.c.wiped_for == WipedFor.UNWANTED
Marked = Mapping[tuple[int, int], Mapping[int, CancellationMark]]  # of campaigns' arrays, by places


class CancellationMarks:
    """What is kept of them."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def all(self) -> Marked:
        """Return all marks."""
        marks: dict[tuple[int, int], dict[int, CancellationMark]] = {}
        for row in self._database.rows(select(MARKS)):
            mark = CancellationMark(wiped_for=WipedFor(row["wiped_for"]))
            marks.setdefault((row["campaign"], row["array"]), {})[row["place"]] = mark
        return marks

    def put(self, wipe: ArrayCancellation) -> None:
        """Mark tasks; one that was marked before gets the new mark.

        But what its owner wants no more stays so, and a task is only to be deleted while it waits
        if nothing else is meant for it: whoever looked before that knew nothing of it.
        """
        rows = [key | {"wiped_for": wipe.wiped_for} for key in _keys(wipe)]
        unless = true() if wipe.wiped_for in IF_WAITING else _UNWANTED
        self._database.execute_each(self._database.upsert(MARKS, unless), rows)

    def cancel(self, campaign: int, task: int) -> int:
        """Mark the attempts of a task whose ends are not known; return how many they are."""
        of = (ATTEMPTS.c.campaign == campaign, ATTEMPTS.c.task == task)
        query = select(ATTEMPTS.c.campaign, ATTEMPTS.c.array, ATTEMPTS.c.place)
        with self._database.transaction():
            rows = self._database.rows(query.where(*of, ATTEMPTS.c.outcome == TaskOutcome.PENDING))
            marks = [dict(row) | {"wiped_for": WipedFor.UNWANTED} for row in rows]
            self._database.execute_each(self._database.upsert(MARKS), marks)
        return len(rows)

    def remove(self, wipe: ArrayCancellation) -> None:
        """Take marks off: these tasks are not deleted any more, unless their owner wants that."""
        delete_places(self._database, MARKS, _keys(wipe), not_(_UNWANTED))

    def tidy(self) -> None:
        """Forget the marks of attempts that have ended."""
        forget_ended(self._database, MARKS)

    def wiped(self, campaign: int, task: int) -> int:
        """Return how many attempts of a task were wiped before they started."""
        of = (ATTEMPTS.c.campaign == campaign, ATTEMPTS.c.task == task)
        query = select(func.count().label("times")).where(
            *of, ATTEMPTS.c.outcome == TaskOutcome.WIPED
        )
        return int(self._database.rows(query)[0]["times"])


class PreemptionRows:
    """For which local jobs tasks ended, as long as their campaigns are known."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def put(self, way: Preemption, at: datetime) -> None:
        """Note the tasks of one."""
        columns = {"cluster": way.cluster, "job": way.job, "task": way.task, "at": at}
        columns |= {"lacked": ",".join(way.lacked)}
        rows = [{name: getattr(task, name) for name in PLACE} | columns for task in way.tasks]
        with self._database.transaction():
            self._database.execute_each(self._database.upsert(WAYS), rows)

    def tried(self, since: datetime) -> Tried:
        """Return for which jobs tasks ended later than that, and when."""
        times: dict[Request, tuple[datetime, ...]] = {}
        query = select(WAYS.c.cluster, WAYS.c.job, WAYS.c.task, WAYS.c.at).distinct()
        for row in self._database.rows(query.where(WAYS.c.at > since).order_by(WAYS.c.at)):
            key = row["cluster"], row["job"], row["task"]
            times[key] = (*times.get(key, ()), row["at"])
        return times


def _keys(wipe: ArrayCancellation) -> Iterable[dict[str, int]]:
    for indices in wipe.places:
        for index in indices:
            yield {"campaign": wipe.campaign, "array": wipe.array, "place": index}
