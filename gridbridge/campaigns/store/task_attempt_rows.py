"""Queries and updates of task attempts: retries, speculative attempts, and attempts from root's ledger."""

from collections.abc import Container, Iterable, Sequence, Set
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import Integer, and_, bindparam, case, delete, exists, func, insert, or_, select, tuple_, update

from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_task_rows import TaskDeletionMarkRows
from gridbridge.model.campaigns.campaign import (
    AttemptOutcomeAtCluster,
    Campaign,
    CampaignArray,
    LedgerRecoveryStep,
    StoredCampaignTasks,
    TaskAttempt,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.campaign_events import CampaignEvent
from gridbridge.model.campaigns.cycle_plan import CampaignPrologueOrEpilogueStart, LastPrologueOrEpilogueAttempt
from gridbridge.model.campaigns.speculation import CompetingAttempt, SpeculativeAttemptsAtCluster
from gridbridge.model.campaigns.task_index_and_attempt_texts import (
    FIRST_PROLOGUE_TASK,
    prologue_or_epilogue_task_number,
    step_and_cluster_of_task_number,
)
from gridbridge.state.campaign_tables import (
    ARRAYS,
    ATTEMPTS,
    NO_ARRAY,
    WAITING,
    delete_rows_of_attempts,
)
from gridbridge.state.state_file import StateFile

AT_A_TIME = 500  # at most this many tasks in one query

_LATER = ATTEMPTS.alias("later")
_WHERE = and_(ARRAYS.c.campaign == ATTEMPTS.c.campaign, ARRAYS.c.number == ATTEMPTS.c.array)
_TRIED = (
    select(*(ATTEMPTS.c[name] for name in ("campaign", "task", "attempt", "outcome", "is_overrun")), ARRAYS.c.cluster)
    .join(ARRAYS, _WHERE)
    .where(
        ATTEMPTS.c.campaign == bindparam("of_campaign"),
        ATTEMPTS.c.task.in_(bindparam("tasks", expanding=True)),
        ATTEMPTS.c.outcome != TaskAttemptOutcome.PENDING,
        ~ATTEMPTS.c.is_past,
    )
)
_PENDING = (
    select(*ATTEMPTS.c)
    .where(ATTEMPTS.c.campaign == bindparam("campaign"), ATTEMPTS.c.outcome == TaskAttemptOutcome.PENDING)
    .order_by(ATTEMPTS.c.array, ATTEMPTS.c.place)
)
_OF_ARRAY = and_(
    ATTEMPTS.c.campaign == bindparam("of_campaign"),
    ATTEMPTS.c.array == bindparam("of_array"),
    ATTEMPTS.c.outcome == TaskAttemptOutcome.PENDING,
)
_PLACES = select(ATTEMPTS.c.place).where(_OF_ARRAY)
_AT_PLACES = (
    select(*ATTEMPTS.c)
    .where(_OF_ARRAY, ATTEMPTS.c.place.in_(bindparam("places", expanding=True)))
    .order_by(ATTEMPTS.c.place)
)
_LAST = (
    select(ATTEMPTS.c.task, func.max(ATTEMPTS.c.attempt).label("attempt"))
    .where(ATTEMPTS.c.campaign == bindparam("of_campaign"), ATTEMPTS.c.task.in_(bindparam("tasks", expanding=True)))
    .group_by(ATTEMPTS.c.task)
)
_WAITS = exists().where(
    WAITING.c.campaign == ATTEMPTS.c.campaign, WAITING.c.first <= ATTEMPTS.c.task, WAITING.c.last >= ATTEMPTS.c.task
)
_OF_EVENT = and_(
    ATTEMPTS.c.campaign == bindparam("of_campaign"),
    ATTEMPTS.c.task < FIRST_PROLOGUE_TASK,
    ATTEMPTS.c.outcome.in_(bindparam("outcomes", expanding=True)),
    or_(~ATTEMPTS.c.is_past, _WAITS),
    or_(
        ATTEMPTS.c.exit_status == bindparam("status"),
        and_(ATTEMPTS.c.exit_status.is_(None), bindparam("status").is_(None)),
    ),
    ~exists().where(
        _LATER.c.campaign == ATTEMPTS.c.campaign,
        _LATER.c.task == ATTEMPTS.c.task,
        _LATER.c.attempt > ATTEMPTS.c.attempt,
        _LATER.c.outcome != TaskAttemptOutcome.COPY,
    ),
)
_FAILED = (
    select(*ATTEMPTS.c)
    .join(ARRAYS, _WHERE)
    .where(_OF_EVENT, ARRAYS.c.cluster == bindparam("of_cluster"), ATTEMPTS.c.task > bindparam("after"))
    .order_by(ATTEMPTS.c.task)
    .limit(bindparam("most", type_=Integer))
)
_CLOSED = (
    update(ATTEMPTS)
    .values(is_past=True)
    .where(
        _OF_EVENT,
        ATTEMPTS.c.array.in_(
            select(ARRAYS.c.number).where(
                ARRAYS.c.campaign == bindparam("of_campaign"), ARRAYS.c.cluster == bindparam("of_cluster")
            )
        ),
        ~_WAITS,
    )
)
_AS_BEFORE = (
    update(ATTEMPTS)
    .values(is_past=False)
    .where(ATTEMPTS.c.campaign == bindparam("of_campaign"), ATTEMPTS.c.is_past, _WAITS)
)
_EARLIER = ATTEMPTS.alias("earlier")
_HAD_ENDED = exists().where(
    _EARLIER.c.campaign == ATTEMPTS.c.campaign,
    _EARLIER.c.task == ATTEMPTS.c.task,
    _EARLIER.c.attempt < ATTEMPTS.c.attempt,
    _EARLIER.c.outcome.in_(bindparam("outcomes", expanding=True)),
)
_RETRIED = (
    select(*ATTEMPTS.c).where(_OF_ARRAY, ATTEMPTS.c.task < FIRST_PROLOGUE_TASK, _HAD_ENDED).order_by(ATTEMPTS.c.place)
)
_LAST_ARRAY = select(func.max(ARRAYS.c.number).label("number")).where(
    ARRAYS.c.campaign == bindparam("campaign"), ARRAYS.c.cluster == bindparam("cluster")
)
_TRIED_AT = (
    select(ARRAYS.c.cluster)
    .where(ARRAYS.c.campaign == bindparam("campaign"), exists().where(_WHERE, ATTEMPTS.c.task < FIRST_PROLOGUE_TASK))
    .distinct()
)
_STEPS = (
    select(
        *(ATTEMPTS.c[name] for name in ("campaign", "task", "attempt", "array")),
        *(ATTEMPTS.c[name] for name in ("outcome", "exit_status")),
    )
    .where(ATTEMPTS.c.campaign.in_(bindparam("campaigns", expanding=True)), ATTEMPTS.c.task >= FIRST_PROLOGUE_TASK)
    .order_by(ATTEMPTS.c.campaign, ATTEMPTS.c.task, ATTEMPTS.c.attempt)
)
_FAILED_BEFORE = (
    select(ATTEMPTS.c.task, func.max(ATTEMPTS.c.outcome == TaskAttemptOutcome.UNWANTED).label("is_unwanted"))
    .where(
        ATTEMPTS.c.campaign == bindparam("of_campaign"),
        ATTEMPTS.c.task.in_(bindparam("tasks", expanding=True)),
        ~_WAITS,
    )
    .group_by(ATTEMPTS.c.task)
    .having(
        func.sum(case((ATTEMPTS.c.outcome.in_((TaskAttemptOutcome.PENDING, TaskAttemptOutcome.SUCCESS)), 1), else_=0))
        == 0
    )
)
_CANCELLED_UNSENT = and_(
    ATTEMPTS.c.campaign == bindparam("of_campaign"),
    ATTEMPTS.c.task.in_(bindparam("tasks", expanding=True)),
    ATTEMPTS.c.array == NO_ARRAY,
)


class TaskAttemptRows:
    """Queries and updates task attempts in the state file."""

    def __init__(self, database: StateFile, campaigns: CampaignRows) -> None:
        self._database = database
        self._campaigns = campaigns

    def pending_places(self, array: CampaignArray) -> frozenset[int]:
        """Return the array indices of an array's unfinished attempts."""
        of = {"of_campaign": array.campaign, "of_array": array.number}
        return frozenset(row["place"] for row in self._database.rows(_PLACES, **of))

    def pending_at(self, array: CampaignArray, indices: Set[int]) -> tuple[TaskAttempt, ...]:
        """Return an array's unfinished attempts with these array indices, ordered by index."""
        of = {"of_campaign": array.campaign, "of_array": array.number}
        ordered = sorted(indices)
        return tuple(
            TaskAttempt(**row | {"outcome": TaskAttemptOutcome(row["outcome"])})
            for begin in range(0, len(ordered), AT_A_TIME)
            for row in map(dict, self._database.rows(_AT_PLACES, **of, places=ordered[begin : begin + AT_A_TIME]))
        )

    def earlier(
        self, attempts: Sequence[TaskAttempt], copied: Container[tuple[int, int]] = ()
    ) -> tuple[AttemptOutcomeAtCluster, ...]:
        """Return the outcomes of all finished attempts of the tasks to which `attempts` belong.

        Attempts before a retry by the owner do not count. For first attempts, only tasks with speculative attempts
        (`copied`) are read.
        """
        first = {(attempt.campaign, attempt.task) for attempt in attempts if attempt.attempt == 1}
        later = {(attempt.campaign, attempt.task) for attempt in attempts if attempt.attempt > 1}
        tasks: dict[int, list[int]] = {}
        for campaign, task in sorted(later | {key for key in first if key in copied}):
            tasks.setdefault(campaign, []).append(task)
        return tuple(
            AttemptOutcomeAtCluster(**dict(row) | {"outcome": TaskAttemptOutcome(row["outcome"])})
            for campaign, numbers in tasks.items()
            for begin in range(0, len(numbers), AT_A_TIME)
            for row in self._database.rows(_TRIED, of_campaign=campaign, tasks=numbers[begin : begin + AT_A_TIME])
        )

    def failed(
        self, event: CampaignEvent, outcomes: Sequence[TaskAttemptOutcome], after: int, most: int
    ) -> tuple[TaskAttempt, ...]:
        """Return the last failed attempts of tasks that an event counts, ordered by task.

        Returns at most `most` attempts, of tasks with numbers above `after`. A task may already wait for a retry.
        """
        rows = self._database.rows(_FAILED, **_of(event, outcomes), after=after, most=most)
        return tuple(TaskAttempt(**row | {"outcome": TaskAttemptOutcome(row["outcome"])}) for row in map(dict, rows))

    def close(self, event: CampaignEvent, outcomes: Sequence[TaskAttemptOutcome]) -> None:
        """Mark the failed attempts of an event as past, so that the event does not count them again.

        Attempts of tasks that already wait for a retry need no mark.
        """
        self._database.execute(_CLOSED, _of(event, outcomes))

    def take_back(self, array: CampaignArray, outcomes: Iterable[TaskAttemptOutcome]) -> tuple[TaskAttempt, ...]:
        """Delete and return an array's unfinished retries of failed tasks.

        The tasks get back their earlier outcomes.
        """
        of = {"of_campaign": array.campaign, "of_array": array.number, "outcomes": [*outcomes]}
        rows = map(dict, self._database.rows(_RETRIED, **of))
        attempts = tuple(TaskAttempt(**row | {"outcome": TaskAttemptOutcome(row["outcome"])}) for row in rows)
        delete_rows_of_attempts(self._database, ATTEMPTS, map(asdict, attempts))
        self._judge(array.campaign, [attempt.task for attempt in attempts], is_past=False)
        return attempts

    def judge_as_before(self, campaign: int) -> None:
        """Count past attempts of unsent tasks again, because the retries of these tasks are dropped."""
        self._database.execute(_AS_BEFORE, {"of_campaign": campaign})

    def judge_anew(self, campaign: int, tasks: Sequence[int]) -> None:
        """Mark the present attempts of tasks as past, so that later decisions ignore them."""
        self._judge(campaign, tasks, is_past=True)

    def _judge(self, campaign: int, tasks: Sequence[int], *, is_past: bool) -> None:
        these = update(ATTEMPTS).values(is_past=is_past).where(ATTEMPTS.c.campaign == campaign)
        for begin in range(0, len(tasks), AT_A_TIME):
            chosen = ATTEMPTS.c.task.in_(tasks[begin : begin + AT_A_TIME])
            self._database.execute(these.where(chosen))

    def steps(self, campaigns: Iterable[Campaign]) -> tuple[LastPrologueOrEpilogueAttempt, ...]:
        """Return the last attempt of each prologue and each epilogue of the campaigns."""
        clusters = {campaign.number: campaign.jdl.clusters.keys() for campaign in campaigns if campaign.jdl.has_steps}
        results: dict[tuple[int, int], LastPrologueOrEpilogueAttempt] = {}
        for row in map(dict, self._database.rows(_STEPS, campaigns=list(clusters))):
            number, task = row["campaign"], row.pop("task")
            step, cluster = step_and_cluster_of_task_number(task, clusters[number])
            values = row | {"outcome": TaskAttemptOutcome(row["outcome"])}
            results[number, task] = LastPrologueOrEpilogueAttempt(**values, step=step, cluster=cluster)
        return tuple(results.values())

    def tried(self, campaign: int) -> frozenset[str]:
        """Return the clusters to which a campaign ever submitted tasks."""
        rows = self._database.rows(_TRIED_AT, campaign=campaign)
        return frozenset(row["cluster"] for row in rows)

    def last_arrays(self, campaign: int, clusters: Iterable[str]) -> dict[str, int]:
        """Return the number of a campaign's last array at each cluster; arrays of prologues count."""
        rows = ((name, self._database.rows(_LAST_ARRAY, campaign=campaign, cluster=name)[0]) for name in clusters)
        return {name: int(row["number"]) for name, row in rows if row["number"]}

    def intend_step(self, step: CampaignPrologueOrEpilogueStart, at: datetime) -> CampaignArray | None:
        """Create an array for a prologue or epilogue; None if the campaign does not exist."""
        campaign = self._campaigns.find(step.campaign)
        if not campaign:
            return None
        task = prologue_or_epilogue_task_number(step.step, step.cluster, campaign.jdl.clusters)
        attempts = [(task, step.attempt)]
        with self._database.transaction():
            return self._campaigns.add_array(step.campaign, step.cluster, attempts, at)

    def last(self, campaign: int, tasks: Sequence[int]) -> dict[int, int]:
        """Return the highest attempt number of each submitted task; speculative attempts count."""
        return {
            row["task"]: row["attempt"]
            for begin in range(0, len(tasks), AT_A_TIME)
            for row in self._database.rows(_LAST, of_campaign=campaign, tasks=tasks[begin : begin + AT_A_TIME])
        }

    def stored_campaign(self, campaign: int) -> StoredCampaignTasks:
        """Return the stored arrays, attempts and unsent tasks of a campaign."""
        rows = map(dict, self._database.rows(_PENDING, campaign=campaign))
        attempts = tuple(TaskAttempt(**row | {"outcome": TaskAttemptOutcome(row["outcome"])}) for row in rows)
        stored_campaign = self._campaigns.find(campaign)
        return StoredCampaignTasks(
            waiting=self._campaigns.waiting_of(campaign),
            arrays=self._campaigns.arrays_of(campaign),
            attempts=attempts,
            earlier=self.earlier(attempts),
            clusters=frozenset(stored_campaign.jdl.clusters if stored_campaign else ()),
        )

    def adopt(self, adoption: LedgerRecoveryStep) -> None:
        """Import some arrays and attempts of a campaign from root's ledger of submitted tasks."""
        campaign = adoption.campaign
        undone = ((ATTEMPTS, ATTEMPTS.c.array.in_(adoption.undone)), (ARRAYS, ARRAYS.c.number.in_(adoption.undone)))
        with self._database.transaction():
            for table, these in undone if adoption.undone else ():
                of = table.c.campaign == campaign
                self._database.execute(delete(table).where(of, these))
            unwanted = self._take_up(adoption)
            for table, new in ((ARRAYS, adoption.arrays), (ATTEMPTS, adoption.attempts)):
                if new:
                    self._database.execute(insert(table), [asdict(row) for row in new])
            self._campaigns.ended(adoption.superseded)
            self._campaigns.wait_no_longer(campaign, adoption.no_longer)
            self._campaigns.wait_again(campaign, *adoption.waiting, *adoption.again)
            for task in unwanted:
                TaskDeletionMarkRows(self._database).cancel(campaign, task)

    def _take_up(self, adoption: LedgerRecoveryStep) -> tuple[int, ...]:
        """Reopen failed tasks that have live attempts in root's ledger of submitted tasks.

        Ends of reopened tasks are counted again later. Returns tasks that the owner had cancelled: their attempts must
        be deleted.
        """
        live = {attempt.task for attempt in adoption.attempts if attempt.outcome is TaskAttemptOutcome.PENDING}
        live |= {retry.first for retry in adoption.again}
        tasks, unwanted = sorted(task for task in live if task < FIRST_PROLOGUE_TASK), list[int]()
        for begin in range(0, len(tasks), AT_A_TIME):
            of = {"of_campaign": adoption.campaign, "tasks": tasks[begin : begin + AT_A_TIME]}
            before = self._database.rows(_FAILED_BEFORE, **of)
            cancelled = sum(bool(row["is_unwanted"]) for row in before)
            if before:
                failed = len(before) - cancelled
                self._campaigns.count(adoption.campaign, -len(before), -failed, -cancelled)
            query = select(ATTEMPTS.c.task).where(_CANCELLED_UNSENT)
            unwanted += (row["task"] for row in self._database.rows(query, **of))
            self._database.execute(delete(ATTEMPTS).where(_CANCELLED_UNSENT), of)
        return tuple(unwanted)


def _of(event: CampaignEvent, outcomes: Sequence[TaskAttemptOutcome]) -> dict[str, object]:
    of = {"of_campaign": event.campaign, "of_cluster": event.cluster}
    return {**of, "outcomes": [*outcomes], "status": event.exit_status}


_LIVE = ATTEMPTS.alias("live")
_ARRAY = tuple_(ATTEMPTS.c.campaign, ATTEMPTS.c.array)
_COPIED = (  # the query starts from arrays of speculative attempts, because they are few
    select(ATTEMPTS.c.campaign, ATTEMPTS.c.task)
    .where(
        _ARRAY.in_(
            select(ARRAYS.c.campaign, ARRAYS.c.number).where(
                ARRAYS.c.campaign.in_(bindparam("campaigns", expanding=True)), ARRAYS.c.copies_beyond_s.is_not(None)
            )
        ),
        exists().where(
            _LIVE.c.campaign == ATTEMPTS.c.campaign,
            _LIVE.c.task == ATTEMPTS.c.task,
            _LIVE.c.outcome == TaskAttemptOutcome.PENDING,
        ),
    )
    .distinct()
    .subquery("copied")
)
_RIVALS = (
    select(
        *(ATTEMPTS.c[name] for name in ("campaign", "task", "attempt", "array", "place")),
        ATTEMPTS.c.outcome,
        ARRAYS.c.cluster,
        ARRAYS.c.copies_beyond_s.is_not(None).label("is_copy"),
    )
    .join(_COPIED, and_(*(_COPIED.c[key] == ATTEMPTS.c[key] for key in ("campaign", "task"))))
    .join(ARRAYS, and_(ARRAYS.c.campaign == ATTEMPTS.c.campaign, ARRAYS.c.number == ATTEMPTS.c.array))
    .order_by(ATTEMPTS.c.campaign, ATTEMPTS.c.task, ATTEMPTS.c.attempt)
)
_NOW = (
    select(ATTEMPTS.c.task, func.max(ATTEMPTS.c.attempt).label("last"))
    .where(ATTEMPTS.c.campaign == bindparam("of_campaign"), ATTEMPTS.c.task.in_(bindparam("tasks", expanding=True)))
    .group_by(ATTEMPTS.c.task)
    .having(
        func.sum(case((ATTEMPTS.c.outcome == TaskAttemptOutcome.PENDING, 1), else_=0)) > 0,
        func.sum(case((ATTEMPTS.c.outcome == TaskAttemptOutcome.SUCCESS, 1), else_=0)) == 0,
    )
    .order_by(ATTEMPTS.c.task)
)


class SpeculativeAttemptRows:
    """Queries and creates speculative attempts of campaign tasks."""

    def __init__(self, database: StateFile, campaigns: CampaignRows) -> None:
        self._database = database
        self._campaigns = campaigns

    def rivals(self, campaigns: Iterable[int]) -> tuple[CompetingAttempt, ...]:
        """Return all attempts of tasks that have a speculative attempt and an unfinished attempt."""
        rows = map(dict, self._database.rows(_RIVALS, campaigns=list(campaigns)))
        return tuple(
            CompetingAttempt(**row | {"outcome": TaskAttemptOutcome(row["outcome"]), "is_copy": bool(row["is_copy"])})
            for row in rows
        )

    def intend(self, copies: SpeculativeAttemptsAtCluster, at: datetime) -> CampaignArray | None:
        """Create an array of speculative attempts of unfinished tasks; None if every task has ended."""
        with self._database.transaction():
            of = {"of_campaign": copies.campaign, "tasks": list(copies.tasks)}
            rows = self._database.rows(_NOW, **of)
            attempts = [(row["task"], row["last"] + 1) for row in rows]
            if not attempts:
                return None
            return self._campaigns.add_array(copies.campaign, copies.cluster, attempts, at, copies.beyond_s)
