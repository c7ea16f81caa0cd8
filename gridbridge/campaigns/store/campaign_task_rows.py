"""Tables of single tasks that are published, deleted, preempted for local jobs, or missing in job lists.

A task is marked before its deletion; the mark stays until the task's end is known.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import BigInteger, Column, Table, and_, bindparam, delete, func, insert, not_, select, true, update

from gridbridge.campaigns.store.campaign_statistics_rows import ENDS, RATIOS
from gridbridge.model.campaigns.campaign import CampaignState, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    PublishedCampaignTask,
    RebalancedTaskAttempt,
    TaskPreemption,
)
from gridbridge.model.campaigns.speculation import ShownCompetingAttempt
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    REASONS_IF_STILL_WAITING,
    ArrayTaskDeletion,
    LocalRequestId,
    NikitaDeletionReason,
    PreemptionHistory,
    TaskDeletionMark,
    TaskMissingSince,
    TasksPreemptedForRequest,
)
from gridbridge.model.campaigns.task_index_and_attempt_texts import FIRST_PROLOGUE_TASK
from gridbridge.state.campaign_tables import (
    ARRAYS,
    ATTEMPTS,
    CAMPAIGNS,
    NO_ARRAY,
    PARTS,
    PLACE,
    WAITING,
    delete_rows_of_attempts,
    delete_rows_of_ended_attempts,
)
from gridbridge.state.column_types import METADATA, PrintableTextColumn, UtcTimeColumn
from gridbridge.state.state_file import StateFile

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
    """Reads and writes the marks of tasks that nikita must delete from clusters."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def all(self) -> Marked:
        """Return all deletion marks, by (campaign, array) and by array index."""
        marks: dict[tuple[int, int], dict[int, TaskDeletionMark]] = {}
        for row in self._database.rows(select(MARKS)):
            mark = TaskDeletionMark(wiped_for=NikitaDeletionReason(row["wiped_for"]))
            marks.setdefault((row["campaign"], row["array"]), {})[row["place"]] = mark
        return marks

    def put(self, wipe: ArrayTaskDeletion) -> None:
        """Mark tasks for deletion; a new mark replaces an old mark.

        A cancellation by the owner is never replaced. A mark that deletes only waiting tasks replaces no mark, because
        its writer may not have seen the older mark.
        """
        rows = [key | {"wiped_for": wipe.wiped_for} for key in _keys(wipe)]
        unless = true() if wipe.wiped_for in REASONS_IF_STILL_WAITING else _UNWANTED
        self._database.execute_each(self._database.upsert(MARKS, unless), rows)

    def cancel(self, campaign: int, task: int) -> int:
        """Mark all unfinished attempts of a task as cancelled by the owner; return the number of attempts."""
        of = (ATTEMPTS.c.campaign == campaign, ATTEMPTS.c.task == task)
        query = select(ATTEMPTS.c.campaign, ATTEMPTS.c.array, ATTEMPTS.c.place)
        with self._database.transaction():
            rows = self._database.rows(query.where(*of, ATTEMPTS.c.outcome == TaskAttemptOutcome.PENDING))
            marks = [dict(row) | {"wiped_for": NikitaDeletionReason.UNWANTED} for row in rows]
            self._database.execute_each(self._database.upsert(MARKS), marks)
        return len(rows)

    def remove(self, wipe: ArrayTaskDeletion) -> None:
        """Remove deletion marks, except cancellations by the owner."""
        delete_rows_of_attempts(self._database, MARKS, _keys(wipe), not_(_UNWANTED))

    def tidy(self) -> None:
        """Remove the deletion marks of ended attempts."""
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
        """Return, for each local job, the times after `since` at which tasks were preempted for the job."""
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
    """Reads and writes the time since which a task is missing in its cluster's job list."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def all(self) -> Mapping[Place, datetime]:
        """Return the time since which each missing task is missing, by campaign, array and array index."""
        rows = self._database.rows(select(MISSING))
        return {(row["campaign"], row["array"], row["place"]): row["since"] for row in rows}

    def note(self, missed: Iterable[TaskMissingSince]) -> None:
        """Store which tasks are missing or found again, and delete the rows of ended attempts."""
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


OF_WAYS = ("job", "lacked")
PURGED_AT_ONCE = 50_000  # at most this many tasks are deleted in one transaction
SHOWN = frozenset(field.name for field in fields(PublishedCampaignTask))
RANKS = {
    TaskAttemptOutcome.SUCCESS: 3,
    TaskAttemptOutcome.PENDING: 2,
    TaskAttemptOutcome.COPY: 0,
}  # ranks by which a task's published attempt is chosen; other outcomes have rank 1
BESIDES = (TaskAttemptOutcome.PENDING, TaskAttemptOutcome.COPY)

_SENT = (
    select(
        ATTEMPTS.c.task.label("number"),
        *(ATTEMPTS.c[name] for name in ("attempt", "outcome", "place")),
        *(ATTEMPTS.c[name] for name in ("exit_status", "wallclock_s")),
        *(ARRAYS.c[name] for name in ("cluster", "job_id", "copies_beyond_s")),
        *(WAYS.c[name].label(f"way_{name}") for name in OF_WAYS),
    )
    .join(
        ARRAYS,
        and_(ARRAYS.c.campaign == ATTEMPTS.c.campaign, ARRAYS.c.number == ATTEMPTS.c.array),
        isouter=True,  # a task cancelled while waiting has no array
    )
    .join(WAYS, and_(*(WAYS.c[name] == ATTEMPTS.c[name] for name in PLACE)), isouter=True)
    .where(
        ATTEMPTS.c.campaign == bindparam("of_campaign"), ATTEMPTS.c.task.between(bindparam("low"), bindparam("high"))
    )
    .order_by(ATTEMPTS.c.task, ATTEMPTS.c.attempt)
)
_SENT_OF = select(ARRAYS.c.campaign).distinct()
_AGAIN = select(WAITING.c.first, WAITING.c.last).where(
    WAITING.c.campaign == bindparam("of_campaign"),
    WAITING.c.attempt > 1,
    WAITING.c.first <= bindparam("high"),
    WAITING.c.last >= bindparam("low"),
)
_LAST = select(func.max(ATTEMPTS.c.task).label("task")).where(
    ATTEMPTS.c.campaign == bindparam("of_campaign"), ATTEMPTS.c.task < FIRST_PROLOGUE_TASK
)


class CampaignTaskRows:
    """Queries, cancels and purges single tasks of campaigns."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def sent(self, campaign: int, low: int, high: int) -> tuple[PublishedCampaignTask, ...]:
        """Return the submitted tasks with numbers from `low` to `high`, ordered by number."""
        of = {"of_campaign": campaign, "low": low, "high": high}
        again = {
            task
            for row in self._database.rows(_AGAIN, **of)
            for task in range(max(low, row["first"]), min(high, row["last"]) + 1)
        }
        rows = map(dict, self._database.rows(_SENT, **of))
        groups = groupby(rows, key=lambda row: row["number"])
        return tuple(_shown([*attempts], is_waiting=number in again) for number, attempts in groups)

    def last(self, campaign: int) -> int:
        """Return the highest number of a submitted task; -1 if none was submitted."""
        (row,) = self._database.rows(_LAST, of_campaign=campaign)
        return -1 if row["task"] is None else int(row["task"])

    def sent_of(self) -> frozenset[int]:
        """Return the numbers of campaigns with submitted tasks."""
        return frozenset(row["campaign"] for row in self._database.rows(_SENT_OF))

    def cancel(self, campaign: int, task: int) -> TaskAttempt | None:
        """Cancel a waiting task and return its attempt; None if the task does not wait."""
        of = (WAITING.c.campaign == campaign, WAITING.c.first <= task, WAITING.c.last >= task)
        with self._database.transaction():
            row = next(iter(self._database.rows(select(WAITING).where(*of))), None)
            if not row:
                return None
            self._database.execute(delete(WAITING).where(*of))
            for first, last in ((row["first"], task - 1), (task + 1, row["last"])):
                if first <= last:
                    remainder = dict(row) | {"first": first, "last": last}
                    self._database.execute(insert(WAITING), remainder)
            ended = TaskAttempt(
                campaign=campaign,
                task=task,
                attempt=row["attempt"],
                array=NO_ARRAY,
                place=0,
                outcome=TaskAttemptOutcome.UNWANTED,
            )
            values = {column.name: getattr(ended, column.name) for column in ATTEMPTS.c}
            self._database.execute(insert(ATTEMPTS), values)
            more = {"ended": CAMPAIGNS.c.ended + 1, "cancelled": CAMPAIGNS.c.cancelled + 1}
            this = CAMPAIGNS.c.number == campaign
            self._database.execute(update(CAMPAIGNS).where(this).values(**more))
        return ended

    def drop_attempts(self, campaign: int) -> None:
        """Delete all attempts of a campaign; repeatable.

        Several transactions let other programs write in between.
        """
        for low in range(0, self.last(campaign) + 1, PURGED_AT_ONCE):
            portion = ATTEMPTS.c.task.between(low, low + PURGED_AT_ONCE - 1)
            self._database.execute(delete(ATTEMPTS).where(ATTEMPTS.c.campaign == campaign, portion))

    def purge(self, campaign: int) -> None:
        """Delete all rows of a campaign except its number, which root's ledger of submitted tasks keeps for ever."""
        with self._database.transaction():
            for table in (WAITING, PARTS, ARRAYS, ATTEMPTS, WAYS, RATIOS, ENDS):
                self._database.execute(delete(table).where(table.c.campaign == campaign))
            nothing = asdict(Jdl(name=""))
            values = {"state": CampaignState.PURGED, "jdl": nothing, "digest": ""}
            this = CAMPAIGNS.c.number == campaign
            self._database.execute(update(CAMPAIGNS).where(this).values(**values))


