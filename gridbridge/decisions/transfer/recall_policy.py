"""Choose waiting remote tasks that return home because slots are free at home.

A cluster that is drained or fails its jobs returns all its waiting tasks. For a silent cluster only
the last snapshot is known; the claim decides whether a job has started since. Free slots count only
after two snapshots, because waiting home tasks could have taken these slots.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from gridbridge.decisions.transfer.transfers_in_job_lists import (
    TransferDecisionInputs,
    find_home_task_of_transfer,
)
from gridbridge.model.cluster_snapshot import JobListRow
from gridbridge.model.published_status_and_reports import format_duration, number_with_noun
from gridbridge.model.states import JobStateFact
from gridbridge.model.transfer.claim_and_guard import JOB, does_claim_need_home_grant
from gridbridge.model.transfer.transfer_config_sections import TransferQueueSection
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.model.transfer_message import DesiredLocalJobState, StarterPhase
from gridbridge.model.transfer_name import parse_transfer_name

FRESH = timedelta(seconds=60)  # largest age of a snapshot that shows which tasks are waiting
SETTLING = timedelta(seconds=10)  # time in which a released job may still start at once

RecallCandidate: TypeAlias = tuple[Transfer, int, str, str]  # with slots, reason and remote load


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecall:
    """A waiting remote task to bring home, with the reason."""

    transfer: Transfer
    slots: int
    why: str


def plan_recalls_into_home_slots(
    transfers: Iterable[Transfer],
    situation: TransferDecisionInputs,
    queues: Mapping[str, TransferQueueSection],
    troubles: Mapping[str, str],
    free: int,
) -> Iterator[TaskRecall]:
    """Yield tasks to bring home into `free` home slots, one of each owner in turn.

    The owner of the longest waiting task comes first, as does an owner's longest waiting task. For
    each cluster that gets no more jobs, `troubles` has the reason.
    """
    for transfer, slots, why, state in _recallable(transfers, situation, queues, troubles):
        if slots <= free:
            sentence = f"recalled from {transfer.remote}: {why}, {_slots(slots, free)}{state}"
            yield TaskRecall(transfer=transfer, slots=slots, why=sentence)
            free -= slots


def recalls_if_all_slots_were_free(
    transfers: Iterable[Transfer],
    situation: TransferDecisionInputs,
    queues: Mapping[str, TransferQueueSection],
    troubles: Mapping[str, str],
) -> tuple[Transfer, ...]:
    """Return the tasks to bring home if all home slots were free, first task first.

    No task's place in this order depends on later tasks.
    """
    return tuple(transfer for transfer, *_ in _recallable(transfers, situation, queues, troubles))


def _recallable(
    transfers: Iterable[Transfer],
    situation: TransferDecisionInputs,
    queues: Mapping[str, TransferQueueSection],
    troubles: Mapping[str, str],
) -> list[RecallCandidate]:
    oldest = sorted(transfers, key=lambda transfer: (transfer.since or transfer.created_at, transfer.name))
    judged = (
        (transfer, *_recall_need(transfer, situation, queues.get(transfer.queue), troubles.get(transfer.remote, "")))
        for transfer in oldest
    )
    return _in_turn(candidate for candidate in judged if candidate[1] and candidate[2])


def _in_turn(candidates: Iterable[RecallCandidate]) -> list[RecallCandidate]:
    """Order recall candidates by the number of earlier candidates of the same owner."""
    before: Counter[str] = Counter()
    ranked = []
    for candidate in candidates:
        owner = candidate[0].owner
        ranked.append((before[owner], candidate))
        before[owner] += 1
    return [candidate for _, candidate in sorted(ranked, key=lambda pair: pair[0])]


def _recall_need(
    transfer: Transfer, situation: TransferDecisionInputs, queue: TransferQueueSection | None, trouble: str
) -> tuple[int, str, str]:
    """Return a task's home slots, the reason for its recall, and the remote load.

    A task without slots or without a reason is not recalled.
    """
    if why := _why_silent(transfer, situation, queue):
        slots, state = _slots_at_home(transfer, situation), ""
    elif row := _waiting(transfer, situation):
        remote = situation.snapshots[transfer.remote]
        state = f" ({remote.pending} waiting and {remote.free_slots} free there)"
        slots, why = row.slots, _why(transfer, situation, queue, trouble)
    else:
        return 0, "", ""
    return slots, why, state


def _waiting(transfer: Transfer, situation: TransferDecisionInputs) -> JobListRow | None:
    """Return the list row of a waiting remote job whose starter sleeps; else None."""
    row = situation.row(transfer)
    if row is None or not transfer.since or not _sleeps(transfer, situation, (StarterPhase.RELEASED,)):
        return None
    is_fresh = situation.now - situation.snapshots[transfer.remote].taken_at < FRESH
    return row if is_fresh and is_remote_job_ready_to_start(row) else None


def is_waiting_task_recallable(transfer: Transfer, situation: TransferDecisionInputs) -> bool:
    """Say whether a task waits remotely in a fresh snapshot and may return home."""
    is_settled = transfer.since is not None and situation.now - transfer.since >= SETTLING
    return is_settled and _waiting(transfer, situation) is not None


def is_remote_job_ready_to_start(row: JobListRow) -> bool:
    """Say whether the remote job is eligible to start and still waits."""
    return row.state.word == JobStateFact.WAITING


def _why(
    transfer: Transfer, situation: TransferDecisionInputs, queue: TransferQueueSection | None, trouble: str
) -> str:
    assert transfer.since
    waited = situation.now - transfer.since
    if queue is None or not queue.recall_wait_s or waited < SETTLING:
        return ""
    if trouble:
        return f"{trouble}, and it waited there for {format_duration(waited)}"
    limit = timedelta(seconds=queue.recall_wait_s)
    if waited < limit:
        return ""
    return f"it waited there for {format_duration(waited)}, {format_duration(limit)} is the limit"


def _slots(needed: int, free: int) -> str:
    return f"it needs {number_with_noun(needed, 'slot')} and {free} {'is' if free == 1 else 'are'} free here"


def does_claim_allow_recall(transfer: Transfer) -> bool:
    """Say whether home may take a claim that the remote job is not known to hold."""
    is_waiting = transfer.remote_state.is_waiting or not transfer.remote_state.is_listed
    return bool(transfer.claim) and transfer.claimed != JOB and is_waiting


def _slots_at_home(transfer: Transfer, situation: TransferDecisionInputs) -> int:
    """Return the number of a task's slots at home; 0 if home does not list the task."""
    local = situation.snapshots.get(situation.home)
    name = parse_transfer_name(transfer.name)
    row = local.find(name.job, name.task) if local else None
    return row.slots if row and row.owner == transfer.owner else 0


