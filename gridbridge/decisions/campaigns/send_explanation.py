"""Why each campaign that has tasks to send sent so many or none, from the rows of the decision.

It looks at what the decision looked at, so that its numbers are those of that moment.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gridbridge.decisions.campaigns.backlog import Backlog
from gridbridge.decisions.campaigns.failures.blacklist import BlacklistEntry, Pair, bars
from gridbridge.decisions.campaigns.free_slots import FreeSlots
from gridbridge.decisions.campaigns.matching import SchedulerMatching
from gridbridge.decisions.campaigns.metascheduler import order
from gridbridge.decisions.campaigns.predictor import predict
from gridbridge.decisions.campaigns.prologue_rules import PrologueProgress
from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.campaign_events import BARRING, CampaignEvent
from gridbridge.model.campaigns.cycle_plan import ClusterView, CyclePlan, CycleSituation
from gridbridge.model.campaigns.jdl import AtCluster, CampaignType
from gridbridge.model.campaigns.send_reasons import SendCause, SendReason

NAMED = 3  # campaigns that were served before
NONE = ClusterView(campaign=0, cluster="", waiting=0, listed=0)


def reasons(seen: CycleSituation, plan: CyclePlan) -> tuple[SendReason, ...]:
    """Return a reason for each cluster of each campaign that has tasks left."""
    cycle = _Cycle(seen, plan)
    return tuple(
        cycle.reason(campaign, cluster, wish)
        for campaign in _with_tasks(seen)
        for cluster, wish in campaign.jdl.clusters.items()
    )


def _with_tasks(seen: CycleSituation) -> Iterator[Campaign]:
    for one in seen.campaigns:
        if one.state is CampaignState.IN_TREATMENT and seen.waiting.get(one.number):
            yield one


class _Cycle:
    """What a cycle looked at and decided."""

    def __init__(self, seen: CycleSituation, plan: CyclePlan) -> None:
        self._seen = seen
        self._campaigns = {one.number: one for one in seen.campaigns}
        self._free = FreeSlots(seen.room)
        self._predicted = predict(seen)
        self._matching = SchedulerMatching(seen, self._predicted)
        self._there = {(one.campaign, one.cluster): one for one in seen.there}
        self._waiting: dict[str, int] = {}
        for one in seen.there:
            self._waiting[one.cluster] = self._waiting.get(one.cluster, 0) + one.able
        self._sent = {(one.campaign, one.cluster): one.tasks for one in plan.sends}
        self._left = dict(seen.waiting)
        self._served: dict[str, list[int]] = {}
        for send in plan.sends:
            self._left[send.campaign] = self._left.get(send.campaign, 0) - send.tasks
            self._served.setdefault(send.cluster, []).append(send.campaign)
        events = _open(seen.events, plan)
        self._bars = bars(events, seen.at, seen.failures)
        self._unsent = Backlog(seen, self._bars)
        self._barring = _barring(events)
        self._preparing = PrologueProgress(seen).preparing().keys() | {
            (one.campaign, one.cluster) for one in plan.steps
        }

    def reason(self, campaign: Campaign, cluster: str, wish: AtCluster) -> SendReason:
        """Judge a campaign at one of its clusters."""
        room = self._seen.room.get(cluster)
        known = self._known(campaign, cluster, wish)
        if room is None and cluster in self._seen.dropped:
            return replace(known, cause=SendCause.DROPPED)
        if room is None:
            return known
        if known.sent:
            return replace(known, cause=SendCause.SENT)
        barred = self._barring.get((campaign.number, cluster))
        is_closed = self._bars.get((campaign.number, cluster)) is BlacklistEntry.CLOSED
        if barred and is_closed:
            return replace(known, cause=SendCause.CLOSED, code=barred.code, until=barred.until)
        if (campaign.number, cluster) in self._preparing:
            return replace(known, cause=SendCause.PREPARING)
        if room.is_drained:
            return replace(known, cause=SendCause.DRAINED)
        if room.is_stressed:
            return replace(
                known, cause=SendCause.STRESSED, stress=room.stress, stress_limit=room.stress_limit
            )
        cause = self._cause(known, campaign, wish)
        return self._with_order(replace(known, cause=cause), campaign)

    def _known(self, campaign: Campaign, cluster: str, wish: AtCluster) -> SendReason:
        pair, room = (campaign.number, cluster), self._seen.room.get(cluster)
        there, predicted = self._there.get(pair, NONE), self._predicted.get(pair)
        return SendReason(
            campaign=campaign.number,
            cluster=cluster,
            cause=SendCause.NO_ANSWER,
            sent=self._sent.get(pair, 0),
            free_slots=max(0, self._free.of(cluster, wish)),
            slots=wish.slots,
            all_slots=room.slots if room else 0,
            listed=there.listed,
            waiting=there.waiting,
            max_jobs=wish.max_jobs,
            job_ratio=predicted.ratio if predicted else None,
            waiting_there=self._waiting.get(cluster, 0),
            may_wait=max(0, self._matching.left.may_wait.get(cluster, 0)),
        )

    def _limit(self, known: SendReason, campaign: Campaign) -> SendCause | None:
        """Return what keeps tasks from a cluster however many slots are free."""
        tried = self._seen.tried.get(campaign.number, ())
        if campaign.jdl.type is CampaignType.TEST and known.cluster in tried:
            return SendCause.TRIED
        if known.max_jobs and known.listed >= known.max_jobs:
            return SendCause.MAX_JOBS
        if not self._matching.arrays(campaign, known.cluster):
            return SendCause.MAX_ARRAYS
        if 0 < known.all_slots < known.slots:
            return SendCause.TOO_LARGE
        return None if self._unsent.at(campaign.number, known.cluster) else SendCause.KEPT_OFF

    def _cause(self, known: SendReason, campaign: Campaign, wish: AtCluster) -> SendCause:
        if limit := self._limit(known, campaign):
            return limit
        if known.free_slots < known.slots:
            return SendCause.FULL
        if self._left.get(campaign.number, 0) <= 0:
            return SendCause.ELSEWHERE
        if self._matching.left.free.of(known.cluster, wish) < known.slots:
            return SendCause.WAITING_THERE
        if not self._matching.to_start(campaign, known.cluster):
            return SendCause.JOB_RATIO
        return SendCause.OTHERS_FIRST

    def _with_order(self, known: SendReason, campaign: Campaign) -> SendReason:
        """Name the campaigns to which the slots went, and why they were before this one."""
        if known.cause is not SendCause.OTHERS_FIRST:
            return known
        served = [self._campaigns[one] for one in self._served.get(known.cluster, ())]
        if not served:
            return known
        why, own, theirs = order(served[0], campaign, known.cluster, self._seen)
        before = tuple(one.number for one in served[:NAMED])
        return replace(known, before=before, order=why, own=own, theirs=theirs)


def _open(events: tuple[CampaignEvent, ...], plan: CyclePlan) -> tuple[CampaignEvent, ...]:
    """Return the events that are open once the cycle's changes are kept."""
    known = {one.what: one for one in events} | {one.what: one for one in plan.changes.events}
    return tuple(one for one in known.values() if not one.closed_at)


def _barring(events: tuple[CampaignEvent, ...]) -> Mapping[Pair, CampaignEvent]:
    """Return the event that closes a cluster longest; those that nothing heals come first."""
    found: dict[Pair, CampaignEvent] = {}
    for one in events:
        pair = one.campaign, one.cluster
        if one.code in BARRING and (pair not in found or _lasts(one, found[pair])):
            found[pair] = one
    return found


def _lasts(one: CampaignEvent, other: CampaignEvent) -> bool:
    if one.until is None or other.until is None:
        return other.until is not None
    return one.until > other.until
