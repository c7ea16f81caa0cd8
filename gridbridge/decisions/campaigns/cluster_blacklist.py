"""Derive which clusters are closed to which campaigns, and which get a probe.

A cluster that may recover by itself gets one task as a probe, after ever longer pauses (CiGri's
autofix probes every 30 s). After program errors, or as a black hole, a cluster stays closed
until the owner acts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum

from gridbridge.model.campaigns.campaign import ArraySubmissionState, Campaign, CampaignArray, CampaignCluster
from gridbridge.model.campaigns.campaign_events import (
    BLACKLISTING_EVENTS,
    PAUSING_EVENTS,
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
)
from gridbridge.model.campaigns.campaign_sections import CampaignFailuresSection
from gridbridge.model.campaigns.cycle_plan import CampaignCycleSituation, CampaignTaskSend


class OpenCampaignEventsInCycle:
    """The open events during one cycle's decision, with the changes of the cycle."""

    def __init__(self, events: Iterable[CampaignEvent]) -> None:
        self._now = {event.what: event for event in events}
        self._changed: dict[tuple[CampaignEventCode, int, str, int | None], CampaignEvent] = {}

    @property
    def changed(self) -> tuple[CampaignEvent, ...]:
        """The events that the cycle has changed and must store."""
        return tuple(self._changed.values())

    @property
    def open(self) -> tuple[CampaignEvent, ...]:
        """All open events."""
        return tuple(self._now.values())

    def find(self, code: CampaignEventCode, campaign: int, cluster: str = "") -> CampaignEvent | None:
        """Return the open event of this code, campaign and cluster that has no exit status."""
        return self._now.get((code, campaign, cluster, None))

    def equal_to(self, event: CampaignEvent) -> CampaignEvent | None:
        """Return the open event with the same key as an event."""
        return self._now.get(event.what)

    def put(self, event: CampaignEvent) -> None:
        """Add or change an event; an event with `closed_at` is closed."""
        self._changed[event.what] = event
        if event.closed_at:
            self._now.pop(event.what, None)
        else:
            self._now[event.what] = event

    def close(self, event: CampaignEvent | None, at: datetime) -> None:
        """Close an event; do nothing for None."""
        if event:
            self.put(replace(event, closed_at=at))


MAX_DOUBLINGS = 32


class ClusterClosureOrProbe(Enum):
    """Whether a blacklisted cluster gets no task of a campaign, or one probe."""

    CLOSED = "closed"
    PROBE = "probe"  # one task as a probe


def derive_cluster_blacklist(
    events: Iterable[CampaignEvent], at: datetime, policy: CampaignFailuresSection
) -> dict[CampaignCluster, ClusterClosureOrProbe]:
    """Return the (campaign, cluster) pairs that events close, and whether a probe is due."""
    entries: dict[CampaignCluster, ClusterClosureOrProbe] = {}
    for event in events:
        pair = event.campaign, event.cluster
        if event.code in BLACKLISTING_EVENTS and not event.closed_at:
            is_probe = is_cluster_probe_due(event, at, policy) and entries.get(pair) is not ClusterClosureOrProbe.CLOSED
            entries[pair] = ClusterClosureOrProbe.PROBE if is_probe else ClusterClosureOrProbe.CLOSED
    return entries


def is_cluster_probe_due(event: CampaignEvent, at: datetime, policy: CampaignFailuresSection) -> bool:
    """Say whether an event's pause is over, so that its cluster is probed.

    A pause longer than `probe_max_s` is over, too: a fast clock wrote it and was set back since.
    """
    longest = timedelta(seconds=policy.probe_max_s)
    return event.until is not None and not at < event.until <= at + longest


def hide_blacklisted_clusters(
    situation: CampaignCycleSituation, barred: Mapping[CampaignCluster, ClusterClosureOrProbe]
) -> CampaignCycleSituation:
    """Return the situation without the clusters that are closed to campaigns."""
    return replace(
        situation, campaigns=tuple(_without_blacklisted(campaign, barred) for campaign in situation.campaigns)
    )


def _without_blacklisted(campaign: Campaign, barred: Mapping[CampaignCluster, ClusterClosureOrProbe]) -> Campaign:
    clusters = {
        name: request
        for name, request in campaign.jdl.clusters.items()
        if barred.get((campaign.number, name)) is not ClusterClosureOrProbe.CLOSED
    }
    return replace(campaign, jdl=replace(campaign.jdl, clusters=clusters))


def record_cluster_probes(
    sends: Iterable[CampaignTaskSend],
    situation: CampaignCycleSituation,
    barred: Mapping[CampaignCluster, ClusterClosureOrProbe],
    book: OpenCampaignEventsInCycle,
) -> None:
    """Record which sent tasks are probes, so that the next probe waits."""
    for send in sends:
        pair = send.campaign, send.cluster
        event = book.find(CampaignEventCode.SETUP_ERROR, *pair)
        if event and barred.get(pair) is ClusterClosureOrProbe.PROBE:
            book.put(
                repeat_event_with_longer_pause(
                    event, CampaignEventCode.SETUP_ERROR, pair, situation.at, situation.failures
                )
            )


def repeat_event_with_longer_pause(
    earlier: CampaignEvent | None,
    code: CampaignEventCode,
    pair: CampaignCluster,
    at: datetime,
    policy: CampaignFailuresSection,
) -> CampaignEvent:
    """Return an event that happened again: the pause before the next probe doubles.

    A failure during the pause does not extend the pause: it may come from an array of the same
    round.
    """
    if earlier and earlier.until and not is_cluster_probe_due(earlier, at, policy):
        return replace(earlier, last_at=at)
    event = earlier or new_campaign_event(CampaignEventSubject.CAMPAIGN, code, *pair, at)
    probes = event.probes + 1 if earlier else 0
    pause_s = min(policy.probe_s * 2 ** min(probes, MAX_DOUBLINGS), policy.probe_max_s)
    return replace(event, probes=probes, last_at=at, until=at + timedelta(seconds=pause_s))


def new_campaign_event(
    kind: CampaignEventSubject, code: CampaignEventCode, campaign: int, cluster: str, at: datetime
) -> CampaignEvent:
    """Return a new open event."""
    return CampaignEvent(kind=kind, code=code, campaign=campaign, cluster=cluster, opened_at=at, last_at=at)


def may_retry_array_submission(
    array: CampaignArray, events: Iterable[CampaignEvent], at: datetime, policy: CampaignFailuresSection
) -> bool:
    """Say whether to retry an array's submission now; a release is always retried."""
    pauses = (
        event.until and not is_cluster_probe_due(event, at, policy)
        for event in events
        if event.code in PAUSING_EVENTS and (event.campaign, event.cluster) == (array.campaign, array.cluster)
    )
    return array.state is not ArraySubmissionState.INTENDED or not any(pauses)
