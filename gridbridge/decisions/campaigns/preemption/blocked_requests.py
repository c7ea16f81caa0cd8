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
        request
        for request, ended_at in tried.items()
        if (now - ended_at[-1]).total_seconds() < GRACE_S * 2 ** (len(ended_at) - 1)
    )


def contests(
    cluster: str, cell: CrowdedCell, ours: Jobs, recent: Set[Request] = frozenset()
) -> tuple[BlockedRequest, ...]:
    """Return the first requests that could start if tasks of ours ended, as far as amounts say.

    A request for which tasks ended a moment ago is left: it has them, or somebody else was faster.
    """
    tasks = tuple(_tasks(cell, ours))
    strangers = [holder for holder in cell.holders if not _is_ours(holder, ours)]
    shut = {holder.host for holder in strangers if holder.alone}
    hosts = tuple(host for host in cell.places if host.host not in shut)
    candidates = (
        BlockedRequest(
            cluster=cluster,
            asked=shortage,
            places=hosts,
            free=cell.free,
            tasks=tuple(_concerned(tasks, shortage)),
            others=frozenset(holder.host for holder in strangers),
        )
        for shortage in cell.asked
        if shortage.job not in ours and (cluster, shortage.job, shortage.task) not in recent
    )
    return tuple(islice((request for request in candidates if chosen(request)), MOST))


def _concerned(
    tasks: Iterable[PreemptibleTask], shortage: ResourceShortage
) -> Iterator[PreemptibleTask]:
    """Give the tasks that hold anything of what is asked for, or of a host."""
    names = shortage.amounts.keys() | shortage.defaults.keys()
    for task in tasks:
        if shortage.alone or task.alone or not names.isdisjoint(task.amounts):
            held = {name: n for name, n in task.amounts.items() if name in names}
            yield replace(task, amounts=held)


def _is_ours(holder: ResourceHolder, ours: Jobs) -> bool:
    return holder.makes_way and holder.since is not None and holder.job in ours


def _tasks(cell: CrowdedCell, ours: Jobs) -> Iterator[PreemptibleTask]:
    for holder in cell.holders:
        if holder.since and _is_ours(holder, ours):
            array = ours[holder.job]
            yield PreemptibleTask(
                campaign=array.campaign,
                array=array.array,
                place=holder.task,
                host=holder.host,
                since=holder.since,
                amounts=holder.amounts,
                alone=holder.alone,
                is_ending=_is_ending(holder, array),
            )


def _is_ending(holder: ResourceHolder, array: OwnTask) -> bool:
    return holder.is_deleting or array.is_ending or holder.task in array.ending


def ways(requests: Iterable[BlockedRequest]) -> tuple[Preemption, ...]:
    """Return which tasks end, for the first request of each cluster that this helps."""
    by_cluster: dict[str, Preemption] = {}
    for request in requests:
        if request.cluster not in by_cluster and (choice := chosen(request)):
            host, tasks = choice
            by_cluster[request.cluster] = Preemption(
                cluster=request.cluster,
                job=request.asked.job,
                task=request.asked.task,
                host=host.host,
                lacked=lacked(request, host),
                tasks=tasks,
            )
    return tuple(by_cluster.values())


def sentence(way: Preemption) -> str:
    """Say whom tasks make way for."""
    campaigns = ", ".join(map(str, sorted({task.campaign for task in way.tasks})))
    of = f"{len(way.tasks)} of campaign {campaigns} at {way.cluster}"
    return f"ended: {of}, for job {_name(way)}, which lacked {', '.join(way.lacked)}"


def _name(way: Preemption) -> str:
    return f"{way.job}.{way.task}" if way.task else str(way.job)


def same(shortage: ResourceShortage, way: Preemption) -> bool:
    """Say whether a request is the one of a way."""
    return (shortage.job, shortage.task) == (way.job, way.task)


def still(way: Preemption, cell: CrowdedCell, ours: Jobs) -> Preemption | None:
    """Return the same, as it is right by what was seen since; None where other tasks are."""
    shortages = tuple(shortage for shortage in cell.asked if same(shortage, way))
    hosts = tuple(host for host in cell.places if host.host == way.host)
    now = ways(contests(way.cluster, replace(cell, asked=shortages, places=hosts), ours))
    keys = {_key(task) for task in way.tasks}
    return next((current for current in now if keys.issuperset(map(_key, current.tasks))), None)


def _key(task: PreemptibleTask) -> tuple[int, int, int]:
    return task.campaign, task.array, task.place


def wipes(way: Preemption) -> tuple[ArrayCancellation, ...]:
    """Return the same tasks by their arrays."""
    by_array: dict[tuple[int, int], list[range]] = {}
    for campaign, array, index in sorted(map(_key, way.tasks)):
        by_array.setdefault((campaign, array), []).append(range(index, index + 1))
    return tuple(
        ArrayCancellation(
            campaign=campaign,
            array=array,
            cluster=way.cluster,
            wiped_for=WipedFor.MADE_WAY,
            places=tuple(indices),
        )
        for (campaign, array), indices in by_array.items()
    )
