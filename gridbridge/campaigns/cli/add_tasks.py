"""What gridsub -c does: it adds tasks to a campaign."""

from gridbridge.campaigns.cli import runner_reply
from gridbridge.campaigns.store import campaign_files
from gridbridge.campaigns.store.campaign_files import NotTheirs
from gridbridge.campaigns.tools import (
    admission_check,
    campaign_client,
    submission_sources,
    task_views,
)
from gridbridge.campaigns.tools.campaign_client import SubmissionRefused
from gridbridge.cli import output
from gridbridge.model.status_report import count

STANDARD_INPUT = "-"
USAGE = "-c ID goes with -F FILE or -J JSON, and with no other campaign"


def add(
    number: int, file: str | None, text: str | None, *, is_check: bool, is_details: bool
) -> int:
    """Add the lines of a file or of a JSON list; a check stores nothing. Return the status."""
    campaign = task_views.find(number)
    if campaign and not campaign.state.is_alive:
        campaign_files.require_ours(number)
        raise SubmissionRefused(
            f"campaign {number} is {campaign.state}; submit the rest as another one"
        )
    path = "/dev/stdin" if file == STANDARD_INPUT else file
    try:
        parsed, new = submission_sources.more(number, path, text)
    except NotTheirs as error:
        if campaign:
            raise
        # gridsub tells a number before the list shows it: only a file that is not there decides
        raise SubmissionRefused(f"no campaign {number}") from error
    for warning in parsed.warnings:
        output.complain(f"gridsub: {warning}")
    admission_check.require_as_it_is(parsed)
    if is_check:
        output.line(f"campaign {number}: {count(len(new), 'task')} more, nothing is stored")
        return 0
    with runner_reply.report_delay("gridsub"):
        campaign_client.add(number, new)
    added = count(len(new), "task")
    more = [runner_reply.details(number, parsed)] if is_details else []
    lines = (f"{added} successfully added", *more, f"CAMPAIGN_ID={number}")
    return runner_reply.stored("gridsub", lines, f"{added} more of campaign {number} are stored")
