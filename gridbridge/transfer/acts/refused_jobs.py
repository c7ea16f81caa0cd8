"""Sends a refused job home, with a mark that excludes transfer queues.

Starters import this module when a cluster has refused their job for good. An array's request is
common to its tasks (qalter(1): -l and -q work on jobs, not on tasks), so the whole array is marked.
"""

from collections.abc import Collection

from gridbridge.batch import load_home_job_control, load_refused_job_marker
from gridbridge.decisions.transfer.refused_job_stay_home_request import stay_home_request_changes
from gridbridge.errors import GridbridgeError
from gridbridge.model.transfer.guard import asks_for_home
from gridbridge.model.transfer_message import TransferMessage, TransferOutcome
from gridbridge.model.transfer_route import Home

NOBODY = "no local queue can run the job either"


def send_refused_job_home(home: Home, job: str, own_queues: Collection[str], reason: str) -> TransferMessage:
    """Mark a job to stay at home; return the transfer's end: requeue or error state.

    Raises GridbridgeError when the job can't be marked now.
    """
    own, marker = (load_home_job_control(home).query_job_request(home, job), load_refused_job_marker(home))
    if own.is_pinned:
        raise GridbridgeError(f"{reason}; the job goes home when no task waits for adoption")
    is_marked = asks_for_home(own.hard) and marker.REFUSED in dict(own.context)
    variants = ((mark.hard, mark.queues) for mark in stay_home_request_changes(own.hard, own.queues, own_queues))
    if is_marked or marker.keep_refused_job_home(home, job, own, variants, reason):
        return TransferMessage(outcome=TransferOutcome.REQUEUE, reason=reason)
    return TransferMessage(outcome=TransferOutcome.ERROR, reason=f"{reason}; {NOBODY}")
