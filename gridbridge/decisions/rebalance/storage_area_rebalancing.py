"""Plans rebalancing rounds for datasets: a dataset is a job of one task, and a storage area is a host.

A round evacuates failed areas, then repairs, and evens out disks only if nothing else was moved (Hydra, "Job
Rebalancing"). A target is up, writable, and without a copy of the dataset (Hydra's "optimal host").
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from gridbridge.decisions.rebalance.automatic_round_and_evacuation import (
    LEVEL_0,
    add_rejections_to_last_plan,
    describe_lost_datasets,
    draft_host_evacuation,
    failed_hosts_with_copies,
    plan_lightest_or_heaviest_host_balance,
)
from gridbridge.decisions.rebalance.host_loads_after_planned_moves import ProjectedHostsAndCopies, task_after_move
from gridbridge.decisions.rebalance.job_copy_repair_and_spread import draft_job_repair
from gridbridge.decisions.rebalance.move_plan_draft_and_refusals import (
    MovePlanDraft,
    describe_moves,
    draft_moves_owner_round_robin,
)
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.rebalance.datasets import (
    Dataset,
    DatasetStorageSnapshot,
    DelegatedDataset,
    RefusedAreaOrDataset,
    ServiceReplicaAct,
    format_bytes,
)
from gridbridge.model.rebalance.published_rebalance_rounds import PublishedStorageAreas
from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea, RebalanceSection, is_storage_area_drained
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    RebalanceHost,
    RebalanceHostState,
    RebalanceJobOrDataset,
    RebalanceMove,
    RebalanceMoveKind,
    RebalanceMovePlan,
    RebalanceSnapshot,
    RebalanceTask,
    RebalanceTaskState,
    RecentRebalanceMoveTimes,
    happened_within,
)

KIND, STORE_KIND = "storage", "store"
ONLY = 1  # task number of a dataset, which is a job of one task
MOST_DOUBLED = 6  # failures in a row double the pause at most this many times


def datasets_as_rebalance_snapshot(storage_state: DatasetStorageSnapshot, rules: RebalanceSection) -> RebalanceSnapshot:
    areas = {area.storage: area for area in storage_state.areas}
    hosts = tuple(_storage_area_as_host(areas[name], storage_state) for name in sorted(areas))
    datasets = sorted(storage_state.kept, key=lambda delegated: delegated.name)
    going = {carried.dataset for carried in storage_state.carried if carried.ended_at is None}
    resting = _areas_resting_after_failures(storage_state, rules)
    known_areas = StorageAreaNamesByState(
        every=frozenset(areas),
        down=frozenset(host.name for host in hosts if not host.is_up),
        drained=frozenset(host.name for host in hosts if host.state is RebalanceHostState.DRAIN),
    )
    tasks = tuple(
        _dataset_as_task(
            delegated, known_areas, resting[delegated.name], storage_state, is_going=delegated.name in going
        )
        for delegated in datasets
    )
    came = [carried for carried in storage_state.carried if carried.target and not carried.why]
    return RebalanceSnapshot(
        now=storage_state.now,
        hosts=hosts,
        jobs=tuple(
            _dataset_as_job(delegated, task, known_areas, resting[delegated.name])
            for delegated, task in zip(datasets, tasks, strict=True)
        ),
        tasks=tasks,
        recent=RecentRebalanceMoveTimes(
            hosts={carried.target: carried.began_at for carried in came},
            replicated={carried.target: carried.ended_at for carried in came if carried.ended_at},
        ),
    )


def storage_areas_for_everybody(storage_state: DatasetStorageSnapshot) -> PublishedStorageAreas:
    areas = tuple(sorted(storage_state.areas, key=lambda area: area.storage))
    drained = (
        area.storage for area in areas if is_storage_area_drained(area.storage, area.clusters, storage_state.drained)
    )
    return PublishedStorageAreas(at=storage_state.now, areas=areas, drained=tuple(drained))


def plan_dataset_rebalance_round(snapshot: RebalanceSnapshot, rules: RebalanceSection) -> RebalanceMovePlan:
    board = ProjectedHostsAndCopies(snapshot, rules)
    draft = MovePlanDraft(board, 0, None)
    words = [*map(partial(draft_host_evacuation, draft), failed_hosts_with_copies(board))]
    for name in sorted({name for task in snapshot.tasks for name in task.lost}):
        if lost := describe_lost_datasets(board, board.hosts[name]):
            words.append(f"{name} is lost: {lost}")
    moving, evacuations = board.moving, len(draft.moves)
    draft.most = rules.tasks_per_round - moving
    waiting = (task for task in snapshot.tasks if task.state is RebalanceTaskState.WAITING)
    repairable = sorted(waiting, key=lambda task: task.job_and_task_number)
    draft_moves_owner_round_robin(draft, repairable, lambda task: draft_job_repair(draft, board.jobs[task.job]))
    if draft.moves[evacuations:]:
        words.append(f"datasets are repaired first: {describe_moves(draft.moves[evacuations:], '')}")
    if draft.moves:
        return draft.finished_plan("; ".join(words))
    carried = f"{number_with_noun(moving, 'dataset is', 'datasets are')} being moved: no other move begins"
    words.append((carried if moving else "") if rules.level else LEVEL_0)
    tried = [draft.finished_plan("")]
    tried += [] if words[-1] else [plan_lightest_or_heaviest_host_balance(board)]
    if tried[-1].moves:
        return add_rejections_to_last_plan(tried)
    areas = number_with_noun(len(board.usable_hosts_of_kind(KIND)), "area")
    words.append(f"{areas} and {number_with_noun(len(board.jobs), 'dataset')}: nothing to move")
    return replace(add_rejections_to_last_plan(tried), sentence="; ".join(filter(None, words)))


def dataset_changes_for_moves(
    snapshot: RebalanceSnapshot, moves: Iterable[RebalanceMove]
) -> tuple[ServiceReplicaAct, ...]:
    """Return the replica actions of planned moves, in order; replicas in an unreachable area are not removed."""
    now = {task.job_and_task_number: task for task in snapshot.tasks}
    up = {host.name for host in snapshot.hosts if host.is_up}
    acts = []
    for move in moves:
        before = now[move.job, move.number]
        after = now[before.job_and_task_number] = task_after_move(before, move)
        comes = [host for host in after.hosts_with_copy if host not in before.hosts_with_copy]
        leaves = [host for host in before.hosts_with_copy if host not in after.hosts_with_copy]
        leaves = [move.source] if move.kind is RebalanceMoveKind.DELETE else leaves
        source = next((host for host in leaves if host in up), "")
        if comes or source:
            act = ServiceReplicaAct(
                dataset=move.job,
                target="".join(comes),
                source=source,
                size_bytes=before.size_bytes,
                began_at=snapshot.now,
            )
            acts.append(act)
    return tuple(acts)


def _storage_area_as_host(area: MeasuredStorageArea, storage_state: DatasetStorageSnapshot) -> RebalanceHost:
    is_drained = is_storage_area_drained(area.storage, area.clusters, storage_state.drained)
    if area.is_store:  # rounds copy nothing into a store; only its owner's requests do
        state = RebalanceHostState.DRAIN if is_drained else RebalanceHostState.DISABLED
        return RebalanceHost(name=area.storage, kind=STORE_KIND, is_up=not area.fault, state=state, zone=area.storage)
    return RebalanceHost(
        name=area.storage,
        kind=KIND,
        is_up=not area.fault,
        is_read_only=area.is_read_only,
        state=RebalanceHostState.DRAIN if is_drained else RebalanceHostState.ALIVE,
        used_bytes=max(0, area.size_bytes - area.free_bytes),
        max_bytes=area.size_bytes,
        zone=area.clusters[0],
        further_zones=area.clusters[1:],
        is_shared=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageAreaNamesByState:
    every: frozenset[str]
    down: frozenset[str]
    drained: frozenset[str]

    def unreadable_areas_of_dataset(self, delegated: DelegatedDataset) -> frozenset[str]:
        """Return unreachable areas, and areas in which a dataset's replica is unreadable."""
        return self.down.union(replica.storage for replica in delegated.dataset.replicas if replica.is_away)


