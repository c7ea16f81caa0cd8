"""Finds ends that home did not hear: the qmaster put a task back whose starter had ended.

A starter may end while the qmaster does not hear its execd. With reschedule_unknown (sge_conf(5))
the task is then put back, still guarded, and no starter is left to release it; or it comes to a
transfer queue again, whose starter asks which transfer it is. It is the same job and no other with
its number if home has listed it ever since (transfer/poller/undelivered_ends).
"""

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass

from gridbridge.decisions.transfer.transfer_situation import find_home_row
from gridbridge.model.ids import parse_transfer
from gridbridge.model.message import (
    ERROR,
    REQUEUE,
    DesiredJobState,
    StarterMessage,
    TransferOutcome,
)
from gridbridge.model.snapshot import ClusterSnapshot, JobStatus
from gridbridge.model.transfer import guard
from gridbridge.model.transfer.guard import GuardKind, Pairs
from gridbridge.model.transfer.transfer_row import Transfer

UNDELIVERED_REASON = "put back at home: its end was not heard there"
RESTARTED_ANSWER = "yes"  # in the question of a task that was put back


def may_end_be_undelivered(ended: Transfer) -> bool:
    """Say whether its starter ended with the job's end and left the guard."""
    if ended.verdict is None or ended.desired == DesiredJobState.DEAD:
        return False
    is_exit = ended.verdict.outcome == TransferOutcome.EXIT
    wants_more = is_exit and int(ended.verdict.exit_status) in (REQUEUE, ERROR)
    return not wants_more and (is_exit or ended.verdict.outcome == TransferOutcome.SIGNAL)


def is_end_undelivered(ended: Transfer, local: ClusterSnapshot) -> bool:
    """Say whether the ended task waits again."""
    row = find_home_row(ended, local)
    return is_newer_than_end(ended, local) and row is not None and row.state.is_put_back


def undelivered_transfer_of_asker(
    attempts: Iterable[Transfer], message: StarterMessage
) -> Transfer | None:
    """Return the ended transfer whose end a task that was put back may have to take."""
    last = max(attempts, key=lambda transfer: parse_transfer(transfer.name).attempt, default=None)
    is_known = last is not None and last.is_over and may_end_be_undelivered(last)
    return last if is_known and message.restarted == RESTARTED_ANSWER else None


def is_ended_task_gone(ended: Transfer, local: ClusterSnapshot) -> bool:
    """Say whether home no longer lists the ended task: it has heard of the end."""
    return is_newer_than_end(ended, local) and find_home_row(ended, local) is None


def is_newer_than_end(ended: Transfer, local: ClusterSnapshot) -> bool:
    """Say whether an answer of home is younger than the end."""
    return ended.is_over and ended.is_older_than(local.taken_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeJobRequest:
    """What a job at home asks for now, as far as its guard depends on it."""

    owner: str
    is_deferred: bool  # we set its start time
    deferred_job: int = 0  # and it was this job's
    hard: Pairs
    queues: str  # its own, though it may be pinned


def transfers_without_hold(transfers: Iterable[Transfer], local: ClusterSnapshot) -> frozenset[str]:
    """Return the transfers, by name, whose running tasks should have a hold and have none."""
    guarded = (transfer for transfer in transfers if transfer.guard == GuardKind.HOLD)
    running = ((transfer.name, _running(transfer, local)) for transfer in guarded)
    return frozenset(name for name, row in running if row and not row.state.is_held)


def jobs_with_hidden_guard(
    transfers: Iterable[Transfer], local: ClusterSnapshot
) -> tuple[int, ...]:
    """Return the local jobs whose guard is not shown by any state letter."""
    hidden = (
        transfer
        for transfer in transfers
        if transfer.guard != GuardKind.HOLD and _running(transfer, local)
    )
    return tuple(sorted({parse_transfer(transfer.name).job for transfer in hidden}))


def guard_to_restore(
    transfer: Transfer, request: HomeJobRequest, transfer_queues: Collection[str]
) -> str:
    """Return the guard that has to be put back; empty for none."""
    if request.owner != transfer.owner or (
        transfer.guard == GuardKind.START and request.is_deferred
    ):
        return ""
    is_array = bool(parse_transfer(transfer.name).task)
    guard_wanted = guard.choose_guard(request.hard, request.queues, transfer_queues, is_array)
    if transfer.guard == GuardKind.START:
        return GuardKind.START
    return "" if guard_wanted == GuardKind.NONE else guard_wanted


def qresub_copies(
    waiting: Mapping[int, HomeJobRequest], jobs_away: Container[int]
) -> tuple[int, ...]:
    """Return the jobs that wait because qresub copied them with the guard of another job.

    A job that is away itself is no copy, whatever its owner writes into its context.
    """
    bearers = (job for job, request in waiting.items() if request.deferred_job not in (0, job))
    return tuple(job for job in bearers if job not in jobs_away)


def may_guard_be_late(closed: Transfer) -> bool:
    """Say whether a guard that we put back may have come after its starter let the task go."""
    return closed.reguarded and closed.is_over and not may_end_be_undelivered(closed)


def _running(transfer: Transfer, local: ClusterSnapshot) -> JobStatus | None:
    """Return the transfer's task while it runs at home for a job that shall stay away."""
    row = find_home_row(transfer, local)
    is_ending = transfer.verdict or transfer.pinned or transfer.desired == DesiredJobState.DEAD
    is_known = transfer.is_older_than(local.taken_at)
    return row if row and row.state.is_running and is_known and not is_ending else None
