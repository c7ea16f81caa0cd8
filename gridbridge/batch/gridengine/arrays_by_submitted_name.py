"""Finds arrays by a mark of their submission that no operator can remove.

A cell's operators can change a job's name, account, context, arguments and variables (qalter(1)),
so none of these identifies a campaign's array. The variables SGE_O_*, in which qsub records its
environment (qsub(1)), stay: `qalter -v` and `-V` add such variables but remove none (measured:
8.1.9). SGE_O_MAIL holds the name under which an array was submitted.
"""

from gridbridge.batch.gridengine.submit import query_job_details_xml
from gridbridge.batch.gridengine.submitted_request import (
    parse_array_ids,
    parse_owner_and_account,
    recorded_submit_variable,
)
from gridbridge.model.transfer_route import GridEngineCellAccess

KEPT = b"__SGE_PREFIX__O_MAIL"  # name of $MAIL in `qstat -j -xml`


def find_arrays_by_submitted_name(cell: GridEngineCellAccess, listed: bytes, name: str, owner: str) -> list[int]:
    """Return the ids of a user's listed arrays that were submitted under a name."""
    shown = query_job_details_xml(cell, parse_array_ids(listed))
    return [number for number, job in shown if _is_marked(job, name, owner)]


def _is_marked(job: bytes, name: str, owner: str) -> bool:
    return parse_owner_and_account(job)[0] == owner and name.encode() in recorded_submit_variable(job, KEPT)
