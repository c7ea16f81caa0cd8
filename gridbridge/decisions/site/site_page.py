"""Makes the whole page of a site from its published values: notices, tiles, rows and charts."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from gridbridge.decisions.site.page_campaign_and_event_rows import (
    campaigns_on_page,
    open_events,
    page_campaign_rows,
    page_event_rows,
)
from gridbridge.decisions.site.page_cluster_and_transfer_rows import (
    page_cluster_rows,
    page_queue_rows,
    page_transfer_rows,
    transfer_state_counts,
)
from gridbridge.decisions.site.service_fault_findings import RUNNER_LATE
from gridbridge.decisions.site.site_page_charts import bar_parts, chart_days, node_charts
from gridbridge.decisions.transfer import transfer_status_explanation
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.elastic.published_balance import PublishedBalancerFigures
from gridbridge.model.published_status_and_reports import format_duration, number_with_noun
from gridbridge.model.rebalance.datasets import format_bytes
from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea
from gridbridge.model.site.site_page_rows import (
    PageBadge,
    PageClusterRow,
    PageNodes,
    PageQueueRow,
    PageStorageRow,
    PageTile,
    PageTone,
    PublishedSite,
    SitePage,
)

BALANCER_LATE = timedelta(minutes=15)
NEARLY_FULL = 0.9  # share of an area's bytes


def make_site_page(site: PublishedSite, now: datetime) -> SitePage:
    """Return the page; times are shown in the zone of `now`."""
    service = site.status.service
    clusters, queues = page_cluster_rows(site, now), page_queue_rows(site, now)
    campaigns, transfers, events = (
        page_campaign_rows(site, now),
        page_transfer_rows(site, now),
        page_event_rows(site, now),
    )
    return SitePage(
        home=service.cluster if service else "",
        version=service.version if service else "",
        made_at=now,
        notices=tuple(_notices(site, now)),
        tiles=tuple(_tiles(site, clusters, queues)),
        clusters=clusters,
        queues=queues,
        transfer_counts=transfer_state_counts(site),
        transfers=transfers,
        more_transfers=len(site.status.transfers) - len(transfers),
        campaigns=campaigns,
        more_campaigns=len(site.campaigns) - len(campaigns_on_page(site.campaigns)),
        nodes=_nodes(site, now),
        areas=tuple(_storage_row(area, site) for area in (site.areas.areas if site.areas else ())),
        areas_measured=f"measured {format_duration(now - site.areas.at)} ago" if site.areas else "",
        events=events,
        more_events=len(open_events(site.events)) - len(events),
    )


def _notices(site: PublishedSite, now: datetime) -> Iterator[str]:
    """Yield what is wrong with the whole site, or with what the page knows of the site."""
    yield from filter(
        None,
        (
            transfer_status_explanation.poller_silence_alarm(site.status, now),
            transfer_status_explanation.full_folder_warning(site.status),
            transfer_status_explanation.refused_configuration_warning(site.status),
        ),
    )
    is_runner_needed = any(campaign.state is CampaignState.IN_TREATMENT for campaign in site.campaigns)
    if is_runner_needed and (site.cycle_at is None or now - site.cycle_at > RUNNER_LATE):
        late = f"for {format_duration(now - site.cycle_at)}" if site.cycle_at else "yet"
        yield f"gridbridge-runner has published no cycle {late}: campaigns and events below are as old"
    if site.balance and now - site.balance.at > BALANCER_LATE:
        yield f"gridbridge-balance has run no round for {format_duration(now - site.balance.at)}"
    if site.balance and site.balance.trouble:
        yield f"the balancer could not read the cell {site.balance.cluster}: {site.balance.trouble}"
    yield from site.late
    yield from site.troubles


def _tiles(
    site: PublishedSite, clusters: tuple[PageClusterRow, ...], queues: tuple[PageQueueRow, ...]
) -> Iterator[PageTile]:
    usable = sum(cluster.badge.tone is PageTone.GOOD for cluster in clusters)
    is_quiet = any(cluster.badge.tone is PageTone.BAD for cluster in clusters)
    yield _tile("clusters", "Clusters", usable, f"of {len(clusters)} usable", PageTone.BAD if is_quiet else None)
    is_open = sum(queue.badge.tone is PageTone.GOOD for queue in queues)
    closed = PageTone.WARNING if is_open < len(queues) else None
    yield _tile("queues", "Queues", is_open, f"of {len(queues)} open", closed)
    running = sum(transfer.remote_job_state.is_running for transfer in site.status.transfers)
    yield _tile("transfers", "Transfers", len(site.status.transfers), f"open, {running} running")
    alive = [campaign for campaign in site.campaigns if campaign.state.is_alive]
    tasks = sum(campaign.tasks_running for campaign in alive)
    yield _tile("campaigns", "Campaigns", len(alive), f"unfinished, {number_with_noun(tasks, 'task')} running")
    if site.balance:
        nodes = sum(count.nodes for count in site.balance.nodes if count.state in ("ready", "draining"))
        yield _tile("nodes", "Nodes", nodes, f"of at most {site.balance.max_nodes}")
    if site.areas:
        yield _tile("storage", "Storage", len(site.areas.areas), "areas")
    events = len(open_events(site.events))
    yield _tile("events", "Events", events, "open", PageTone.WARNING if events else None)


def _tile(anchor: str, title: str, figure: int, note: str, tone: PageTone | None = None) -> PageTile:
    return PageTile(anchor=anchor, title=title, figure=str(figure), note=note, tone=tone or PageTone.QUIET)


def _nodes(site: PublishedSite, now: datetime) -> PageNodes | None:
    if site.balance is None and site.nodes is None:
        return None
    return PageNodes(
        charts=node_charts(site.nodes, now) if site.nodes else (),
        days=chart_days(now),
        pools=tuple(_pool_rows(site.balance)) if site.balance else (),
        sentence=site.balance.sentence if site.balance else "",
    )


def _pool_rows(balance: PublishedBalancerFigures) -> Iterator[tuple[str, str]]:
    for pool in sorted({count.pool for count in balance.nodes}):
        counts = (f"{count.nodes} {count.state}" for count in balance.nodes if count.pool == pool)
        yield pool or "without a pool", ", ".join(counts)


def _storage_row(area: MeasuredStorageArea, site: PublishedSite) -> PageStorageRow:
    used = max(0, area.size_bytes - area.free_bytes)
    is_measured = bool(area.size_bytes) and not area.is_store and not area.fault
    room = f"{format_bytes(area.free_bytes)} of {format_bytes(area.size_bytes)} free"
    return PageStorageRow(
        name=area.storage,
        clusters=", ".join(area.clusters) or "object store",
        badge=_storage_badge(area, is_drained=bool(site.areas and area.storage in site.areas.drained)),
        bar=bar_parts(area.size_bytes if is_measured else 0, (("used", used), ("free", area.free_bytes))),
        room=room if is_measured else "room known to owners alone" if area.is_store else "room unknown",
        why=area.fault,
    )


def _storage_badge(area: MeasuredStorageArea, *, is_drained: bool) -> PageBadge:
    if area.fault:
        return PageBadge(tone=PageTone.BAD, word="unusable")
    if is_drained:
        return PageBadge(tone=PageTone.WARNING, word="drained")
    if area.is_read_only:
        return PageBadge(tone=PageTone.WARNING, word="read-only")
    if not area.is_store and area.free_bytes < (1 - NEARLY_FULL) * area.size_bytes:
        return PageBadge(tone=PageTone.WARNING, word="nearly full")
    return PageBadge(tone=PageTone.GOOD, word="usable")
