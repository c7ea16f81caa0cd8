"""Which waiting tasks are demand: those that start as soon as there is room for them."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from gridbridge.decisions.elastic.demand.free_capacity import is_left_out
from gridbridge.decisions.elastic.demand.requirements import (
    Requirement,
    barred,
    need_of,
    number,
    undivided,
)
from gridbridge.decisions.elastic.starcluster_counts import (
    able_since,
    elapsed_s,
    queues_named,
    takes,
    why_unable,
)
from gridbridge.model.elastic.balance_plan import BalanceSituation, RefusalKind, UnservedDemand
from gridbridge.model.elastic.cell import TaskShape, WaitingJobs


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingShape:
    """Tasks of one shape that could start."""

    need: Requirement  # the least of what they may have
    jobs: tuple[int, ...]
    tasks: int
    waited_s: float  # since the first of them could start
    kinds: tuple[tuple[str, str, int], ...] = ()
    others: tuple[Requirement, ...] = ()  # what they may have instead

    @property
    def needs(self) -> tuple[Requirement, ...]:
        """All that each task may have, the least first: any of them lets it start."""
        return (self.need, *self.others)

    @property
    def first(self) -> int:
        """The lowest of the job numbers."""
        return min(self.jobs)

    @property
    def slots(self) -> int:
        """How many slots they need together."""
        return self.tasks * self.need.all_slots


class CellLimits:
    """What the whole cell has of licences and of slots in parallel environments, so far."""

    def __init__(self, seen: BalanceSituation) -> None:
        on_hosts = {name for host in seen.cell.hosts for name, _ in host.left}
        self._licences = {
            name: number(text) for name, text in seen.cell.left if name not in on_hosts
        }
        used = dict(seen.cell.granted)
        self._slots = {
            name: max(0, one.slots - used.get(name, 0))
            for name, one in seen.layout.environments.items()
            if one.slots
        }

    def take(self, need: Requirement, tasks: int) -> tuple[int, UnservedDemand | None]:
        """Return how many of the tasks they are enough for, and what keeps the others waiting.

        Only those take of them. A job that does not ask for a licence takes what is usual of it.
        """
        asked = dict(need.usual) | dict(need.amounts)
        licences = {
            name: each * need.pieces
            for name, each in asked.items()
            if name in self._licences and each > 0
        }
        fit, told = tasks, None
        for name, amount in licences.items():
            has = self._licences[name]
            if (some := int(has / amount + 1e-9)) < fit:
                fit, told = some, _short(RefusalKind.LICENCE, name, f"{amount:g}", f"{has:g}")
        fit, full = self._environment(need, fit)
        for name, amount in licences.items():
            self._licences[name] -= fit * amount
        return fit, full or told

    def _environment(self, need: Requirement, tasks: int) -> tuple[int, UnservedDemand | None]:
        """Fill environments, those with the most slots first; each task is in one of them."""
        if not need.environments or any(name not in self._slots for name in need.environments):
            return tasks, None
        each, left = need.slots * need.pieces, tasks
        known = sorted(need.environments, key=lambda name: (-self._slots[name], name))
        full = _short(RefusalKind.ENVIRONMENT_FULL, known[0], str(each), str(self._slots[known[0]]))
        for name in known:
            some = min(left, self._slots[name] // each)
            self._slots[name] -= some * each
            left -= some
        return tasks - left, full if left else None


def _short(cause: RefusalKind, name: str, wanted: str, has: str) -> UnservedDemand:
    return UnservedDemand(cause=cause, name=name, wanted=wanted, has=has)


def claims(
    seen: BalanceSituation, widest: int, stuck: Collection[int] = ()
) -> tuple[tuple[PendingShape, ...], tuple[UnservedDemand, ...]]:
    """Return the tasks that are demand, and why each other waiting job is none.

    Rows that are known to be stuck, told by their lowest job numbers, are in neither.
    """
    found, refused, limits = list[PendingShape](), list[UnservedDemand](), CellLimits(seen)
    for row in seen.cell.waiting:
        cause = _cause(row, seen)
        if cause is not None:
            refused.extend(UnservedDemand(job=job, cause=cause) for job in row.jobs)
        elif row.state.is_waiting and row.first not in stuck:
            claim, why = _claim(row, seen, widest, limits)
            refused.extend(told_of(why, row.jobs))
            if claim.tasks:
                found.append(claim)
    return tuple(found), tuple(refused)


def told_of(refusal: UnservedDemand | None, jobs: Iterable[int]) -> Iterator[UnservedDemand]:
    """Give a copy of a refusal for each job; nothing without a refusal."""
    if refusal is not None:
        yield from (replace(refusal, job=job) for job in jobs)


def _claim(
    row: WaitingJobs, seen: BalanceSituation, widest: int, limits: CellLimits
) -> tuple[PendingShape, UnservedDemand | None]:
    need = need_of(row.shape, seen.layout, widest)
    tasks, told = _startable(row, need, seen, limits)
    claim = PendingShape(
        need=need,
        jobs=row.jobs,
        tasks=tasks,
        waited_s=_waited_s(row, seen),
        kinds=row.kinds,
        others=tuple(need_of(shape, seen.layout, widest) for shape in row.shape.others),
    )
    return claim, told


def _startable(
    row: WaitingJobs, need: Requirement, seen: BalanceSituation, limits: CellLimits
) -> tuple[int, UnservedDemand | None]:
    """Return how many of a row's tasks could start, and what keeps the others waiting."""
    if rule := undivided(row.shape, seen.layout):
        slots, each = str(row.shape.slots), str(rule.per_host)
        return 0, _short(RefusalKind.UNDIVIDED, rule.name, slots, each)
    name, who = barred(row.shape, seen.layout)
    if name:
        return 0, UnservedDemand(cause=RefusalKind.BARRED, name=name, wanted=who)
    tasks, told = limits.take(need, row.tasks - row.capped)
    if told is None and row.capped and not tasks:
        return 0, UnservedDemand(cause=RefusalKind.CAPPED)
    return tasks, told


def _cause(row: WaitingJobs, seen: BalanceSituation) -> RefusalKind | None:
    """Say what keeps jobs from being demand."""
    if (cause := why_unable(row)) is not None:
        return cause
    asks_queues = row.shape.queues or queues_named(row.shape)
    return RefusalKind.BEST_EFFORT if asks_queues and _all_left_out(row.shape, seen) else None


def _all_left_out(shape: TaskShape, seen: BalanceSituation) -> bool:
    known = set(seen.layout.queues) | {one.queue for one in seen.cell.instances}
    fit = [queue for queue in known if takes(queue, shape)]
    return bool(fit) and all(is_left_out(queue, seen) for queue in fit)


def _waited_s(row: WaitingJobs, seen: BalanceSituation) -> float:
    """Return for how long the first of them could start: as seen, or since it was submitted."""
    since = able_since(row, seen)
    return max(0.0, elapsed_s(since, seen.now)) if since else 0.0
