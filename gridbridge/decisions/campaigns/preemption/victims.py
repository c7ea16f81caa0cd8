"""Which tasks end for one request: the newest first, just enough, none where that does not help."""

from collections.abc import Iterable, Mapping
from heapq import merge

from gridbridge.model.campaigns.crowded_cell import HostResources
from gridbridge.model.campaigns.preemption import BlockedRequest, PreemptibleTask

EXACT = 1 - 1e-6  # of what is asked for: amounts are printed with three digits behind the point

Missing = dict[str, float]  # what a request lacks; below 0: more than it lacks is freed
Chosen = tuple[HostResources, tuple[PreemptibleTask, ...]]


def chosen(one: BlockedRequest) -> Chosen | None:
    """Return which tasks end, and where the request then starts; None where nothing is to be done.

    That is so where it can start already, or does so once tasks have ended that are ending, and
    where it could not start though all of them ended. Of several places the one wins that costs
    the fewest tasks, and of these the one with the newest.
    """
    tasks = _Tasks(one)
    found = list[Chosen]()
    for place in one.places:
        missing, barring = _missing(one, place, tasks), _barring(one, place, tasks)
        if missing is None or barring is None:
            continue
        if not missing and not barring:
            return None
        if enough := _enough(missing, barring, place, tasks):
            found.append((place, enough))
    return min(found, key=_cost, default=None)


def lacked(one: BlockedRequest, place: HostResources) -> tuple[str, ...]:
    """Name what a request lacks at a place."""
    missing = _missing(one, place, _Tasks(one)) or {}
    return tuple(sorted({*missing, *one.asked.alone}))


class _Tasks:
    """The tasks of a contest, newest first: those that may end, by host, and those that do."""

    def __init__(self, one: BlockedRequest) -> None:
        in_order = sorted(one.tasks, key=_newest_first)
        self.every = [each for each in in_order if not each.is_ending]
        self.ending = [each for each in in_order if each.is_ending]
        self._by_host: dict[str, list[PreemptibleTask]] = {}
        for each in self.every:
            self._by_host.setdefault(each.host, []).append(each)

    def on(self, host: str) -> list[PreemptibleTask]:
        """Return those of one host."""
        return self._by_host.get(host, [])


def _newest_first(task: PreemptibleTask) -> tuple[float, int, int, int]:
    return -task.since.timestamp(), -task.campaign, -task.array, -task.place


def _cost(found: Chosen) -> tuple[int, list[float], str]:
    place, tasks = found
    return len(tasks), sorted(-each.since.timestamp() for each in tasks), place.name


def _missing(one: BlockedRequest, place: HostResources, tasks: _Tasks) -> Missing | None:
    """Return what a request lacks at a place once the tasks have ended that are ending.

    None: it can't start there, for it has too few slots, or nothing of a resource at all.
    """
    free = {**one.free, **place.free}
    asked = {name: n for name, n in one.asked.defaults.items() if name in free}
    asked |= {name: n for name, n in one.asked.amounts.items() if n > place.own.get(name, 0)}
    if one.asked.slots > place.slots or not asked.keys() <= free.keys():
        return None
    for task in tasks.ending:
        for name, amount in _gives(task, place, free).items():
            free[name] += amount
    return {name: n for name, amount in asked.items() if (n := amount * EXACT - free[name]) > 0}


def _barring(
    one: BlockedRequest, place: HostResources, tasks: _Tasks
) -> list[PreemptibleTask] | None:
    """Return the tasks that a request for a host alone can't stand there, or that have it alone.

    None: others run there whom nobody ends for it.
    """
    there, alone = tasks.on(place.host), one.asked.alone
    if not alone:
        return [each for each in there if each.alone]
    return there if alone <= place.alone and place.host not in one.others else None


def _gives(task: PreemptibleTask, place: HostResources, names: Iterable[str]) -> Missing:
    """Return what of some resources is free at a place once a task has ended."""
    is_there = task.host == place.host
    return {
        name: task.amounts[name]
        for name in names
        if task.amounts.get(name, 0) > 0 and (is_there or name not in place.free)
    }


def _enough(
    missing: Mapping[str, float],
    barring: list[PreemptibleTask],
    place: HostResources,
    tasks: _Tasks,
) -> tuple[PreemptibleTask, ...]:
    """Return just enough tasks for a request to start at a place; none if all were too few."""
    left, found = dict(missing), list[PreemptibleTask]()
    for task in barring:
        _take(task, place, left)
    is_everywhere = not missing.keys() <= place.free.keys()
    others = [each for each in tasks.on(place.host) if each not in barring]
    for task in _of_all(tasks, place, others) if is_everywhere else others:
        if not _lacks(left):
            break
        if any(left[name] > 0 for name in _gives(task, place, left)):
            _take(task, place, left)
            found.append(task)
    if _lacks(left):
        return ()
    return tuple(sorted((*barring, *_needed(found, place, left)), key=_newest_first))


def _of_all(
    tasks: _Tasks, place: HostResources, here: list[PreemptibleTask]
) -> Iterable[PreemptibleTask]:
    """Give the tasks of all hosts, newest first."""
    elsewhere = (each for each in tasks.every if each.host != place.host)
    return merge(here, elsewhere, key=_newest_first)


def _lacks(left: Missing) -> bool:
    return any(n > 0 for n in left.values())


def _take(task: PreemptibleTask, place: HostResources, left: Missing) -> None:
    for name, amount in _gives(task, place, left).items():
        left[name] -= amount


def _needed(
    found: list[PreemptibleTask], place: HostResources, left: Missing
) -> list[PreemptibleTask]:
    """Leave out the oldest that turned out to be more than enough."""
    needed = list[PreemptibleTask]()
    for task in reversed(found):
        gives = _gives(task, place, left)
        if all(left[name] + amount <= 0 for name, amount in gives.items()):
            for name, amount in gives.items():
                left[name] += amount
        else:
            needed.append(task)
    return needed
