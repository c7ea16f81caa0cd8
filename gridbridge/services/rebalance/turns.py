"""Whose dataset is next in a round: while others wait, no owner has more turns than they."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from datetime import datetime

from gridbridge.model.rebalance.kept import Carried
from gridbridge.model.rebalance.moments import NEVER


class Turns:
    """What is to be done about datasets, each owner's in their order."""

    def __init__(self, groups: Iterable[list[Carried]], before: Iterable[Carried]) -> None:
        """Take what is to be done, and what was done before: who had a turn last comes last."""
        self._waiting: dict[str, deque[list[Carried]]] = {}
        for group in groups:
            self._waiting.setdefault(_owner(group[0]), deque()).append(group)
        self._last = _last(before)
        self._going, self._had = Counter[str](), Counter[str]()

    def __bool__(self) -> bool:
        """Say whether something waits."""
        return bool(self._waiting)

    def next(self) -> list[Carried]:
        """Begin what is next: of the owner of whom least is under way, and was begun."""
        owner = min(self._waiting, key=self._order)
        group = self._waiting[owner].popleft()
        if not self._waiting[owner]:
            del self._waiting[owner]
        self._going[owner] += 1
        self._had[owner] += 1
        return group

    def end(self, group: list[Carried]) -> None:
        """Note that it is under way no more."""
        self._going[_owner(group[0])] -= 1

    def _order(self, owner: str) -> tuple[int, int, datetime]:
        return self._going[owner], self._had[owner], self._last.get(owner, NEVER)


def _owner(one: Carried) -> str:
    return one.dataset.partition("/")[0]


def _last(before: Iterable[Carried]) -> Mapping[str, datetime]:
    """Return when each owner had a turn last."""
    found: dict[str, datetime] = {}
    for one in before:
        owner = _owner(one)
        found[owner] = max(one.began_at, found.get(owner, one.began_at))
    return found
