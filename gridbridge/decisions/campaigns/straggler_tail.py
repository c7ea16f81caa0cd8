"""What campaigns near their ends look like to what copies their last tasks.

Copies take what every campaign's own tasks have left, so nobody waits for one; they go to clusters
that are open to the campaign alone and that its prologue has prepared, first where its tasks
succeed fastest.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from gridbridge.decisions.campaigns.failures.starvation import in_vain
from gridbridge.decisions.campaigns.free_slots import FreeArrays, FreeSlots
from gridbridge.decisions.campaigns.matching import array_tasks, remaining_capacity
from gridbridge.decisions.campaigns.schedulers.scheduler_protocol import CampaignTail
from gridbridge.decisions.campaigns.schedulers.scheduler_registry import finalizer_of
from gridbridge.decisions.campaigns.speculation_rules import ByTask
from gridbridge.model.campaigns.campaign import Attempt, Campaign, TaskOutcome
from gridbridge.model.campaigns.campaign_sections import Finalize
from gridbridge.model.campaigns.cycle_plan import CycleSituation, Retry, TaskSend
from gridbridge.model.campaigns.jdl import AtCluster
from gridbridge.model.campaigns.speculation import SpeculativeAttempts, StragglerTail

Pair = tuple[int, str]  # a campaign and a cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleDecisions:
    """What a cycle has decided before it makes copies."""

    ended: tuple[Attempt, ...]  # settled
    over: Counter[int]  # how many tasks of each campaign end
    again: tuple[Retry, ...]
    sends: tuple[TaskSend, ...]
    barred: Set[Pair]  # clusters that campaigns don't get their usual share of
    rivals: ByTask


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingSlots:
    """What a cycle's sends have left for copies, which take from it one after the other."""

    free: FreeSlots
    arrays: FreeArrays
    there: Counter[Pair]  # tasks, with those that are sent
    in_vain: Mapping[Pair, int]  # tasks that nikita deleted as they waited


class _Counted:
    """What a cycle has seen and decided, by campaign: there are many of both."""

    def __init__(self, situation: CycleSituation, decided: CycleDecisions) -> None:
        self.unsent = Counter(situation.waiting)
        self.ended: dict[int, list[Attempt]] = defaultdict(list)
        self.made: dict[int, dict[int, int]] = defaultdict(dict)  # copies, by task
        for send in decided.sends:
            self.unsent[send.campaign] -= send.tasks
        self.unsent.update(attempt.campaign for attempt in decided.again)
        for attempt in decided.ended:
            self.ended[attempt.campaign].append(attempt)
        for (campaign, task), rivals in decided.rivals.items():
            self.made[campaign][task] = sum(rival.is_copy for rival in rivals)


def copies(situation: CycleSituation, decided: CycleDecisions) -> tuple[SpeculativeAttempts, ...]:
    """Return the copies of all campaigns, of those first that come first."""
    return tuple(_copies(situation, decided)) if situation.tails else ()


def _copies(situation: CycleSituation, decided: CycleDecisions) -> Iterator[SpeculativeAttempts]:
    campaigns = {copy.number: copy for copy in situation.campaigns}
    sent = _sent(situation, decided)
    capacity = remaining_capacity(situation)
    remaining = RemainingSlots(
        free=capacity.free, arrays=capacity.arrays, there=sent, in_vain=in_vain(situation)
    )
    counted = _Counted(situation, decided)
    for send in decided.sends:
        remaining.free.take(
            send.cluster, _request(campaigns[send.campaign], send.cluster), send.tasks
        )
        arrays = -(-send.tasks // array_tasks(situation, send.cluster))
        remaining.arrays.take(send.campaign, send.cluster, arrays)
    for tail in situation.tails:
        campaign = campaigns[tail.campaign]
        finalizer = finalizer_of(campaign)
        free = _free(campaign, situation, decided, remaining)
        end = _end(campaign, tail, counted, free, decided.over, situation.finalize)
        for copy in finalizer.copies(end) if finalizer else ():
            remaining.free.take(copy.cluster, _request(campaign, copy.cluster), len(copy.tasks))
            remaining.arrays.take(copy.campaign, copy.cluster, 1)
            yield copy


def _sent(situation: CycleSituation, decided: CycleDecisions) -> Counter[Pair]:
    sent = Counter[Pair]()
    for listed in situation.there:
        sent[listed.campaign, listed.cluster] += listed.listed
    for send in decided.sends:
        sent[send.campaign, send.cluster] += send.tasks
    return sent


def _request(campaign: Campaign, cluster: str) -> AtCluster:
    return campaign.jdl.clusters[cluster]


def _end(
    campaign: Campaign,
    tail: StragglerTail,
    counted: _Counted,
    free: Mapping[str, int],
    over: Mapping[int, int],
    limits: Finalize,
) -> CampaignTail:
    number = campaign.number
    ended = {(attempt.task, attempt.attempt) for attempt in counted.ended[number]}
    won = {
        attempt.task for attempt in counted.ended[number] if attempt.outcome is TaskOutcome.SUCCESS
    }
    return CampaignTail(
        campaign=number,
        left=campaign.tasks - campaign.ended - over.get(number, 0),
        unsent=counted.unsent[number],
        sent_s=tail.sent_s,
        free=free,
        durations_s=tail.durations_s,
        live=tuple(
            attempt
            for attempt in tail.live
            if (attempt.task, attempt.attempt) not in ended and attempt.task not in won
        ),
        made=counted.made[number],
        limits=limits,
        failed_at=tail.failed_at,
    )


def _free(
    campaign: Campaign,
    situation: CycleSituation,
    decided: CycleDecisions,
    remaining: RemainingSlots,
) -> Mapping[str, int]:
    """Return for how many tasks clusters have room, where they end fastest first.

    Where that is not known comes last, for a copy is no probe; then those where they wait in vain.
    """
    mean_s = situation.sharing.mean_s.get(campaign.number, {})
    room = {
        name: _room(campaign, name, array_tasks(situation, name), remaining)
        for name in campaign.jdl.clusters
        if name in situation.room and (campaign.number, name) not in decided.barred
    }

    def order(name: str) -> tuple[int, float, int, str]:
        tasks = remaining.in_vain.get((campaign.number, name), 0)
        return tasks, mean_s.get(name, float("inf")), -room[name], name

    return {name: room[name] for name in sorted(room, key=order) if room[name]}


def _room(campaign: Campaign, cluster: str, max_tasks: int, remaining: RemainingSlots) -> int:
    request = _request(campaign, cluster)
    most = max_tasks
    if request.max_jobs:
        most = min(most, request.max_jobs - remaining.there[campaign.number, cluster])
    if not remaining.arrays.of(campaign.number, cluster):
        return 0  # it takes no more arrays of this owner
    return max(0, min(remaining.free.of(cluster, request) // request.slots, most))