def _dataset_as_task(
    delegated: DelegatedDataset,
    areas: StorageAreaNamesByState,
    resting: frozenset[str],
    storage_state: DatasetStorageSnapshot,
    *,
    is_going: bool,
) -> RebalanceTask:
    """Return a dataset as a task: a replica counts if it was whole at the last read.

    Replicas in an unreachable area count as whole, so that a short outage starts no copies. An area that is both
    unreachable and drained is lost. A replaced replica is removed only if enough other replicas are whole.
    """
    down = areas.unreadable_areas_of_dataset(delegated)
    lost = areas.every & down & areas.drained
    standing = areas.every - lost
    replicas = sorted(delegated.dataset.replicas, key=lambda replica: replica.storage)
    present = [replica for replica in replicas if replica.storage in standing]
    whole = [replica.storage for replica in present if replica.is_whole]
    not_leaving = [name for name in whole if (delegated.name, name) not in storage_state.leaving]
    counts = not_leaving if len({*not_leaving} - down) >= delegated.dataset.wished else whole
    live = next((name for name in counts if name not in down), counts[0] if counts else "")
    spoilt = (replica.storage for replica in present if replica.storage not in {*counts, *down})
    state = RebalanceTaskState.BUSY if delegated.is_busy else RebalanceTaskState.WAITING
    return RebalanceTask(
        job=delegated.name,
        number=ONLY,
        size_bytes=delegated.dataset.size_bytes,
        state=RebalanceTaskState.MOVING if is_going else state,
        live=live,
        replicas=tuple(name for name in counts if name != live),
        spoilt=tuple(name for name in spoilt if name not in resting),
        lost=tuple(replica.storage for replica in replicas if replica.is_whole and replica.storage in lost),
        has_original=True,
    )


