"""Tables of the durations and carries of checkpoints, and of the losses and preemptions of tasks at clusters."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Boolean, Column, Index, Select, Table, and_, bindparam, exists, or_, select, update

from gridbridge.decisions.campaigns.checkpoint_intervals import add_ended_attempts_to_rate
from gridbridge.decisions.campaigns.task_retries_and_deciding_attempts import (
    clusters_with_checkpoint,
    limit_checkpoint_wait_s,
    work_in_checkpoint_s,
)
from gridbridge.model.campaigns.campaign import AttemptOutcomeAtCluster, Campaign, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.checkpoint_statistics import (
    CampaignCheckpointTimes,
    CheckpointCarry,
    CheckpointCarryState,
    CheckpointOfWaitingTask,
    CheckpointTimes,
    TaskLossRate,
)
from gridbridge.state import column_types
from gridbridge.state.campaign_tables import ARRAYS, ATTEMPTS, CAMPAIGNS, WAITING
from gridbridge.state.state_file import StateFile

TIMES = Table(
    "campaign_checkpoint_times",
    column_types.METADATA,
    *column_types.integer_key_columns("campaign"),
    *column_types.integer_columns("timed"),
    *column_types.float_columns("total_s"),
)
LOSS_RATES = Table(
    "campaign_loss_rates",  # one row for each owner, because owners can forge the ends of their tasks
    column_types.METADATA,
    *column_types.integer_key_columns("uid"),
    *column_types.text_key_columns("cluster"),
    Column("is_besteffort", Boolean, primary_key=True),
    *column_types.time_columns("at"),
    *column_types.float_columns("run_s", "losses"),
)
CHECKPOINT_CARRIES = Table(
    "campaign_checkpoint_carries",
    column_types.METADATA,
    *column_types.integer_key_columns("campaign", "task", "attempt"),
    *column_types.text_key_columns("cluster"),
    *column_types.text_columns("source"),
    *column_types.float_columns("carry_s", "lost_s"),
    Column("state", column_types.EnumWordColumn(CheckpointCarryState), nullable=False),
    Index("campaign_checkpoint_carries_state", "state"),
)
_LATER = ATTEMPTS.alias("later")
_IS_LATER = and_(
    _LATER.c.campaign == CHECKPOINT_CARRIES.c.campaign,
    _LATER.c.task == CHECKPOINT_CARRIES.c.task,
    _LATER.c.attempt > CHECKPOINT_CARRIES.c.attempt,
)
_HAS_NEWER_CHECKPOINT = exists().where(_IS_LATER, _LATER.c.has_progressed)
_HAS_SUCCEEDED = exists().where(_IS_LATER, _LATER.c.outcome == TaskAttemptOutcome.SUCCESS)
_UNNEEDED = (
    select(CHECKPOINT_CARRIES, CAMPAIGNS.c.uid)
    .join(CAMPAIGNS, CAMPAIGNS.c.number == CHECKPOINT_CARRIES.c.campaign)
    .where(
        CHECKPOINT_CARRIES.c.state == CheckpointCarryState.CARRIED,
        or_(_HAS_NEWER_CHECKPOINT, _HAS_SUCCEEDED, CAMPAIGNS.c.is_end_noted),
    )
    .order_by(CHECKPOINT_CARRIES.c.campaign, CHECKPOINT_CARRIES.c.source, CHECKPOINT_CARRIES.c.task)
)
_HELD = select(WAITING).where(WAITING.c.holds_until > datetime(1970, 1, 1, tzinfo=UTC))  # by the index
_TRIED = (
    select(
        *(ATTEMPTS.c[name] for name in ("campaign", "task", "attempt", "outcome", "has_progressed", "wallclock_s")),
        ATTEMPTS.c.checkpoint_bytes,
        ARRAYS.c.cluster,
    )
    .join(ARRAYS, and_(ARRAYS.c.campaign == ATTEMPTS.c.campaign, ARRAYS.c.number == ATTEMPTS.c.array))
    .where(
        ATTEMPTS.c.campaign == bindparam("of_campaign"),
        ATTEMPTS.c.task.in_(bindparam("tasks", expanding=True)),
        ATTEMPTS.c.outcome != TaskAttemptOutcome.PENDING,
        ~ATTEMPTS.c.is_past,
    )
    .order_by(ATTEMPTS.c.task, ATTEMPTS.c.attempt)
)
_OF_TASKS = select(CHECKPOINT_CARRIES).where(
    CHECKPOINT_CARRIES.c.campaign == bindparam("of_campaign"),
    CHECKPOINT_CARRIES.c.task.in_(bindparam("tasks", expanding=True)),
)
ARRIVED = frozenset({CheckpointCarryState.CARRIED, CheckpointCarryState.OVER})
AT_A_TIME = 500  # at most this many tasks in one query
Carries = dict[tuple[int, int, int], list[CheckpointCarry]]  # by campaign, task and attempt


class CheckpointCarryRows:
    """Carries of checkpoints, from the decision that allows a carry to the removal of the old copy."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def store_carries(self, carries: Iterable[CheckpointCarry]) -> None:
        self._database.execute_for_each_row(self._database.upsert(CHECKPOINT_CARRIES), [*map(asdict, carries)])

    def record_carry_states(
        self, campaign: int, cluster: str, tasks: Collection[int], state: CheckpointCarryState
    ) -> None:
        """Record the state of the allowed carries of tasks to a cluster."""
        of = (CHECKPOINT_CARRIES.c.campaign == campaign, CHECKPOINT_CARRIES.c.cluster == cluster)
        is_of = (CHECKPOINT_CARRIES.c.task == bindparam("of_task"), *of)
        is_allowed = CHECKPOINT_CARRIES.c.state == CheckpointCarryState.ALLOWED
        change = update(CHECKPOINT_CARRIES).where(*is_of, is_allowed).values(state=state)
        self._database.execute_for_each_row(change, [{"of_task": task} for task in tasks])

    def carries_of_tasks(self, tasks: Iterable[tuple[int, int]]) -> Carries:
        """Return the carries of the checkpoints of tasks, pairs (campaign, task)."""
        carries: Carries = {}
        for row in self._rows_of_tasks(_OF_TASKS, tasks):
            carry = CheckpointCarry(**row)
            carries.setdefault((carry.campaign, carry.task, carry.attempt), []).append(carry)
        return carries

    def _rows_of_tasks(self, query: Select[Any], tasks: Iterable[tuple[int, int]]) -> Iterator[dict[str, Any]]:
        by_campaign: dict[int, list[int]] = {}
        for campaign, task in tasks:
            by_campaign.setdefault(campaign, []).append(task)
        for campaign, numbers in by_campaign.items():
            for begin in range(0, len(numbers), AT_A_TIME):
                some = {"of_campaign": campaign, "tasks": numbers[begin : begin + AT_A_TIME]}
                yield from map(dict, self._database.rows(query, **some))

    def allowed_carries(self, campaign: int, cluster: str) -> tuple[CheckpointCarry, ...]:
        """Return the allowed carries of newest checkpoints to a cluster, ordered by task."""
        of = (CHECKPOINT_CARRIES.c.campaign == campaign, CHECKPOINT_CARRIES.c.cluster == cluster)
        is_allowed = CHECKPOINT_CARRIES.c.state == CheckpointCarryState.ALLOWED
        query = select(CHECKPOINT_CARRIES).where(*of, is_allowed, ~_HAS_NEWER_CHECKPOINT)
        return self._database.query_rows_as(CheckpointCarry, query.order_by(CHECKPOINT_CARRIES.c.task))

    def unneeded_copies(self) -> tuple[tuple[CheckpointCarry, int], ...]:
        """Return carries whose first copy nobody needs, each with the uid of the owner, by campaign and source."""
        rows = (dict(row) for row in self._database.rows(_UNNEEDED))
        return tuple((CheckpointCarry(**row), uid) for row in rows for uid in (row.pop("uid"),))

    def record_removed_copies(self, campaign: int, source: str, attempts: Iterable[tuple[int, int]]) -> None:
        names = ("campaign", "source", "task", "attempt")
        is_of = (CHECKPOINT_CARRIES.c[name] == bindparam(f"of_{name}") for name in names)
        is_carried = CHECKPOINT_CARRIES.c.state == CheckpointCarryState.CARRIED
        change = update(CHECKPOINT_CARRIES).where(*is_of, is_carried).values(state=CheckpointCarryState.OVER)
        rows = [{"of_campaign": campaign, "of_source": source, "of_task": t, "of_attempt": k} for t, k in attempts]
        self._database.execute_for_each_row(change, rows)

    def waiting_checkpoints(self, now: datetime) -> tuple[CheckpointOfWaitingTask, ...]:
        """Return the checkpoints of tasks that wait for a cluster with their checkpoint."""
        waiting = {(row["campaign"], row["first"]): dict(row) for row in self._database.rows(_HELD)}
        carries = self.carries_of_tasks(waiting)
        by_task: dict[tuple[int, int], list[dict[str, Any]]] = {}
        for row in self._rows_of_tasks(_TRIED, waiting):
            by_task.setdefault((row["campaign"], row["task"]), []).append(row)
        checkpoints = (
            _checkpoint_of_waiting_task(waiting[task], attempts, carries, now) for task, attempts in by_task.items()
        )
        return tuple(filter(None, checkpoints))


