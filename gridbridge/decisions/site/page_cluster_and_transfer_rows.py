"""Rows of the page about clusters, transfer queues and open transfers; no transfer's owner is shown."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from gridbridge.decisions.site.site_page_charts import bar_parts
from gridbridge.decisions.transfer import transfer_status_explanation as explanation
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedClusterSlots
from gridbridge.model.job_and_queue_states import JobStateFact
from gridbridge.model.published_status_and_reports import (
    PublishedClusterAnswer,
    PublishedTransfer,
    format_duration,
    number_with_noun,
)
from gridbridge.model.site.site_page_rows import (
    PageBadge,
    PageClusterRow,
    PageQueueRow,
    PageTone,
    PageTransferRow,
    PublishedSite,
)
from gridbridge.model.transfer_name import parse_transfer_name

MOST_TRANSFERS = 50
TONES = {
    JobStateFact.RUNNING: PageTone.GOOD,
    JobStateFact.FINISHED: PageTone.GOOD,
    JobStateFact.WAITING: PageTone.BUSY,
    explanation.SENDING: PageTone.BUSY,
    explanation.UNLISTED: PageTone.WARNING,
    JobStateFact.ERROR: PageTone.BAD,
}


def page_cluster_rows(site: PublishedSite, now: datetime) -> tuple[PageClusterRow, ...]:
    """Return the clusters that the poller or the campaign runner queries, and drained clusters; home is first."""
    slots = {cluster.name: cluster for cluster in site.slots}
    home = site.status.service.cluster if site.status.service else ""
    names = sorted({*site.status.clusters, *slots, *site.status.drained}, key=lambda name: (name != home, name))
    return tuple(_cluster_row(name, name == home, slots.get(name), site, now) for name in names)


def _cluster_row(
    name: str, is_home: bool, slots: PublishedClusterSlots | None, site: PublishedSite, now: datetime
) -> PageClusterRow:
    answer = site.status.clusters.get(name)
    badge, why = _cluster_badge(name, answer, slots, site, now)
    total, used, free = _slot_numbers(answer, slots)
    ours = min(slots.used_by_campaigns if slots else 0, used or 0)
    transfers = sum(transfer.remote == name for transfer in site.status.transfers)
    tasks = (
        number_with_noun(answer.pending, "task waits", "tasks wait") if answer and answer.pending else "",
        f"{number_with_noun(slots.running, 'campaign task')} running" if slots and slots.running else "",
        f"{number_with_noun(transfers, 'transfer')} here" if transfers else "",
    )
    return PageClusterRow(
        name=name,
        role="home" if is_home else slots.kind if slots else "",
        badge=badge,
        bar=bar_parts(total, (("campaigns", ours), ("used", (used or 0) - ours), ("free", free or 0))),
        slots=_slots_in_words(total, used, free, ours, is_old=badge.tone in (PageTone.BAD, PageTone.QUIET)),
        tasks=", ".join(filter(None, tasks)),
        why=why,
    )


def _cluster_badge(
    name: str,
    answer: PublishedClusterAnswer | None,
    slots: PublishedClusterSlots | None,
    site: PublishedSite,
    now: datetime,
) -> tuple[PageBadge, str]:
    if drained := explanation.describe_cluster_drain(name, site.status, now):
        return PageBadge(tone=PageTone.WARNING, word="drained"), drained
    if answer is None:
        return _badge_by_runner(name, slots, site, now)
    report = explanation.report_cluster_reachability(answer, now)
    if not report.answers:
        return PageBadge(tone=PageTone.BAD, word="silent"), report.why
    if explanation.poller_silence_alarm(site.status, now):
        return PageBadge(tone=PageTone.QUIET, word="unknown"), f"last {report.why}"
    return PageBadge(tone=PageTone.GOOD, word="answers"), report.why


def _badge_by_runner(
    name: str, slots: PublishedClusterSlots | None, site: PublishedSite, now: datetime
) -> tuple[PageBadge, str]:
    codes = {event.code for event in site.events if event.cluster == name and event.closed_at is None}
    if CampaignEventCode.GET_JOBS in codes:
        return PageBadge(tone=PageTone.BAD, word="silent"), "gives the campaign runner no answer"
    if slots is None or slots.slots is None or slots.answered_at is None:
        return PageBadge(tone=PageTone.QUIET, word="not queried"), "no campaign uses the cluster now"
    why = f"answered the campaign runner {format_duration(now - slots.answered_at)} ago"
    return PageBadge(tone=PageTone.GOOD, word="answers"), why


def _slot_numbers(
    answer: PublishedClusterAnswer | None, slots: PublishedClusterSlots | None
) -> tuple[int | None, int | None, int | None]:
    """Return all, used and free slots, by the poller if it counts slots, else by the campaign runner."""
    if answer and answer.slots is not None:
        return answer.slots, answer.used, answer.free_slots
    if slots and slots.slots is not None:
        return slots.slots, slots.used, slots.free
    return None, None, answer.free_slots if answer else None


def _slots_in_words(total: int | None, used: int | None, free: int | None, ours: int, *, is_old: bool) -> str:
    last = "last known: " if is_old else ""
    if total is None:
        return "" if free is None else f"{last}{number_with_noun(free, 'free slot')}"
    by_campaigns = f", {ours} by campaigns" if ours else ""
    return f"{last}{used or 0} of {number_with_noun(total, 'slot')} used{by_campaigns}"


def page_queue_rows(site: PublishedSite, now: datetime) -> tuple[PageQueueRow, ...]:
    return tuple(_queue_rows(site, now))


def _queue_rows(site: PublishedSite, now: datetime) -> Iterator[PageQueueRow]:
    for route in site.status.service.routes if site.status.service else ():
        report = explanation.report_transfer_queue_status(route, site.status, now)
        tone, word = (PageTone.GOOD, "open") if report.is_open else (PageTone.WARNING, "closed")
        yield PageQueueRow(
            name=report.queue,
            cluster=report.cluster,
            badge=PageBadge(tone=tone, word=word),
            bar=bar_parts(report.total, (("used", report.used), ("free", report.total - report.used))),
            slots=f"{report.used} of {number_with_noun(report.total, 'slot')} used",
            why=report.why,
        )


def transfer_state_counts(site: PublishedSite) -> tuple[tuple[PageBadge, int], ...]:
    counts = Counter(map(explanation.transfer_state_word, site.status.transfers))
    return tuple((_state_badge(word), number) for word, number in counts.most_common())


def page_transfer_rows(site: PublishedSite, now: datetime) -> tuple[PageTransferRow, ...]:
    """Return the transfers that have been in their state for the longest time."""
    oldest = sorted(site.status.transfers, key=lambda transfer: transfer.since or transfer.created_at)
    return tuple(_transfer_row(transfer, site, now) for transfer in oldest[:MOST_TRANSFERS])


def _transfer_row(transfer: PublishedTransfer, site: PublishedSite, now: datetime) -> PageTransferRow:
    return PageTransferRow(
        job=parse_transfer_name(transfer.transfer).local_job_or_task_id,
        queue=transfer.queue,
        cluster=transfer.remote,
        badge=_state_badge(explanation.transfer_state_word(transfer)),
        since=format_duration(now - (transfer.since or transfer.created_at)),
        waits_for=explanation.explain_transfer_wait(transfer, site.status, now),
    )


def _state_badge(word: str) -> PageBadge:
    return PageBadge(tone=TONES.get(word, PageTone.QUIET), word=word)
