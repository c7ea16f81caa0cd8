"""Tables of tasks to delete or preempt, and of tasks that clusters do not list.

A task is marked before it is deleted; the mark stays until the task's end is known.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import BigInteger, Column, Table, func, not_, select, true

from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.campaigns.nikita_deletion_values import (
    REASONS_IF_STILL_WAITING,
    ArrayTaskDeletion,
    NikitaDeletionReason,
    TaskDeletionMark,
    TaskMissingSince,
)
from gridbridge.model.campaigns.preemption import LocalRequestId, PreemptionHistory, TasksPreemptedForRequest
from gridbridge.state.database.campaign_tables import (
    ATTEMPTS,
    PLACE,
    delete_rows_of_attempts,
    delete_rows_of_ended_attempts,
)
from gridbridge.state.database.column_types import METADATA, PrintableTextColumn, UtcTimeColumn
from gridbridge.state.database.transaction import StateFile

MARKS = Table(
    "campaign_marks",
    METADATA,
    *(Column(name, BigInteger, primary_key=True, autoincrement=False) for name in PLACE),
    Column("wiped_for", PrintableTextColumn, nullable=False),
)

WAYS = Table(
    "campaign_ways",
    METADATA,
    *(Column(name, BigInteger, primary_key=True, autoincrement=False) for name in PLACE),
    Column("cluster", PrintableTextColumn, nullable=False),
    Column("job", BigInteger, nullable=False),
    Column("task", BigInteger, nullable=False),
    Column("lacked", PrintableTextColumn, nullable=False),
    Column("at", UtcTimeColumn, nullable=False, index=True),
)
_UNWANTED = MARKS.c.wiped_for == NikitaDeletionReason.UNWANTED
Marked = Mapping[tuple[int, int], Mapping[int, TaskDeletionMark]]  # marks by (campaign, array), then by array index
MISSING = Table(
    "campaign_missing",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("array", BigInteger, primary_key=True, autoincrement=False),
    Column("place", BigInteger, primary_key=True, autoincrement=False),
    Column("since", UtcTimeColumn, nullable=False),
)
Place = tuple[int, int, int]  # campaign number, array number, array index


class TaskDeletionMarkRows:
    """Reads and writes the marks of tasks to delete."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def all(self) -> Marked:
        """Return all marks by array and index."""
        marks: dict[tuple[int, int], dict[int, TaskDeletionMark]] = {}
        for row in self._database.rows(select(MARKS)):
            mark = TaskDeletionMark(wiped_for=NikitaDeletionReason(row["wiped_for"]))
            marks.setdefault((row["campaign"], row["array"]), {})[row["place"]] = mark
        return marks

    def put(self, wipe: ArrayTaskDeletion) -> None:
        """Mark tasks for deletion; a new mark replaces an old one.

        The owner's cancellation is never replaced. A mark for waiting tasks only replaces no other
        mark, because its writer may not have seen the other mark.
        """
        rows = [key | {"wiped_for": wipe.wiped_for} for key in _keys(wipe)]
        unless = true() if wipe.wiped_for in REASONS_IF_STILL_WAITING else _UNWANTED
        self._database.execute_each(self._database.upsert(MARKS, unless), rows)

    def cancel(self, campaign: int, task: int) -> int:
        """Mark all unfinished attempts of a task as cancelled; return how many."""
        of = (ATTEMPTS.c.campaign == campaign, ATTEMPTS.c.task == task)
        query = select(ATTEMPTS.c.campaign, ATTEMPTS.c.array, ATTEMPTS.c.place)
        with self._database.transaction():
            rows = self._database.rows(query.where(*of, ATTEMPTS.c.outcome == TaskAttemptOutcome.PENDING))
            marks = [dict(row) | {"wiped_for": NikitaDeletionReason.UNWANTED} for row in rows]
            self._database.execute_each(self._database.upsert(MARKS), marks)
        return len(rows)

    def remove(self, wipe: ArrayTaskDeletion) -> None:
        """Remove marks, except cancellations by the owner."""
        delete_rows_of_attempts(self._database, MARKS, _keys(wipe), not_(_UNWANTED))

    def tidy(self) -> None:
        """Delete the marks of attempts that have ended."""
        delete_rows_of_ended_attempts(self._database, MARKS)

    def wiped(self, campaign: int, task: int) -> int:
        """Return how many attempts of a task were deleted before they started."""
        of = (ATTEMPTS.c.campaign == campaign, ATTEMPTS.c.task == task)
        query = select(func.count().label("times")).where(*of, ATTEMPTS.c.outcome == TaskAttemptOutcome.WIPED)
        return int(self._database.rows(query)[0]["times"])


class LocalJobPreemptionRows:
    """Reads and writes which tasks were preempted for which local jobs."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def put(self, way: TasksPreemptedForRequest, at: datetime) -> None:
        """Record the tasks that were preempted for a local job."""
        columns = {"cluster": way.cluster, "job": way.job, "task": way.task, "at": at}
        columns |= {"lacked": ",".join(way.lacked)}
        rows = [{name: getattr(task, name) for name in PLACE} | columns for task in way.tasks]
        with self._database.transaction():
            self._database.execute_each(self._database.upsert(WAYS), rows)

    def tried(self, since: datetime) -> PreemptionHistory:
        """Return by local request the times after `since` when tasks were preempted for it."""
        times: dict[LocalRequestId, tuple[datetime, ...]] = {}
        query = select(WAYS.c.cluster, WAYS.c.job, WAYS.c.task, WAYS.c.at).distinct()
        for row in self._database.rows(query.where(WAYS.c.at > since).order_by(WAYS.c.at)):
            key = row["cluster"], row["job"], row["task"]
            times[key] = (*times.get(key, ()), row["at"])
        return times


def _keys(wipe: ArrayTaskDeletion) -> Iterable[dict[str, int]]:
    for indices in wipe.places:
        for index in indices:
            yield {"campaign": wipe.campaign, "array": wipe.array, "place": index}


class TaskMissingAtClusterRows:
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