def _shown(attempts: list[dict[str, Any]], *, is_waiting: bool) -> PublishedCampaignTask:
    ways = tuple(_made_way(attempt) for attempt in attempts if attempt["way_job"] is not None)
    moved = tuple(_moves(attempts))
    row, lesser = attempts[0], []
    for attempt in attempts[1:]:
        lower, row = (row, attempt) if _says_more(attempt, row) else (attempt, row)
        lesser.append(lower)
    beyond_s = row["copies_beyond_s"]
    copies = tuple(_copy(attempt) for attempt in lesser if attempt["outcome"] in BESIDES)
    columns = {name: value for name, value in row.items() if name in SHOWN}
    columns |= {"outcome": TaskAttemptOutcome(row["outcome"]), "is_waiting": is_waiting}
    columns |= {"cluster": row["cluster"] or "", "job_id": row["job_id"] or 0}
    return PublishedCampaignTask(**columns, copies=copies, beyond_s=beyond_s, made_way=ways, moved=moved)


def _moves(attempts: list[dict[str, Any]]) -> Iterator[RebalancedTaskAttempt]:
    for count, row in enumerate(attempts, 1):
        if row["outcome"] == TaskAttemptOutcome.MOVED:
            to = next((later["cluster"] or "" for later in attempts[count:]), "")
            yield RebalancedTaskAttempt(attempt=row["attempt"], cluster=row["cluster"] or "", to=to)


def _made_way(row: dict[str, Any]) -> TaskPreemption:
    return TaskPreemption(
        attempt=row["attempt"],
        cluster=row["cluster"] or "",
        job=row["way_job"],
        lacked=tuple(row["way_lacked"].split(",")),
    )


def _says_more(later: dict[str, Any], earlier: dict[str, Any]) -> bool:
    """Return whether the later of two attempts is published in place of the earlier attempt."""
    ranks = RANKS.get(later["outcome"], 1), RANKS.get(earlier["outcome"], 1)
    return ranks[0] > ranks[1] or ranks == (1, 1)


def _copy(row: dict[str, Any]) -> ShownCompetingAttempt:
    return ShownCompetingAttempt(
        attempt=row["attempt"],
        cluster=row["cluster"] or "",
        outcome=TaskAttemptOutcome(row["outcome"]),
        beyond_s=row["copies_beyond_s"],
    )
