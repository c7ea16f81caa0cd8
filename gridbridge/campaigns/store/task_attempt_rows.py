"""Queries and updates task attempts: retries, speculative attempts, and attempts in root's ledger."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence, Set
from dataclasses import asdict
from datetime import datetime

import sqlalchemy as sa

from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_task_rows import TaskDeletionMarkRows
from gridbridge.campaigns.store.checkpoint_statistics_rows import CheckpointCarryRows, add_carries_to_outcome
from gridbridge.model.campaigns.campaign import (
    AttemptOutcomeAtCluster,
    Campaign,
    CampaignArray,
    LedgerRecoveryStep,
    RecordedCampaignTasks,
    TaskAttempt,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignPrologueOrEpilogueStart,
    LastPrologueOrEpilogueAttempt,
)
from gridbridge.model.campaigns.campaign_events import CampaignEvent
from gridbridge.model.campaigns.speculative_attempts import CompetingAttempt, SpeculativeAttemptsAtCluster
from gridbridge.model.campaigns.task_index_and_attempt_texts import (
    FIRST_PROLOGUE_TASK,
    prologue_or_epilogue_task_number,
    step_and_cluster_of_task_number,
)
from gridbridge.state.campaign_tables import ARRAYS, ATTEMPTS, NO_ARRAY, WAITING
from gridbridge.state.state_file import StateFile

AT_A_TIME = 500  # at most this many tasks in one query


def _count_of_outcomes(*outcomes: TaskAttemptOutcome) -> sa.ColumnElement[int]:
    return sa.func.sum(sa.case((ATTEMPTS.c.outcome.in_(outcomes), 1), else_=0))


_LATER = ATTEMPTS.alias("later")
_WHERE = sa.and_(ARRAYS.c.campaign == ATTEMPTS.c.campaign, ARRAYS.c.number == ATTEMPTS.c.array)
_OF_TASKS = sa.and_(
    ATTEMPTS.c.campaign == sa.bindparam("of_campaign"), ATTEMPTS.c.task.in_(sa.bindparam("tasks", expanding=True))
)
_TRIED = (
    sa.select(
        *(
            ATTEMPTS.c[name]
            for name in ("campaign", "task", "attempt", "outcome", "is_overrun", "has_progressed", "wallclock_s")
        ),
        ARRAYS.c.cluster,
    )
    .join(ARRAYS, _WHERE)
    .where(_OF_TASKS, ATTEMPTS.c.outcome != TaskAttemptOutcome.PENDING, ~ATTEMPTS.c.is_past)
)
_OF_ARRAY = sa.and_(
    ATTEMPTS.c.campaign == sa.bindparam("of_campaign"),
    ATTEMPTS.c.array == sa.bindparam("of_array"),
    ATTEMPTS.c.outcome == TaskAttemptOutcome.PENDING,
)
_PLACES = sa.select(ATTEMPTS.c.place).where(_OF_ARRAY)
_AT_PLACES = (
    sa.select(ATTEMPTS)
    .where(_OF_ARRAY, ATTEMPTS.c.place.in_(sa.bindparam("places", expanding=True)))
    .order_by(ATTEMPTS.c.place, ATTEMPTS.c.task)
)
_LAST = (
    sa.select(ATTEMPTS.c.task, sa.func.max(ATTEMPTS.c.attempt).label("attempt"))
    .where(_OF_TASKS)
    .group_by(ATTEMPTS.c.task)
)
_WAITS = sa.exists().where(
    WAITING.c.campaign == ATTEMPTS.c.campaign, WAITING.c.first <= ATTEMPTS.c.task, WAITING.c.last >= ATTEMPTS.c.task
)
_OF_EVENT = sa.and_(
    ATTEMPTS.c.campaign == sa.bindparam("of_campaign"),
    ATTEMPTS.c.task < FIRST_PROLOGUE_TASK,
    ATTEMPTS.c.outcome.in_(sa.bindparam("outcomes", expanding=True)),
    sa.or_(~ATTEMPTS.c.is_past, _WAITS),
    sa.or_(
        ATTEMPTS.c.exit_status == sa.bindparam("status"),
        sa.and_(ATTEMPTS.c.exit_status.is_(None), sa.bindparam("status").is_(None)),
    ),
    ~sa.exists().where(
        _LATER.c.campaign == ATTEMPTS.c.campaign,
        _LATER.c.task == ATTEMPTS.c.task,
        _LATER.c.attempt > ATTEMPTS.c.attempt,
        _LATER.c.outcome != TaskAttemptOutcome.COPY,
    ),
)
_FAILED = (
    sa.select(ATTEMPTS)
    .join(ARRAYS, _WHERE)
    .where(_OF_EVENT, ARRAYS.c.cluster == sa.bindparam("of_cluster"), ATTEMPTS.c.task > sa.bindparam("after"))
    .order_by(ATTEMPTS.c.task)
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_CLOSED = (
    sa.update(ATTEMPTS)
    .values(is_past=True)
    .where(
        _OF_EVENT,
        ATTEMPTS.c.array.in_(
            sa.select(ARRAYS.c.number).where(
                ARRAYS.c.campaign == sa.bindparam("of_campaign"), ARRAYS.c.cluster == sa.bindparam("of_cluster")
            )
        ),
        ~_WAITS,
    )
)
_EARLIER = ATTEMPTS.alias("earlier")
_STEPS = (
    sa.select(*(ATTEMPTS.c[name] for name in ("campaign", "task", "attempt", "array", "outcome", "exit_status")))
    .where(ATTEMPTS.c.campaign.in_(sa.bindparam("campaigns", expanding=True)), ATTEMPTS.c.task >= FIRST_PROLOGUE_TASK)
    .order_by(ATTEMPTS.c.campaign, ATTEMPTS.c.task, ATTEMPTS.c.attempt)
)
_FAILED_BEFORE = (
    sa.select(ATTEMPTS.c.task, _count_of_outcomes(TaskAttemptOutcome.UNWANTED).label("is_unwanted"))
    .where(_OF_TASKS, ~_WAITS)
    .group_by(ATTEMPTS.c.task)
    .having(_count_of_outcomes(TaskAttemptOutcome.PENDING, TaskAttemptOutcome.SUCCESS) == 0)
)
_CANCELLED_UNSENT = sa.and_(_OF_TASKS, ATTEMPTS.c.array == NO_ARRAY)


class TaskAttemptRows:
    def __init__(self, database: StateFile, campaigns: CampaignRows) -> None:
        self._database = database
        self._campaigns = campaigns
        self._carries = CheckpointCarryRows(database)

    def unfinished_indices(self, array: CampaignArray) -> Counter[int]:
        """Return the array indices of an array's unfinished attempts, with the number of attempts at each index."""
        of = {"of_campaign": array.campaign, "of_array": array.number}
        return Counter(row["place"] for row in self._database.rows(_PLACES, **of))

    def unfinished_attempts_at(self, array: CampaignArray, indices: Set[int]) -> tuple[TaskAttempt, ...]:
        """Return an array's unfinished attempts with these array indices, ordered by index."""
        of = {"of_campaign": array.campaign, "of_array": array.number}
        portions = _split_task_numbers_into_portions(sorted(indices))
        return tuple(
            row
            for places in portions
            for row in self._database.query_rows_as(TaskAttempt, _AT_PLACES, **of, places=places)
        )

    def earlier_outcomes(
        self, attempts: Sequence[TaskAttempt], copied: Container[tuple[int, int]] = ()
    ) -> tuple[AttemptOutcomeAtCluster, ...]:
        """Return all outcomes of the tasks of `attempts` since the owner's last retry.

        First attempts are skipped, except for tasks in `copied`, which have speculative attempts.
        """
        keys = {(row.campaign, row.task) for row in attempts if row.attempt > 1 or (row.campaign, row.task) in copied}
        tasks: dict[int, list[int]] = {}
        for campaign, task in sorted(keys):
            tasks.setdefault(campaign, []).append(task)
        carries = self._carries.carries_of_tasks(keys)
        return tuple(
            add_carries_to_outcome(outcome, carries)
            for campaign, numbers in tasks.items()
            for portion in _split_task_numbers_into_portions(numbers)
            for outcome in self._database.query_rows_as(
                AttemptOutcomeAtCluster, _TRIED, of_campaign=campaign, tasks=portion
            )
        )

    def failed_attempts_of_event(
        self, event: CampaignEvent, outcomes: Sequence[TaskAttemptOutcome], after: int, most: int
    ) -> tuple[TaskAttempt, ...]:
        """Return the last attempts of up to `most` failed tasks of an event; the tasks have numbers above `after`."""
        of = _query_parameters_of_event(event, outcomes)
        return self._database.query_rows_as(TaskAttempt, _FAILED, **of, after=after, most=most)

    def mark_event_failures_as_past(self, event: CampaignEvent, outcomes: Sequence[TaskAttemptOutcome]) -> None:
        """Mark an event's failed attempts as past, so that no event counts them again; skip waiting tasks."""
        self._database.execute(_CLOSED, _query_parameters_of_event(event, outcomes))

    def delete_unfinished_retries(
        self, array: CampaignArray, outcomes: Iterable[TaskAttemptOutcome]
    ) -> tuple[TaskAttempt, ...]:
        """Delete an array's unfinished retries of failed tasks, and return them; earlier outcomes stay."""
        had_ended = sa.exists().where(
            _EARLIER.c.campaign == ATTEMPTS.c.campaign,
            _EARLIER.c.task == ATTEMPTS.c.task,
            _EARLIER.c.attempt < ATTEMPTS.c.attempt,
            _EARLIER.c.outcome.in_([*outcomes]),
        )
        retried = sa.select(ATTEMPTS).where(_OF_ARRAY, ATTEMPTS.c.task < FIRST_PROLOGUE_TASK, had_ended)
        of = {"of_campaign": array.campaign, "of_array": array.number}
        attempts = self._database.query_rows_as(TaskAttempt, retried.order_by(ATTEMPTS.c.place, ATTEMPTS.c.task), **of)
        of_attempt = [ATTEMPTS.c[name] == sa.bindparam(f"of_{name}") for name in ("campaign", "task", "attempt")]
        keys = [{f"of_{name}": getattr(row, name) for name in ("campaign", "task", "attempt")} for row in attempts]
        self._database.execute_for_each_row(sa.delete(ATTEMPTS).where(*of_attempt), keys)
        self.set_past_mark_of_attempts(array.campaign, [attempt.task for attempt in attempts], is_past=False)
        return attempts

    def unmark_past_attempts(self, campaign: int) -> None:
        """Remove the past marks from attempts of unsent tasks, because the tasks' retries are dropped."""
        these = (ATTEMPTS.c.campaign == campaign, ATTEMPTS.c.is_past, _WAITS)
        self._database.execute(sa.update(ATTEMPTS).values(is_past=False).where(*these))

    def set_past_mark_of_attempts(self, campaign: int, tasks: Sequence[int], *, is_past: bool = True) -> None:
        """Mark attempts as past, so that decisions ignore the attempts; `is_past=False` removes the marks."""
        these = sa.update(ATTEMPTS).values(is_past=is_past).where(ATTEMPTS.c.campaign == campaign)
        for portion in _split_task_numbers_into_portions(tasks):
            self._database.execute(these.where(ATTEMPTS.c.task.in_(portion)))

    def last_prologues_and_epilogues(self, campaigns: Iterable[Campaign]) -> tuple[LastPrologueOrEpilogueAttempt, ...]:
        clusters = {
            campaign.number: campaign.jdl.clusters.keys()
            for campaign in campaigns
            if campaign.jdl.has_prologue_or_epilogue
        }
        results: dict[tuple[int, int], LastPrologueOrEpilogueAttempt] = {}
        for row in map(dict, self._database.rows(_STEPS, campaigns=list(clusters))):
            number, task = row["campaign"], row.pop("task")
            step, cluster = step_and_cluster_of_task_number(task, clusters[number])
            results[number, task] = LastPrologueOrEpilogueAttempt(**row, step=step, cluster=cluster)
        return tuple(results.values())

    def query_clusters_with_task_attempts(self, campaign: int) -> frozenset[str]:
        has_tasks = sa.exists().where(_WHERE, ATTEMPTS.c.task < FIRST_PROLOGUE_TASK)
        query = sa.select(ARRAYS.c.cluster).where(ARRAYS.c.campaign == campaign, has_tasks).distinct()
        return frozenset(row["cluster"] for row in self._database.rows(query))

    def last_arrays_by_cluster(self, campaign: int, clusters: Iterable[str]) -> dict[str, int]:
        """Return the number of a campaign's last array at each cluster; arrays of prologues count."""
        last = sa.select(sa.func.max(ARRAYS.c.number).label("number")).where(ARRAYS.c.campaign == campaign)
        rows = ((name, self._database.rows(last.where(ARRAYS.c.cluster == name))[0]) for name in clusters)
        return {name: int(row["number"]) for name, row in rows if row["number"]}

    def create_prologue_or_epilogue(self, step: CampaignPrologueOrEpilogueStart, at: datetime) -> CampaignArray | None:
        campaign = self._campaigns.find_campaign(step.campaign)
        if not campaign:
            return None
        task = prologue_or_epilogue_task_number(step.step, step.cluster, campaign.jdl.clusters)
        with self._database.transaction():
            return self._campaigns.insert_array(step.campaign, step.cluster, [(task, step.attempt)], at)

    def last_attempt_numbers(self, campaign: int, tasks: Sequence[int]) -> dict[int, int]:
        """Return the highest attempt number of each submitted task; speculative attempts count."""
        portions = (
            self._database.rows(_LAST, of_campaign=campaign, tasks=portion)
            for portion in _split_task_numbers_into_portions(tasks)
        )
        return {row["task"]: row["attempt"] for rows in portions for row in rows}

    def query_campaign_for_ledger_recovery(self, campaign: int) -> RecordedCampaignTasks:
        pending = (ATTEMPTS.c.campaign == campaign, ATTEMPTS.c.outcome == TaskAttemptOutcome.PENDING)
        query = sa.select(ATTEMPTS).where(*pending).order_by(ATTEMPTS.c.array, ATTEMPTS.c.place, ATTEMPTS.c.task)
        attempts = self._database.query_rows_as(TaskAttempt, query)
        stored_campaign = self._campaigns.find_campaign(campaign)
        return RecordedCampaignTasks(
            waiting=self._campaigns.list_unsent_tasks(campaign),
            arrays=self._campaigns.arrays_of_campaign(campaign),
            attempts=attempts,
            earlier=self.earlier_outcomes(attempts),
            clusters=frozenset(stored_campaign.jdl.clusters if stored_campaign else ()),
        )

    def import_arrays_from_root_ledger(self, adoption: LedgerRecoveryStep) -> None:
        campaign = adoption.campaign
        with self._database.transaction():
            if adoption.undone:
                for table, number in ((ATTEMPTS, ATTEMPTS.c.array), (ARRAYS, ARRAYS.c.number)):
                    these = (table.c.campaign == campaign, number.in_(adoption.undone))
                    self._database.execute(sa.delete(table).where(*these))
            unwanted = self._reopen_failed_tasks(adoption)
            for table, new in ((ARRAYS, adoption.arrays), (ATTEMPTS, adoption.attempts)):
                if new:
                    self._database.execute(sa.insert(table), [asdict(row) for row in new])
            for array in adoption.grown:
                self._campaigns.set_number_of_added_tasks(array)
            self._campaigns.record_attempt_ends(adoption.superseded)
            self._campaigns.remove_unsent_tasks(campaign, adoption.no_longer)
            self._campaigns.add_unsent_tasks(campaign, *adoption.waiting, *adoption.again)
            for task in unwanted:
                TaskDeletionMarkRows(self._database).mark_task_cancelled(campaign, task)

    def _reopen_failed_tasks(self, adoption: LedgerRecoveryStep) -> list[int]:
        """Reopen failed tasks with live attempts in root's ledger; return the tasks that the owner had cancelled."""
        live = {attempt.task for attempt in adoption.attempts if attempt.outcome is TaskAttemptOutcome.PENDING}
        live |= {retry.first for retry in adoption.again}
        unwanted = list[int]()
        for tasks in _split_task_numbers_into_portions(sorted(task for task in live if task < FIRST_PROLOGUE_TASK)):
            of = {"of_campaign": adoption.campaign, "tasks": tasks}
            before = self._database.rows(_FAILED_BEFORE, **of)
            cancelled = sum(bool(row["is_unwanted"]) for row in before)
            if before:
                self._campaigns.add_to_task_counts(adoption.campaign, -len(before), cancelled - len(before), -cancelled)
            unwanted += (
                row["task"] for row in self._database.rows(sa.select(ATTEMPTS.c.task).where(_CANCELLED_UNSENT), **of)
            )
            self._database.execute(sa.delete(ATTEMPTS).where(_CANCELLED_UNSENT), of)
        return unwanted


