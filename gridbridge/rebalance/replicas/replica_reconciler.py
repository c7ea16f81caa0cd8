"""Makes, moves and removes replicas until each dataset has the number of replicas that its owner requested.

The service decides; a process of the dataset's owner carries out each action (gridbridge-as-user). Actions are recorded
before they begin, so that the next round continues after a kill. A round whose copies take longer than an hour lets the
next round begin, and still waits for its own copies.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gridbridge.decisions.rebalance import storage_area_rebalancing
from gridbridge.decisions.rebalance.storage_area_rebalancing import DatasetReplicaChange
from gridbridge.model.fixed_paths import CARRYING_LOCK
from gridbridge.model.rebalance.datasets import DatasetStorageSnapshot, DelegatedDataset, ServiceReplicaAct
from gridbridge.model.rebalance.placement_snapshot_and_moves import (
    PlacementMove,
    PlacementMoveKind,
    PlacementSnapshot,
    RebalanceMovePlan,
    RejectedMove,
    ValidAndDroppedMoves,
)
from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea
from gridbridge.model.site_configuration import Policy
from gridbridge.rebalance.mover import rebalance_journal
from gridbridge.rebalance.mover.rebalance_decision import (
    HostOrJobToRebalance,
    RebalancePlanWithInputs,
    check_target_and_plan_moves,
    why_not_rebalanced_now,
)
from gridbridge.rebalance.rebalance_tables import RebalanceNoteRows, ReplicaActRows
from gridbridge.rebalance.replicas import delegated_datasets, owner_datasets, storage_area_access
from gridbridge.rebalance.replicas.owner_fair_replica_queue import OwnerFairReplicaActQueue, owner_of_replica_act
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.shell.poller_lock import MomentaryPollerLock
from gridbridge.state import drains
from gridbridge.state.decision_journal import DecisionJournal, DecisionJournalEntry
from gridbridge.state.state_file import StateFile

KEPT = timedelta(days=30)  # records of actions are kept at least this long, and at least for the longest pause
LONGEST = timedelta(days=2)  # two actions in a row, at most a day each
BEGINS_S = 3600.0  # time after which the round begins no more actions, and the next round may begin
LOOK_S = 5.0  # pause between two checks of the round's time limit
WHERE = "the storage areas"
QUIESCED = "no replica is copied or removed until `gridbridge rebalance quiesce --off`"
LATE = "the round's hour is over; the next round continues"
TAKEN = "copies of earlier rounds still run, as many as copies_at_once allows"
CUT, CUT_BEFORE = "the action was interrupted", "an earlier action on the dataset failed"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRoundInputs:
    """The facts for a round about datasets: areas and datasets, and whether moves are paused."""

    stored: DatasetStorageSnapshot
    is_quiesced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaActOutcome:
    """The outcome of an action on a replica; an empty `why` means success."""

    why: str = ""
    is_left: bool = False  # the copy succeeded, and the old replica remains


class ReplicaReconciler:
    """Runs one rebalancing round about datasets: gathers facts, plans, records, and acts."""

    def __init__(
        self,
        policy: Policy,
        clock: Clock,
        question: HostOrJobToRebalance,
        *,
        is_dry: bool = False,
        carrying: str = CARRYING_LOCK,
        let_go: Callable[[], bool] = lambda: True,
    ) -> None:
        """Open the state file; raise StateError if opening fails.

        While copies hold the lock `carrying`, `let_go` releases the round's own lock, and returns whether the release
        succeeded.
        """
        self.database = StateFile.open(policy.site.state, is_unchanged=is_dry)
        self.journal = DecisionJournal(self.database)
        self._policy = policy
        self._rules = policy.rebalance
        self._asked = replace(question, is_of_data=True)
        self._clock = clock
        self._notes = RebalanceNoteRows(self.database)
        self._carried = ReplicaActRows(self.database)
        self._carrying, self._let_go = carrying, let_go
        self.checked = ValidAndDroppedMoves()

    def gather(self) -> DatasetRoundInputs:
        """Measure the storage areas, and ask the owners' processes for their datasets."""
        return DatasetRoundInputs(
            stored=DatasetStorageSnapshot(
                now=self._clock.now(),
                kept=tuple(delegated_datasets.query_owners_for_datasets(delegated_datasets.list_dataset_delegations())),
                areas=tuple(self._measure()),
                drained=_drained(self._policy),
                carried=self._carried.all(),
                leaving=self._notes.leaving(),
            ),
            is_quiesced=self._is_quiesced(),
        )

    def decide(self, situation: DatasetRoundInputs) -> RebalancePlanWithInputs:
        """Plan the actions on replicas; the plan is empty while moves are paused.

        Raises ConfigError for an unknown storage area or dataset.
        """
        snapshot = storage_area_rebalancing.datasets_as_placement_snapshot(situation.stored, self._rules)
        why = QUIESCED if situation.is_quiesced else why_not_rebalanced_now(snapshot, self._asked)
        return check_target_and_plan_moves(WHERE, snapshot, self._rules, self._asked, why_none=why)

    def entry(self, situation: DatasetRoundInputs, plan: RebalancePlanWithInputs) -> DecisionJournalEntry | None:
        """Return a plan's journal entry; None for a plan without actions."""
        del situation
        return rebalance_journal.rebalance_journal_entry(plan, self._asked, self._clock.now())

    def apply(self, situation: DatasetRoundInputs, plan: RebalancePlanWithInputs) -> None:
        """Carry out a plan, interrupted actions first; a dataset's actions run one after the other.

        If an earlier round still copies, that round carries out its remaining actions itself.
        """
        if situation.is_quiesced:
            return
        now = self._clock.now()
        sizes = {delegated.name: delegated.dataset.size_bytes for delegated in situation.stored.kept}
        is_shared = self._is_carried()
        finished, begun = ([], []) if is_shared else _begun(situation.stored)
        for carried in finished:
            self._end(carried, "")
        advised = [
            _carried(act, sizes, now)
            for act in storage_area_rebalancing.dataset_changes_for_moves(plan.snapshot, plan.advice.moves)
        ]
        datasets = {delegated.name: delegated for delegated in situation.stored.kept}
        if not is_shared:
            self._close_strays(situation.stored, datasets)
        self._forget_left(situation.stored, datasets)
        earlier = _under_way(situation.stored) if is_shared else []
        turns = OwnerFairReplicaActQueue(
            _by_dataset([*begun, *advised]),
            situation.stored.carried,
            earlier=earlier,
            most=self._rules.copies_at_once,
            into={name: area.copies_at_once for name, area in self._policy.storage.items()},
        )
        self._do(turns, datasets, _free_turns(self._rules.copies_at_once, earlier))
        self._carried.forget(now - max(KEPT, storage_area_rebalancing.max_pause_after_replica_act(self._rules)))

    def _do(self, turns: OwnerFairReplicaActQueue, datasets: Mapping[str, DelegatedDataset], most: int) -> None:
        """Carry out the actions on several datasets in parallel, until the round's time is over.

        Actions that wait for copies of earlier rounds are reported as dropped.
        """
        going = dict[Future[list[ReplicaActOutcome]], list[ServiceReplicaAct]]()
        outcomes = list[tuple[ServiceReplicaAct, str]]()
        until_s, is_alone = self._clock.steady_s() + BEGINS_S, True
        with ThreadPoolExecutor(self._rules.copies_at_once) as pool:
            while turns or going:
                why = self._why_none(until_s)
                while not why and len(going) < most and (group := turns.next()):
                    self._carried.begin(group)
                    going[pool.submit(self._act, datasets[group[0].dataset], group)] = group
                    why = self._why_none(until_s)
                if why or not going:
                    outcomes += [(carried, why or TAKEN) for group in turns.left() for carried in group]
                for future in wait(going, timeout=LOOK_S, return_when=FIRST_COMPLETED).done:
                    turns.end(group := going.pop(future))
                    outcomes += self._ended(group, future.result())
                if going and self._clock.steady_s() > until_s:
                    is_alone = is_alone and not self._let_go()
        self.checked = ValidAndDroppedMoves(
            moves=tuple(_move(carried) for carried, why in outcomes if not why),
            dropped=tuple(_rejected(carried, why) for carried, why in outcomes if why),
        )

    def _is_carried(self) -> bool:
        with MomentaryPollerLock(self._carrying) as is_ours:
            return not is_ours

    def _why_none(self, until_s: float) -> str:
        if self._is_quiesced():
            return QUIESCED
        return LATE if self._clock.steady_s() > until_s else ""

    def _ended(
        self, group: list[ServiceReplicaAct], ends: list[ReplicaActOutcome]
    ) -> list[tuple[ServiceReplicaAct, str]]:
        for carried, outcome in zip(group, ends, strict=True):
            self._note_leaving(carried, outcome)
            self._end(carried, outcome.why)
        return [(carried, outcome.why) for carried, outcome in zip(group, ends, strict=True)]

    def _note_leaving(self, carried: ServiceReplicaAct, outcome: ReplicaActOutcome) -> None:
        """Record after an action whether the replaced replica must still be removed."""
        if not carried.source:
            return
        if not outcome.why:
            self._notes.left(carried.dataset, carried.source)
        elif outcome.is_left or (carried.dataset, carried.source) in self._notes.leaving():
            self._notes.leave(carried.dataset, carried.source, self._clock.now())

    def _act(self, delegated: DelegatedDataset, group: list[ServiceReplicaAct]) -> list[ReplicaActOutcome]:
        """Carry out the actions on a dataset's replicas; after a failure skip the remaining actions."""
        ends: list[ReplicaActOutcome] = []
        for carried in group:
            is_cut = any(outcome.why for outcome in ends)
            ends.append(ReplicaActOutcome(why=CUT_BEFORE) if is_cut else self._carry_out(delegated, carried))
        return ends

    def _carry_out(self, delegated: DelegatedDataset, carried: ServiceReplicaAct) -> ReplicaActOutcome:
        if carried.target and carried.target in _closed(self._policy):
            return ReplicaActOutcome(why=f"{carried.target} is drained")
        if carried.target and (
            why := delegated_datasets.copy_replica_as_owner(delegated, carried.target, carried.source)
        ):
            return ReplicaActOutcome(why=why)
        why = delegated_datasets.drop_replica_as_owner(delegated, carried.source) if carried.source else ""
        return ReplicaActOutcome(why=why, is_left=bool(why and carried.target))

    def _end(self, carried: ServiceReplicaAct, why: str) -> None:
        self._carried.end(carried.token, self._clock.now(), why)
        _log.info(
            "event=replica_carried dataset=%s to=%s from=%s why=%r",
            *(carried.dataset, carried.target or "-", carried.source or "-", why),
        )

    def _close_strays(self, stored: DatasetStorageSnapshot, datasets: Mapping[str, DelegatedDataset]) -> None:
        for carried in stored.carried:
            of = datasets.get(carried.dataset)
            is_left = of is None or of.is_busy
            if carried.ended_at is None and is_left and stored.now - carried.began_at > LONGEST:
                self._carried.end(carried.token, stored.now, CUT)

    def _forget_left(self, stored: DatasetStorageSnapshot, datasets: Mapping[str, DelegatedDataset]) -> None:
        """Update the records of replicas to be removed; delete the records of replicas that no longer exist."""
        for dataset, area in stored.leaving:
            delegated = datasets.get(dataset)  # None: the dataset was removed, or its owner's process did not answer
            if delegated and area in delegated.dataset.storages:
                self._notes.leave(dataset, area, stored.now)
            elif delegated:
                self._notes.left(dataset, area)
        self._notes.forget_leaving(stored.now - KEPT)

    def _is_quiesced(self) -> bool:
        return self._notes.quiesced() is not None

    def _measure(self) -> list[MeasuredStorageArea]:
        """Measure the areas; write permissions are not checked, because only an owner's process knows them."""
        areas = owner_datasets.storage_areas_of_account(self._policy).values()
        with ThreadPoolExecutor(max_workers=max(1, len(areas))) as pool:
            return list(pool.map(storage_area_access.measure_whole_area, areas))


