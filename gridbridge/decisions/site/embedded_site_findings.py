"""Findings about a site of embedded clusters: service, clusters and queues.

One user owns the whole site, so no rights are checked and `gridbridge setup` has nothing to do.
"""

from collections.abc import Iterator, Mapping

from gridbridge.decisions.site import stale_service_configuration
from gridbridge.model.fixed_paths import METHODS, PYTHON
from gridbridge.model.policy import Policy
from gridbridge.model.site.setup_findings_and_edits import CheckFinding, FindingSeverity, SetupEdit, SetupEditVerb
from gridbridge.model.site.transfer_host_facts import ClusterFacts, PollerProcessFacts
from gridbridge.model.status_report import number_with_noun

PROGRAM = f"{PYTHON} -I -m gridbridge.batch.embedded"
START = f"echo | {METHODS}/sensor >/dev/null"  # the load sensor starts a missing service


def embedded_site_findings(
    poller: PollerProcessFacts, cells: Mapping[str, ClusterFacts], slots: Mapping[str, int], policy: Policy
) -> Iterator[CheckFinding]:
    """Check an embedded site's poller, clusters and queues; `slots` by queue."""
    yield _embedded_poller(poller, policy.poller.stale_s)
    yield from stale_service_configuration.stale_configuration_findings(poller)
    for name, cell in cells.items():
        yield embedded_cluster_finding(name, cell)
    if not cells[policy.site.cluster].trouble:
        for name in policy.queues:
            yield _embedded_queue(name, slots, policy)


def _embedded_poller(poller: PollerProcessFacts, stale_s: float) -> CheckFinding:
    if poller.age_s is not None and -1 <= poller.age_s <= stale_s:
        return CheckFinding(item="poller", state=FindingSeverity.OK, found=f"values of {poller.age_s:.0f} s ago")
    actual = "no values" if poller.age_s is None else f"values of {poller.age_s:.0f} s ago"
    return _broken("poller", actual, f"values no older than {stale_s:g} s", START)


def embedded_cluster_finding(name: str, cell: ClusterFacts) -> CheckFinding:
    """Check that an embedded cluster answers; the edit creates the cluster."""
    if not cell.trouble:
        actual = f"answers, {number_with_noun(cell.slots or 0, 'slot')} of its own"
        return CheckFinding(item=f"{name}: cluster", state=FindingSeverity.OK, found=actual)
    make = f"{PROGRAM} {cell.master} create --slots=4"
    return _broken(f"{name}: cluster", cell.trouble, "an answer", make)


def _embedded_queue(name: str, slots: Mapping[str, int], policy: Policy) -> CheckFinding:
    section = policy.queues[name]
    actual = number_with_noun(slots[name], "slot") if name in slots else "not there"
    if slots.get(name) == section.slots:
        return CheckFinding(item=f"queue {name}", state=FindingSeverity.OK, found=actual)
    options = f"--slots={section.slots} --remote={section.cluster}"
    options += f" --pending-limit={section.pending_limit}"
    make = f"{PROGRAM} {policy.clusters[policy.site.cluster].folder} queue {name} {options}"
    return _broken(f"queue {name}", actual, number_with_noun(section.slots, "slot"), make)


def _broken(item: str, actual: str, right: str, line: str) -> CheckFinding:
    mend = (SetupEdit(verb=SetupEditVerb.SHELL, value=line),)
    return CheckFinding(item=item, state=FindingSeverity.BROKEN, found=actual, right=right, mend=mend)