def _split_task_numbers_into_portions(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    return (numbers[begin : begin + AT_A_TIME] for begin in range(0, len(numbers), AT_A_TIME))


def _query_parameters_of_event(event: CampaignEvent, outcomes: Sequence[TaskAttemptOutcome]) -> dict[str, object]:
    of = {"of_campaign": event.campaign, "of_cluster": event.cluster}
    return {**of, "outcomes": [*outcomes], "status": event.exit_status}


_LIVE = ATTEMPTS.alias("live")
_COPIED = (  # the query starts from the few arrays of speculative attempts
    sa.select(ATTEMPTS.c.campaign, ATTEMPTS.c.task)
    .where(
        sa.tuple_(ATTEMPTS.c.campaign, ATTEMPTS.c.array).in_(
            sa.select(ARRAYS.c.campaign, ARRAYS.c.number).where(
                ARRAYS.c.campaign.in_(sa.bindparam("campaigns", expanding=True)), ARRAYS.c.copies_beyond_s.is_not(None)
            )
        ),
        sa.exists().where(
            _LIVE.c.campaign == ATTEMPTS.c.campaign,
            _LIVE.c.task == ATTEMPTS.c.task,
            _LIVE.c.outcome == TaskAttemptOutcome.PENDING,
        ),
    )
    .distinct()
    .subquery("copied")
)
_RIVALS = (
    sa.select(
        *(ATTEMPTS.c[name] for name in ("campaign", "task", "attempt", "array", "place", "outcome")),
        ARRAYS.c.cluster,
        ARRAYS.c.copies_beyond_s.is_not(None).label("is_copy"),
    )
    .join(_COPIED, sa.and_(*(_COPIED.c[key] == ATTEMPTS.c[key] for key in ("campaign", "task"))))
    .join(ARRAYS, _WHERE)
    .order_by(ATTEMPTS.c.campaign, ATTEMPTS.c.task, ATTEMPTS.c.attempt)
)
_NOW = (
    sa.select(ATTEMPTS.c.task, sa.func.max(ATTEMPTS.c.attempt).label("last"))
    .where(_OF_TASKS)
    .group_by(ATTEMPTS.c.task)
    .having(
        _count_of_outcomes(TaskAttemptOutcome.PENDING) > 0,
        _count_of_outcomes(TaskAttemptOutcome.SUCCESS) == 0,
    )
    .order_by(ATTEMPTS.c.task)
)


class SpeculativeAttemptRows:
    def __init__(self, database: StateFile, campaigns: CampaignRows) -> None:
        self._database = database
        self._campaigns = campaigns

    def competing_attempts(self, campaigns: Iterable[int]) -> tuple[CompetingAttempt, ...]:
        """Return all attempts of tasks that have a speculative attempt and an unfinished attempt."""
        return self._database.query_rows_as(CompetingAttempt, _RIVALS, campaigns=list(campaigns))

    def create_speculative_array(self, copies: SpeculativeAttemptsAtCluster, at: datetime) -> CampaignArray | None:
        """Create an array of speculative attempts of unfinished tasks; None if every task has ended."""
        with self._database.transaction():
            rows = self._database.rows(_NOW, of_campaign=copies.campaign, tasks=list(copies.tasks))
            attempts = [(row["task"], row["last"] + 1) for row in rows]
            if not attempts:
                return None
            return self._campaigns.insert_array(copies.campaign, copies.cluster, attempts, at, copies.beyond_s)
