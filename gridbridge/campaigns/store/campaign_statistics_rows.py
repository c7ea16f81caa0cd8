"""Tables of campaigns' job ratios, ended tasks per minute, forecasts, past slot usage and file servers' limits."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import asdict
from datetime import datetime, timedelta

from sqlalchemy import Column, Float, Table, and_, bindparam, delete, insert, select, update

from gridbridge.model.campaigns.campaign import Campaign, CampaignCluster
from gridbridge.model.campaigns.campaign_cycle_plan import (
    DecayedCampaignUsage,
    InputCarryCost,
    JobRatio,
    TasksPerFreeSlotUpdate,
    TimedInputCarry,
)
from gridbridge.model.campaigns.campaign_end_forecast import HalfwayForecast
from gridbridge.model.campaigns.file_server_load import FileServerLimit
from gridbridge.model.campaigns.task_resource_usage import TaskUsageAtCluster
from gridbridge.state import column_types
from gridbridge.state.campaign_tables import CAMPAIGNS
from gridbridge.state.state_file import StateFile

RATIOS = Table(
    "campaign_ratios",
    column_types.METADATA,
    *column_types.integer_key_columns("campaign"),
    *column_types.text_key_columns("cluster"),
    *column_types.float_columns("ratio"),
    *column_types.integer_columns("free", "submitted"),
)

ENDS = Table(  # one row for each minute in which tasks ended
    "campaign_ends",
    column_types.METADATA,
    *column_types.integer_key_columns("campaign"),
    *column_types.text_key_columns("cluster"),
    Column("minute", column_types.UtcTimeColumn, primary_key=True),
    *column_types.integer_columns("ended"),
)

FORECASTS = Table(
    "campaign_forecasts",
    column_types.METADATA,
    *column_types.integer_key_columns("campaign"),
    *column_types.time_columns("made_at", "p50_at", "p90_at"),
    *column_types.time_columns("ended_at", nullable=True),
)
_RATIOS = select(RATIOS).where(RATIOS.c.campaign.in_(bindparam("campaigns", expanding=True)))
_SINCE = (
    select(ENDS.c.cluster, ENDS.c.minute, ENDS.c.ended)
    .where(ENDS.c.campaign == bindparam("of_campaign"), ENDS.c.minute >= bindparam("since"))
    .order_by(ENDS.c.minute)
)
MINUTE = timedelta(minutes=1)
_THIS_MINUTE = select(ENDS.c.ended).where(
    *(ENDS.c[name] == bindparam(f"of_{name}") for name in ("campaign", "cluster", "minute"))
)
USAGE = Table(
    "campaign_usage",
    column_types.METADATA,
    *column_types.integer_key_columns("campaign"),
    *column_types.text_key_columns("cluster"),
    *column_types.time_columns("at"),
    *column_types.float_columns("used_s", "success_s", "successes"),
)
TASK_USAGE = Table(
    "campaign_task_usage",
    column_types.METADATA,
    *column_types.integer_key_columns("campaign"),
    *column_types.text_key_columns("cluster"),
    *column_types.integer_columns("ended", "failed", "overruns", "beyond_memory", "longest_s"),
    *column_types.integer_columns("measured", "max_rss_kb", "max_vmem_kb", "written_kb"),
)
_USAGE_OF_TASKS = select(TASK_USAGE).where(TASK_USAGE.c.campaign.in_(bindparam("campaigns", expanding=True)))
CARRIES = Table(  # clusters that may have copies of a campaign's input files
    "campaign_carries",
    column_types.METADATA,
    *column_types.integer_key_columns("campaign"),
    *column_types.text_key_columns("cluster"),
    # mean missing bytes of the next tasks after the last carry; NULL: no carry has ended
    *column_types.float_columns("task_bytes", nullable=True),
)
CARRY_RATES = Table(
    "campaign_carry_rates",  # one row for each owner, because the owner's own program measures the rate
    column_types.METADATA,
    *column_types.integer_key_columns("uid"),
    *column_types.text_key_columns("cluster"),
    *column_types.float_columns("bytes_per_s"),
)
SERVER_LIMITS = Table(
    "file_server_limits",
    column_types.METADATA,
    *column_types.text_key_columns("storage"),
    *column_types.time_columns("at"),
    *column_types.float_columns("limit", "base"),
    *column_types.integer_columns("tasks"),
    Column("load", Float),
    *column_types.time_columns("load_at", nullable=True),
)
USUAL_RATE = 10e6  # bytes per second, until a carry to the cluster has been timed
LEAST_TIMED_BYTES = 1 << 20  # smaller carries measure the delay of ssh, not the rate


class InputCarryRows:
    """Clusters with copies of input files, missing bytes of the next tasks, and measured rates of carries."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def record_begun_carry(self, campaign: int, cluster: str) -> None:
        """Record that a cluster may have copies of a campaign's files; may be repeated."""
        of = (CARRIES.c.campaign == campaign, CARRIES.c.cluster == cluster)
        with self._database.transaction():
            if not self._database.rows(select(CARRIES.c.campaign).where(*of)):
                row = {"campaign": campaign, "cluster": cluster, "task_bytes": None}
                self._database.execute(insert(CARRIES), row)

    def input_copies_of_ended_campaigns(self) -> dict[CampaignCluster, int]:
        """Return {(campaign, cluster): uid of the owner} for copies whose campaign has ended in root's ledger."""
        has_ended = (CAMPAIGNS.c.number == CARRIES.c.campaign, CAMPAIGNS.c.is_end_noted)
        query = select(CARRIES.c.campaign, CARRIES.c.cluster, CAMPAIGNS.c.uid).join(CAMPAIGNS, and_(*has_ended))
        return {(row["campaign"], row["cluster"]): row["uid"] for row in self._database.rows(query)}

    def clusters_with_input_copies(self, campaign: int) -> frozenset[str]:
        rows = self._database.rows(select(CARRIES.c.cluster).where(CARRIES.c.campaign == campaign))
        return frozenset(row["cluster"] for row in rows)

    def forget_input_copies(self, campaign: int, cluster: str) -> None:
        of = (CARRIES.c.campaign == campaign, CARRIES.c.cluster == cluster)
        self._database.execute(delete(CARRIES).where(*of))

    def forget_input_copies_of_campaigns(self, campaigns: Iterable[int]) -> None:
        """Forget copies that can't be removed any more, because the campaigns' files are gone."""
        rows = [{"of_campaign": campaign} for campaign in campaigns]
        self._database.execute_for_each_row(delete(CARRIES).where(CARRIES.c.campaign == bindparam("of_campaign")), rows)

    def record_carry(self, campaign: Campaign, cluster: str, carry: TimedInputCarry) -> None:
        row = {"campaign": campaign.number, "cluster": cluster, "task_bytes": carry.next_task_bytes}
        with self._database.transaction():
            self._database.execute(self._database.upsert(CARRIES), row)
            self.record_carry_rate(campaign.uid, cluster, carry)

    def record_carry_rate(self, uid: int, cluster: str, carry: TimedInputCarry) -> None:
        """Record the rate of a carry, which counts as much as all earlier timed carries."""
        if carry.copied_bytes >= LEAST_TIMED_BYTES and carry.took_s > 0:
            rate = carry.copied_bytes / carry.took_s
            mean = (self.measured_rates().get((uid, cluster), rate) + rate) / 2
            row = {"uid": uid, "cluster": cluster, "bytes_per_s": mean}
            self._database.execute(self._database.upsert(CARRY_RATES), row)

    def carry_costs(self, pairs: Iterable[tuple[Campaign, str]]) -> tuple[InputCarryCost, ...]:
        """Return the time of carries for pairs of campaign and cluster."""
        rates = self.measured_rates()
        of_pair = {(row["campaign"], row["cluster"]): row["task_bytes"] for row in self._database.rows(select(CARRIES))}
        return tuple(
            InputCarryCost(
                campaign=campaign.number,
                cluster=cluster,
                task_bytes=size or 0.0,
                task_s=None if size is None else size / rate,
                bytes_per_s=rate,
            )
            for campaign, cluster in pairs
            for size in (of_pair.get((campaign.number, cluster)),)
            for rate in (rates.get((campaign.uid, cluster), USUAL_RATE),)
        )

    def carry_rates(self, cluster: str) -> dict[int, float]:
        """Return {uid: bytes per second} of the timed carries to a cluster."""
        return {uid: rate for (uid, at), rate in self.measured_rates().items() if at == cluster}

    def expected_rates(self, uids: Collection[int], clusters: Iterable[str]) -> dict[str, dict[int, float]]:
        """Return the bytes per second of the owners' next carries to these clusters, by cluster and owner."""
        rates = self.measured_rates()
        return {cluster: {uid: rates.get((uid, cluster), USUAL_RATE) for uid in uids} for cluster in clusters}

    def measured_rates(self) -> dict[tuple[int, str], float]:
        """Return the bytes per second of timed carries, by owner and cluster."""
        rows = self._database.rows(select(CARRY_RATES))
        return {(row["uid"], row["cluster"]): row["bytes_per_s"] for row in rows}


