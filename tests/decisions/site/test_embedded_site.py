"""What `gridbridge check` says of a site of embedded clusters."""

import pytest

from gridbridge.decisions.site import running_site_findings
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from gridbridge.model.site.site_check_facts import ClusterFacts, PollerProcessFacts
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import ClusterKind, ClusterSection, Policy
from gridbridge.model.transfer.transfer_config_sections import TransferQueueSection

POLICY = Policy(
    site=SiteSection(cluster="alpha"),
    clusters={name: ClusterSection(kind=ClusterKind.EMBEDDED, folder=f"/{name}") for name in ("alpha", "beta")},
    queues={"transfer-beta": TransferQueueSection(cluster="beta", slots=4, pending_limit=9)},
)
ALIVE = PollerProcessFacts(is_running=True, pid=5, age_s=1.0)
WELL = {name: ClusterFacts(version="1", slots=4, master=f"/{name}") for name in ("alpha", "beta")}
SLOTS = {"transfer-beta": 4}


def wrong(
    poller: PollerProcessFacts = ALIVE, cells: dict[str, ClusterFacts] = WELL, slots: dict[str, int] = SLOTS
) -> list[tuple[str, str, str]]:
    """Return the findings that are not ok, each with its command line."""
    found = running_site_findings.embedded_site_findings(poller, cells, slots, POLICY)
    return [(each.item, each.found, str(each.mend[0].value)) for each in found if each.state != FindingSeverity.OK]


@pytest.mark.parametrize(("age_s", "found"), [(None, "no values"), (99.0, "values of 99 s ago")], ids=["none", "stale"])
def test_an_embedded_site_without_fresh_load_values_starts_the_poller(age_s: float | None, found: str) -> None:
    poller = PollerProcessFacts(is_running=False, pid=0, age_s=age_s)

    assert wrong(poller) == [("poller", found, running_site_findings.START)]


def test_a_folder_without_an_embedded_cluster_has_its_create_command() -> None:
    cells = WELL | {"beta": ClusterFacts(trouble="/beta: not an embedded cluster", master="/beta")}
    make = f"{running_site_findings.PROGRAM} /beta create --slots=4"

    assert wrong(cells=cells) == [("beta: cluster", "/beta: not an embedded cluster", make)]


@pytest.mark.parametrize(("slots", "found"), [({}, "missing"), ({"transfer-beta": 2}, "2 slots")], ids=["none", "few"])
def test_a_missing_or_changed_embedded_queue_has_its_command(slots: dict[str, int], found: str) -> None:
    make = f"{running_site_findings.PROGRAM} /alpha queue transfer-beta"
    make += " --slots=4 --remote=beta --pending-limit=9"

    assert wrong(slots=slots) == [("queue transfer-beta", found, make)]
