"""Makes, moves and removes replicas until each dataset has the number that its owner requested.

Owners' processes carry out the actions. Each action is recorded before it begins, so that the next round can continue
after a kill.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import timedelta

from gridbridge.decisions.rebalance import storage_area_rebalancing
from gridbridge.model.fixed_paths import CARRYING_LOCK
from gridbridge.model.rebalance.datasets import DatasetStorageSnapshot, DelegatedDataset, ServiceReplicaAct
from gridbridge.model.rebalance.published_rebalance_rounds import PublishedStorageAreas
from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea, is_storage_area_drained
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    RebalanceMove,
    RebalanceMoveKind,
    RebalanceMovePlan,
    RejectedMove,
    ValidAndDroppedMoves,
)
from gridbridge.model.site_configuration import Policy
from gridbridge.rebalance.mover import rebalance_decision_journal
from gridbridge.rebalance.mover.rebalance_plan_by_target import (
    RebalancePlanWithInputs,
    RebalanceTarget,
    check_target_and_plan_moves,
    why_not_rebalanced_now,
)
from gridbridge.rebalance.replica_act_and_move_tables import MoveAndVerificationTimeRows, ReplicaActRows
from gridbridge.rebalance.replicas import (
    delegated_datasets,
    owner_datasets,
    owner_replica_copies_and_checks,
    storage_area_shell_scripts,
)
from gridbridge.rebalance.replicas.object_store_programs import ObjectStoreForAccount
from gridbridge.rebalance.replicas.object_store_replicas import measure_store
from gridbridge.rebalance.replicas.owner_fair_replica_queue import OwnerFairReplicaActQueue, owner_of_replica_act
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_lock_file import MomentaryProgramLock
from gridbridge.state import drains
from gridbridge.state.decision_journal import DecisionJournal, DecisionJournalEntry
from gridbridge.state.state_file import StateFile

KEPT = timedelta(days=30)  # records of actions are kept this long, or as long as a longer configured pause
LONGEST = timedelta(days=2)  # longest time of a recorded action: a copy and a removal, at most a day each
BEGINS_S = 3600.0  # after this time a round begins no more actions, and the next round may begin
LOOK_S = 5.0  # pause between two checks of the round's time limit
WHERE = "the storage areas"
QUIESCED = "no replica is copied or removed until `gridbridge rebalance quiesce --off`"
LATE = "the round's hour is over; the next round continues"
TAKEN = "copies of earlier rounds still run, as many as copies_at_once allows"

_log = logging.getLogger(__name__)


DatasetRoundInputs = tuple[DatasetStorageSnapshot, bool]  # (areas and datasets, whether moves are paused)
# (why an action on a replica failed, or ''; whether the copy succeeded but the old replica remains)
ReplicaActOutcome = tuple[str, bool]


class ReplicaReconciler:
    def __init__(
        self,
        policy: Policy,
        clock: Clock,
        question: RebalanceTarget,
        *,
        is_dry: bool = False,
        carrying: str = CARRYING_LOCK,
        let_go: Callable[[], bool] = lambda: True,
        tell_areas: Callable[[PublishedStorageAreas], None] = lambda _: None,
    ) -> None:
        """Open the state file or raise StateError; copies lock `carrying`; `let_go` frees the round's lock.

        `tell_areas` gets the measured storage areas before a plan is carried out.
        """
        self.database = StateFile.open(policy.site.state, is_unchanged=is_dry)
        self.journal = DecisionJournal(self.database)
        self._policy = policy
        self._rules = policy.rebalance
        self._asked = replace(question, is_of_data=True)
        self._clock = clock
        self._notes = MoveAndVerificationTimeRows(self.database)
        self._carried = ReplicaActRows(self.database)
        self._carrying, self._let_go, self._tell_areas = carrying, let_go, tell_areas
        self.checked = ValidAndDroppedMoves()

    def gather(self) -> DatasetRoundInputs:
        """Measure the storage areas, and ask the owners' processes for their datasets."""
        stored = DatasetStorageSnapshot(
            now=self._clock.now(),
            kept=tuple(delegated_datasets.query_owners_for_datasets(delegated_datasets.list_dataset_delegations())),
            areas=self._measure_all_areas(),
            drained=_drained_areas_and_clusters(self._policy),
            carried=self._carried.all_acts(),
            leaving=self._notes.replicas_to_remove(),
        )
        return stored, self._are_moves_paused()

    def decide(self, situation: DatasetRoundInputs) -> RebalancePlanWithInputs:
        """Plan actions on replicas, none while moves are paused; ConfigError for an unknown target."""
        stored, is_quiesced = situation
        snapshot = storage_area_rebalancing.datasets_as_rebalance_snapshot(stored, self._rules)
        why = QUIESCED if is_quiesced else why_not_rebalanced_now(snapshot, self._asked)
        return check_target_and_plan_moves(WHERE, snapshot, self._rules, self._asked, why_none=why)

    def journal_entry(
        self, situation: DatasetRoundInputs, plan: RebalancePlanWithInputs
    ) -> DecisionJournalEntry | None:
        del situation
        return rebalance_decision_journal.rebalance_journal_entry(plan, self._asked, self._clock.now())

    def apply(self, situation: DatasetRoundInputs, plan: RebalancePlanWithInputs) -> None:
        """Carry out a plan; continue interrupted actions first, unless an earlier round still copies."""
        stored, is_quiesced = situation
        self._tell_areas(storage_area_rebalancing.storage_areas_for_everybody(stored))
        if is_quiesced:
            return
        now, most = self._clock.now(), self._rules.copies_at_once
        datasets = {delegated.name: delegated for delegated in stored.kept}
        with MomentaryProgramLock(self._carrying) as is_alone:
            pass  # only a test whether the lock is free: it is not while copies of an earlier round run
        begun, earlier = list[ServiceReplicaAct](), list[list[ServiceReplicaAct]]()
        if is_alone:
            begun = self._interrupted_acts_to_continue(stored, datasets)
        else:
            earlier = [*_acts_by_dataset(carried for carried in stored.carried if carried.ended_at is None)]
        self._update_replicas_to_remove(stored, datasets)
        advised = (
            replace(act, token=safe_files.random_file_name(), began_at=now)
            for act in storage_area_rebalancing.dataset_changes_for_moves(plan.snapshot, plan.advice.moves)
        )
        turns = OwnerFairReplicaActQueue(
            _acts_by_dataset([*begun, *advised]),
            stored.carried,
            earlier=earlier,
            most=most,
            into={name: area.copies_at_once for name, area in self._policy.storage.items()},
        )
        # if one owner has all running actions, one more dataset may begin, so that other owners don't wait
        is_one_owners = len({owner_of_replica_act(group[0]) for group in earlier}) == 1
        self._carry_out_in_parallel(turns, datasets, max(most - len(earlier), int(is_one_owners)))
        self._carried.delete_ended_acts(
            now - max(KEPT, storage_area_rebalancing.max_pause_after_replica_act(self._rules))
        )

    def _carry_out_in_parallel(
        self, turns: OwnerFairReplicaActQueue, datasets: Mapping[str, DelegatedDataset], most: int
    ) -> None:
        """Carry out actions on several datasets in parallel; drop actions that must wait until earlier rounds end."""
        going = dict[Future[list[ReplicaActOutcome]], list[ServiceReplicaAct]]()
        outcomes = list[tuple[ServiceReplicaAct, str]]()
        until_s, is_alone = self._clock.steady_s() + BEGINS_S, True
        with ThreadPoolExecutor(self._rules.copies_at_once) as pool:
            while turns or going:
                why = self._why_no_act_begins(until_s)
                while not why and len(going) < most and (group := turns.start_act_group_of_fairest_owner()):
                    self._carried.record_act_begins(group)
                    going[pool.submit(self._carry_out_replica_acts, datasets[group[0].dataset], group)] = group
                    why = self._why_no_act_begins(until_s)
                if why or not going:
                    outcomes += [
                        (carried, why or TAKEN) for group in turns.take_waiting_act_groups() for carried in group
                    ]
                for future in wait(going, timeout=LOOK_S, return_when=FIRST_COMPLETED).done:
                    turns.end_act_group(group := going.pop(future))
                    outcomes += self._record_ends_of_group(group, future.result())
                if going and self._clock.steady_s() > until_s:
                    is_alone = is_alone and not self._let_go()
        only = storage_area_rebalancing.ONLY
        self.checked = ValidAndDroppedMoves(
            moves=tuple(_rebalance_move_of_replica_act(carried) for carried, why in outcomes if not why),
            dropped=tuple(
                RejectedMove(job=carried.dataset, number=only, target=carried.target, reason=why)
                for carried, why in outcomes
                if why
            ),
        )

    def _why_no_act_begins(self, until_s: float) -> str:
        if self._are_moves_paused():
            return QUIESCED
        return LATE if self._clock.steady_s() > until_s else ""

    def _record_ends_of_group(
        self, group: list[ServiceReplicaAct], ends: list[ReplicaActOutcome]
    ) -> list[tuple[ServiceReplicaAct, str]]:
        """Record how actions on a dataset ended, and which replaced replicas must still be removed."""
        for carried, (why, is_left) in zip(group, ends, strict=True):
            replaced = carried.dataset, carried.source
            if carried.source and not why:
                self._notes.delete_replica_removal_note(*replaced)
            elif carried.source and (is_left or replaced in self._notes.replicas_to_remove()):
                self._notes.record_replica_to_remove(*replaced, self._clock.now())
            self._record_end_of_act(carried, why)
        return [(carried, why) for carried, (why, _) in zip(group, ends, strict=True)]

    def _carry_out_replica_acts(
        self, delegated: DelegatedDataset, group: list[ServiceReplicaAct]
    ) -> list[ReplicaActOutcome]:
        """Carry out the actions on a dataset's replicas; after a failure skip the remaining actions."""
        ends: list[ReplicaActOutcome] = []
        for carried in group:
            ends.append(self._carry_out_replica_act(delegated, carried))
            if ends[-1][0]:
                break
        return [*ends, *[("an earlier action on the dataset failed", False)] * (len(group) - len(ends))]

    def _carry_out_replica_act(self, delegated: DelegatedDataset, carried: ServiceReplicaAct) -> ReplicaActOutcome:
        area = self._policy.storage.get(carried.target)
        drained = _drained_areas_and_clusters(self._policy)
        if area and is_storage_area_drained(carried.target, area.paths_by_cluster, drained):
            return f"{carried.target} is drained", False
        why = carried.target and delegated_datasets.copy_replica_as_owner(delegated, carried.target, carried.source)
        if why:
            return why, False
        why = carried.source and delegated_datasets.drop_replica_as_owner(delegated, carried.source)
        return why, bool(why and carried.target)

    def _record_end_of_act(self, carried: ServiceReplicaAct, why: str) -> None:
        self._carried.record_act_end(carried.token, self._clock.now(), why)
        _log.info(
            "event=replica_carried dataset=%s to=%s from=%s why=%r",
            *(carried.dataset, carried.target or "-", carried.source or "-", why),
        )

    def _interrupted_acts_to_continue(
        self, stored: DatasetStorageSnapshot, datasets: Mapping[str, DelegatedDataset]
    ) -> list[ServiceReplicaAct]:
        """Return a killed round's actions that must continue; record the end of actions that had finished."""
        begun = []
        for carried in (carried for carried in stored.carried if carried.ended_at is None):
            of = datasets.get(carried.dataset)
            if of is None or of.is_busy:
                if stored.now - carried.began_at > LONGEST:
                    self._carried.record_act_end(carried.token, stored.now, "the action was interrupted")
            elif not carried.source and carried.target in of.dataset.areas_with_whole_replica:
                self._record_end_of_act(carried, "")
            else:
                begun.append(carried)
        return begun

    def _update_replicas_to_remove(
        self, stored: DatasetStorageSnapshot, datasets: Mapping[str, DelegatedDataset]
    ) -> None:
        """Renew the notes of replicas that must still be removed; delete the notes of replicas that are gone."""
        for dataset, area in stored.leaving:
            delegated = datasets.get(dataset)  # None: the dataset was removed, or its owner's process did not answer
            if delegated and area in delegated.dataset.areas_with_replica:
                self._notes.record_replica_to_remove(dataset, area, stored.now)
            elif delegated:
                self._notes.delete_replica_removal_note(dataset, area)
        self._notes.delete_old_removal_notes(stored.now - KEPT)

    def _are_moves_paused(self) -> bool:
        return self._notes.moves_paused_since() is not None

    def _measure_all_areas(self) -> tuple[MeasuredStorageArea, ...]:
        """Measure the storage areas; write permissions are left out, because only an owner's process can check them."""
        areas = owner_datasets.storage_areas_of_account(self._policy).values()
        with ThreadPoolExecutor(max_workers=max(1, len(areas))) as pool:
            return tuple(pool.map(measure_any_whole_area, areas))


