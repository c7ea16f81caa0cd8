"""Clusters that left gridbridge.toml: nobody asks them, so nobody knows what became of tasks there.

They wait until the section is back, or until root writes them off.
"""

from collections.abc import Iterable, Set

from gridbridge.decisions.campaigns.failures.blacklist import opened_now
from gridbridge.decisions.campaigns.failures.open_events import OpenEvents
from gridbridge.model.campaigns.campaign_events import CampaignEvent, EventCode, EventKind
from gridbridge.model.campaigns.cycle_plan import CycleSituation


def note(book: OpenEvents, seen: CycleSituation) -> None:
    """Tell of a cluster that campaigns use and nobody may ask, until that is over."""
    for name in sorted(seen.dropped):
        book.close(book.find(EventCode.GET_JOBS, 0, name), seen.at)
        if not book.find(EventCode.DROPPED, 0, name):
            book.put(opened_now(EventKind.CLUSTER, EventCode.DROPPED, 0, name, seen.at))
    for one in book.open:
        if one.code is EventCode.DROPPED and one.cluster not in seen.dropped:
            book.close(one, seen.at)


def written_off(events: Iterable[CampaignEvent], dropped: Set[str]) -> frozenset[str]:
    """Return the clusters whose tasks root has said to be lost."""
    said = (one.cluster for one in events if one.code is EventCode.DROPPED and one.until)
    return frozenset(said) & dropped
