"""Which tasks end for one request: the newest first, just enough, none where that does not help."""

from collections.abc import Iterable, Mapping
from heapq import merge

from gridbridge.model.campaigns.crowded_cell import HostResources
from gridbridge.model.campaigns.preemption import BlockedRequest, PreemptibleTask

EXACT = 1 - 1e-6  # of what is asked for: amounts are printed with three digits behind the point

Missing = dict[str, float]  # what a request lacks; below 0: more than it lacks is freed
Chosen = tuple[HostResources, tuple[PreemptibleTask, ...]]


def chosen(request: BlockedRequest) -> Chosen | None:
    """Return which tasks end, and where the request then starts; None where nothing is to be done.

    That is so where it can start already, or does so once tasks have ended that are ending, and
    where it could not start though all of them ended. Of several places the one wins that costs
    the fewest tasks, and of these the one with the newest.
    """
    tasks = _Tasks(request)
    choices = list[Chosen]()
    for host in request.places:
        missing, barring = _missing(request, host, tasks), _barring(request, host, tasks)
        if missing is None or barring is None:
            continue
        if not missing and not barring:
            return None
        if enough := _enough(missing, barring, host, tasks):
            choices.append((host, enough))
    return min(choices, key=_cost, default=None)


def lacked(request: BlockedRequest, host: HostResources) -> tuple[str, ...]:
    """Name what a request lacks at a place."""
    missing = _missing(request, host, _Tasks(request)) or {}
    return tuple(sorted({*missing, *request.asked.alone}))


class _Tasks:
    """The tasks of a contest, newest first: those that may end, by host, and those that do."""

    def __init__(self, request: BlockedRequest) -> None:
        in_order = sorted(request.tasks, key=_newest_first)
        self.every = [task for task in in_order if not task.is_ending]
        self.ending = [task for task in in_order if task.is_ending]
        self._by_host: dict[str, list[PreemptibleTask]] = {}
        for task in self.every:
            self._by_host.setdefault(task.host, []).append(task)

    def on(self, host: str) -> list[PreemptibleTask]:
        """Return those of one host."""
        return self._by_host.get(host, [])


def _newest_first(task: PreemptibleTask) -> tuple[float, int, int, int]:
    return -task.since.timestamp(), -task.campaign, -task.array, -task.place


def _cost(choice: Chosen) -> tuple[int, list[float], str]:
    host, tasks = choice
    return len(tasks), sorted(-task.since.timestamp() for task in tasks), host.name


def _missing(request: BlockedRequest, host: HostResources, tasks: _Tasks) -> Missing | None:
    """Return what a request lacks at a place once the tasks have ended that are ending.

    None: it can't start there, for it has too few slots, or nothing of a resource at all.
    """
    free = {**request.free, **host.free}
    demanded = {name: n for name, n in request.asked.defaults.items() if name in free}
    demanded |= {name: n for name, n in request.asked.amounts.items() if n > host.own.get(name, 0)}
    if request.asked.slots > host.slots or not demanded.keys() <= free.keys():
        return None
    for task in tasks.ending:
        for name, amount in _gives(task, host, free).items():
            free[name] += amount
    return {name: n for name, amount in demanded.items() if (n := amount * EXACT - free[name]) > 0}


def _barring(
    request: BlockedRequest, host: HostResources, tasks: _Tasks
) -> list[PreemptibleTask] | None:
    """Return the tasks that a request for a host alone can't stand there, or that have it alone.

    None: others run there whom nobody ends for it.
    """
    on_host, alone = tasks.on(host.host), request.asked.alone
    if not alone:
        return [task for task in on_host if task.alone]
    return on_host if alone <= host.alone and host.host not in request.others else None


def _gives(task: PreemptibleTask, host: HostResources, names: Iterable[str]) -> Missing:
    """Return what of some resources is free at a place once a task has ended."""
    is_there = task.host == host.host
    return {
        name: task.amounts[name]
        for name in names
        if task.amounts.get(name, 0) > 0 and (is_there or name not in host.free)
    }


def _enough(
    missing: Mapping[str, float],
    barring: list[PreemptibleTask],
    host: HostResources,
    tasks: _Tasks,
) -> tuple[PreemptibleTask, ...]:
    """Return just enough tasks for a request to start at a place; none if all were too few."""
    lacking, needed = dict(missing), list[PreemptibleTask]()
    for task in barring:
        _take(task, host, lacking)
    is_everywhere = not missing.keys() <= host.free.keys()
    on_host = [task for task in tasks.on(host.host) if task not in barring]
    for task in _of_all(tasks, host, on_host) if is_everywhere else on_host:
        if not _lacks(lacking):
            break
        if any(lacking[name] > 0 for name in _gives(task, host, lacking)):
            _take(task, host, lacking)
            needed.append(task)
    if _lacks(lacking):
        return ()
    return tuple(sorted((*barring, *_needed(needed, host, lacking)), key=_newest_first))


def _of_all(
    tasks: _Tasks, host: HostResources, on_host: list[PreemptibleTask]
) -> Iterable[PreemptibleTask]:
    """Give the tasks of all hosts, newest first."""
    elsewhere = (task for task in tasks.every if task.host != host.host)
    return merge(on_host, elsewhere, key=_newest_first)


def _lacks(lacking: Missing) -> bool:
    return any(n > 0 for n in lacking.values())


def _take(task: PreemptibleTask, host: HostResources, lacking: Missing) -> None:
    for name, amount in _gives(task, host, lacking).items():
        lacking[name] -= amount


def _needed(
    tasks: list[PreemptibleTask], host: HostResources, lacking: Missing
) -> list[PreemptibleTask]:
    """Leave out the oldest that turned out to be more than enough."""
    needed = list[PreemptibleTask]()
    for task in reversed(tasks):
        gives = _gives(task, host, lacking)
        if all(lacking[name] + amount <= 0 for name, amount in gives.items()):
            for name, amount in gives.items():
                lacking[name] += amount
        else:
            needed.append(task)
    return needed
