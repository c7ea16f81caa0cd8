"""Decides when tasks of type `nightly` may start at a cluster: only if their walltime ends within a night."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from gridbridge.model.campaigns.campaign import Campaign, CampaignCluster
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation
from gridbridge.model.campaigns.jdl import JdlSettingsAtCluster
from gridbridge.model.campaigns.nights import DAY_MIN, Night, WeeklyNight

DAYS_AHEAD = 8  # nights that begin within a week and a day are listed
DAYS_BEFORE = 2  # the present night may have begun before today


def list_next_nights(weekly: Iterable[WeeklyNight], zone: tzinfo, now: datetime) -> tuple[Night, ...]:
    """Return the present night and the nights of the next week, in UTC; adjoining nights are joined.

    A local time that the clocks skip counts as an hour later. A night contains both occurrences of a repeated time.
    """
    weekly, today = tuple(weekly), now.astimezone(zone).date()
    days = [today + timedelta(days=number) for number in range(-DAYS_BEFORE, DAYS_AHEAD)]
    nights = sorted(
        (
            _local_minutes_as_utc(day, night.begin_min, zone, fold=0),
            _local_minutes_as_utc(day, night.end_min, zone, fold=1),
        )
        for day in days
        for night in weekly
        if day.weekday() in night.days
    )
    joined = list[Night]()
    for begins_at, ends_at in nights:
        last = joined[-1] if joined else None
        if last and begins_at <= last.ends_at:
            joined[-1] = Night(begins_at=last.begins_at, ends_at=max(last.ends_at, ends_at))
        elif begins_at < ends_at:
            joined.append(Night(begins_at=begins_at, ends_at=ends_at))
    return tuple(night for night in joined if night.ends_at > now)


def _local_minutes_as_utc(day: date, minutes: int, zone: tzinfo, fold: int) -> datetime:
    local = datetime.combine(day + timedelta(days=minutes // DAY_MIN), time(minutes % DAY_MIN // 60, minutes % 60))
    utc = local.replace(tzinfo=zone, fold=fold).astimezone(UTC)
    is_skipped = utc.astimezone(zone).replace(tzinfo=None) != local
    return local.replace(tzinfo=zone, fold=0).astimezone(UTC) if is_skipped else utc


def next_night_for_task(nights: Iterable[Night], walltime_s: int, now: datetime) -> Night | None:
    """Return the next time span in which a task of this walltime may start; None if no night is long enough."""
    walltime = timedelta(seconds=walltime_s)
    starts = (Night(begins_at=night.begins_at, ends_at=night.ends_at - walltime) for night in nights)
    return next((start for start in starts if start.ends_at >= max(now, start.begins_at)), None)


def is_each_night_too_short(request: JdlSettingsAtCluster, cluster: str, situation: CampaignCycleSituation) -> bool:
    """Say whether the walltime of a nightly task is longer than each night of the next week."""
    nights = situation.nights.get(cluster)
    is_nightly = request.is_nightly and nights is not None
    return is_nightly and next_night_for_task(nights or (), request.walltime_s, situation.at) is None


def campaigns_waiting_for_night(
    campaigns: Iterable[Campaign], nights: Mapping[str, tuple[Night, ...]], now: datetime
) -> frozenset[CampaignCluster]:
    """Return the campaigns and clusters whose nightly tasks may not start now."""
    return frozenset(
        (campaign.number, name)
        for campaign in campaigns
        for name, request in campaign.jdl.clusters.items()
        if request.is_nightly
        and not _may_start_now(next_night_for_task(nights.get(name, ()), request.walltime_s, now), now)
    )


def _may_start_now(start: Night | None, now: datetime) -> bool:
    return start is not None and start.begins_at <= now
