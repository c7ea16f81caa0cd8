"""The numbers of a cell on which StarCluster's rules rest, counted right."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from fnmatch import fnmatchcase

from gridbridge.decisions.elastic.expressions import matches
from gridbridge.model.elastic.balance_plan import BalanceSituation, Figures, RefusalKind
from gridbridge.model.elastic.balance_sections import Balance
from gridbridge.model.elastic.cell import QueueInstance, TaskShape, WaitingJobs
from gridbridge.model.elastic.node import Node, NodeState, is_same_host, short_name
from gridbridge.model.request import QNAME, long_name


def figures(seen: BalanceSituation, queue: str) -> Figures:
    """Count a queue's slots that work, and the tasks that could start.

    Hosts that are silent or closed are no capacity, and their jobs don't take any from the others.
    The longest wait is that of the oldest job, which need not be the first of the list. A job waits
    since it could start: a hold is no wait.
    """
    own = [one for one in seen.cell.instances if one.queue == queue]
    usable = [one for one in own if one.is_usable]
    waiting = [one for one in able(seen.cell.waiting) if takes(queue, one.shape)]
    since = [one for row in waiting if (one := able_since(row, seen)) is not None]
    nodes = nodes_of(seen)
    return Figures(
        nodes=len(nodes),
        running=sum(not one.state.is_coming for one in nodes),
        coming=sum(one.state.is_coming for one in nodes),
        failed=sum(one.is_left_over for one in nodes),
        leaving=sum(one.state.is_leaving for one in nodes),
        jobs=sum(len(one.jobs) for one in waiting),
        wanted=sum(one.slots for one in waiting),
        free=sum(one.free for one in usable),
        slots=sum(one.total for one in usable),
        slots_per_node=_usual_slots(own, seen.master),
        waited_s=max(0.0, elapsed_s(min(since), seen.now)) if since else 0.0,
        unchanged_s=None if seen.last_change is None else elapsed_s(seen.last_change, seen.now),
    )


def able(waiting: Iterable[WaitingJobs]) -> list[WaitingJobs]:
    """Return what the scheduler may start: no hold, error, deletion or start time keeps it.

    What only takes what others leave is left out: best-effort tasks, and those of campaigns.
    """
    return [one for one in waiting if one.can_start and not one.fills_gaps]


def able_since(row: WaitingJobs, seen: BalanceSituation) -> datetime | None:
    """Return since when the first of some jobs could start: as seen, or since it was submitted."""
    since = {seen.eligible_since.get(job, row.oldest_since) for job in row.jobs}
    return min((one for one in since if one is not None), default=None)


def takes(queue: str, shape: TaskShape) -> bool:
    """Say whether a queue is one of those that a task asks for, by -q and by -l qname."""
    listed = (name.partition("@")[0] for name in shape.queues)
    if shape.queues and not any(fnmatchcase(queue, name) for name in listed):
        return False
    return all(matches(expression, (queue,)) for expression in queues_named(shape))


def queues_named(shape: TaskShape) -> tuple[str, ...]:
    """Return the expressions of -l qname: a queue has to match all of them."""
    return tuple(text for name, text in shape.requests if long_name(name) == QNAME)


def why_unable(one: WaitingJobs) -> RefusalKind | None:
    """Say what keeps jobs from being demand; None where nothing does, or nobody knows what."""
    state = one.state
    if one.is_inner and state.can_start:
        return RefusalKind.INNER
    if one.can_start and one.fills_gaps:
        return RefusalKind.CAMPAIGN if one.is_campaign else RefusalKind.BEST_EFFORT
    if state.can_start:
        return RefusalKind.FUTURE if one.is_deferred else None
    if state.is_deleting:
        return RefusalKind.DELETED
    if state.is_error:
        return RefusalKind.ERROR
    if one.is_dependent:
        return RefusalKind.DEPENDENT
    return RefusalKind.HELD if state.is_held else None


def is_stable(figures: Figures, rules: Balance) -> bool:
    """Say whether the last change is long enough ago."""
    return figures.unchanged_s is None or figures.unchanged_s >= rules.stabilization_s


def nodes_of(seen: BalanceSituation) -> tuple[Node, ...]:
    """Return a cluster's nodes by name: its own hosts too, which nobody powers on or off.

    A host that rests is none, though the cell lists it. A failed one is one for as long as its
    machine is there, unless another node has its name.
    """
    known = sorted((one for one in seen.nodes if one.counts), key=lambda one: one.is_left_over)
    asleep = {short_name(one.name) for one in seen.nodes if one.state is NodeState.STANDBY}
    listed = (one.name for one in seen.cell.hosts if short_name(one.name) not in asleep)
    hosts = [seen.master, *listed]
    found, by_short = dict[str, Node](), dict[str, list[str]]()
    for one in (*known, *(Node(name=host) for host in hosts if host)):
        alike = by_short.setdefault(short_name(one.name), [])
        if not any(is_same_host(one.name, name) for name in alike):
            found[one.name] = one
            alike.append(one.name)
    return tuple(found[name] for name in sorted(found))


def told_hosts(seen: BalanceSituation) -> frozenset[str]:
    """Return the hosts of which the cell tells what runs there.

    One on which no queue is listed is such a host only if the layout has it in none.
    """
    listed = frozenset(one.host for one in seen.cell.instances)
    others = {one.name for one in seen.cell.hosts} - listed
    if not others or not seen.layout.queues:
        return listed
    placed = seen.layout.placed
    return listed | {one for one in others if short_name(one) not in placed}


def elapsed_s(since: datetime, now: datetime) -> float:
    """Return the whole time between two moments, also when that is more than a day."""
    return (now - since).total_seconds()


def _usual_slots(own: Iterable[QueueInstance], master: str) -> int:
    """Return how many slots a new node will have: as most of the nodes, the larger count of two.

    A master has its own; 0 where nothing tells.
    """
    every = [one for one in own if one.total]
    counts = Counter(one.total for one in every if not is_same_host(one.host, master))
    counts = counts or Counter(one.total for one in every)
    return max(counts, key=lambda slots: (counts[slots], slots), default=0)
