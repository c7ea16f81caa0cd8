"""Which waiting tasks come home: those that waited long elsewhere while slots are free here.

A cluster that is drained or fails its jobs keeps none that waits. Only slots that stayed free over
two answers count: tasks that wait here could have had them, and did not want them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from gridbridge.decisions.health import age, count
from gridbridge.decisions.transfer import World
from gridbridge.model.message import Desired, Phase
from gridbridge.model.policy import TransferQueue
from gridbridge.model.snapshot import ClusterSnapshot, JobStatus
from gridbridge.model.states import JobState
from gridbridge.model.transfer import Transfer

RECALLED = "recalled from"  # what the reason of such a return begins with
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
    """Give the tasks that are to come home, the longest waiting first, as far as slots go.

    `troubles` tells why no more jobs go to a cluster; `free` are the slots free here.
    """
    waiting = [one for one in transfers if one.since and _waits(one, world)]
    for one in sorted(waiting, key=lambda one: (one.since, one.name)):
        remote = world.snapshots[one.remote]
        row = remote.find(one.remote_id)
        why = _why(one, world, queues.get(one.queue), troubles.get(one.remote, ""))
        if why and row and row.slots <= free:
            told = f"{RECALLED} {one.remote}: {why}, {_slots(row, free, remote)}"
            yield Recall(transfer=one, slots=row.slots, why=told)
            free -= row.slots


def _waits(one: Transfer, world: World) -> bool:
    """Say whether its job waits there, its starter here, and nothing else is wanted of it."""
    is_wanted = one.desired in ("", Desired.RUNNING) and not (one.verdict or one.is_over)
    is_there = one.phase == Phase.RELEASED and one.missed_polls == 0
    remote = world.snapshots.get(one.remote)
    if not (is_wanted and is_there and remote and one.wake in world.asleep):
        return False
    row = remote.find(one.remote_id)
    is_fresh = world.now - remote.taken_at < FRESH
    return is_fresh and row is not None and is_waiting(row)


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


def _slots(row: JobStatus, free: int, remote: ClusterSnapshot) -> str:
    wanted = count(row.slots, "slot")
    there = f"{remote.pending} waiting and {remote.free_slots} free there"
    return f"it needs {wanted} and {free} {'is' if free == 1 else 'are'} free here ({there})"
