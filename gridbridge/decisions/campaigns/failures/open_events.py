"""The open events while a cycle decides: what is known, and what changes of it."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from gridbridge.model.campaigns.campaign_events import CampaignEvent, EventCode


class OpenEvents:
    """The open events, as they are while a cycle decides."""

    def __init__(self, events: Iterable[CampaignEvent]) -> None:
        self._now = {event.what: event for event in events}
        self._changed: dict[tuple[EventCode, int, str, int | None], CampaignEvent] = {}

    @property
    def changed(self) -> tuple[CampaignEvent, ...]:
        """What has to be kept."""
        return tuple(self._changed.values())

    @property
    def open(self) -> tuple[CampaignEvent, ...]:
        """All that are open."""
        return tuple(self._now.values())

    def find(self, code: EventCode, campaign: int, cluster: str = "") -> CampaignEvent | None:
        """Look an open event up that no exit status belongs to."""
        return self._now.get((code, campaign, cluster, None))

    def equal_to(self, event: CampaignEvent) -> CampaignEvent | None:
        """Look the open event up that is about the same."""
        return self._now.get(event.what)

    def put(self, event: CampaignEvent) -> None:
        """Open or change one; one whose time is set is closed."""
        self._changed[event.what] = event
        if event.closed_at:
            self._now.pop(event.what, None)
        else:
            self._now[event.what] = event

    def close(self, event: CampaignEvent | None, at: datetime) -> None:
        """Close one, if there is one."""
        if event:
            self.put(replace(event, closed_at=at))
