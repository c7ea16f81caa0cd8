"""Rows of the page about campaigns and open events: what gridstat shows everybody, and no task parameters."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from gridbridge.decisions.campaigns.event_texts_and_notifications import describe_campaign_event
from gridbridge.decisions.site.site_page_charts import bar_parts, campaign_curve, format_moment
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_events import CampaignEvent, CampaignEventSubject
from gridbridge.model.campaigns.campaign_predecessors import describe_unmet_predecessor
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaign
from gridbridge.model.published_status_and_reports import format_duration, number_with_noun
from gridbridge.model.site.site_page_rows import PageBadge, PageCampaignRow, PageEventRow, PageTone, PublishedSite

MOST_CAMPAIGNS = 30
MOST_ENDED = 5  # the newest ended campaigns
MOST_CURVES = 10  # because each curve reads a file that may be long
MOST_EVENTS = 30
BADGES = {
    CampaignState.IN_TREATMENT: PageBadge(tone=PageTone.GOOD, word="in treatment"),
    CampaignState.PAUSED: PageBadge(tone=PageTone.WARNING, word="paused"),
    CampaignState.TERMINATED: PageBadge(tone=PageTone.QUIET, word="terminated"),
    CampaignState.CANCELLED: PageBadge(tone=PageTone.QUIET, word="cancelled"),
}
HELD_BACK = PageBadge(tone=PageTone.BUSY, word="held back")


def campaigns_on_page(campaigns: Sequence[PublishedCampaign]) -> tuple[PublishedCampaign, ...]:
    """Return the newest unfinished campaigns, then the newest ended campaigns."""
    newest = sorted(campaigns, key=lambda campaign: -campaign.number)
    alive = [campaign for campaign in newest if campaign.state.is_alive][:MOST_CAMPAIGNS]
    return (*alive, *[campaign for campaign in newest if not campaign.state.is_alive][:MOST_ENDED])


def page_campaign_rows(site: PublishedSite, now: datetime) -> tuple[PageCampaignRow, ...]:
    return tuple(_campaign_row(campaign, site, now) for campaign in campaigns_on_page(site.campaigns))


def _campaign_row(campaign: PublishedCampaign, site: PublishedSite, now: datetime) -> PageCampaignRow:
    is_held_back = campaign.is_held_back and campaign.state is CampaignState.IN_TREATMENT
    unusual = campaign.failed + campaign.cancelled
    parts = (
        ("succeeded", campaign.ended - unusual),
        ("failed", campaign.failed),
        ("cancelled", campaign.cancelled),
        ("running", campaign.tasks_running if campaign.state.is_alive else 0),
    )
    return PageCampaignRow(
        number=campaign.number,
        name=campaign.name,
        owner=campaign.owner,
        badge=HELD_BACK if is_held_back else BADGES.get(campaign.state, BADGES[CampaignState.TERMINATED]),
        bar=bar_parts(campaign.tasks, parts),
        percent=100 * campaign.ended // campaign.tasks if campaign.tasks else 100,
        tasks=_tasks_in_words(campaign),
        forecast=_forecast_in_words(campaign, now),
        clusters=", ".join(
            f"{at.running} at {at.cluster}" for at in campaign.at if at.running and campaign.state.is_alive
        ),
        notes=tuple(_campaign_notes(campaign)),
        curve=campaign_curve(campaign, site.ends.get(campaign.number, ()), now),
    )


def _tasks_in_words(campaign: PublishedCampaign) -> str:
    counts = (
        ("failed", campaign.failed),
        ("cancelled", campaign.cancelled),
        ("running", campaign.tasks_running if campaign.state.is_alive else 0),
        ("waiting", campaign.tasks_waiting),
    )
    ended = f"{campaign.ended} of {number_with_noun(campaign.tasks, 'task')} ended"
    return ", ".join((ended, *(f"{number} {word}" for word, number in counts if number)))


def _forecast_in_words(campaign: PublishedCampaign, now: datetime) -> str:
    if campaign.state is not CampaignState.IN_TREATMENT:
        return ""
    if campaign.p50_at is None or campaign.p90_at is None:
        return "no forecast of the end yet"
    p50, p90 = (format_moment(at, now) for at in (campaign.p50_at, campaign.p90_at))
    end = f"in about {format_duration(campaign.p50_at - now)}" if campaign.p50_at > now else "soon"
    return f"ends {end}: {p50} (P50), {p90} (P90)"


def _campaign_notes(campaign: PublishedCampaign) -> Iterator[str]:
    if campaign.state.is_alive:
        yield from map(describe_unmet_predecessor, campaign.unmet)
    for cluster in campaign.sinks:
        yield f"tasks at {cluster} succeed too fast to have done any work"
    if campaign.ending_at:
        yield f"tasks may still run at {', '.join(campaign.ending_at)}"


def open_events(events: Sequence[CampaignEvent]) -> list[CampaignEvent]:
    """Return the open events, the newest first."""
    return sorted((event for event in events if event.closed_at is None), key=lambda event: event.last_at, reverse=True)


def page_event_rows(site: PublishedSite, now: datetime) -> tuple[PageEventRow, ...]:
    campaigns = {campaign.number: campaign for campaign in site.campaigns}
    return tuple(
        _event_row(event, campaigns.get(event.campaign), now) for event in open_events(site.events)[:MOST_EVENTS]
    )


def _event_row(event: CampaignEvent, campaign: PublishedCampaign | None, now: datetime) -> PageEventRow:
    retry = f"retried in {format_duration(event.until - now)}" if event.until and event.until > now else ""
    is_of_cluster = event.kind is CampaignEventSubject.CLUSTER
    name = f" ({campaign.name})" if campaign else ""
    return PageEventRow(
        number=event.number,
        code=event.code.value,
        subject=f"cluster {event.cluster}" if is_of_cluster else f"campaign {event.campaign}{name}",
        text=describe_campaign_event(event, campaign.state if campaign else None),
        since=f"open for {format_duration(now - event.opened_at)}",
        badge=PageBadge(tone=PageTone.WARNING, word=retry) if retry else PageBadge(tone=PageTone.BAD, word="open"),
    )
