"""Find lost guards at home, and job ends that the home qmaster did not receive.

An execd may be unreachable when a starter ends. With reschedule_unknown (sge_conf(5)) the qmaster
then reschedules the task, still guarded and without a starter to release the guard. The rescheduled
task is the same job if the home list has shown the job ever since
(transfer/poller/undelivered_task_ends).
"""

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass

from gridbridge.decisions.transfer.transfer_decision_inputs import find_home_task_of_transfer
from gridbridge.model.cluster_snapshot import ClusterSnapshot, JobListRow
from gridbridge.model.transfer import guard
from gridbridge.model.transfer.guard import HomeStartGuard, Pairs
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.model.transfer_message import ERROR, REQUEUE, DesiredLocalJobState, TransferMessage, TransferOutcome
from gridbridge.model.transfer_name import parse_transfer_name

UNDELIVERED_REASON = "rescheduled at home: the qmaster did not hear the job's end"
RESTARTED_ANSWER = "yes"  # value of key `restarted` in a rescheduled task's query


def may_home_have_missed_task_end(ended: Transfer) -> bool:
    """Say whether a starter reported the job's end and left the task's guard in place."""
    if ended.verdict is None or ended.desired == DesiredLocalJobState.DEAD:
        return False
    is_exit = ended.verdict.outcome == TransferOutcome.EXIT
    wants_more = is_exit and int(ended.verdict.exit_status) in (REQUEUE, ERROR)
    return not wants_more and (is_exit or ended.verdict.outcome == TransferOutcome.SIGNAL)


def does_ended_task_wait_at_home(ended: Transfer, local: ClusterSnapshot) -> bool:
    """Say whether the task of an ended transfer waits at home again."""
    row = find_home_task_of_transfer(ended, local)
    return is_home_answer_after_task_end(ended, local) and row is not None and row.state.is_put_back


def ended_transfer_of_requeued_job(attempts: Iterable[Transfer], message: TransferMessage) -> Transfer | None:
    """Return the ended transfer whose end a rescheduled task may have missed."""
    last = max(attempts, key=lambda transfer: parse_transfer_name(transfer.name).attempt, default=None)
    is_known = last is not None and last.is_over and may_home_have_missed_task_end(last)
    return last if is_known and message.restarted == RESTARTED_ANSWER else None


def is_ended_task_gone_from_home(ended: Transfer, local: ClusterSnapshot) -> bool:
    """Say whether home no longer lists an ended transfer's task, so home has the end."""
    return is_home_answer_after_task_end(ended, local) and find_home_task_of_transfer(ended, local) is None


def is_home_answer_after_task_end(ended: Transfer, local: ClusterSnapshot) -> bool:
    """Say whether a home snapshot was queried after a transfer's end."""
    return ended.is_over and ended.is_older_than(local.taken_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRelevantRequest:
    """The parts of a home job's current request that show its guard."""

    owner: str
    is_deferred: bool  # whether the service has set the job's start time
    deferred_job: int = 0  # number of the job whose start time the service set
    hard: Pairs
    queues: str  # the owner's queue list, even while the service restricts the job's queues


def transfers_lacking_home_hold(transfers: Iterable[Transfer], local: ClusterSnapshot) -> frozenset[str]:
    """Return the names of transfers whose running local tasks lack the guarding hold."""
    guarded = (transfer for transfer in transfers if transfer.guard == HomeStartGuard.HOLD)
    running = ((transfer.name, _running(transfer, local)) for transfer in guarded)
    return frozenset(name for name, row in running if row and not row.state.is_held)


def jobs_with_guard_besides_hold(transfers: Iterable[Transfer], local: ClusterSnapshot) -> tuple[int, ...]:
    """Return the local jobs whose guard is no hold and so is missing in qstat's states."""
    hidden = (transfer for transfer in transfers if transfer.guard != HomeStartGuard.HOLD and _running(transfer, local))
    return tuple(sorted({parse_transfer_name(transfer.name).job for transfer in hidden}))


def guard_to_restore(transfer: Transfer, request: GuardRelevantRequest, transfer_queues: Collection[str]) -> str:
    """Return the kind of guard that a local task lacks and needs again; '' for none."""
    if request.owner != transfer.owner or (transfer.guard == HomeStartGuard.START and request.is_deferred):
        return ""
    is_array = bool(parse_transfer_name(transfer.name).task)
    guard_wanted = guard.choose_home_start_guard(request.hard, request.queues, transfer_queues, is_array)
    if transfer.guard == HomeStartGuard.START:
        return HomeStartGuard.START
    return "" if guard_wanted == HomeStartGuard.NONE else guard_wanted


def qresub_jobs_with_copied_guard(
    waiting: Mapping[int, GuardRelevantRequest], jobs_away: Container[int]
) -> tuple[int, ...]:
    """Return the waiting jobs that qresub has copied together with another job's guard.

    A job with a transfer of its own is no copy, whatever its owner writes into its context.
    """
    bearers = (job for job, request in waiting.items() if request.deferred_job not in (0, job))
    return tuple(job for job in bearers if job not in jobs_away)


def may_restored_guard_be_stale(closed: Transfer) -> bool:
    """Say whether a closed transfer's guard may have been set after the task's release."""
    return closed.reguarded and closed.is_over and not may_home_have_missed_task_end(closed)


def _running(transfer: Transfer, local: ClusterSnapshot) -> JobListRow | None:
    """Return the home list row of a running task whose remote job is to go on; else None."""
    row = find_home_task_of_transfer(transfer, local)
    is_ending = transfer.verdict or transfer.pinned or transfer.desired == DesiredLocalJobState.DEAD
    is_known = transfer.is_older_than(local.taken_at)
    return row if row and row.state.is_running and is_known and not is_ending else None