def add_carries_to_outcome(outcome: AttemptOutcomeAtCluster, carries: Carries) -> AttemptOutcomeAtCluster:
    """Add the clusters to which the attempt's checkpoint was carried."""
    of_attempt = carries.get((outcome.campaign, outcome.task, outcome.attempt))
    if not of_attempt:
        return outcome
    return replace(outcome, carried_to=tuple(carry.cluster for carry in of_attempt if carry.state in ARRIVED))


def _checkpoint_of_waiting_task(
    waiting: dict[str, Any], attempts: list[dict[str, Any]], carries: Carries, now: datetime
) -> CheckpointOfWaitingTask | None:
    """Return the checkpoint of a waiting task; None if the task has no checkpoint with which it could continue."""
    names = ("campaign", "task", "attempt", "cluster", "outcome", "has_progressed", "wallclock_s")
    outcomes = [
        add_carries_to_outcome(AttemptOutcomeAtCluster(**{name: row[name] for name in names}), carries)
        for row in attempts
    ]
    if not (clusters := clusters_with_checkpoint(outcomes)):
        return None
    saved = max((row for row in attempts if row["has_progressed"]), key=lambda row: row["attempt"])
    work_s = work_in_checkpoint_s(outcomes)
    left_s = (waiting["holds_until"] - now).total_seconds()
    of_checkpoint = carries.get((saved["campaign"], saved["task"], saved["attempt"]), ())
    failed = (carry.cluster for carry in of_checkpoint if carry.state is CheckpointCarryState.FAILED)
    return CheckpointOfWaitingTask(
        campaign=saved["campaign"],
        task=saved["task"],
        attempt=saved["attempt"],
        clusters=clusters,
        size_bytes=saved["checkpoint_bytes"],
        work_s=work_s,
        waited_s=max(0.0, limit_checkpoint_wait_s(work_s) - left_s),
        avoid=tuple(waiting["avoid"].split()),
        never=tuple(waiting["never"].split()),
        excluded=(*waiting["never_later"].split(), *failed),
    )


