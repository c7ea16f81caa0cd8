"""Tables of tasks that are published, deleted, preempted for local jobs, or missing in job lists."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from itertools import groupby, zip_longest
from typing import Any

from sqlalchemy import Column, Select, Table, and_, bindparam, delete, func, insert, not_, select, true, update

from gridbridge.campaigns.store.campaign_statistics_rows import CARRIES, ENDS, RATIOS, TASK_USAGE
from gridbridge.campaigns.store.checkpoint_statistics_rows import (
    CHECKPOINT_CARRIES,
    TIMES,
    Carries,
    CheckpointCarryRows,
)
from gridbridge.campaigns.store.shared_input_rows import GROUPS, SENT_INPUTS
from gridbridge.model.campaigns import task_deletions_and_preemptions as deletions
from gridbridge.model.campaigns.campaign import CampaignCluster, CampaignState, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.checkpoint_statistics import CheckpointCarryState
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    PublishedCampaignTask,
    RebalancedTaskAttempt,
    TaskCheckpoint,
    TaskPreemption,
)
from gridbridge.model.campaigns.speculative_attempts import PublishedCompetingAttempt
from gridbridge.model.campaigns.task_index_and_attempt_texts import FIRST_PROLOGUE_TASK
from gridbridge.state import column_types
from gridbridge.state.campaign_tables import (
    ARRAYS,
    ATTEMPTS,
    CAMPAIGNS,
    NO_ARRAY,
    OUTPUTS,
    PARTS,
    PLACE,
    PREDECESSORS,
    WAITING,
    delete_rows_of_attempts,
    delete_rows_of_ended_attempts,
)
from gridbridge.state.state_file import StateFile

MARKS = Table(
    "campaign_marks",
    column_types.METADATA,
    *column_types.integer_key_columns(*PLACE),
    Column("wiped_for", column_types.EnumWordColumn(deletions.NikitaDeletionReason), nullable=False),
)

WAYS = Table(
    "campaign_ways",
    column_types.METADATA,
    *column_types.integer_key_columns(*PLACE),
    *column_types.text_columns("cluster"),
    *column_types.integer_columns("job", "task"),
    *column_types.text_columns("lacked"),
    Column("at", column_types.UtcTimeColumn, nullable=False, index=True),
)
_UNWANTED = MARKS.c.wiped_for == deletions.NikitaDeletionReason.UNWANTED
# {(campaign, array): {array index: mark}}
DeletionMarksByArray = Mapping[tuple[int, int], Mapping[int, deletions.TaskDeletionMark]]
MISSING = Table(
    "campaign_missing",
    column_types.METADATA,
    *column_types.integer_key_columns(*PLACE),
    *column_types.time_columns("since"),
)
Place = tuple[int, int, int]  # campaign number, array number, array index


class TaskDeletionMarkRows:
    def __init__(self, database: StateFile) -> None:
        self._database = database

    def deletion_marks(self) -> DeletionMarksByArray:
        marks: dict[tuple[int, int], dict[int, deletions.TaskDeletionMark]] = {}
        for row in self._database.rows(select(MARKS)):
            of_array = marks.setdefault((row["campaign"], row["array"]), {})
            of_array[row["place"]] = deletions.TaskDeletionMark(wiped_for=row["wiped_for"])
        return marks

    def mark_tasks_for_deletion(self, wipe: deletions.ArrayTaskDeletion) -> None:
        """Mark tasks for deletion; keep owners' marks, and all marks if the reason is for waiting tasks only."""
        rows = [key | {"wiped_for": wipe.wiped_for} for key in _mark_keys_of_deletion(wipe)]
        unless = true() if wipe.wiped_for in deletions.REASONS_IF_STILL_WAITING else _UNWANTED
        self._database.execute_for_each_row(self._database.upsert(MARKS, unless), rows)

    def mark_task_cancelled(self, campaign: int, task: int) -> int:
        """Mark all unfinished attempts of a task as cancelled by the owner; return the number of attempts."""
        of = (ATTEMPTS.c.campaign == campaign, ATTEMPTS.c.task == task)
        query = select(ATTEMPTS.c.campaign, ATTEMPTS.c.array, ATTEMPTS.c.place)
        with self._database.transaction():
            rows = self._database.rows(query.where(*of, ATTEMPTS.c.outcome == TaskAttemptOutcome.PENDING))
            marks = [dict(row) | {"wiped_for": deletions.NikitaDeletionReason.UNWANTED} for row in rows]
            unwanted = update(ATTEMPTS).values(is_unwanted=True)
            self._database.execute(unwanted.where(*of, ATTEMPTS.c.outcome == TaskAttemptOutcome.PENDING))
            self._database.execute_for_each_row(self._database.upsert(MARKS), marks)
        return len(rows)

    def remove_deletion_marks(self, wipe: deletions.ArrayTaskDeletion) -> None:
        """Remove the deletion marks of these tasks, except of tasks that the owner cancelled."""
        delete_rows_of_attempts(self._database, MARKS, _mark_keys_of_deletion(wipe), not_(_UNWANTED))

    def remove_marks_of_ended_attempts(self) -> None:
        delete_rows_of_ended_attempts(self._database, MARKS)


