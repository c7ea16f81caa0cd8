"""Tasks of campaigns and of transfers at clusters, as a rebalancing decision sees them.

A cluster is a host. A campaign is a job, and so is a local job of which tasks were sent away; of
its tasks those alone that a cluster lists. A task that is to be sent yet will start before any that
is moved: where it may go it takes the room.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.campaigns.jdl import AtCluster, CampaignType
from gridbridge.model.rebalance.observed_tasks import ListedTask, ObservedTasks, TransferredTask
from gridbridge.model.rebalance.placement_snapshot import (
    HostState,
    PlacementHost,
    PlacementJob,
    PlacementSnapshot,
    PlacementTask,
    TaskState,
)
from gridbridge.model.snapshot import ClusterSnapshot


def snapshot(seen: ObservedTasks) -> PlacementSnapshot:
    """Return what rules decide about; the same rows give the same snapshot."""
    waiting = Counter[str]()
    every: tuple[ListedTask | TransferredTask, ...] = (*seen.tasks, *seen.away)
    for one in every:
        waiting[one.cluster] += one.slots if one.is_waiting else 0
    for away in seen.away:
        if away.target not in ("", away.cluster):  # it is on its way, and will have its slots there
            waiting[away.target] += away.slots
    unsent = _unsent(seen)
    there = {one.campaign for one in seen.tasks}
    moved = [
        one
        for one in seen.campaigns
        if one.number in there and one.jdl.type is CampaignType.DEFAULT
    ]
    known = {one.number for one in moved}
    return PlacementSnapshot(
        now=seen.now,
        hosts=tuple(
            _host(name, answer, waiting[name] + unsent[name], _said(name, seen))
            for name, answer in sorted(seen.answers.items())
        ),
        jobs=(*(_job(one, seen) for one in moved), *_sent_jobs(seen)),
        tasks=(
            *(_task(one) for one in _once(seen.tasks) if one.campaign in known),
            *(_sent(one) for one in _each(seen.away)),
        ),
        recent=seen.recent,
    )


def _unsent(seen: ObservedTasks) -> Counter[str]:
    """Count the slots that tasks which are to be sent, or are moved, may take at each cluster."""
    found = Counter[str]()
    moved = Counter((one.campaign, one.cluster) for one in seen.tasks if one.is_moving)
    of = Counter(one.campaign for one in seen.tasks if one.is_moving)
    for one in seen.campaigns:
        for name, wish in one.jdl.clusters.items():
            if (one.number, name) not in seen.closed:
                coming = of[one.number] - moved[one.number, name]
                found[name] += (seen.unsent.get(one.number, 0) + coming) * wish.slots
    return found


def _said(name: str, seen: ObservedTasks) -> HostState:
    if name in seen.dead:
        return HostState.DEAD
    return HostState.DRAIN if name in seen.drained else HostState.ALIVE


def _host(name: str, answer: ClusterSnapshot | None, taken: int, state: HostState) -> PlacementHost:
    if answer is None:
        return PlacementHost(name=name, is_up=False, state=state, room=0)
    slots = max(1, answer.batch_slots)
    free = answer.free_slots if answer.besteffort_slots is None else answer.besteffort_slots
    return PlacementHost(
        name=name,
        state=state,
        slots=slots,
        mean_active=min(1.0, max(0.0, 1 - answer.free_slots / slots)),
        room=max(0, free - taken),
    )


def _job(one: Campaign, seen: ObservedTasks) -> PlacementJob:
    wishes = one.jdl.clusters.items()
    wanted = {name: wish for name, wish in wishes if (one.number, name) not in seen.closed}
    open_to = {name for name, wish in wanted.items() if _may_start(wish, seen.answers.get(name))}
    return PlacementJob(
        name=str(one.number),
        last_run=seen.now,
        hosts=frozenset(open_to),
        full=frozenset(wanted.keys() - open_to),
        is_autobalanced=one.jdl.may_move,
        owner=str(one.uid),
    )


def _sent_jobs(seen: ObservedTasks) -> Iterator[PlacementJob]:
    """Give the local jobs of which tasks were sent away; each may go where slots are free."""
    for name, one in sorted({one.key[0]: one for one in _each(seen.away)}.items()):
        answers = ((each, seen.answers.get(each)) for each in seen.reached)
        open_to = {each for each, answer in answers if answer and answer.free_slots >= one.slots}
        yield PlacementJob(
            name=name,
            last_run=seen.now,
            hosts=frozenset(open_to),
            full=seen.reached - open_to,
            is_autobalanced=name not in seen.staying,
            owner=str(one.uid),
        )


def _each(away: Iterable[TransferredTask]) -> list[TransferredTask]:
    """Leave out the tasks that several people claim to have sent."""
    every = tuple(away)
    times = Counter(one.key for one in every)
    return [one for one in every if times[one.key] == 1]


def _sent(one: TransferredTask) -> PlacementTask:
    return PlacementTask(
        job=one.key[0],
        number=one.key[1],
        state=_state(one),
        live=one.cluster,
        slots=one.slots,
        stays=one.stays,
    )


def _may_start(wish: AtCluster, answer: ClusterSnapshot | None) -> bool:
    if answer is None:
        return False
    besteffort = answer.besteffort_slots if wish.is_besteffort else None
    return (answer.free_slots if besteffort is None else besteffort) >= wish.slots


def _once(tasks: Iterable[ListedTask]) -> list[ListedTask]:
    """Leave out the tasks that several clusters list: copies decide among themselves."""
    every = tuple(tasks)
    times = Counter((one.campaign, one.task) for one in every)
    return [one for one in every if times[one.campaign, one.task] == 1]


def _task(one: ListedTask) -> PlacementTask:
    return PlacementTask(
        job=str(one.campaign),
        number=one.task,
        state=_state(one),
        live=one.cluster,
        slots=one.slots,
        stays=one.stays,
    )


def _state(one: ListedTask | TransferredTask) -> TaskState:
    if one.is_moving:
        return TaskState.MOVING
    if one.is_running:
        return TaskState.RUNNING
    return TaskState.WAITING if one.is_waiting else TaskState.STAYING


def places(tasks: Iterable[ListedTask]) -> Mapping[tuple[str, int], ListedTask]:
    """Return where tasks are, by their job and number."""
    return {(str(one.campaign), one.task): one for one in _once(tasks)}


def sent(away: Iterable[TransferredTask]) -> Mapping[tuple[str, int], TransferredTask]:
    """Return the tasks that were sent away, by their job and number."""
    return {one.key: one for one in _each(away)}