class FileServerLimitRows:
    def __init__(self, database: StateFile) -> None:
        self._database = database

    def read_file_server_limits(self) -> tuple[FileServerLimit, ...]:
        return self._database.query_rows_as(FileServerLimit, select(SERVER_LIMITS))

    def store_file_server_limits(self, limits: Iterable[FileServerLimit]) -> None:
        self._database.execute_for_each_row(self._database.upsert(SERVER_LIMITS), [*map(asdict, limits)])


class CampaignStatisticsRows:
    def __init__(self, database: StateFile) -> None:
        self._database = database

    def read_job_ratios(self, campaigns: Iterable[int]) -> tuple[JobRatio, ...]:
        return self._database.query_rows_as(JobRatio, _RATIOS, campaigns=list(campaigns))

    def store_job_ratios(self, predicted: Iterable[TasksPerFreeSlotUpdate]) -> None:
        names = ("campaign", "cluster", "ratio", "submitted")
        rows = [{name: getattr(update, name) for name in names} | {"free": update.terms.free} for update in predicted]
        self._database.execute_for_each_row(self._database.upsert(RATIOS), rows)

    def add_count_of_ended_tasks(self, campaign: int, cluster: str, tasks: int, at: datetime) -> None:
        """Count tasks that ended at a cluster in the minute of `at`."""
        key = {"campaign": campaign, "cluster": cluster, "minute": at.replace(second=0, microsecond=0)}
        with self._database.transaction():
            rows = self._database.rows(_THIS_MINUTE, **{f"of_{name}": value for name, value in key.items()})
            before = rows[0]["ended"] if rows else 0
            self._database.execute(self._database.upsert(ENDS), key | {"ended": before + tasks})

    def count_tasks_ended_since(self, campaign: int, since: datetime) -> dict[str, tuple[int, datetime]]:
        """Return {cluster: (number of ended tasks, start of the counted period)}, to compute a rate.

        The period begins after the first minute with an ended task, whose tasks are not counted.
        """
        by_cluster: dict[str, tuple[int, datetime]] = {}
        for row in self._database.rows(_SINCE, of_campaign=campaign, since=since):
            ended, first = by_cluster.get(row["cluster"], (-row["ended"], row["minute"] + MINUTE))
            by_cluster[row["cluster"]] = ended + row["ended"], first
        return by_cluster

    def delete_old_end_counts(self, before: datetime) -> None:
        """Delete counts of tasks that ended before a time, in one transaction per campaign."""
        is_old = ENDS.c.minute < before
        for row in self._database.rows(select(ENDS.c.campaign).where(is_old).distinct()):
            self._database.execute(delete(ENDS).where(ENDS.c.campaign == row["campaign"], is_old))

    def read_task_usages(self, campaigns: Iterable[int]) -> tuple[TaskUsageAtCluster, ...]:
        return self._database.query_rows_as(TaskUsageAtCluster, _USAGE_OF_TASKS, campaigns=list(campaigns))

    def task_usages_by_campaign(self) -> dict[int, tuple[TaskUsageAtCluster, ...]]:
        """Return the usages of all campaigns with ended tasks, each sorted by cluster."""
        by_campaign = defaultdict[int, tuple[TaskUsageAtCluster, ...]](tuple)
        query = select(TASK_USAGE).order_by(TASK_USAGE.c.campaign, TASK_USAGE.c.cluster)
        for usage in self._database.query_rows_as(TaskUsageAtCluster, query):
            by_campaign[usage.campaign] += (usage,)
        return by_campaign

    def store_task_usages(self, usages: Iterable[TaskUsageAtCluster]) -> None:
        self._database.execute_for_each_row(self._database.upsert(TASK_USAGE), [*map(asdict, usages)])

    def read_forecasts(self) -> tuple[HalfwayForecast, ...]:
        """Return the stored forecast of each campaign, ordered by campaign."""
        return self._database.query_rows_as(HalfwayForecast, select(FORECASTS).order_by(FORECASTS.c.campaign))

    def store_forecast(self, forecast: HalfwayForecast) -> None:
        self._database.execute(self._database.upsert(FORECASTS), asdict(forecast))

    def store_campaign_end_with_forecast(self, campaign: int, at: datetime) -> None:
        """Store the time of a campaign's end with the campaign's forecast; later ends are ignored."""
        of = and_(FORECASTS.c.campaign == campaign, FORECASTS.c.ended_at.is_(None))
        self._database.execute(update(FORECASTS).where(of).values(ended_at=at))


class CampaignSlotUsageRows:
    def __init__(self, database: StateFile) -> None:
        self._database = database

    def read_slot_usage(self) -> tuple[DecayedCampaignUsage, ...]:
        return self._database.query_rows_as(DecayedCampaignUsage, select(USAGE))

    def store_slot_usage(self, usages: Iterable[DecayedCampaignUsage]) -> None:
        with self._database.transaction():
            self._database.execute_for_each_row(self._database.upsert(USAGE), [*map(asdict, usages)])

    def delete_slot_usage(self, usages: Iterable[DecayedCampaignUsage]) -> None:
        with self._database.transaction():
            for usage in usages:
                of = (USAGE.c.campaign == usage.campaign, USAGE.c.cluster == usage.cluster)
                self._database.execute(delete(USAGE).where(*of))
