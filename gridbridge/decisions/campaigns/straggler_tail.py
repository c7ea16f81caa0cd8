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
from gridbridge.decisions.campaigns.matching import array_tasks, places
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

    def __init__(self, seen: CycleSituation, decided: CycleDecisions) -> None:
        self.unsent = Counter(seen.waiting)
        self.ended: dict[int, list[Attempt]] = defaultdict(list)
        self.made: dict[int, dict[int, int]] = defaultdict(dict)  # copies, by task
        for send in decided.sends:
            self.unsent[send.campaign] -= send.tasks
        self.unsent.update(one.campaign for one in decided.again)
        for one in decided.ended:
            self.ended[one.campaign].append(one)
        for (campaign, task), some in decided.rivals.items():
            self.made[campaign][task] = sum(each.is_copy for each in some)


def copies(seen: CycleSituation, decided: CycleDecisions) -> tuple[SpeculativeAttempts, ...]:
    """Return the copies of all campaigns, of those first that come first."""
    return tuple(_copies(seen, decided)) if seen.tails else ()


def _copies(seen: CycleSituation, decided: CycleDecisions) -> Iterator[SpeculativeAttempts]:
    campaigns = {one.number: one for one in seen.campaigns}
    there = _there(seen, decided)
    given = places(seen)
    left = RemainingSlots(free=given.free, arrays=given.arrays, there=there, in_vain=in_vain(seen))
    counted = _Counted(seen, decided)
    for send in decided.sends:
        left.free.take(send.cluster, _wish(campaigns[send.campaign], send.cluster), send.tasks)
        arrays = -(-send.tasks // array_tasks(seen, send.cluster))
        left.arrays.take(send.campaign, send.cluster, arrays)
    for tail in seen.tails:
        campaign = campaigns[tail.campaign]
        finalizer = finalizer_of(campaign)
        free = _free(campaign, seen, decided, left)
        end = _end(campaign, tail, counted, free, decided.over, seen.finalize)
        for one in finalizer.copies(end) if finalizer else ():
            left.free.take(one.cluster, _wish(campaign, one.cluster), len(one.tasks))
            left.arrays.take(one.campaign, one.cluster, 1)
            yield one


def _there(seen: CycleSituation, decided: CycleDecisions) -> Counter[Pair]:
    there = Counter[Pair]()
    for listed in seen.there:
        there[listed.campaign, listed.cluster] += listed.listed
    for send in decided.sends:
        there[send.campaign, send.cluster] += send.tasks
    return there


def _wish(campaign: Campaign, cluster: str) -> AtCluster:
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
    ended = {(one.task, one.attempt) for one in counted.ended[number]}
    won = {one.task for one in counted.ended[number] if one.outcome is TaskOutcome.SUCCESS}
    return CampaignTail(
        campaign=number,
        left=campaign.tasks - campaign.ended - over.get(number, 0),
        unsent=counted.unsent[number],
        sent_s=tail.sent_s,
        free=free,
        durations_s=tail.durations_s,
        live=tuple(
            one for one in tail.live if (one.task, one.attempt) not in ended and one.task not in won
        ),
        made=counted.made[number],
        limits=limits,
        failed_at=tail.failed_at,
    )


def _free(
    campaign: Campaign, seen: CycleSituation, decided: CycleDecisions, left: RemainingSlots
) -> Mapping[str, int]:
    """Return for how many tasks clusters have room, where they end fastest first.

    Where that is not known comes last, for a copy is no probe; then those where they wait in vain.
    """
    mean_s = seen.sharing.mean_s.get(campaign.number, {})
    room = {
        name: _room(campaign, name, array_tasks(seen, name), left)
        for name in campaign.jdl.clusters
        if name in seen.room and (campaign.number, name) not in decided.barred
    }

    def order(name: str) -> tuple[int, float, int, str]:
        tasks = left.in_vain.get((campaign.number, name), 0)
        return tasks, mean_s.get(name, float("inf")), -room[name], name

    return {name: room[name] for name in sorted(room, key=order) if room[name]}


def _room(campaign: Campaign, cluster: str, max_tasks: int, left: RemainingSlots) -> int:
    wish = _wish(campaign, cluster)
    most = max_tasks
    if wish.max_jobs:
        most = min(most, wish.max_jobs - left.there[campaign.number, cluster])
    if not left.arrays.of(campaign.number, cluster):
        return 0  # it takes no more arrays of this owner
    return max(0, min(left.free.of(cluster, wish) // wish.slots, most))