def measure_any_whole_area(area: owner_replica_copies_and_checks.AnyStorageArea) -> MeasuredStorageArea:
    """Measure an area; a store is not called, because only owners have the credentials."""
    if isinstance(area, ObjectStoreForAccount):
        return measure_store(area, 0)
    return storage_area_shell_scripts.measure_whole_area(area)


def merge_rebalance_plans(plan: RebalancePlanWithInputs, addition: RebalancePlanWithInputs) -> RebalancePlanWithInputs:
    """Merge two rebalancing plans about different hosts, jobs and tasks."""
    first, second = plan.snapshot, addition.snapshot
    hosts, jobs, tasks = first.hosts + second.hosts, first.jobs + second.jobs, first.tasks + second.tasks
    snapshot = replace(first, hosts=hosts, jobs=jobs, tasks=tasks)
    advice = RebalanceMovePlan(
        moves=(*plan.advice.moves, *addition.advice.moves),
        rejected=(*plan.advice.rejected, *addition.advice.rejected),
        sentence=f"{plan.advice.sentence}; {addition.advice.sentence}",
    )
    return RebalancePlanWithInputs(snapshot=snapshot, rules=plan.rules, advice=advice)


def _drained_areas_and_clusters(policy: Policy) -> frozenset[str]:
    return drains.list_drained_clusters() | {name for name, area in policy.storage.items() if area.drained}


def _acts_by_dataset(carried: Iterable[ServiceReplicaAct]) -> Iterable[list[ServiceReplicaAct]]:
    groups: dict[str, list[ServiceReplicaAct]] = {}
    for replica in carried:
        groups.setdefault(replica.dataset, []).append(replica)
    return groups.values()


def _rebalance_move_of_replica_act(carried: ServiceReplicaAct) -> RebalanceMove:
    return RebalanceMove(
        kind=RebalanceMoveKind.REPLICA if carried.target else RebalanceMoveKind.DELETE,
        job=carried.dataset,
        number=storage_area_rebalancing.ONLY,
        source=carried.source,
        target=carried.target,
    )
