"""Clusters that left gridbridge.toml: nobody asks them, so nobody knows what became of tasks there.

They wait until the section is back, or until root writes them off.
"""

from collections.abc import Iterable, Set

from gridbridge.decisions.campaigns.failures.blacklist import opened_now
from gridbridge.decisions.campaigns.failures.open_events import OpenEvents
from gridbridge.model.campaigns.campaign_events import CampaignEvent, EventCode, EventKind
from gridbridge.model.campaigns.cycle_plan import CycleSituation


def note(book: OpenEvents, situation: CycleSituation) -> None:
    """Tell of a cluster that campaigns use and nobody may ask, until that is over."""
    for name in sorted(situation.dropped):
        book.close(book.find(EventCode.GET_JOBS, 0, name), situation.at)
        if not book.find(EventCode.DROPPED, 0, name):
            book.put(opened_now(EventKind.CLUSTER, EventCode.DROPPED, 0, name, situation.at))
    for event in book.open:
        if event.code is EventCode.DROPPED and event.cluster not in situation.dropped:
            book.close(event, situation.at)


def written_off(events: Iterable[CampaignEvent], dropped: Set[str]) -> frozenset[str]:
    """Return the clusters whose tasks root has said to be lost."""
    confirmed = (
        event.cluster for event in events if event.code is EventCode.DROPPED and event.until
    )
    return frozenset(confirmed) & dropped
