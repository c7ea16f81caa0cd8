"""Whose dataset is next in a round: while others wait, no owner has more turns than they."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from datetime import datetime

from gridbridge.model.rebalance.delegation import CarriedReplica
from gridbridge.model.rebalance.note_age import NEVER

Waiting = deque[list[CarriedReplica]]


class OwnerTurns:
    """What is to be done about datasets, each owner's in their order.

    So many copies of one person go into an area at once; what goes into another one passes by.
    """

    def __init__(
        self,
        groups: Iterable[list[CarriedReplica]],
        before: Iterable[CarriedReplica],
        *,
        earlier: Iterable[list[CarriedReplica]] = (),
        most: int,
        into: Mapping[str, int],
    ) -> None:
        """Take what is to be done, and what was done before: who had a turn last comes last.

        What `earlier` rounds began goes on. `most` is under way of one owner, and `into` says how
        many copies of theirs may go into each area.
        """
        self._waiting: dict[str, Waiting] = {}
        for group in groups:
            self._waiting.setdefault(_owner(group), deque()).append(group)
        self._most, self._into = most, into
        self._last = _last(before)
        self._going, self._had = Counter[str](), Counter[str]()
        self._come = Counter[tuple[str, str]]()  # of an owner into an area
        for group in earlier:
            self._begin(group)

    def __bool__(self) -> bool:
        """Say whether something waits."""
        return bool(self._waiting)

    def next(self) -> list[CarriedReplica] | None:
        """Begin what is next: of the owner of whom least is under way, and was begun.

        None while nothing of what waits may begin.
        """
        for owner in sorted(self._waiting, key=self._order):
            theirs = self._waiting[owner]
            group = next(filter(self._may_begin, theirs), None)
            if group is None:
                continue
            theirs.remove(group)
            if not theirs:
                del self._waiting[owner]
            self._begin(group)
            self._had[owner] += 1
            return group
        return None

    def end(self, group: list[CarriedReplica]) -> None:
        """Note that it is under way no more."""
        self._going[_owner(group)] -= 1
        self._come.subtract(_comes(group))

    def left(self) -> list[list[CarriedReplica]]:
        """Give up what waits still."""
        groups = [group for theirs in self._waiting.values() for group in theirs]
        self._waiting.clear()
        return groups

    def _begin(self, group: list[CarriedReplica]) -> None:
        self._going[_owner(group)] += 1
        self._come.update(_comes(group))

    def _may_begin(self, group: list[CarriedReplica]) -> bool:
        is_free = self._going[_owner(group)] < self._most
        return is_free and all(
            self._come[key] < self._into.get(key[1], self._most) for key in _comes(group)
        )

    def _order(self, owner: str) -> tuple[int, int, datetime]:
        return self._going[owner], self._had[owner], self._last.get(owner, NEVER)


def _comes(group: list[CarriedReplica]) -> set[tuple[str, str]]:
    """Return into which areas replicas of a dataset come, with its owner."""
    return {(_owner(group), carried.target) for carried in group if carried.target}


def _owner(group: list[CarriedReplica]) -> str:
    return owner_of(group[0])


def owner_of(carried: CarriedReplica) -> str:
    """Return whose dataset it is about."""
    return carried.dataset.partition("/")[0]


def _last(before: Iterable[CarriedReplica]) -> Mapping[str, datetime]:
    """Return when each owner had a turn last."""
    latest: dict[str, datetime] = {}
    for carried in before:
        owner = owner_of(carried)
        latest[owner] = max(carried.began_at, latest.get(owner, carried.began_at))
    return latest