def merge_rebalance_plans(plan: RebalancePlanWithInputs, addition: RebalancePlanWithInputs) -> RebalancePlanWithInputs:
    """Merge two rebalancing plans about different hosts, jobs and tasks."""
    first, second = plan.snapshot, addition.snapshot
    snapshot = PlacementSnapshot(
        now=first.now,
        hosts=(*first.hosts, *second.hosts),
        jobs=(*first.jobs, *second.jobs),
        tasks=(*first.tasks, *second.tasks),
        recent=first.recent,
    )
    advice = RebalanceMovePlan(
        moves=(*plan.advice.moves, *addition.advice.moves),
        rejected=(*plan.advice.rejected, *addition.advice.rejected),
        sentence=f"{plan.advice.sentence}; {addition.advice.sentence}",
    )
    return RebalancePlanWithInputs(snapshot=snapshot, rules=plan.rules, advice=advice)


def _drained(policy: Policy) -> frozenset[str]:
    return drains.list_drained_clusters() | {name for name, area in policy.storage.items() if area.drained}


def _closed(policy: Policy) -> frozenset[str]:
    drained = _drained(policy)
    return frozenset(name for name, area in policy.storage.items() if {name, area.cluster} & drained)


def _begun(stored: DatasetStorageSnapshot) -> tuple[list[ServiceReplicaAct], list[ServiceReplicaAct]]:
    """Return a killed round's actions on replicas: finished actions, and actions to continue.

    After the kill the owner's process may have finished an action.
    """
    free = {delegated.name: delegated.dataset for delegated in stored.kept if not delegated.is_busy}
    begun = [carried for carried in stored.carried if carried.ended_at is None and carried.dataset in free]
    finished = [carried for carried in begun if not carried.source and carried.target in free[carried.dataset].whole]
    return finished, [carried for carried in begun if carried not in finished]