class LocalJobPreemptionRows:
    def __init__(self, database: StateFile) -> None:
        self._database = database

    def record_preemption(self, way: deletions.TasksPreemptedForRequest, at: datetime) -> None:
        columns = {"cluster": way.cluster, "job": way.job, "task": way.task, "at": at, "lacked": ",".join(way.lacked)}
        rows = [{name: getattr(task, name) for name in PLACE} | columns for task in way.tasks]
        with self._database.transaction():
            self._database.execute_for_each_row(self._database.upsert(WAYS), rows)

    def preemption_times_by_job(self, since: datetime) -> deletions.PreemptionHistory:
        times: dict[deletions.LocalRequestId, tuple[datetime, ...]] = {}
        query = select(WAYS.c.cluster, WAYS.c.job, WAYS.c.task, WAYS.c.at).distinct()
        for row in self._database.rows(query.where(WAYS.c.at > since).order_by(WAYS.c.at)):
            key = row["cluster"], row["job"], row["task"]
            times[key] = (*times.get(key, ()), row["at"])
        return times


def _mark_keys_of_deletion(wipe: deletions.ArrayTaskDeletion) -> Iterable[dict[str, int]]:
    for indices in wipe.places:
        for index in indices:
            yield {"campaign": wipe.campaign, "array": wipe.array, "place": index}


class TaskMissingAtClusterRows:
    def __init__(self, database: StateFile) -> None:
        self._database = database

    def missing_tasks(self) -> Mapping[Place, datetime]:
        rows = self._database.rows(select(MISSING))
        return {(row["campaign"], row["array"], row["place"]): row["since"] for row in rows}

    def store_missing_tasks(self, missed: Iterable[deletions.TaskMissingSince]) -> None:
        """Store newly missing tasks; delete the rows of tasks that were listed again or have ended."""
        changes = [*map(asdict, missed)]
        missing = [change for change in changes if change["since"]]
        self._database.execute_for_each_row(self._database.upsert(MISSING), missing)
        listed = [change for change in changes if not change["since"]]
        delete_rows_of_attempts(self._database, MISSING, listed)
        delete_rows_of_ended_attempts(self._database, MISSING)


OUTPUTS_AT_ONCE = 1000  # at most this many tasks in one call that brings outputs
_OF_TASK = {name: ATTEMPTS.c[name] == bindparam(f"of_{name}") for name in ("campaign", "task", "attempt")}
_OUTPUT_OF_ATTEMPT = (
    select(ATTEMPTS.c.campaign, ATTEMPTS.c.task, ATTEMPTS.c.attempt, ARRAYS.c.cluster)
    .join(ARRAYS, and_(ARRAYS.c.campaign == ATTEMPTS.c.campaign, ARRAYS.c.number == ATTEMPTS.c.array))
    .where(*_OF_TASK.values())
)


