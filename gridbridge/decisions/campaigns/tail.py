"""What campaigns near their ends look like to what copies their last tasks.

Copies take what every campaign's own tasks have left, so nobody waits for one; they go to clusters
that are open to the campaign alone and that its prologue has prepared, first where its tasks
succeed fastest.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from gridbridge.decisions.campaigns.copies import ByTask
from gridbridge.decisions.campaigns.failures.in_vain import in_vain
from gridbridge.decisions.campaigns.matching import array_tasks, places
from gridbridge.decisions.campaigns.schedulers.protocol import End
from gridbridge.decisions.campaigns.schedulers.registry import finalizer_of
from gridbridge.decisions.campaigns.slots import FreeSlots
from gridbridge.model.campaigns.campaign import Attempt, Campaign, Outcome
from gridbridge.model.campaigns.copies import Copies, Tail
from gridbridge.model.campaigns.jdl import AtCluster
from gridbridge.model.campaigns.plan import Again, Seen, Send

Pair = tuple[int, str]  # a campaign and a cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What a cycle has decided before it makes copies."""

    ended: tuple[Attempt, ...]  # settled
    over: Counter[int]  # how many tasks of each campaign end
    again: tuple[Again, ...]
    sends: tuple[Send, ...]
    barred: Set[Pair]  # clusters that campaigns don't get their usual share of
    rivals: ByTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a cycle's sends have left for copies, which take from it one after the other."""

    free: FreeSlots
    there: Counter[Pair]  # tasks, with those that are sent


def copies(seen: Seen, decided: Decided) -> tuple[Copies, ...]:
    """Return the copies of all campaigns, of those first that come first."""
    return tuple(_copies(seen, decided)) if seen.tails else ()


def _copies(seen: Seen, decided: Decided) -> Iterator[Copies]:
    campaigns = {one.number: one for one in seen.campaigns}
    left = Left(free=places(seen).free, there=_there(seen, decided))
    for send in decided.sends:
        left.free.take(send.cluster, _wish(campaigns[send.campaign], send.cluster), send.tasks)
    for tail in seen.tails:
        campaign = campaigns[tail.campaign]
        finalizer = finalizer_of(campaign)
        end = _end(campaign, tail, seen, decided, left)
        for one in finalizer.copies(end) if finalizer else ():
            left.free.take(one.cluster, _wish(campaign, one.cluster), len(one.tasks))
            yield one


def _there(seen: Seen, decided: Decided) -> Counter[Pair]:
    there = Counter[Pair]()
    for listed in seen.there:
        there[listed.campaign, listed.cluster] += listed.listed
    for send in decided.sends:
        there[send.campaign, send.cluster] += send.tasks
    return there


def _wish(campaign: Campaign, cluster: str) -> AtCluster:
    return campaign.jdl.clusters[cluster]


def _end(campaign: Campaign, tail: Tail, seen: Seen, decided: Decided, left: Left) -> End:
    number = campaign.number
    ends = [one for one in decided.ended if one.campaign == number]
    ended = {(one.task, one.attempt) for one in ends}
    won = {one.task for one in ends if one.outcome is Outcome.SUCCESS}
    sent = sum(one.tasks for one in decided.sends if one.campaign == number)
    again = sum(one.campaign == number for one in decided.again)
    return End(
        campaign=number,
        left=campaign.tasks - campaign.ended - decided.over[number],
        unsent=seen.waiting.get(number, 0) - sent + again,
        sent_s=tail.sent_s,
        free=_free(campaign, seen, decided, left),
        durations_s=tail.durations_s,
        live=tuple(
            one for one in tail.live if (one.task, one.attempt) not in ended and one.task not in won
        ),
        made={
            task: sum(one.is_copy for one in some)
            for (of, task), some in decided.rivals.items()
            if of == number
        },
        limits=seen.finalize,
        failed_at=tail.failed_at,
    )


def _free(campaign: Campaign, seen: Seen, decided: Decided, left: Left) -> Mapping[str, int]:
    """Return for how many tasks clusters have room, where they end fastest first.

    Where that is not known comes last, for a copy is no probe, and after it where tasks wait in vain.
    """
    mean_s, waited = seen.sharing.mean_s.get(campaign.number, {}), in_vain(seen)
    room = {
        name: _room(campaign, name, array_tasks(seen, name), left)
        for name in campaign.jdl.clusters
        if name in seen.room and (campaign.number, name) not in decided.barred
    }

    def order(name: str) -> tuple[int, float, int, str]:
        tasks = waited.get((campaign.number, name), 0)
        return tasks, mean_s.get(name, float("inf")), -room[name], name

    return {name: room[name] for name in sorted(room, key=order) if room[name]}


def _room(campaign: Campaign, cluster: str, max_tasks: int, left: Left) -> int:
    wish = _wish(campaign, cluster)
    most = max_tasks
    if wish.max_jobs:
        most = min(most, wish.max_jobs - left.there[campaign.number, cluster])
    return max(0, min(left.free.of(cluster, wish) // wish.slots, most))
