"""What a campaign gets at a cluster while events are open: nothing, or one task as a probe.

What a cluster may get over by itself is tried again ever more seldom (CiGri's autofix tries every
30 s); program errors and sinks are closed by their owner alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum

from gridbridge.decisions.campaigns.failures.open_events import OpenEvents
from gridbridge.model.campaigns.campaign import Array, ArrayState, Campaign
from gridbridge.model.campaigns.campaign_events import (
    BARRING,
    PAUSING,
    CampaignEvent,
    EventCode,
    EventKind,
)
from gridbridge.model.campaigns.campaign_sections import Failures
from gridbridge.model.campaigns.cycle_plan import CycleSituation, TaskSend

MAX_DOUBLINGS = 32
Pair = tuple[int, str]  # of a campaign and a cluster


class BlacklistEntry(Enum):
    """What a campaign gets at a cluster."""

    CLOSED = "closed"
    PROBE = "probe"  # one task


def bars(
    events: Iterable[CampaignEvent], at: datetime, policy: Failures
) -> dict[Pair, BlacklistEntry]:
    """Return the clusters at which campaigns get nothing now, or one task to try."""
    entries: dict[Pair, BlacklistEntry] = {}
    for event in events:
        pair = event.campaign, event.cluster
        if event.code in BARRING and not event.closed_at:
            is_probe = is_due(event, at, policy) and entries.get(pair) is not BlacklistEntry.CLOSED
            entries[pair] = BlacklistEntry.PROBE if is_probe else BlacklistEntry.CLOSED
    return entries


def is_due(event: CampaignEvent, at: datetime, policy: Failures) -> bool:
    """Say whether something is tried again; no pause is longer than `probe_max_s`.

    Where one is, the clock was ahead when the event was noted, and has been set back.
    """
    longest = timedelta(seconds=policy.probe_max_s)
    return event.until is not None and not at < event.until <= at + longest


def opened(situation: CycleSituation, barred: Mapping[Pair, BlacklistEntry]) -> CycleSituation:
    """Return what is seen as if campaigns did not know the clusters that are closed to them."""
    return replace(
        situation, campaigns=tuple(_without(campaign, barred) for campaign in situation.campaigns)
    )


def _without(campaign: Campaign, barred: Mapping[Pair, BlacklistEntry]) -> Campaign:
    clusters = {
        name: request
        for name, request in campaign.jdl.clusters.items()
        if barred.get((campaign.number, name)) is not BlacklistEntry.CLOSED
    }
    return replace(campaign, jdl=replace(campaign.jdl, clusters=clusters))


def note_probes(
    sends: Iterable[TaskSend],
    situation: CycleSituation,
    barred: Mapping[Pair, BlacklistEntry],
    book: OpenEvents,
) -> None:
    """Note which of these are probes; the next one comes later."""
    for send in sends:
        pair = send.campaign, send.cluster
        event = book.find(EventCode.SETUP_ERROR, *pair)
        if event and barred.get(pair) is BlacklistEntry.PROBE:
            book.put(happened(event, EventCode.SETUP_ERROR, pair, situation.at, situation.failures))


def happened(
    earlier: CampaignEvent | None, code: EventCode, pair: Pair, at: datetime, policy: Failures
) -> CampaignEvent:
    """Return what has happened once more: the pause before the next try doubles each time.

    What happens in a pause, as to other arrays of the same try, makes it no longer.
    """
    if earlier and earlier.until and not is_due(earlier, at, policy):
        return replace(earlier, last_at=at)
    event = earlier or opened_now(EventKind.CAMPAIGN, code, *pair, at)
    probes = event.probes + 1 if earlier else 0
    pause_s = min(policy.probe_s * 2 ** min(probes, MAX_DOUBLINGS), policy.probe_max_s)
    return replace(event, probes=probes, last_at=at, until=at + timedelta(seconds=pause_s))


def opened_now(
    kind: EventKind, code: EventCode, campaign: int, cluster: str, at: datetime
) -> CampaignEvent:
    """Return a new event."""
    return CampaignEvent(
        kind=kind, code=code, campaign=campaign, cluster=cluster, opened_at=at, last_at=at
    )


def may_go_on(
    array: Array, events: Iterable[CampaignEvent], at: datetime, policy: Failures
) -> bool:
    """Say whether the submission of an array is tried again now; its release always is."""
    pauses = (
        event.until and not is_due(event, at, policy)
        for event in events
        if event.code in PAUSING
        and (event.campaign, event.cluster) == (array.campaign, array.cluster)
    )
    return array.state is not ArrayState.INTENDED or not any(pauses)
