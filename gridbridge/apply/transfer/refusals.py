"""Send a job home that can't be run where its queue leads: marked, so that it stays there.

Starters load this module when a cluster refused their job for good. The request is the array's
(qalter(1): -l and -q work on jobs, not on tasks), so the whole array is marked.
"""

from collections.abc import Collection

from gridbridge.batch.embedded import home as embedded
from gridbridge.batch.gridengine import home
from gridbridge.batch.gridengine.request import read_request
from gridbridge.batch.gridengine.submit import detail
from gridbridge.decisions.transfer.refusals import Mark, marks, stays
from gridbridge.errors import GridbridgeError
from gridbridge.model.message import Message, Outcome
from gridbridge.model.route import Cell, Folder, Home

NOBODY = "no queue here could run it either"


def refused(home: Home, job: str, own_queues: Collection[str], reason: str) -> Message:
    """Mark a job as one for home alone and say how its task ends: again there, or in error.

    Raises GridbridgeError when that can't be done just now.
    """
    if isinstance(home, Folder):
        return _stay(home, job, reason)
    return _refused_in_cell(home, job, own_queues, reason)


def _stay(folder: Folder, job: str, reason: str) -> Message:
    """Keep a job of an embedded cluster in its own slots, if it has enough of them."""
    if embedded.stay(folder, job, reason):
        return Message(outcome=Outcome.REQUEUE, reason=reason)
    return Message(outcome=Outcome.ERROR, reason=f"{reason}; {NOBODY}")


def _refused_in_cell(cell: Cell, job: str, own_queues: Collection[str], reason: str) -> Message:
    xml = detail(cell, job)
    request = read_request(xml)
    if request.is_pinned:
        raise GridbridgeError(f"{reason}; it goes home when no task of it waits for adoption")
    if stays(request.hard) and home.REFUSED in dict(request.context):
        return Message(outcome=Outcome.REQUEUE, reason=reason)
    for mark in marks(request.hard, request.queues, own_queues):
        if home.could_run(cell, home.Asked(xml, mark.hard, mark.queues)):
            _mark(cell, job, mark, reason)
            return Message(outcome=Outcome.REQUEUE, reason=reason)
    return Message(outcome=Outcome.ERROR, reason=f"{reason}; {NOBODY}")


def _mark(cell: Cell, job: str, mark: Mark, reason: str) -> None:
    home.mark(cell, job, hard=mark.hard, queues=mark.queues, reason=reason)
