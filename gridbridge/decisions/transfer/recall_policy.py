"""Choose which tasks that wait at remote clusters return home when slots are free at home.

Two successive job lists must show slots as free, because tasks that wait at home may take them first.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from gridbridge.decisions.transfer.transfers_in_job_lists import TransferSituation, find_home_task_of_transfer
from gridbridge.model.cluster_snapshot import ClusterJobListRow
from gridbridge.model.job_and_queue_states import JobStateFact
from gridbridge.model.published_status_and_reports import format_duration, number_with_noun
from gridbridge.model.transfer.claim_and_guard import JOB, does_claim_need_home_grant
from gridbridge.model.transfer.transfer_config_sections import TransferQueueSection
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState, StarterPhase

FRESH_JOB_LIST_AGE = timedelta(seconds=60)
START_DELAY_AFTER_RELEASE = timedelta(seconds=10)  # a released remote job may still start within this time

RecallCandidate: TypeAlias = tuple[Transfer, int, str, str]  # transfer, home slots, reason, text about the load


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecall:
    transfer: Transfer
    slots: int
    why: str


def plan_recalls_into_home_slots(
    transfers: Iterable[Transfer],
    situation: TransferSituation,
    queues: Mapping[str, TransferQueueSection],
    troubles: Mapping[str, str],
    free: int,
) -> Iterator[TaskRecall]:
    """Yield waiting tasks to bring into `free` home slots: one task of each owner in turn, the longest wait first.

    `troubles` names the clusters that get no more jobs, each with the reason.
    """
    for transfer, slots, why, state in _tasks_to_recall_in_turn(transfers, situation, queues, troubles):
        if slots <= free:
            are = "is" if free == 1 else "are"
            room = f"the task needs {number_with_noun(slots, 'slot')} and {free} {are} free here"
            sentence = f"recalled from {transfer.remote}: {why}, {room}{state}"
            yield TaskRecall(transfer=transfer, slots=slots, why=sentence)
            free -= slots


def _tasks_to_recall_in_turn(
    transfers: Iterable[Transfer],
    situation: TransferSituation,
    queues: Mapping[str, TransferQueueSection],
    troubles: Mapping[str, str],
) -> list[RecallCandidate]:
    """Return the tasks that may come home; each owner's first task comes before any owner's second task."""
    before: Counter[str] = Counter()
    ranked = []
    for transfer in sorted(transfers, key=lambda transfer: (transfer.since or transfer.created_at, transfer.name)):
        queue, trouble = queues.get(transfer.queue), troubles.get(transfer.remote, "")
        slots, why, state = _recall_slots_and_reason(transfer, situation, queue, trouble)
        if slots and why:
            ranked.append((before[transfer.owner], (transfer, slots, why, state)))
            before[transfer.owner] += 1
    return [candidate for _, candidate in sorted(ranked, key=lambda pair: pair[0])]


def _recall_slots_and_reason(
    transfer: Transfer, situation: TransferSituation, queue: TransferQueueSection | None, trouble: str
) -> tuple[int, str, str]:
    """Return slots, reason and load text of a task's recall; 0 slots or no reason mean no recall."""
    if why := _why_cluster_is_silent_too_long(transfer, situation, queue):
        home_row, state = situation.find_home_task_row(transfer), ""
        slots = home_row.slots if home_row else 0
    elif row := _waiting_remote_job_row(transfer, situation):
        remote = situation.snapshots[transfer.remote]
        state = f" ({remote.pending} waiting and {remote.free_slots} free there)"
        slots, why = row.slots, _why_task_waited_too_long(transfer, situation, queue, trouble)
    else:
        return 0, "", ""
    return slots, why, state


def _waiting_remote_job_row(transfer: Transfer, situation: TransferSituation) -> ClusterJobListRow | None:
    """Return a waiting remote job's row from a fresh job list, if the job's starter sleeps; else None."""
    row = situation.remote_job_row(transfer)
    if row is None or not transfer.since or not _does_starter_sleep(transfer, situation, (StarterPhase.RELEASED,)):
        return None
    is_fresh = situation.now - situation.snapshots[transfer.remote].taken_at < FRESH_JOB_LIST_AGE
    return row if is_fresh and row.state.most_important_fact == JobStateFact.WAITING else None


