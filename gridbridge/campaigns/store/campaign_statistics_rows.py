"""Tables of campaigns' job ratios, ended tasks per minute, forecasts and past slot usage."""

from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import datetime, timedelta

from sqlalchemy import BigInteger, Column, Float, Table, and_, bindparam, delete, select, update

from gridbridge.model.campaigns.cycle_plan import DecayedCampaignUsage, JobRatio, JobRatioUpdate
from gridbridge.model.campaigns.forecast import HalfwayForecast
from gridbridge.state.column_types import METADATA, PrintableTextColumn, UtcTimeColumn
from gridbridge.state.state_file import StateFile

RATIOS = Table(
    "campaign_ratios",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("cluster", PrintableTextColumn, primary_key=True),
    Column("ratio", Float, nullable=False),
    Column("free", BigInteger, nullable=False),
    Column("submitted", BigInteger, nullable=False),
)

ENDS = Table(  # one row for each minute in which tasks ended
    "campaign_ends",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("cluster", PrintableTextColumn, primary_key=True),
    Column("minute", UtcTimeColumn, primary_key=True),
    Column("ended", BigInteger, nullable=False),
)

FORECASTS = Table(
    "campaign_forecasts",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("made_at", UtcTimeColumn, nullable=False),
    Column("p50_at", UtcTimeColumn, nullable=False),
    Column("p90_at", UtcTimeColumn, nullable=False),
    Column("ended_at", UtcTimeColumn),
)

_OF_CAMPAIGNS = RATIOS.c.campaign.in_(bindparam("campaigns", expanding=True))
_RATIOS = select(*(RATIOS.c[field.name] for field in fields(JobRatio))).where(_OF_CAMPAIGNS)
_FORECASTS = select(*(FORECASTS.c[field.name] for field in fields(HalfwayForecast))).order_by(FORECASTS.c.campaign)
_SINCE = (
    select(ENDS.c.cluster, ENDS.c.minute, ENDS.c.ended)
    .where(ENDS.c.campaign == bindparam("of_campaign"), ENDS.c.minute >= bindparam("since"))
    .order_by(ENDS.c.minute)
)
MINUTE = timedelta(minutes=1)
_THIS_MINUTE = and_(
    ENDS.c.campaign == bindparam("of_campaign"),
    ENDS.c.cluster == bindparam("at_cluster"),
    ENDS.c.minute == bindparam("in_minute"),
)
USAGE = Table(
    "campaign_usage",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("cluster", PrintableTextColumn, primary_key=True),
    Column("at", UtcTimeColumn, nullable=False),
    Column("used_s", Float, nullable=False),
    Column("success_s", Float, nullable=False),
    Column("successes", Float, nullable=False),
)
_ALL = select(*(USAGE.c[field.name] for field in fields(DecayedCampaignUsage)))


class CampaignStatisticsRows:
    """Reads and writes campaigns' job ratios, ended tasks per minute, and forecasts."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def ratios(self, campaigns: Iterable[int]) -> tuple[JobRatio, ...]:
        """Return the stored job ratios of these campaigns at all clusters."""
        rows = self._database.rows(_RATIOS, campaigns=list(campaigns))
        return tuple(JobRatio(**row) for row in map(dict, rows))

    def keep(self, predicted: Iterable[JobRatioUpdate]) -> None:
        """Store job ratios of campaigns at clusters for the next cycle."""
        ratios = [
            JobRatio(
                campaign=prediction.campaign,
                cluster=prediction.cluster,
                ratio=prediction.ratio,
                free=prediction.terms.free,
                submitted=prediction.submitted,
            )
            for prediction in predicted
        ]
        self._database.execute_each(self._database.upsert(RATIOS), [*map(asdict, ratios)])

    def tasks_ended(self, campaign: int, cluster: str, tasks: int, at: datetime) -> None:
        """Count tasks that ended at a cluster in the minute of `at`."""
        key = {"campaign": campaign, "cluster": cluster, "minute": at.replace(second=0, microsecond=0)}
        of = {"of_campaign": campaign, "at_cluster": cluster, "in_minute": key["minute"]}
        with self._database.transaction():
            rows = self._database.rows(select(ENDS.c.ended).where(_THIS_MINUTE), **of)
            before = rows[0]["ended"] if rows else 0
            self._database.execute(self._database.upsert(ENDS), key | {"ended": before + tasks})

    def ended_since(self, campaign: int, since: datetime) -> dict[str, tuple[int, datetime]]:
        """Return, by cluster, the number of ended tasks of a campaign and the start of the count.

        The count starts after the first minute in which a task ended.
        """
        by_cluster: dict[str, tuple[int, datetime]] = {}
        for row in self._database.rows(_SINCE, of_campaign=campaign, since=since):
            ended, first = by_cluster.get(row["cluster"], (-row["ended"], row["minute"] + MINUTE))
            by_cluster[row["cluster"]] = ended + row["ended"], first
        return by_cluster

    def forget_ends(self, before: datetime) -> None:
        """Delete counts of tasks that ended before a time, in one transaction for each campaign."""
        is_old = ENDS.c.minute < before
        for row in self._database.rows(select(ENDS.c.campaign).where(is_old).distinct()):
            of = ENDS.c.campaign == row["campaign"]
            self._database.execute(delete(ENDS).where(of, is_old))

    def forecasts(self) -> tuple[HalfwayForecast, ...]:
        """Return the stored forecast of each campaign, ordered by campaign."""
        return tuple(HalfwayForecast(**row) for row in map(dict, self._database.rows(_FORECASTS)))

    def keep_forecast(self, forecast: HalfwayForecast) -> None:
        """Store the forecast of a campaign."""
        self._database.execute(self._database.upsert(FORECASTS), asdict(forecast))

    def has_ended(self, campaign: int, at: datetime) -> None:
        """Store the time of a campaign's end with the campaign's forecast; later ends are ignored."""
        of = and_(FORECASTS.c.campaign == campaign, FORECASTS.c.ended_at.is_(None))
        self._database.execute(update(FORECASTS).where(of).values(ended_at=at))


class CampaignSlotUsageRows:
    """Reads and writes the past slot usage of campaigns, in which older usage counts less."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def all(self) -> tuple[DecayedCampaignUsage, ...]:
        """Return the stored slot usage of every campaign at every cluster."""
        return tuple(DecayedCampaignUsage(**row) for row in map(dict, self._database.rows(_ALL)))

    def keep(self, usages: Iterable[DecayedCampaignUsage]) -> None:
        """Replace the stored slot usage of these campaigns at these clusters."""
        with self._database.transaction():
            for usage in usages:
                self._database.execute(self._database.upsert(USAGE), asdict(usage))

    def forget(self, usages: Iterable[DecayedCampaignUsage]) -> None:
        """Delete the stored slot usage of these campaigns at these clusters."""
        with self._database.transaction():
            for usage in usages:
                of = (USAGE.c.campaign == usage.campaign, USAGE.c.cluster == usage.cluster)
                self._database.execute(delete(USAGE).where(*of))
