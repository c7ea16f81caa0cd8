"""Datasets in storage areas, as hosts, jobs and tasks of a rebalancing decision, and its round.

An area is a host of a kind of its own, its cluster is its zone, and a dataset is a job of one task.
What failed comes first, then what datasets lack, and only when nothing of both is to be done disks
are evened out (Hydra, "Job Rebalancing": first repair, then spread).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from gridbridge.decisions.rebalance.automatic_round import even_hosts, failed, gathered
from gridbridge.decisions.rebalance.evacuation import leave, losses
from gridbridge.decisions.rebalance.job_balance import repair
from gridbridge.decisions.rebalance.move_budget import AdviceDraft, in_turn, told
from gridbridge.decisions.rebalance.projected_load import ProjectedLoad, moved
from gridbridge.model.rebalance.delegation import CarriedReplica, DelegatedDataset, StorageState
from gridbridge.model.rebalance.moves import MoveKind, MovePlan, PlacementMove
from gridbridge.model.rebalance.note_age import is_lately
from gridbridge.model.rebalance.placement_snapshot import (
    HostState,
    PlacementHost,
    PlacementJob,
    PlacementSnapshot,
    PlacementTask,
    RecentMoves,
    TaskState,
)
from gridbridge.model.rebalance.rebalance_section import Rebalance
from gridbridge.model.rebalance.storage_areas import MeasuredArea
from gridbridge.model.status_report import count

KIND = "storage"
ONLY = 1  # number of a dataset's one task
NOWHERE = frozenset[str]()
MOST_DOUBLED = 6  # times


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetAct:
    """What is done about a dataset: a replica is made, and then one removed; one may be empty."""

    dataset: str
    target: str = ""
    source: str = ""


def snapshot(seen: StorageState, rules: Rebalance) -> PlacementSnapshot:
    """Return what rules decide about; the same rows give the same snapshot."""
    areas = {one.storage: one for one in seen.areas}
    kept = sorted(seen.kept, key=lambda one: one.name)
    going = {one.dataset for one in seen.carried if one.ended_at is None}
    known, resting = _known(seen), _resting(seen, rules)
    tasks = tuple(
        _task(one, known, resting.get(one.name, NOWHERE), seen, is_going=one.name in going)
        for one in kept
    )
    return PlacementSnapshot(
        now=seen.now,
        hosts=tuple(_host(areas[name], seen) for name in sorted(areas)),
        jobs=tuple(
            _job(one, task, known, resting.get(one.name, NOWHERE))
            for one, task in zip(kept, tasks, strict=True)
        ),
        tasks=tasks,
        recent=_recent(seen),
    )


def plan(snapshot: PlacementSnapshot, rules: Rebalance) -> MovePlan:
    """Return the moves of one round."""
    board = ProjectedLoad(snapshot, rules)
    draft = AdviceDraft(board, 0, None)
    words = [*map(partial(leave, draft), failed(board)), *_losses(board)]
    moving = sum(task.state is TaskState.MOVING for task in snapshot.tasks)
    left = len(draft.moves)
    draft.allow(rules.tasks_per_round - moving)
    in_turn(draft, _waiting(snapshot), lambda task: repair(draft, board.jobs[task.job]))
    if draft.moves[left:]:
        words.append(f"datasets are repaired first: {told(draft.moves[left:], '')}")
    if draft.moves:
        return draft.advice("; ".join(words))
    words.append(_why_none(board, moving))
    tried = [draft.advice("")]
    tried += [] if words[-1] else [even_hosts(board)]
    if tried[-1].moves:
        return gathered(tried)
    counted = f"{count(len(board.live(KIND)), 'area')} and {count(len(board.jobs), 'dataset')}"
    words.append(f"{counted}: nothing is to be carried")
    return replace(gathered(tried), sentence="; ".join(filter(None, words)))


def acts(snapshot: PlacementSnapshot, moves: Iterable[PlacementMove]) -> tuple[DatasetAct, ...]:
    """Return what is to be done for moves, in their order.

    From an area that is down nothing is removed: its replica is there no more, or comes back.
    """
    now = {task.key: task for task in snapshot.tasks}
    up = {host.name for host in snapshot.hosts if host.is_up}
    found = []
    for move in moves:
        before = now[move.job, move.number]
        after = now[before.key] = moved(before, move)
        comes = [host for host in after.hosts if host not in before.hosts]
        leaves = [host for host in before.hosts if host not in after.hosts]
        leaves = [move.source] if move.kind is MoveKind.DELETE else leaves
        source = next((host for host in leaves if host in up), "")
        if comes or source:
            found.append(DatasetAct(dataset=move.job, target="".join(comes), source=source))
    return tuple(found)


def kind_of(one: CarriedReplica) -> MoveKind:
    """Return what was done, as a move."""
    return MoveKind.REPLICA if one.target else MoveKind.DELETE


def _losses(board: ProjectedLoad) -> list[str]:
    """Say of lost areas, which hold nothing that counts, what they had alone."""
    lost = sorted({name for task in board.snapshot.tasks for name in task.lost})
    told = ((name, losses(board, board.hosts[name])) for name in lost)
    return [f"{name} is lost: {words}" for name, words in told if words]


def _waiting(snapshot: PlacementSnapshot) -> list[PlacementTask]:
    """Return the datasets that nobody works on, by name."""
    found = (task for task in snapshot.tasks if task.state is TaskState.WAITING)
    return sorted(found, key=lambda task: task.key)


def _why_none(board: ProjectedLoad, moving: int) -> str:
    if not board.rules.level:
        return "level is 0: nothing is moved without being asked"
    carried = count(moving, "dataset is", "datasets are")
    return f"{carried} carried already: nothing else is begun" if moving else ""


def _host(area: MeasuredArea, seen: StorageState) -> PlacementHost:
    return PlacementHost(
        name=area.storage,
        kind=KIND,
        is_up=not area.fault,
        is_read_only=area.is_read_only,
        state=HostState.DRAIN if _is_drained(area, seen) else HostState.ALIVE,
        used_bytes=max(0, area.size_bytes - area.free_bytes),
        max_bytes=area.size_bytes,
        zone=area.cluster,
        is_shared=True,
    )


def _is_drained(area: MeasuredArea, seen: StorageState) -> bool:
    return bool({area.storage, area.cluster} & seen.drained)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Areas:
    """The names of areas: of all, of those that can't be reached, and of those that are drained."""

    every: frozenset[str]
    down: frozenset[str]
    drained: frozenset[str]

    def down_for(self, one: DelegatedDataset) -> frozenset[str]:
        """Return the areas that can't be reached, or where a dataset's replica is away."""
        return self.down.union(each.storage for each in one.dataset.replicas if each.is_away)


