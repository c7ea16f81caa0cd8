"""A transfer queue without a section in gridbridge.toml is broken."""

import pytest

from gridbridge.decisions.site.transfer_queue_findings import unconfigured_queue_findings
from gridbridge.model.fixed_paths import METHODS
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from tests.decisions.site.test_check_findings import POLICY


def a_queue(starter: str = "NONE", remote: str = "FALSE") -> dict[str, str]:
    return {"starter_method": starter, "complex_values": f"remote={remote}"}


@pytest.mark.parametrize(
    ("queue", "what"),
    [
        (a_queue(f"{METHODS}/starter", "TRUE"), "runs gridbridge's starter"),
        (a_queue(f"{METHODS}/starter"), "runs gridbridge's starter"),
        (a_queue(remote="TRUE"), "offers remote=TRUE"),
    ],
    ids=["whole", "without its resource", "without its starter"],
)
def test_a_transfer_queue_without_a_section_is_broken(queue: dict[str, str], what: str) -> None:
    queues = {"all.q": a_queue(), "transfer-beta": queue, "transfer-gamma": queue}
    (found,) = unconfigured_queue_findings(queues, POLICY)

    why = f"{what} and has no [queue.transfer-gamma]: its jobs wait or fail"
    assert (found.item, found.state, found.found) == ("queue transfer-gamma", FindingSeverity.BROKEN, why)
    assert "setup transfer CLUSTER --queue transfer-gamma --apply" in found.hint
    assert "qconf -dq transfer-gamma" in found.hint
