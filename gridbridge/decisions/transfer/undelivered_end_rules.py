"""Finds ends that home did not hear: the qmaster put a task back whose starter had ended.

A starter may end while the qmaster does not hear its execd. With reschedule_unknown (sge_conf(5))
the task is then put back, still guarded, and no starter is left to release it; or it comes to a
transfer queue again, whose starter asks which transfer it is. It is the same job and no other with
its number if home has listed it ever since (transfer/poller/undelivered_ends).
"""

from collections.abc import Iterable

from gridbridge.decisions.transfer.situation import row_at_home
from gridbridge.model.ids import parse_transfer
from gridbridge.model.message import (
    ERROR,
    REQUEUE,
    DesiredJobState,
    StarterMessage,
    TransferOutcome,
)
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.model.transfer.transfer_row import Transfer

UNHEARD = "put back at home: its end was not heard there"
RESTARTED = "yes"  # in the question of a task that was put back


def may_be_unheard(ended: Transfer) -> bool:
    """Say whether its starter ended with the job's end and left the guard."""
    if ended.verdict is None or ended.desired == DesiredJobState.DEAD:
        return False
    is_exit = ended.verdict.outcome == TransferOutcome.EXIT
    wants_more = is_exit and int(ended.verdict.exit_status) in (REQUEUE, ERROR)
    return not wants_more and (is_exit or ended.verdict.outcome == TransferOutcome.SIGNAL)


def is_unheard(ended: Transfer, local: ClusterSnapshot) -> bool:
    """Say whether the ended task waits again."""
    row = row_at_home(ended, local)
    return is_news(ended, local) and row is not None and row.state.is_put_back


def of_asker(attempts: Iterable[Transfer], message: StarterMessage) -> Transfer | None:
    """Return the ended transfer whose end a task that was put back may have to take."""
    last = max(attempts, key=lambda transfer: parse_transfer(transfer.name).attempt, default=None)
    is_known = last is not None and last.is_over and may_be_unheard(last)
    return last if is_known and message.restarted == RESTARTED else None


def is_gone(ended: Transfer, local: ClusterSnapshot) -> bool:
    """Say whether home no longer lists the ended task: it has heard of the end."""
    return is_news(ended, local) and row_at_home(ended, local) is None


def is_news(ended: Transfer, local: ClusterSnapshot) -> bool:
    """Say whether an answer of home is younger than the end."""
    return ended.is_over and ended.is_older_than(local.taken_at)