def _why_silent(transfer: Transfer, situation: TransferDecisionInputs, queue: TransferQueueSection | None) -> str:
    """Return the reason to recall a task from a silent cluster; '' for no recall."""
    if queue is None or not queue.recall_wait_s or not does_claim_allow_recall(transfer):
        return ""
    silent, limit = (time_since_cluster_answered(transfer, situation), timedelta(seconds=queue.recall_unreachable_s))
    if silent < limit or not _sleeps(transfer, situation, (StarterPhase.HELD, StarterPhase.RELEASED)):
        return ""
    passed = format_duration(silent)
    return f"{transfer.remote} has not answered for {passed}, {format_duration(limit)} is the limit"


def _sleeps(transfer: Transfer, situation: TransferDecisionInputs, phases: tuple[str, ...]) -> bool:
    """Say whether a starter sleeps and its job is to be neither suspended nor deleted."""
    is_wanted = transfer.desired in ("", DesiredLocalJobState.RUNNING) and not (transfer.verdict or transfer.is_over)
    is_there = transfer.phase in phases and transfer.missed_polls == 0
    return is_wanted and is_there and transfer.wake in situation.asleep


def time_since_cluster_answered(transfer: Transfer, situation: TransferDecisionInputs) -> timedelta:
    """Return the time since the last answer of a transfer's remote cluster."""
    remote = situation.snapshots.get(transfer.remote)
    heard = (transfer.seen_at, transfer.created_at, remote.taken_at if remote else None)
    return situation.now - max(situation.since, *(moment for moment in heard if moment))


def does_job_wait_for_claim_grant(transfer: Transfer, situation: TransferDecisionInputs) -> bool:
    """Say whether a started remote job waits only for its claim grant."""
    if not does_claim_need_home_grant(transfer.claim) or transfer.claimed or transfer.verdict or transfer.is_over:
        return False
    row = situation.row(transfer)
    if row is None or row.owner != transfer.owner:
        return False
    return row.state.is_running and transfer.desired != DesiredLocalJobState.DEAD


MOVE_DEADLINE = timedelta(seconds=120)  # a move that has not begun after this time is planned again
RETURN_LIMIT = timedelta(seconds=600)  # time in which a returned task must start at home


def why_task_move_is_impossible(transfer: Transfer, situation: TransferDecisionInputs) -> str:
    """Return the reason why a task can no longer be moved; '' for a movable task."""
    if transfer.is_over or transfer.verdict:
        return "it has ended there"
    if transfer.desired not in ("", DesiredLocalJobState.RUNNING):
        return f"it is to be {transfer.desired}"
    row = situation.row(transfer)
    if row is not None and row.state.has_begun:
        return "it has started there"
    return ""


def is_task_listed_at_home(transfer: Transfer, situation: TransferDecisionInputs) -> bool:
    """Say whether the home cluster lists a transfer's task."""
    return situation.at_home(transfer) is not None


def describe_move_end_at_home(transfer: Transfer, situation: TransferDecisionInputs) -> str:
    """Describe how the move of a returned task ended at home; '' for a waiting task."""
    local = situation.snapshots.get(situation.home)
    if local is None or transfer.closed_at is None or local.taken_at <= transfer.closed_at:
        return ""
    row = find_home_task_of_transfer(transfer, local)
    if row is None:
        return "it has ended here"
    if row.state.is_running and row.queue.partition("@")[0] not in situation.queues:
        return "it runs here"
    if situation.now - transfer.closed_at > RETURN_LIMIT:
        return f"no start within {RETURN_LIMIT.total_seconds():g} s: the task may go back"
    return ""
