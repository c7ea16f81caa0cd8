"""Which guards to put back because somebody has taken them away at home, by qrls or qalter.

A task that waits to be started again is left alone: nobody can tell who released it.
"""

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass

from gridbridge.decisions.transfer.situation import row_at_home
from gridbridge.decisions.transfer.undelivered_end_rules import may_be_unheard
from gridbridge.model.ids import parse_transfer
from gridbridge.model.message import DesiredJobState
from gridbridge.model.snapshot import ClusterSnapshot, JobStatus
from gridbridge.model.transfer import guard
from gridbridge.model.transfer.guard import Guard, Pairs
from gridbridge.model.transfer.transfer_row import Transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAtHome:
    """What a job at home asks for now, as far as its guard depends on it."""

    owner: str
    is_deferred: bool  # we set its start time
    deferred_job: int = 0  # and it was this job's
    hard: Pairs
    queues: str  # its own, though it may be pinned


def missing_holds(transfers: Iterable[Transfer], local: ClusterSnapshot) -> frozenset[str]:
    """Return the transfers, by name, whose running tasks should have a hold and have none."""
    guarded = (transfer for transfer in transfers if transfer.guard == Guard.HOLD)
    running = ((transfer.name, _running(transfer, local)) for transfer in guarded)
    return frozenset(name for name, row in running if row and not row.state.is_held)


def jobs_to_check(transfers: Iterable[Transfer], local: ClusterSnapshot) -> tuple[int, ...]:
    """Return the local jobs whose guard is not shown by any state letter."""
    hidden = (
        transfer
        for transfer in transfers
        if transfer.guard != Guard.HOLD and _running(transfer, local)
    )
    return tuple(sorted({parse_transfer(transfer.name).job for transfer in hidden}))


def missing_guard(
    transfer: Transfer, request: RequestAtHome, transfer_queues: Collection[str]
) -> str:
    """Return the guard that has to be put back; empty for none."""
    if request.owner != transfer.owner or (transfer.guard == Guard.START and request.is_deferred):
        return ""
    is_array = bool(parse_transfer(transfer.name).task)
    guard_wanted = guard.choose(request.hard, request.queues, transfer_queues, is_array)
    if transfer.guard == Guard.START:
        return Guard.START
    return "" if guard_wanted == Guard.NONE else guard_wanted


def copies_among(
    waiting: Mapping[int, RequestAtHome], jobs_away: Container[int]
) -> tuple[int, ...]:
    """Return the jobs that wait because qresub copied them with the guard of another job.

    A job that is away itself is no copy, whatever its owner writes into its context.
    """
    bearers = (job for job, request in waiting.items() if request.deferred_job not in (0, job))
    return tuple(job for job in bearers if job not in jobs_away)


def may_be_late(closed: Transfer) -> bool:
    """Say whether a guard that we put back may have come after its starter let the task go."""
    return closed.reguarded and closed.is_over and not may_be_unheard(closed)


def _running(transfer: Transfer, local: ClusterSnapshot) -> JobStatus | None:
    """Return the transfer's task while it runs at home for a job that shall stay away."""
    row = row_at_home(transfer, local)
    is_ending = transfer.verdict or transfer.pinned or transfer.desired == DesiredJobState.DEAD
    is_known = transfer.is_older_than(local.taken_at)
    return row if row and row.state.is_running and is_known and not is_ending else None