def _under_way(stored: DatasetStorageSnapshot) -> list[list[ServiceReplicaAct]]:
    return [*_by_dataset(carried for carried in stored.carried if carried.ended_at is None)]


def _free_turns(most: int, earlier: list[list[ServiceReplicaAct]]) -> int:
    """Return how many further datasets may begin actions while earlier actions run.

    If one owner has all running actions, one more dataset may begin, so that other owners don't wait.
    """
    owners = {owner_of_replica_act(group[0]) for group in earlier}
    return max(most - len(earlier), 1 if len(owners) == 1 else 0)


def _by_dataset(carried: Iterable[ServiceReplicaAct]) -> Iterable[list[ServiceReplicaAct]]:
    groups: dict[str, list[ServiceReplicaAct]] = {}
    for replica in carried:
        groups.setdefault(replica.dataset, []).append(replica)
    return groups.values()


def _carried(act: DatasetReplicaChange, sizes: Mapping[str, int], now: datetime) -> ServiceReplicaAct:
    return ServiceReplicaAct(
        token=safe_files.random_file_name(),
        dataset=act.dataset,
        target=act.target,
        source=act.source,
        size_bytes=sizes[act.dataset],
        began_at=now,
    )


def _move(carried: ServiceReplicaAct) -> PlacementMove:
    return PlacementMove(
        kind=PlacementMoveKind.REPLICA if carried.target else PlacementMoveKind.DELETE,
        job=carried.dataset,
        number=storage_area_rebalancing.ONLY,
        source=carried.source,
        target=carried.target,
    )


def _rejected(carried: ServiceReplicaAct, why: str) -> RejectedMove:
    return RejectedMove(job=carried.dataset, number=storage_area_rebalancing.ONLY, target=carried.target, reason=why)