def _dataset_as_job(
    delegated: DelegatedDataset, task: RebalanceTask, areas: StorageAreaNamesByState, resting: frozenset[str]
) -> RebalanceJobOrDataset:
    """Return a dataset as a job; automatic rounds don't move a dataset with more replicas than wanted."""
    down = areas.unreadable_areas_of_dataset(delegated)
    spare = sum(name not in down for name in task.hosts_with_copy) - delegated.dataset.wished
    areas_away = {replica.storage for replica in delegated.dataset.replicas if replica.is_away}
    barred = areas.every & (resting | areas_away)
    return RebalanceJobOrDataset(
        name=delegated.name,
        is_autobalanced=delegated.dataset.may_move and spare <= 0 and not areas_away,
        replicas=max(delegated.dataset.wished, len(task.hosts_with_copy)) - 1,
        hosts=areas.every - barred if barred else None,
        resting=areas.every & resting,
        away=areas.every & areas_away,
        owner=delegated.owner,
        spare=max(0, spare),
    )


def _areas_resting_after_failures(
    storage_state: DatasetStorageSnapshot, rules: RebalanceSection
) -> Mapping[str, frozenset[str]]:
    """Return each dataset's areas in which an action failed a short time ago.

    The dataset avoids the area for a pause that doubles with each further failure in a row. The pause begins at the
    action's end, because a copy may take hours.
    """
    pause, failures = timedelta(seconds=rules.replicated_rest_s), Counter[str]()
    acts = [(carried.ended_at or carried.began_at, carried.token, carried) for carried in storage_state.carried]
    acts.sort(key=lambda act: act[:2])
    for _, _, carried in acts:
        if carried.why or carried.ended_at:
            failures[carried.dataset] = failures[carried.dataset] + 1 if carried.why else 0
    resting = defaultdict[str, frozenset[str]](frozenset)
    for end, _, carried in acts:
        doublings = min(max(0, failures[carried.dataset] - 1), MOST_DOUBLED)
        if carried.why and happened_within(end, storage_state.now, pause * 2**doublings):
            # if the replica at the source must still be removed, only the removal failed
            is_left = (carried.dataset, carried.source) in storage_state.leaving
            resting[carried.dataset] |= {carried.source if is_left else carried.target or carried.source}
    return resting


def max_pause_after_replica_act(rules: RebalanceSection) -> timedelta:
    return timedelta(seconds=max(rules.host_rest_s, rules.replicated_rest_s * 2**MOST_DOUBLED))


def choose_next_replica_area(
    dataset: Dataset, areas: Sequence[MeasuredStorageArea], rules: RebalanceSection, barred: Mapping[str, str]
) -> tuple[str, tuple[RefusedAreaOrDataset, ...]]:
    """Return the storage area for a dataset's next replica (empty if none fits), and the refused areas.

    An area with an unfinished copy comes first, then one with a damaged replica, one that clusters see, one of a
    cluster without a whole replica, and the one with most free bytes. `barred` gives the reason for each excluded area.
    """
    reasons = {
        area.storage: barred.get(area.storage) or why_area_takes_no_replica(dataset, area, rules) for area in areas
    }
    refused = tuple(RefusedAreaOrDataset(what=name, reason=why) for name, why in reasons.items() if why)
    fit = [area for area in areas if not reasons[area.storage]]
    held = {name for area in areas if area.storage in dataset.areas_with_whole_replica for name in area.clusters}

    def area_sort_key(area: MeasuredStorageArea) -> tuple[bool, bool, bool, bool, int, str]:
        is_unbegun, is_new = area.storage not in dataset.begun, area.storage not in dataset.areas_with_replica
        return is_unbegun, is_new, area.is_store, not held.isdisjoint(area.clusters), -area.free_bytes, area.storage

    best = min(fit, key=area_sort_key, default=None)
    return best.storage if best else "", refused


def why_area_takes_no_replica(dataset: Dataset, area: MeasuredStorageArea, rules: RebalanceSection) -> str:
    """Return why an area takes no replica, else ''; a copy that has begun needs only its missing bytes."""
    most = int(area.free_bytes * rules.disk_share)
    missing_bytes = max(0, dataset.size_bytes - area.begun_bytes)
    if area.storage in dataset.areas_with_whole_replica:
        return "the area has a whole replica"
    if area.fault:
        return area.fault
    if area.is_read_only:
        return "the area is read-only"
    if area.is_store:
        lacking = f"{format_bytes(missing_bytes)} are more than the {format_bytes(area.free_bytes)} left of max_bytes"
        return lacking if missing_bytes > area.free_bytes else ""
    if area.free_bytes + area.begun_bytes <= rules.min_free_bytes:
        free, least = format_bytes(area.free_bytes), format_bytes(rules.min_free_bytes)
        return f"{free} are free; expected more than {least} (min_free_bytes of [rebalance])"
    if missing_bytes > most:
        return (
            f"{format_bytes(missing_bytes)} are more than the {format_bytes(most)} that one copy may take (disk_share)"
        )
    return ""
