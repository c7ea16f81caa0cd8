"""Which waiting tasks come home: those that waited long elsewhere while slots are free here.

A cluster that is drained or fails its jobs keeps none that waits; of one that does not answer
see unreachable. Only slots that stayed free over two answers count: tasks that wait here could
have had them, and did not want them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from gridbridge.decisions import unreachable
from gridbridge.decisions.health import age, count
from gridbridge.decisions.transfer import World
from gridbridge.model.message import Phase
from gridbridge.model.policy import TransferQueue
from gridbridge.model.snapshot import JobStatus
from gridbridge.model.states import JobState
from gridbridge.model.transfer import Transfer

FRESH = timedelta(seconds=60)  # an older answer says nothing of who waits
SETTLED = timedelta(seconds=10)  # a job that was just released may start at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """A task to bring home, and the sentence why."""

    transfer: Transfer
    slots: int
    why: str


def due(
    transfers: Iterable[Transfer],
    world: World,
    queues: Mapping[str, TransferQueue],
    troubles: Mapping[str, str],
    free: int,
) -> Iterator[Recall]:
    """Give the tasks that are to come home, as far as slots go, those of each owner in turn.

    Of one owner the longest waiting comes first, and so does the owner whose task that is.

    `troubles` tells why no more jobs go to a cluster; `free` are the slots free here.
    """

    def asked(one: Transfer) -> tuple[int, str]:
        return _asked(one, world, queues.get(one.queue), troubles.get(one.remote, ""), free)

    oldest = sorted(transfers, key=lambda one: (one.since or one.created_at, one.name))
    for one in _in_turn(one for one in oldest if asked(one)[1]):
        slots, why = asked(one)
        if slots <= free:
            yield Recall(transfer=one, slots=slots, why=f"recalled from {one.remote}: {why}")
            free -= slots


def _in_turn(transfers: Iterable[Transfer]) -> list[Transfer]:
    """Order transfers by how many of their owners' come before them."""
    before: Counter[str] = Counter()
    ranked = []
    for one in transfers:
        ranked.append((before[one.owner], one))
        before[one.owner] += 1
    return [one for _, one in sorted(ranked, key=lambda pair: pair[0])]


def _asked(
    one: Transfer, world: World, queue: TransferQueue | None, trouble: str, free: int
) -> tuple[int, str]:
    """Return the slots that a task needs here, and why it comes home; empty when it does not."""
    if why := unreachable.why(one, world, queue):
        slots, there = unreachable.slots(one, world), ""
    elif row := _waiting(one, world):
        remote = world.snapshots[one.remote]
        there = f" ({remote.pending} waiting and {remote.free_slots} free there)"
        slots, why = row.slots, _why(one, world, queue, trouble)
    else:
        return 0, ""
    return slots, f"{why}, {_slots(slots, free)}{there}" if why and slots else ""


def _waiting(one: Transfer, world: World) -> JobStatus | None:
    """Return what is listed of a job that waits there while its starter sleeps; else None."""
    row = world.row(one)
    if row is None or not one.since or not unreachable.sleeps(one, world, (Phase.RELEASED,)):
        return None
    is_fresh = world.now - world.snapshots[one.remote].taken_at < FRESH
    return row if is_fresh and is_waiting(row) else None


def is_waiting(row: JobStatus) -> bool:
    """Say whether it could start there and has not."""
    return row.state.word is JobState.WAITING


def _why(one: Transfer, world: World, queue: TransferQueue | None, trouble: str) -> str:
    assert one.since
    waited = world.now - one.since
    if queue is None or not queue.recall_wait_s or waited < SETTLED:
        return ""
    if trouble:
        return f"{trouble}, and it waited there for {age(waited)}"
    limit = timedelta(seconds=queue.recall_wait_s)
    if waited < limit:
        return ""
    return f"it waited there for {age(waited)}, {age(limit)} is the limit"


def _slots(wanted: int, free: int) -> str:
    return f"it needs {count(wanted, 'slot')} and {free} {'is' if free == 1 else 'are'} free here"
