"""Tasks whose records tell several ends: none is believed, and their owner says what follows.

Somebody may have forged a record. Such a task does not run any more, but nobody knows what it came
to.
"""

from collections.abc import Iterable
from dataclasses import replace

from gridbridge.decisions.campaigns.failures.blacklist import Pair, opened_now
from gridbridge.decisions.campaigns.failures.open_events import OpenEvents
from gridbridge.model.campaigns.campaign_events import CampaignEvent, EventCode, EventKind
from gridbridge.model.campaigns.cycle_plan import CycleSituation
from gridbridge.model.campaigns.prologues import is_step


def note(book: OpenEvents, seen: CycleSituation) -> None:
    """Tell of them, together of a campaign's at a cluster, until none is left."""
    of: dict[Pair, list[int]] = {}
    for one in seen.disputed:
        of.setdefault((one.campaign, one.cluster), []).append(one.task)
    for (campaign, cluster), tasks in of.items():
        fresh = opened_now(EventKind.CAMPAIGN, EventCode.DISPUTED, campaign, cluster, seen.at)
        known = book.find(EventCode.DISPUTED, campaign, cluster) or fresh
        if known.tasks != len(tasks):
            first = min((task for task in tasks if not is_step(task)), default=None)
            book.put(replace(known, tasks=len(tasks), first_task=first, last_at=seen.at))
    for event in book.open:
        pair = event.campaign, event.cluster
        if event.code is EventCode.DISPUTED and pair not in of and event.cluster in seen.room:
            book.close(event, seen.at)


def given_up(events: Iterable[CampaignEvent]) -> frozenset[Pair]:
    """Return the campaigns with the clusters at which their owners want no end of such tasks."""
    said = (one for one in events if one.code is EventCode.DISPUTED and one.until)
    return frozenset((one.campaign, one.cluster) for one in said)
