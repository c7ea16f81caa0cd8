"""Chooses the next copy, move or removal of a replica in a round, with equal turns for the datasets' owners."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from datetime import datetime

from gridbridge.model.rebalance.datasets import ServiceReplicaAct
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import NEVER

Waiting = deque[list[ServiceReplicaAct]]


class OwnerFairReplicaActQueue:
    """A queue of copies, moves and removals of replicas; the datasets' owners take turns."""

    def __init__(
        self,
        groups: Iterable[list[ServiceReplicaAct]],
        before: Iterable[ServiceReplicaAct],
        *,
        earlier: Iterable[list[ServiceReplicaAct]] = (),
        most: int,
        into: Mapping[str, int],
    ) -> None:
        """Queue groups of replica actions; owners of the recent actions in `before` come last.

        The groups in `earlier` still run. `most` limits each owner's running groups, and `into` the copies to each
        area.
        """
        self._waiting: dict[str, Waiting] = {}
        for group in groups:
            self._waiting.setdefault(_owner_of_act_group(group), deque()).append(group)
        self._most, self._into = most, into
        self._last: dict[str, datetime] = {}
        for carried in before:
            owner = owner_of_replica_act(carried)
            self._last[owner] = max(carried.began_at, self._last.get(owner, NEVER))
        self._going, self._had = Counter[str](), Counter[str]()
        self._come = Counter[tuple[str, str]]()  # number of running copies by owner and storage area
        for group in earlier:
            self._count_act_group_as_running(group)

    def __bool__(self) -> bool:
        """Say whether a group of replica actions still waits in the queue."""
        return bool(self._waiting)

    def start_act_group_of_fairest_owner(self) -> list[ServiceReplicaAct] | None:
        """Start a group of the owner with the fewest running groups; return None if no group may start now."""

        def owner_sort_key(owner: str) -> tuple[int, int, datetime]:
            return self._going[owner], self._had[owner], self._last.get(owner, NEVER)

        for owner in sorted(self._waiting, key=owner_sort_key):
            theirs = self._waiting[owner]
            if group := next(filter(self._may_act_group_begin, theirs), None):
                theirs.remove(group)
                if not theirs:
                    del self._waiting[owner]
                self._count_act_group_as_running(group)
                self._had[owner] += 1
                return group
        return None

    def end_act_group(self, group: list[ServiceReplicaAct]) -> None:
        self._going[_owner_of_act_group(group)] -= 1
        self._come.subtract(_pairs_of_owner_and_target(group))

    def take_waiting_act_groups(self) -> list[list[ServiceReplicaAct]]:
        groups = [group for theirs in self._waiting.values() for group in theirs]
        self._waiting.clear()
        return groups

    def _count_act_group_as_running(self, group: list[ServiceReplicaAct]) -> None:
        self._going[_owner_of_act_group(group)] += 1
        self._come.update(_pairs_of_owner_and_target(group))

    def _may_act_group_begin(self, group: list[ServiceReplicaAct]) -> bool:
        is_free = self._going[_owner_of_act_group(group)] < self._most
        return is_free and all(
            self._come[key] < self._into.get(key[1], self._most) for key in _pairs_of_owner_and_target(group)
        )


def _pairs_of_owner_and_target(group: list[ServiceReplicaAct]) -> set[tuple[str, str]]:
    return {(_owner_of_act_group(group), carried.target) for carried in group if carried.target}


def _owner_of_act_group(group: list[ServiceReplicaAct]) -> str:
    return owner_of_replica_act(group[0])


def owner_of_replica_act(carried: ServiceReplicaAct) -> str:
    return carried.dataset.partition("/")[0]
