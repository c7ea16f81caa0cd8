"""Find attempts of a campaign's tasks in its arrays, quickly for any number of tasks.

Each array is parsed once into runs of consecutive tasks. Frequently started programs load this
module.
"""

from bisect import bisect_left, insort

TYPE_CHECKING = False  # importing typing takes as long as importing json
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Run = tuple[int, int, int, int]  # run: first task, last task, number of earlier tasks in the array, array number


class SubmittedTaskIndex:
    """An index of submitted task runs, by attempt, sorted by first task."""

    def __init__(self, arrays: "Iterable[tuple[int, str]]" = ()) -> None:
        """Index arrays, given by their numbers and task lists."""
        self._runs: dict[int, list[Run]] = {}
        self._reach: dict[int, list[int]] = {}  # by attempt: the highest last task up to each run
        for array, tasks in arrays:
            for attempt, run in _runs(array, tasks):
                self._runs.setdefault(attempt, []).append(run)
        for attempt, runs in self._runs.items():
            runs.sort()
            reach = self._reach[attempt] = []
            for run in runs:
                reach.append(max(run[1], reach[-1]) if reach else run[1])

    def add(self, array: int, tasks: str) -> None:
        """Add a new array to the index."""
        for attempt, run in _runs(array, tasks):
            runs, reach = self._runs.setdefault(attempt, []), self._reach.setdefault(attempt, [])
            at = bisect_left(runs, run)
            insort(runs, run)
            reach.insert(at, max(run[1], reach[at - 1]) if at else run[1])

    def have(self, tasks: str) -> bool:
        """Return whether any of these attempts is in an array."""
        return any(True for attempt, (first, last, *_) in _runs(0, tasks) for _ in self._between(attempt, first, last))

    def has_task(self, task: int) -> bool:
        """Return whether any attempt of a task is in an array."""
        return any(True for attempt in self._runs for _ in self._between(attempt, task, task))

    def indices_of(self, tasks: str) -> dict[int, list[int]]:
        """Return the array indices of these tasks by array, for any attempt."""
        indices: dict[int, set[int]] = {}
        for _, (first, last, *_) in _runs(0, tasks):
            for attempt in self._runs:
                for begin, end, before, array in self._between(attempt, first, last):
                    shared = range(max(first, begin), min(last, end) + 1)
                    indices.setdefault(array, set()).update(before + n - begin + 1 for n in shared)
        return {array: sorted(indices[array]) for array in sorted(indices)}

    def _between(self, attempt: int, first: int, last: int) -> "Iterator[Run]":
        """Yield the runs of an attempt that overlap these tasks.

        Runs of an attempt do not overlap each other, so at most one run is read in vain.
        """
        runs, reach = self._runs.get(attempt, []), self._reach.get(attempt, [])
        at = bisect_left(runs, (last + 1,)) - 1
        while at >= 0 and reach[at] >= first:
            if runs[at][1] >= first:
                yield runs[at]
            at -= 1


def _runs(array: int, tasks: str) -> "Iterator[tuple[int, Run]]":
    """Yield the runs of an array, each with its attempt number."""
    before = 0
    for part in tasks.split(","):
        numbers, _, attempt = part.partition(":")
        begin, _, end = numbers.partition("-")
        first, last = int(begin), int(end or begin)
        yield int(attempt), (first, last, before, array)
        before += last - first + 1
