"""Finds a campaign's arrays by their submission name, even if operators have renamed the arrays.

qsub stores its environment variables in a job as SGE_O_* (qsub(1)), and SGE_O_MAIL holds the submission name. Operators
can change a job's name, account, context and arguments, but qalter removes no variable SGE_O_* (measured: 8.1.9).
"""

from gridbridge.batch.gridengine.submit import query_job_details_xml
from gridbridge.batch.gridengine.submitted_request import (
    parse_array_ids,
    parse_owner_and_account,
    recorded_submit_variable,
)
from gridbridge.model.transfer_route import GridEngineCellAccess

KEPT = b"__SGE_PREFIX__O_MAIL"  # name of variable SGE_O_MAIL in `qstat -j -xml`


def find_arrays_by_submitted_name(cell: GridEngineCellAccess, listed: bytes, name: str, owner: str) -> list[int]:
    """Return the ids of those arrays in a job list that a user submitted under a name."""
    shown = query_job_details_xml(cell, parse_array_ids(listed))
    return [number for number, job in shown if _is_marked(job, name, owner)]


def _is_marked(job: bytes, name: str, owner: str) -> bool:
    return parse_owner_and_account(job)[0] == owner and name.encode() in recorded_submit_variable(job, KEPT)
