"""What a cell has accounted for: of one job when it is asked, of all jobs in its file."""

from datetime import UTC

from gridbridge.batch.gridengine import commands
from gridbridge.batch.gridengine.accounting import parse_accounting
from gridbridge.batch.gridengine.accounting import read_lines as read_lines
from gridbridge.batch.gridengine.ends import settled as settled
from gridbridge.batch.gridengine.submit import call
from gridbridge.model.accounting import AccountingRecord
from gridbridge.model.route import Cell


def records(cell: Cell, job_id: int) -> tuple[AccountingRecord, ...]:
    """Return what the cell has accounted for a job, of all its tasks and runs.

    It is asked in UTC: qacct prints local times without their zone.
    """
    done = call(cell, commands.accounting(cell, str(job_id)), zone="UTC")
    if b"not found" in done.stderr or b"no jobs running since startup" in done.stdout:
        return ()
    return parse_accounting(done.checked().stdout, zone=UTC)
