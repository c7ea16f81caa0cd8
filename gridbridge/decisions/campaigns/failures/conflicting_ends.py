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


def note(book: OpenEvents, situation: CycleSituation) -> None:
    """Tell of them, together of a campaign's at a cluster, until none is left."""
    of: dict[Pair, list[int]] = {}
    for attempt in situation.disputed:
        of.setdefault((attempt.campaign, attempt.cluster), []).append(attempt.task)
    for (campaign, cluster), tasks in of.items():
        fresh = opened_now(EventKind.CAMPAIGN, EventCode.DISPUTED, campaign, cluster, situation.at)
        event = book.find(EventCode.DISPUTED, campaign, cluster) or fresh
        if event.tasks != len(tasks):
            first = min((task for task in tasks if not is_step(task)), default=None)
            book.put(replace(event, tasks=len(tasks), first_task=first, last_at=situation.at))
    for event in book.open:
        pair = event.campaign, event.cluster
        if event.code is EventCode.DISPUTED and pair not in of and event.cluster in situation.room:
            book.close(event, situation.at)


def given_up(events: Iterable[CampaignEvent]) -> frozenset[Pair]:
    """Return the campaigns with the clusters at which their owners want no end of such tasks."""
    confirmed = (event for event in events if event.code is EventCode.DISPUTED and event.until)
    return frozenset((event.campaign, event.cluster) for event in confirmed)
