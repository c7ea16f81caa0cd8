"""Tables of the durations of checkpoints, and of the losses and preemptions of tasks at clusters."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import Boolean, Column, Table, select

from gridbridge.decisions.campaigns.checkpoint_intervals import add_ended_attempts_to_rate
from gridbridge.model.campaigns.campaign import Campaign, TaskAttempt
from gridbridge.model.campaigns.checkpoint_statistics import CampaignCheckpointTimes, CheckpointTimes, TaskLossRate
from gridbridge.state import column_types
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
