"""Finds arrays by the mark of their submission, which no operator can take from them.

An operator of a cell can alter a job's name, account, context, arguments and variables (qalter(1)),
so none of these shows which array of a campaign a job is. The variables SGE_O_*, in which qsub
notes its own environment (qsub(1)), stay: `qalter -v` and `-V` add such variables, and remove none
(tried on 8.1.9). SGE_O_MAIL holds the name under which an array was submitted.
"""

from gridbridge.batch.gridengine.submit import details
from gridbridge.batch.gridengine.submitted_request import (
    arrays_listed,
    kept_of,
    owner_and_account_of,
)
from gridbridge.model.route import GridEngineCell

KEPT = b"__SGE_PREFIX__O_MAIL"  # as `qstat -j -xml` calls it


def marked(cell: GridEngineCell, listed: bytes, name: str, owner: str) -> list[int]:
    """Return the ids of a person's arrays, of the jobs listed, that were submitted under a name."""
    shown = details(cell, arrays_listed(listed))
    return [number for number, job in shown if _is_marked(job, name, owner)]


def _is_marked(job: bytes, name: str, owner: str) -> bool:
    return owner_and_account_of(job)[0] == owner and name.encode() in kept_of(job, KEPT)
