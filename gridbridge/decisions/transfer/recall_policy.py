"""Which waiting tasks come home: those that wait long elsewhere while slots are free here.

All waiting tasks come home from a cluster that is drained or fails its jobs. Of a cluster that does
not answer only its last answer is known; the claim decides whether a job has started since. Only
slots that stayed free over two answers count: tasks that wait here could have taken them, and did
not.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from gridbridge.decisions.transfer.situation import TransferSituation
from gridbridge.model.ids import parse_transfer
from gridbridge.model.message import DesiredJobState, StarterPhase
from gridbridge.model.snapshot import JobStatus
from gridbridge.model.states import JobFact
from gridbridge.model.status_report import age, count
from gridbridge.model.transfer.claim import JOB, is_grant
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.model.transfer.transfer_sections import TransferQueue

FRESH = timedelta(seconds=60)  # an older answer does not show which tasks wait
SETTLED = timedelta(seconds=10)  # a job that was just released may start at once

Wanted: TypeAlias = tuple[Transfer, int, str, str]  # slots it needs, why it comes, state there


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """A task to bring home, and a sentence that says why."""

    transfer: Transfer
    slots: int
    why: str


def due(
    transfers: Iterable[Transfer],
    situation: TransferSituation,
    queues: Mapping[str, TransferQueue],
    troubles: Mapping[str, str],
    free: int,
) -> Iterator[Recall]:
    """Give the tasks to bring home, as far as slots go, from each owner in turn.

    An owner's longest waiting task comes first, and so does the owner of the longest waiting one.

    `troubles` tells why no more jobs go to a cluster; `free` are the slots free here.
    """
    for one, slots, why, there in _wanted(transfers, situation, queues, troubles):
        if slots <= free:
            told = f"recalled from {one.remote}: {why}, {_slots(slots, free)}{there}"
            yield Recall(transfer=one, slots=slots, why=told)
            free -= slots


def wanted(
    transfers: Iterable[Transfer],
    situation: TransferSituation,
    queues: Mapping[str, TransferQueue],
    troubles: Mapping[str, str],
) -> tuple[Transfer, ...]:
    """Return the tasks that would come home if all slots were free, in order.

    Which of them come home depends on no other task; for the first ones, on no later one.
    """
    return tuple(one for one, *_ in _wanted(transfers, situation, queues, troubles))


def _wanted(
    transfers: Iterable[Transfer],
    situation: TransferSituation,
    queues: Mapping[str, TransferQueue],
    troubles: Mapping[str, str],
) -> list[Wanted]:
    oldest = sorted(transfers, key=lambda one: (one.since or one.created_at, one.name))
    asked = (
        (one, *_asked(one, situation, queues.get(one.queue), troubles.get(one.remote, "")))
        for one in oldest
    )
    return _in_turn(each for each in asked if each[1] and each[2])


def _in_turn(wanted: Iterable[Wanted]) -> list[Wanted]:
    """Order these by how many of the same owner come before each."""
    before: Counter[str] = Counter()
    ranked = []
    for each in wanted:
        owner = each[0].owner
        ranked.append((before[owner], each))
        before[owner] += 1
    return [each for _, each in sorted(ranked, key=lambda pair: pair[0])]


def _asked(
    one: Transfer, situation: TransferSituation, queue: TransferQueue | None, trouble: str
) -> tuple[int, str, str]:
    """Return the slots that a task needs here, why it comes home, and its state there.

    Without slots or without a reason it does not come home.
    """
    if why := _why_silent(one, situation, queue):
        slots, there = _slots_at_home(one, situation), ""
    elif row := _waiting(one, situation):
        remote = situation.snapshots[one.remote]
        there = f" ({remote.pending} waiting and {remote.free_slots} free there)"
        slots, why = row.slots, _why(one, situation, queue, trouble)
    else:
        return 0, "", ""
    return slots, why, there


def _waiting(one: Transfer, situation: TransferSituation) -> JobStatus | None:
    """Return the row of a job that waits there while its starter sleeps; else None."""
    row = situation.row(one)
    if row is None or not one.since or not _sleeps(one, situation, (StarterPhase.RELEASED,)):
        return None
    is_fresh = situation.now - situation.snapshots[one.remote].taken_at < FRESH
    return row if is_fresh and is_waiting(row) else None


def still_waits(one: Transfer, situation: TransferSituation) -> bool:
    """Say whether a task waits there, by a fresh answer, and its starter could bring it home."""
    is_settled = one.since is not None and situation.now - one.since >= SETTLED
    return is_settled and _waiting(one, situation) is not None


def is_waiting(row: JobStatus) -> bool:
    """Say whether the job could start there and has not."""
    return row.state.word == JobFact.WAITING


def _why(
    one: Transfer, situation: TransferSituation, queue: TransferQueue | None, trouble: str
) -> str:
    assert one.since
    waited = situation.now - one.since
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


def may_be_had(one: Transfer) -> bool:
    """Say whether its claim lets the task come home: the job is not known to have it."""
    is_waiting = one.remote_state.is_waiting or not one.remote_state.is_listed
    return bool(one.claim) and one.claimed != JOB and is_waiting


def _slots_at_home(one: Transfer, situation: TransferSituation) -> int:
    """Return the slots that its task takes at home, 0 when home does not show it."""
    local = situation.snapshots.get(situation.home)
    name = parse_transfer(one.name)
    row = local.find(name.job, name.task) if local else None
    return row.slots if row and row.owner == one.owner else 0


def _why_silent(one: Transfer, situation: TransferSituation, queue: TransferQueue | None) -> str:
    """Say why a task comes home from a silent cluster; empty when it does not."""
    if queue is None or not queue.recall_wait_s or not may_be_had(one):
        return ""
    silent, limit = silence(one, situation), timedelta(seconds=queue.recall_unreachable_s)
    if silent < limit or not _sleeps(one, situation, (StarterPhase.HELD, StarterPhase.RELEASED)):
        return ""
    return f"{one.remote} has not answered for {age(silent)}, {age(limit)} is the limit"


def _sleeps(one: Transfer, situation: TransferSituation, phases: tuple[str, ...]) -> bool:
    """Say whether its starter sleeps and nobody has asked to suspend or delete the job."""
    is_wanted = one.desired in ("", DesiredJobState.RUNNING) and not (one.verdict or one.is_over)
    is_there = one.phase in phases and one.missed_polls == 0
    return is_wanted and is_there and one.wake in situation.asleep


def silence(one: Transfer, situation: TransferSituation) -> timedelta:
    """Return how long a transfer's cluster has not answered."""
    remote = situation.snapshots.get(one.remote)
    heard = (one.seen_at, one.created_at, remote.taken_at if remote else None)
    return situation.now - max(situation.since, *(moment for moment in heard if moment))


def waits_for_grant(one: Transfer, situation: TransferSituation) -> bool:
    """Say whether its job has started, so that nothing but a grant keeps it from running."""
    if not is_grant(one.claim) or one.claimed or one.verdict or one.is_over:
        return False
    row = situation.row(one)
    if row is None or row.owner != one.owner:
        return False
    return row.state.is_running and one.desired != DesiredJobState.DEAD
