"""Transfer queues of the local cluster that gridbridge.toml does not name.

Their starter knows no way for their jobs, and nobody publishes load values for them alone.
"""

from collections.abc import Iterator, Mapping

from gridbridge.model.attributes import Settings, is_transfer
from gridbridge.model.places import CONFIG
from gridbridge.model.policy import Policy
from gridbridge.model.site.setup_findings import CheckFinding, FindingState, has_starter

OFFERS = "offers remote=TRUE"


def findings(queues: Mapping[str, Settings], policy: Policy) -> Iterator[CheckFinding]:
    """Report the local cluster's transfer queues of which gridbridge.toml does not know."""
    for name, queue in queues.items():
        is_ours = has_starter(queue) or is_transfer(queue)
        if is_ours and name not in policy.queues:
            yield _nameless(name, "runs gridbridge's starter" if has_starter(queue) else OFFERS)


def _nameless(queue: str, trait: str) -> CheckFinding:
    """Return the finding without a command: whether to keep the queue is a person's choice."""
    section = f"[queue.{queue}]"
    makes = f"gridbridge setup transfer CLUSTER --queue {queue} --apply"
    return CheckFinding(
        item=f"queue {queue}",
        state=FindingState.BROKEN,
        found=f"{trait} and has no {section}: its jobs wait or fail",
        right=f"a {section} in {CONFIG}, or no such queue",
        hint=f"{makes} writes its section, CLUSTER being where it leads; qconf -dq {queue} deletes"
        " the queue",
    )