_NEXT_CLUSTER = select(func.min(OUTPUTS.c.cluster).label("next")).where(
    OUTPUTS.c.campaign == bindparam("campaign"), OUTPUTS.c.cluster > bindparam("after")
)
_NEXT_CAMPAIGN = select(func.min(OUTPUTS.c.campaign).label("next")).where(OUTPUTS.c.campaign > bindparam("after"))
_UIDS = select(CAMPAIGNS.c.number, CAMPAIGNS.c.uid).where(CAMPAIGNS.c.number.in_(bindparam("numbers", expanding=True)))


class UnbroughtOutputRows:
    """Successful tasks whose outputs are still to be brought home from their clusters."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def add_outputs_of_attempts(self, attempts: Iterable[TaskAttempt]) -> None:
        rows = [{f"of_{name}": getattr(attempt, name) for name in _OF_TASK} for attempt in attempts]
        of_attempt = insert(OUTPUTS).from_select([*_OUTPUT_OF_ATTEMPT.selected_columns.keys()], _OUTPUT_OF_ATTEMPT)
        self._database.execute_for_each_row(of_attempt, rows)

    def campaigns_and_clusters_with_outputs(self) -> dict[CampaignCluster, int]:
        """Return {(campaign, cluster): uid of the campaign's owner}, by the first row of each pair."""
        pairs = [*self._pairs_with_outputs(_NEXT_CAMPAIGN, _NEXT_CLUSTER)]
        rows = self._database.rows(_UIDS, numbers=list({number for number, _ in pairs}))
        uids = {row["number"]: row["uid"] for row in rows}
        return {pair: uids[pair[0]] for pair in pairs if pair[0] in uids}

    def campaigns_with_outputs_to_bring(self, clusters: Container[str]) -> frozenset[int]:
        """Return the campaigns with outputs at these clusters, except outputs that a cluster does not have."""
        present = self._pairs_with_outputs(
            _NEXT_CAMPAIGN.where(~OUTPUTS.c.is_absent), _NEXT_CLUSTER.where(~OUTPUTS.c.is_absent)
        )
        return frozenset(campaign for campaign, cluster in present if cluster in clusters)

    def _pairs_with_outputs(self, next_campaign: Select[Any], next_cluster: Select[Any]) -> Iterator[CampaignCluster]:
        campaign = 0
        while campaign := self._database.rows(next_campaign, after=campaign)[0]["next"]:
            cluster = ""
            while cluster := self._database.rows(next_cluster, campaign=campaign, after=cluster)[0]["next"]:
                yield campaign, cluster

    def unbrought_outputs(self, campaign: int, cluster: str, after: int = -1) -> tuple[tuple[int, int], ...]:
        """Return the first (task, attempt) pairs above a task number whose outputs are at a cluster."""
        is_of = (OUTPUTS.c.campaign == campaign, OUTPUTS.c.task > after)
        query = select(OUTPUTS.c.task, OUTPUTS.c.attempt).where(*is_of)
        rows = self._database.rows(
            query.where(OUTPUTS.c.cluster == cluster).order_by(OUTPUTS.c.task).limit(OUTPUTS_AT_ONCE)
        )
        return tuple((row["task"], row["attempt"]) for row in rows)

    def remove_brought_outputs(self, campaign: int, brought: Iterable[tuple[int, int]]) -> None:
        self._database.execute_for_each_row(delete(OUTPUTS).where(*_OF_OUTPUT), _rows_of_tasks(campaign, brought))

    def record_absent_outputs(self, campaign: int, attempts: Iterable[tuple[int, int]], absent: Container[int]) -> None:
        """Record for (task, attempt) pairs whether the cluster has no outputs of the task."""
        rows = [row | {"absent": row["of_task"] in absent} for row in _rows_of_tasks(campaign, attempts)]
        self._database.execute_for_each_row(
            update(OUTPUTS).where(*_OF_OUTPUT).values(is_absent=bindparam("absent")), rows
        )


_OF_OUTPUT = tuple(OUTPUTS.c[name] == bindparam(f"of_{name}") for name in _OF_TASK)


def _rows_of_tasks(campaign: int, attempts: Iterable[tuple[int, int]]) -> list[dict[str, int]]:
    return [{"of_campaign": campaign, "of_task": task, "of_attempt": attempt} for task, attempt in attempts]


TABLES_OF_CAMPAIGN = (
    *(WAITING, PREDECESSORS, PARTS, ARRAYS, ATTEMPTS, OUTPUTS, WAYS, RATIOS, ENDS, CARRIES, TIMES),
    *(GROUPS, SENT_INPUTS, TASK_USAGE, CHECKPOINT_CARRIES),
)
PURGED_AT_ONCE = 50_000
# for each task the attempt with the highest rank is published; other outcomes have rank 1
RANKS = {TaskAttemptOutcome.SUCCESS: 3, TaskAttemptOutcome.PENDING: 2, TaskAttemptOutcome.COPY: 0}

RESULTS = ("exit_status", "wallclock_s", "max_rss_kb", "written_kb")
_SENT = (
    select(
        ATTEMPTS.c.task.label("number"),
        *(ATTEMPTS.c[name] for name in ("attempt", "outcome", "place", "has_progressed", *RESULTS)),
        *(ARRAYS.c[name] for name in ("cluster", "job_id", "copies_beyond_s")),
        *(WAYS.c[name].label(f"way_{name}") for name in ("job", "lacked")),
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
    def __init__(self, database: StateFile) -> None:
        self._database = database
        self._carries = CheckpointCarryRows(database)

    def submitted_tasks(self, campaign: int, low: int, high: int) -> tuple[PublishedCampaignTask, ...]:
        of = {"of_campaign": campaign, "low": low, "high": high}
        again = {
            task
            for row in self._database.rows(_AGAIN, **of)
            for task in range(max(low, row["first"]), min(high, row["last"]) + 1)
        }
        rows = map(dict, self._database.rows(_SENT, **of))
        groups = groupby(rows, key=lambda row: row["number"])
        tasks = [_task_for_publication([*attempts], is_waiting=number in again) for number, attempts in groups]
        carries = self._carries.carries_of_tasks((campaign, task.number) for task in tasks if task.checkpoint)
        return tuple(_with_last_carry(task, campaign, carries) for task in tasks)

    def last_submitted_task(self, campaign: int) -> int:
        """Return the highest number of a submitted task; -1 if none was submitted."""
        (row,) = self._database.rows(_LAST, of_campaign=campaign)
        return -1 if row["task"] is None else int(row["task"])

    def campaigns_with_submitted_tasks(self) -> frozenset[int]:
        return frozenset(row["campaign"] for row in self._database.rows(select(ARRAYS.c.campaign).distinct()))

    def cancel_waiting_task(self, campaign: int, task: int) -> TaskAttempt | None:
        of = (WAITING.c.campaign == campaign, WAITING.c.first <= task, WAITING.c.last >= task)
        with self._database.transaction():
            row = next(iter(self._database.rows(select(WAITING).where(*of))), None)
            if not row:
                return None
            self._database.execute(delete(WAITING).where(*of))
            for first, last in ((row["first"], task - 1), (task + 1, row["last"])):
                if first <= last:
                    self._database.execute(insert(WAITING), dict(row) | {"first": first, "last": last})
            key = {"campaign": campaign, "task": task, "attempt": row["attempt"], "array": NO_ARRAY, "place": 0}
            ended = TaskAttempt(**key, outcome=TaskAttemptOutcome.UNWANTED)
            self._database.execute(
                insert(ATTEMPTS), {column.name: getattr(ended, column.name) for column in ATTEMPTS.c}
            )
            more = {"ended": CAMPAIGNS.c.ended + 1, "cancelled": CAMPAIGNS.c.cancelled + 1}
            self._database.execute(update(CAMPAIGNS).where(CAMPAIGNS.c.number == campaign).values(**more))
        return ended

    def delete_attempts(self, campaign: int) -> None:
        """Delete all attempts in small transactions, so that other programs can write in between."""
        for low in range(0, self.last_submitted_task(campaign) + 1, PURGED_AT_ONCE):
            portion = ATTEMPTS.c.task.between(low, low + PURGED_AT_ONCE - 1)
            self._database.execute(delete(ATTEMPTS).where(ATTEMPTS.c.campaign == campaign, portion))

    def purge_campaign(self, campaign: int) -> None:
        """Delete all rows of a campaign except its number, which root's ledger keeps for ever."""
        with self._database.transaction():
            for table in TABLES_OF_CAMPAIGN:
                self._database.execute(delete(table).where(table.c.campaign == campaign))
            values = {"state": CampaignState.PURGED, "jdl": Jdl(name=""), "digest": "", "name": ""}
            self._database.execute(update(CAMPAIGNS).where(CAMPAIGNS.c.number == campaign).values(**values))


def _with_last_carry(task: PublishedCampaignTask, campaign: int, carries: Carries) -> PublishedCampaignTask:
    """Return a task whose checkpoint has the last allowed carry, if any: that with the longest time to lose."""
    left = task.checkpoint
    of_checkpoint = carries.get((campaign, task.number, left.attempt), ()) if left else ()
    if left is None or not of_checkpoint:
        return task
    carry = max(of_checkpoint, key=lambda carry: (carry.state is not CheckpointCarryState.FAILED, carry.lost_s))
    times = round(carry.carry_s), round(carry.lost_s)
    left = replace(left, to=carry.cluster, state=carry.state, carry_s=times[0], lost_s=times[1])
    return replace(task, checkpoint=left)


def _task_for_publication(attempts: list[dict[str, Any]], *, is_waiting: bool) -> PublishedCampaignTask:
    for row in attempts:
        row["cluster"] = row["cluster"] or ""
    row, lesser = attempts[0], []
    for attempt in attempts[1:]:
        lower, row = (row, attempt) if _is_later_attempt_published(attempt, row) else (attempt, row)
        lesser.append(lower)
    return PublishedCampaignTask(
        **_select_columns_of_row(row, "number", "attempt", "outcome", "place", "cluster", *RESULTS),
        job_id=row["job_id"] or 0,
        is_waiting=is_waiting,
        copies=tuple(
            PublishedCompetingAttempt(
                **_select_columns_of_row(attempt, "attempt", "cluster", "outcome"), beyond_s=attempt["copies_beyond_s"]
            )
            for attempt in lesser
            if attempt["outcome"] in (TaskAttemptOutcome.PENDING, TaskAttemptOutcome.COPY)
        ),
        beyond_s=row["copies_beyond_s"],
        made_way=tuple(
            TaskPreemption(
                **_select_columns_of_row(attempt, "attempt", "cluster"),
                job=attempt["way_job"],
                lacked=tuple(attempt["way_lacked"].split(",")),
            )
            for attempt in attempts
            if attempt["way_job"] is not None
        ),
        checkpoint=next(
            (
                TaskCheckpoint(**_select_columns_of_row(attempt, "attempt", "cluster"))
                for attempt in reversed(attempts)
                if attempt["has_progressed"]
            ),
            None,
        ),
        moved=tuple(
            RebalancedTaskAttempt(
                **_select_columns_of_row(attempt, "attempt", "cluster"), to=later["cluster"] if later else ""
            )
            for attempt, later in zip_longest(attempts, attempts[1:])
            if attempt["outcome"] is TaskAttemptOutcome.MOVED
        ),
    )


def _select_columns_of_row(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _is_later_attempt_published(later: dict[str, Any], earlier: dict[str, Any]) -> bool:
    """Return whether the later of two attempts replaces the earlier attempt in published files."""
    ranks = RANKS.get(later["outcome"], 1), RANKS.get(earlier["outcome"], 1)
    return ranks[0] > ranks[1] or ranks == (1, 1)
