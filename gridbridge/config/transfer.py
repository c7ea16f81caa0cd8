"""The sections of transfers: queues, mappings, the poller; and contradictions with others."""

from collections.abc import Iterator

from gridbridge.config import maps
from gridbridge.config.mistakes import KeyMistake, Table, key_name, kind_name, table_of
from gridbridge.config.sections import NamedSections, SectionGroup, SingleSection
from gridbridge.model.cluster import why_no_transfer_queues
from gridbridge.model.settings import CLUSTER_NAME, OBJECT_NAME
from gridbridge.model.transfer.transfer_sections import (
    BreakerSection,
    PollerSection,
    RetentionSection,
    TransferQueue,
)

GROUPS: tuple[SectionGroup, ...] = (
    NamedSections(name="queue", field="queues", kind=TransferQueue, form=OBJECT_NAME),
    maps.GROUP,
    SingleSection(name="poller", kind=PollerSection),
    SingleSection(name="breaker", kind=BreakerSection),
    SingleSection(name="retention", kind=RetentionSection),
)
STAGING = ("stage_in", "stage_out")  # staged has no meaning without ssh, and is the default


def problems(sections: Table) -> Iterator[str]:
    """Find every mistake that no section shows by itself."""
    yield from maps.problems(sections)
    if why := _why_no_queues(sections):
        yield f"[queue.{key_name(next(iter(table_of(sections, 'queue'))))}]: {why}"
    else:
        yield from _queue_problems(sections)
    yield from _staleness_problems(table_of(sections, "poller"))


def _why_no_queues(sections: Table) -> str:
    """Say once for all why there can be no transfer queue, if there are any."""
    local = table_of(sections, "site").get("cluster")
    if not table_of(sections, "queue") or not isinstance(local, str):
        return ""
    clusters = table_of(sections, "cluster")
    return why_no_transfer_queues(
        local, kind_name(table_of(clusters, local)) if local in clusters else None
    )


def _queue_problems(sections: Table) -> Iterator[str]:
    """Find queues that lead nowhere, and files for clusters to which none can be carried."""
    clusters, local = table_of(sections, "cluster"), table_of(sections, "site").get("cluster")
    remotes = ", ".join(name for name in clusters if name != local) or "none is defined"
    queues = table_of(sections, "queue")
    for name in queues:
        cluster = table_of(queues, name).get("cluster")
        if not isinstance(cluster, str) or not CLUSTER_NAME.holds(cluster):
            continue
        if cluster == local or cluster not in clusters:
            wrong = "the local cluster" if cluster == local else "undefined"
            problem = KeyMistake(cluster, wrong, f"a remote cluster ({remotes})")
            yield f"[queue.{key_name(name)}] cluster{problem}"
            continue
        mistakes = _staging_problems(table_of(queues, name), table_of(clusters, cluster))
        yield from (f"[queue.{key_name(name)}] {problem}" for problem in mistakes)


def _staging_problems(queue: Table, cluster: Table) -> Iterator[str]:
    """Find files to be carried to a cluster that is not reached by ssh."""
    for name in STAGING if not cluster.get("ssh") else ():
        if value := queue.get(name):
            yield f"{name}{KeyMistake(value, 'without ssh', 'only by ssh are files carried')}"


def _staleness_problems(poller: Table) -> Iterator[str]:
    interval_s = poller.get("interval_s", PollerSection().interval_s)
    stale_s = poller.get("stale_s", PollerSection().stale_s)
    if not isinstance(interval_s, int | float) or not isinstance(stale_s, int | float):
        return
    if stale_s <= interval_s:
        problem = KeyMistake(
            stale_s, "queues would close between two polls", f"above {interval_s} s"
        )
        yield f"[poller] stale_s{problem}"
