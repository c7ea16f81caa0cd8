"""Which local requests tasks may end for, and which of them they end for now: one a cluster."""

from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from datetime import datetime
from itertools import islice

from gridbridge.decisions.campaigns.preemption.victims import chosen, lacked
from gridbridge.model.campaigns.cancellation import ArrayCancellation, WipedFor
from gridbridge.model.campaigns.crowded_cell import CrowdedCell, ResourceHolder, ResourceShortage
from gridbridge.model.campaigns.preemption import (
    BlockedRequest,
    Jobs,
    OwnTask,
    PreemptibleTask,
    Preemption,
    Request,
    Tried,
)

MOST = 3  # requests of a cluster about which it is asked more
GRACE_S = 300.0  # tasks have ended by then, and the scheduler has looked at what they left


def recent(tried: Tried, now: datetime) -> frozenset[Request]:
    """Return the requests for which no tasks end now, since some ended a moment ago.

    Each pause is twice as long: something that is not seen keeps such a request waiting.
    """
    return frozenset(
        one
        for one, ended_at in tried.items()
        if (now - ended_at[-1]).total_seconds() < GRACE_S * 2 ** (len(ended_at) - 1)
    )


def contests(
    cluster: str, cell: CrowdedCell, ours: Jobs, recent: Set[Request] = frozenset()
) -> tuple[BlockedRequest, ...]:
    """Return the first requests that could start if tasks of ours ended, as far as amounts say.

    A request for which tasks ended a moment ago is left: it has them, or somebody else was faster.
    """
    tasks = tuple(_tasks(cell, ours))
    others = [one for one in cell.holders if not _is_ours(one, ours)]
    shut = {one.host for one in others if one.alone}
    places = tuple(place for place in cell.places if place.host not in shut)
    every = (
        BlockedRequest(
            cluster=cluster,
            asked=asked,
            places=places,
            free=cell.free,
            tasks=tuple(_concerned(tasks, asked)),
            others=frozenset(one.host for one in others),
        )
        for asked in cell.asked
        if asked.job not in ours and (cluster, asked.job, asked.task) not in recent
    )
    return tuple(islice((one for one in every if chosen(one)), MOST))


def _concerned(
    tasks: Iterable[PreemptibleTask], asked: ResourceShortage
) -> Iterator[PreemptibleTask]:
    """Give the tasks that hold anything of what is asked for, or of a host."""
    names = asked.amounts.keys() | asked.defaults.keys()
    for one in tasks:
        if asked.alone or one.alone or not names.isdisjoint(one.amounts):
            held = {name: n for name, n in one.amounts.items() if name in names}
            yield replace(one, amounts=held)


def _is_ours(one: ResourceHolder, ours: Jobs) -> bool:
    return one.makes_way and one.since is not None and one.job in ours


def _tasks(cell: CrowdedCell, ours: Jobs) -> Iterator[PreemptibleTask]:
    for one in cell.holders:
        if one.since and _is_ours(one, ours):
            array = ours[one.job]
            yield PreemptibleTask(
                campaign=array.campaign,
                array=array.array,
                place=one.task,
                host=one.host,
                since=one.since,
                amounts=one.amounts,
                alone=one.alone,
                is_ending=_is_ending(one, array),
            )


def _is_ending(one: ResourceHolder, array: OwnTask) -> bool:
    return one.is_deleting or array.is_ending or one.task in array.ending


def ways(seen: Iterable[BlockedRequest]) -> tuple[Preemption, ...]:
    """Return which tasks end, for the first request of each cluster that this helps."""
    found: dict[str, Preemption] = {}
    for one in seen:
        if one.cluster not in found and (choice := chosen(one)):
            place, tasks = choice
            found[one.cluster] = Preemption(
                cluster=one.cluster,
                job=one.asked.job,
                task=one.asked.task,
                host=place.host,
                lacked=lacked(one, place),
                tasks=tasks,
            )
    return tuple(found.values())


def told(way: Preemption) -> str:
    """Say whom tasks make way for."""
    campaigns = ", ".join(map(str, sorted({one.campaign for one in way.tasks})))
    of = f"{len(way.tasks)} of campaign {campaigns} at {way.cluster}"
    return f"ended: {of}, for job {_name(way)}, which lacked {', '.join(way.lacked)}"


def _name(way: Preemption) -> str:
    return f"{way.job}.{way.task}" if way.task else str(way.job)


def same(asked: ResourceShortage, way: Preemption) -> bool:
    """Say whether a request is the one of a way."""
    return (asked.job, asked.task) == (way.job, way.task)


def still(way: Preemption, cell: CrowdedCell, ours: Jobs) -> Preemption | None:
    """Return the same, as it is right by what was seen since; None where other tasks are."""
    asked = tuple(one for one in cell.asked if same(one, way))
    places = tuple(one for one in cell.places if one.host == way.host)
    now = ways(contests(way.cluster, replace(cell, asked=asked, places=places), ours))
    known = {_key(one) for one in way.tasks}
    return next((one for one in now if known.issuperset(map(_key, one.tasks))), None)


def _key(one: PreemptibleTask) -> tuple[int, int, int]:
    return one.campaign, one.array, one.place


def wipes(way: Preemption) -> tuple[ArrayCancellation, ...]:
    """Return the same tasks by their arrays."""
    by_array: dict[tuple[int, int], list[range]] = {}
    for campaign, array, place in sorted(map(_key, way.tasks)):
        by_array.setdefault((campaign, array), []).append(range(place, place + 1))
    return tuple(
        ArrayCancellation(
            campaign=campaign,
            array=array,
            cluster=way.cluster,
            wiped_for=WipedFor.MADE_WAY,
            places=tuple(places),
        )
        for (campaign, array), places in by_array.items()
    )
