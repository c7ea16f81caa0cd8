"""The sections of gridbridge.toml for transfers: queues, mappings, poller and breaker."""

from collections.abc import Iterator

from gridbridge.config import mapping_sections
from gridbridge.config.key_descriptions import (
    ConfigKeyProblem,
    Table,
    batch_system_of_cluster_section,
    format_toml_key,
    subtable_or_empty,
)
from gridbridge.config.section_parsing import NamedSections, SectionGroupOfOneName, UnnamedSection
from gridbridge.model.cluster import why_no_transfer_queues_at_home
from gridbridge.model.key_settings import CLUSTER_NAME, OBJECT_NAME
from gridbridge.model.transfer.transfer_config_sections import (
    BreakerSection,
    PollerSection,
    RetentionSection,
    TransferQueueSection,
)

GROUPS: tuple[SectionGroupOfOneName, ...] = (
    NamedSections(name="queue", field="queues", kind=TransferQueueSection, form=OBJECT_NAME),
    mapping_sections.GROUP,
    UnnamedSection(name="poller", kind=PollerSection),
    UnnamedSection(name="breaker", kind=BreakerSection),
    UnnamedSection(name="retention", kind=RetentionSection),
)
STAGING = ("stage_in", "stage_out")  # keys that need ssh; `staged`, which does too, is on by default


def find_config_problems(sections: Table) -> Iterator[str]:
    """Find contradictions between queues, mappings, clusters and the poller."""
    yield from mapping_sections.find_request_mapping_problems(sections)
    if why := _why_no_queues(sections):
        yield f"[queue.{format_toml_key(next(iter(subtable_or_empty(sections, 'queue'))))}]: {why}"
    else:
        yield from _queue_problems(sections)
    yield from _staleness_problems(subtable_or_empty(sections, "poller"))


def _why_no_queues(sections: Table) -> str:
    """Return why this site can't have the transfer queues of the file; empty if it can."""
    local = subtable_or_empty(sections, "site").get("cluster")
    if not subtable_or_empty(sections, "queue") or not isinstance(local, str):
        return ""
    clusters = subtable_or_empty(sections, "cluster")
    return why_no_transfer_queues_at_home(
        local, batch_system_of_cluster_section(subtable_or_empty(clusters, local)) if local in clusters else None
    )


def _queue_problems(sections: Table) -> Iterator[str]:
    """Find queues to unknown clusters, and staged files for clusters without ssh."""
    clusters, local = (subtable_or_empty(sections, "cluster"), subtable_or_empty(sections, "site").get("cluster"))
    remotes = ", ".join(name for name in clusters if name != local) or "none is defined"
    queues = subtable_or_empty(sections, "queue")
    for name in queues:
        cluster = subtable_or_empty(queues, name).get("cluster")
        if not isinstance(cluster, str) or not CLUSTER_NAME.holds(cluster):
            continue
        if cluster == local or cluster not in clusters:
            wrong = "the local cluster" if cluster == local else "undefined"
            problem = ConfigKeyProblem(cluster, wrong, f"a remote cluster ({remotes})")
            yield f"[queue.{format_toml_key(name)}] cluster{problem}"
            continue
        mistakes = _staging_problems(subtable_or_empty(queues, name), subtable_or_empty(clusters, cluster))
        yield from (f"[queue.{format_toml_key(name)}] {problem}" for problem in mistakes)


def _staging_problems(queue: Table, cluster: Table) -> Iterator[str]:
    """Find staged files for a cluster that is not reached by ssh."""
    for name in STAGING if not cluster.get("ssh") else ():
        if value := queue.get(name):
            yield f"{name}{ConfigKeyProblem(value, 'without ssh', 'only by ssh are files carried')}"


def _staleness_problems(poller: Table) -> Iterator[str]:
    interval_s = poller.get("interval_s", PollerSection().interval_s)
    stale_s = poller.get("stale_s", PollerSection().stale_s)
    if not isinstance(interval_s, int | float) or not isinstance(stale_s, int | float):
        return
    if stale_s <= interval_s:
        problem = ConfigKeyProblem(stale_s, "queues would close between two polls", f"above {interval_s} s")
        yield f"[poller] stale_s{problem}"