def is_waiting_task_recallable(transfer: Transfer, situation: TransferSituation) -> bool:
    """Say whether a fresh job list shows a task as waiting at its remote cluster."""
    is_settled = transfer.since is not None and situation.now - transfer.since >= START_DELAY_AFTER_RELEASE
    return is_settled and _waiting_remote_job_row(transfer, situation) is not None


def _why_task_waited_too_long(
    transfer: Transfer, situation: TransferSituation, queue: TransferQueueSection | None, trouble: str
) -> str:
    assert transfer.since
    waited = situation.now - transfer.since
    limit = timedelta(seconds=queue.recall_wait_s if queue else 0)
    if not limit or waited < START_DELAY_AFTER_RELEASE:
        return ""
    if trouble:
        return f"{trouble}, and the task waited there for {format_duration(waited)}"
    if waited < limit:
        return ""
    return f"the task waited there for {format_duration(waited)}; the limit is {format_duration(limit)}"


def does_claim_allow_recall(transfer: Transfer) -> bool:
    """Say whether home may claim a task: the remote job waits, and is not known to hold the claim."""
    is_waiting = transfer.remote_state.is_waiting or not transfer.remote_state.is_listed
    return bool(transfer.claim) and transfer.claimed != JOB and is_waiting


def _why_cluster_is_silent_too_long(
    transfer: Transfer, situation: TransferSituation, queue: TransferQueueSection | None
) -> str:
    if queue is None or not queue.recall_wait_s or not does_claim_allow_recall(transfer):
        return ""
    remote = situation.snapshots.get(transfer.remote)
    answers = (transfer.seen_at, transfer.created_at, remote.taken_at if remote else None)
    silent = situation.now - max(situation.since, *(moment for moment in answers if moment))
    limit = timedelta(seconds=queue.recall_unreachable_s)
    if silent < limit or not _does_starter_sleep(transfer, situation, (StarterPhase.HELD, StarterPhase.RELEASED)):
        return ""
    passed = format_duration(silent)
    return f"{transfer.remote} has not answered for {passed}; the limit is {format_duration(limit)}"


def _does_starter_sleep(transfer: Transfer, situation: TransferSituation, phases: tuple[str, ...]) -> bool:
    is_wanted = transfer.desired in ("", DesiredLocalJobState.RUNNING) and not (transfer.verdict or transfer.is_over)
    is_there = transfer.phase in phases and transfer.missed_polls == 0
    return is_wanted and is_there and transfer.wake in situation.asleep


def does_job_wait_for_claim_grant(transfer: Transfer, situation: TransferSituation) -> bool:
    """Say whether a remote job has started, and waits for home's permission to run the task."""
    if not does_claim_need_home_grant(transfer.claim) or transfer.claimed or transfer.verdict or transfer.is_over:
        return False
    row = situation.remote_job_row(transfer)
    if row is None or row.owner != transfer.owner:
        return False
    return row.state.is_running and transfer.desired != DesiredLocalJobState.DEAD


MOVE_DEADLINE = timedelta(seconds=120)  # a move that has not begun after this time is planned again
RETURN_LIMIT = timedelta(seconds=600)  # time in which a task must start after its return home


def why_task_move_is_impossible(transfer: Transfer, situation: TransferSituation) -> str:
    if transfer.is_over or transfer.verdict:
        return "the task has ended at the remote cluster"
    if transfer.desired not in ("", DesiredLocalJobState.RUNNING):
        return f"the intended state of the task is {transfer.desired}"
    row = situation.remote_job_row(transfer)
    if row is not None and row.state.has_begun:
        return "the task has started at the remote cluster"
    return ""


def describe_move_end_at_home(transfer: Transfer, situation: TransferSituation) -> str:
    """Describe the end of a move whose task started or ended at home; '' while the task waits."""
    local = situation.snapshots.get(situation.home)
    if local is None or transfer.closed_at is None or local.taken_at <= transfer.closed_at:
        return ""
    row = find_home_task_of_transfer(transfer, local)
    if row is None:
        return "the task has ended at home"
    if row.state.is_running and row.queue.partition("@")[0] not in situation.queues:
        return "the task runs at home"
    if situation.now - transfer.closed_at > RETURN_LIMIT:
        return f"not started at home within {RETURN_LIMIT.total_seconds():g} s: the task may be sent again"
    return ""
