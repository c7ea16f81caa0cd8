"""Ends that nobody heard: the qmaster put a task back whose starter had ended.

A starter may end while the qmaster does not hear its execd. With reschedule_unknown
(sge_conf(5)) the task is then put back, still under our hold, and nobody is left to release it.
"""

from gridbridge.decisions.transfer import is_put_back, letters_at_home
from gridbridge.model.message import ERROR, REQUEUE, Desired, Outcome
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.model.transfer import Transfer


def may_be_unheard(ended: Transfer) -> bool:
    """Say whether its starter ended with an end of the job, keeping the hold."""
    if ended.verdict is None or ended.desired == Desired.DEAD:
        return False
    is_exit = ended.verdict.outcome == Outcome.EXIT
    wants_more = is_exit and int(ended.verdict.exit_status) in (REQUEUE, ERROR)
    return not wants_more and (is_exit or ended.verdict.outcome == Outcome.SIGNAL)


def is_unheard(ended: Transfer, local: ClusterSnapshot) -> bool:
    """Say whether the ended task waits again, held."""
    letters = letters_at_home(ended, local)
    return _is_news(ended, local) and is_put_back(letters) and "h" in letters


def is_heard(ended: Transfer, local: ClusterSnapshot) -> bool:
    """Say whether home lists the task no more."""
    return _is_news(ended, local) and not letters_at_home(ended, local)


def _is_news(ended: Transfer, local: ClusterSnapshot) -> bool:
    return ended.is_over and local.taken_at > ended.updated_at