def _known(seen: StorageState) -> _Areas:
    return _Areas(
        every=frozenset(area.storage for area in seen.areas),
        down=frozenset(area.storage for area in seen.areas if area.fault),
        drained=frozenset(area.storage for area in seen.areas if _is_drained(area, seen)),
    )


def _task(
    one: DelegatedDataset,
    areas: _Areas,
    resting: frozenset[str],
    seen: StorageState,
    *,
    is_going: bool,
) -> PlacementTask:
    """Return a dataset as a task: a replica counts if it was whole when it was read last.

    An area that can't be reached for a moment is no reason to carry all of its data, nor is one
    whose filesystem is not mounted. One that is drained as well is lost, with what it had. What was
    known as spoilt is removed once its area is back, and so is one for which another came, if
    enough others are whole.
    """
    down = areas.down_for(one)
    gone = areas.every & down & areas.drained
    there = areas.every - gone
    replicas = sorted(one.dataset.replicas, key=lambda each: each.storage)
    known = [each for each in replicas if each.storage in there]
    whole = [each.storage for each in known if each.is_whole]
    others = [name for name in whole if (one.name, name) not in seen.leaving]
    counts = others if len({*others} - down) >= one.dataset.wished else whole
    live = next((name for name in counts if name not in down), counts[0] if counts else "")
    spoilt = (each.storage for each in known if each.storage not in {*counts, *down})
    return PlacementTask(
        job=one.name,
        number=ONLY,
        size_bytes=one.dataset.size_bytes,
        state=_state(one, is_going=is_going),
        live=live,
        replicas=tuple(name for name in counts if name != live),
        spoilt=tuple(name for name in spoilt if name not in resting),
        lost=tuple(each.storage for each in replicas if each.is_whole and each.storage in gone),
        has_original=True,
    )


def _state(one: DelegatedDataset, *, is_going: bool) -> TaskState:
    """Say what is done about a dataset; only what the service itself does is under way."""
    if is_going:
        return TaskState.MOVING
    return TaskState.BUSY if one.is_busy else TaskState.WAITING


def _job(
    one: DelegatedDataset, task: PlacementTask, areas: _Areas, resting: frozenset[str]
) -> PlacementJob:
    """Return a dataset as a job; what its owner has beyond the wish is left alone."""
    down = areas.down_for(one)
    spare = sum(name not in down for name in task.hosts) - one.dataset.wished
    away = {each.storage for each in one.dataset.replicas if each.is_away}
    barred = areas.every & (resting | away)
    return PlacementJob(
        name=one.name,
        is_autobalanced=one.dataset.may_move and spare <= 0 and not away,
        replicas=max(one.dataset.wished, len(task.hosts)) - 1,
        hosts=areas.every - barred if barred else None,
        resting=areas.every & resting,
        away=areas.every & away,
        owner=one.owner,
        spare=max(0, spare),
    )


def _resting(seen: StorageState, rules: Rebalance) -> Mapping[str, frozenset[str]]:
    """Return the areas where something about each dataset failed a short time ago.

    That counts from its end, for a copy may take hours. How long it is doubles with each failure of
    the dataset after which nothing was done.
    """
    rest, failures = timedelta(seconds=rules.replicated_rest_s), Counter[str]()
    failed = defaultdict[str, list[CarriedReplica]](list)
    for one in sorted(seen.carried, key=lambda one: (_end(one), one.token)):
        if one.why:
            failures[one.dataset] += 1
            failed[one.dataset].append(one)
        elif one.ended_at:
            failures[one.dataset] = 0
    return {
        name: frozenset(
            _failed_at(one, seen)
            for one in of_one
            if is_lately(_end(one), seen.now, rest * 2 ** _doublings(failures[name]))
        )
        for name, of_one in failed.items()
    }


def _doublings(failures: int) -> int:
    return min(max(0, failures - 1), MOST_DOUBLED)


def longest_rest(rules: Rebalance) -> timedelta:
    """Return for how long what was carried, or was not, may keep anything from being carried."""
    failed_s = rules.replicated_rest_s * 2**MOST_DOUBLED
    return timedelta(seconds=max(rules.host_rest_s, failed_s))


def _failed_at(one: CarriedReplica, seen: StorageState) -> str:
    """Return where something failed: where a replica came it was the removal of the other."""
    return one.source if (one.dataset, one.source) in seen.leaving else one.target or one.source


def _end(one: CarriedReplica) -> datetime:
    return one.ended_at or one.began_at


def _recent(seen: StorageState) -> RecentMoves:
    came = [one for one in seen.carried if one.target and not one.why]
    ended = {one.target: one.ended_at for one in came if one.ended_at}
    return RecentMoves(hosts={one.target: one.began_at for one in came}, replicated=ended)
