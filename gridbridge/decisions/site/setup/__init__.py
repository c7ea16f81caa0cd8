"""What is missing from a transfer queue's set-up, item by item, and how to remove a set-up.

The rules are those of the Transfer Queues how-to (2002), corrected where Grid Engine 8.1.9 does
not do what it says. `gridbridge setup` makes the edits of these findings in this order, and
`gridbridge check` shows the findings: both judge by the same rules.
"""

from gridbridge.decisions.site.setup.allowed_users import people_findings
from gridbridge.decisions.site.setup.complexes import complex_findings, remote_findings
from gridbridge.decisions.site.setup.execution_host import host_findings
from gridbridge.decisions.site.setup.rights import right_findings
from gridbridge.decisions.site.setup.scheduler_configuration import scheduling_findings
from gridbridge.decisions.site.setup.transfer_queue import queue_findings
from gridbridge.model.site.setup_findings import CheckFinding, SetupSituation


def findings(situation: SetupSituation) -> tuple[CheckFinding, ...]:
    """Return every item; the queue comes last, so that it opens when all else is in place."""
    return (
        *right_findings(situation),
        *complex_findings(situation),
        *remote_findings(situation),
        *scheduling_findings(situation),
        *host_findings(situation),
        *people_findings(situation),
        *queue_findings(situation),
    )
