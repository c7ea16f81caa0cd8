"""Finds arrays by the mark of their submission, which no operator can take from them.

An operator of a cell can alter a job's name, account, context, arguments and variables (qalter(1)),
so none of these shows which array of a campaign a job is. The variables SGE_O_*, in which qsub
notes its own environment (qsub(1)), stay: `qalter -v` and `-V` add such variables, and remove none
(tried on 8.1.9). SGE_O_MAIL holds the name under which an array was submitted.
"""

from gridbridge.batch.gridengine import commands
from gridbridge.batch.gridengine.request import arrays_listed, kept_of, owner_and_account_of
from gridbridge.batch.gridengine.submit import call, detail
from gridbridge.errors import ParseError
from gridbridge.model.route import Cell

KEPT = b"__SGE_PREFIX__O_MAIL"  # as `qstat -j -xml` calls it
A_CALL = 1000  # jobs
JOB_NUMBER, UNKNOWN_JOB, END = b"<JB_job_number>", b"<unknown_jobs", b"</detailed_job_info>"


def marked(cell: Cell, name: str, owner: str) -> list[int]:
    """Return the ids of the caller's living arrays that were submitted under a name."""
    listed = arrays_listed(call(cell, commands.own_status(cell)).checked().stdout)
    found: list[int] = []
    for begin in range(0, len(listed), A_CALL):
        xml = detail(cell, ",".join(listed[begin : begin + A_CALL]))
        if not xml.rstrip().endswith(END) and UNKNOWN_JOB not in xml:
            raise ParseError("qstat -j: not a whole answer")
        found += [number for number, job in _jobs(xml) if _is_marked(job, name, owner)]
    return found


def _jobs(xml: bytes) -> list[tuple[int, bytes]]:
    jobs = (part.partition(b"<") for part in xml.split(JOB_NUMBER)[1:])
    return [(int(number), JOB_NUMBER + number + end + rest) for number, end, rest in jobs]


def _is_marked(job: bytes, name: str, owner: str) -> bool:
    return owner_and_account_of(job)[0] == owner and name.encode() in kept_of(job, KEPT)