class CheckpointStatisticsRows:
    def __init__(self, database: StateFile) -> None:
        self._database = database

    def loss_rates(self) -> tuple[TaskLossRate, ...]:
        return self._database.query_rows_as(TaskLossRate, select(LOSS_RATES))

    def checkpoint_times(self, campaigns: Iterable[int]) -> tuple[CampaignCheckpointTimes, ...]:
        rows = self._database.rows(select(TIMES).where(TIMES.c.campaign.in_([*campaigns])).order_by(TIMES.c.campaign))
        return tuple(
            CampaignCheckpointTimes(
                campaign=row["campaign"], times=CheckpointTimes(timed=row["timed"], total_s=row["total_s"])
            )
            for row in rows
        )

    def add_ended_attempts(
        self, ended_attempts: Iterable[tuple[TaskAttempt, str]], campaigns: Iterable[Campaign], now: datetime
    ) -> None:
        """Add ended attempts, each with its cluster, to the owners' loss rates and the campaigns' checkpoint times."""
        by_number = {campaign.number: campaign for campaign in campaigns}
        of_rate = defaultdict[tuple[int, str, bool], list[TaskAttempt]](list)
        times = defaultdict[int, CheckpointTimes](CheckpointTimes)
        for attempt, cluster in ended_attempts:
            if attempt.checkpoint_times:
                times[attempt.campaign] += attempt.checkpoint_times
            if (campaign := by_number.get(attempt.campaign)) and cluster in campaign.jdl.clusters:
                of_rate[campaign.uid, cluster, campaign.jdl.clusters[cluster].is_besteffort].append(attempt)
        with self._database.transaction():
            self._store_rates(of_rate, now)
            for row in self.checkpoint_times(times) if times else ():
                times[row.campaign] += row.times
            rows = [{"campaign": campaign, **asdict(total)} for campaign, total in times.items() if total.timed]
            self._database.execute_for_each_row(self._database.upsert(TIMES), rows)

    def _store_rates(self, ended_attempts: dict[tuple[int, str, bool], list[TaskAttempt]], now: datetime) -> None:
        before = (
            {(rate.uid, rate.cluster, rate.is_besteffort): rate for rate in self.loss_rates()} if ended_attempts else {}
        )
        rates = []
        for key, attempts in ended_attempts.items():
            uid, cluster, is_besteffort = key
            new = TaskLossRate(uid=uid, cluster=cluster, is_besteffort=is_besteffort, at=now)
            rates.append(add_ended_attempts_to_rate(before.get(key, new), attempts, now))
        self._database.execute_for_each_row(self._database.upsert(LOSS_RATES), [*map(asdict, rates)])
