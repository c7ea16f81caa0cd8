"""The sections of a site, [site] and [cluster.NAME], and contradictions between them."""

from collections.abc import Iterator

from gridbridge.config.cluster_kinds import of_kind
from gridbridge.config.mistakes import KeyMistake, Table, key_name, kind_name, table_of
from gridbridge.config.sections import NamedSections, SectionGroup, SingleSection
from gridbridge.model.cluster import Claim, Cluster, PushKind
from gridbridge.model.settings import CLUSTER_NAME
from gridbridge.model.site.site_section import SiteSection

GROUPS: tuple[SectionGroup, ...] = (
    SingleSection(name="site", kind=SiteSection),
    NamedSections(
        name="cluster", field="clusters", kind=Cluster, form=CLUSTER_NAME, filled=Cluster.filled
    ),
)


def problems(sections: Table) -> Iterator[str]:
    """Find every mistake that no section shows by itself."""
    local, clusters = table_of(sections, "site").get("cluster"), table_of(sections, "cluster")
    for name in clusters:
        table = table_of(clusters, name)
        mistakes = (*_kind_problems(table), *_ssh_problems(table, name == local))
        mistakes += tuple(_mixture_problems(table, table_of(clusters, str(local))))
        mistakes += tuple(_claim_problems(table, name == local))
        yield from (f"[cluster.{key_name(name)}] {problem}" for problem in mistakes)


def _kind_problems(cluster: Table) -> Iterator[str]:
    """Find keys that do not go with the batch system."""
    keys, wrong = of_kind(cluster), f"with kind {kind_name(cluster)}"
    for name, right in keys.needs.items():
        if not cluster.get(name):
            yield f"{name}: missing; {right}"
    for name, right in keys.lacks.items():
        if value := cluster.get(name):
            yield f"{name}{KeyMistake(value, wrong, right)}"
    for push, right in keys.pushes.items():
        if cluster.get("push") == push:
            yield f"push{KeyMistake(push, wrong, right)}"


def _mixture_problems(cluster: Table, local: Table) -> Iterator[str]:
    """Find an embedded cluster beside others: it is one person's, and the service is not."""
    kind, home = kind_name(cluster), kind_name(local) if local else "none"
    if of_kind(cluster).stands_alone != (bool(local) and of_kind(local).stands_alone):
        right = "all clusters of a site are embedded, or none"
        yield f"kind{KeyMistake(kind, f'where the local cluster is {home}', right)}"


def _ssh_problems(cluster: Table, is_local: bool) -> Iterator[str]:
    """Find keys that do not go with ssh: its hosts are of another domain."""
    address, users = cluster.get("ssh", ""), cluster.get("users", {})
    push = cluster.get("push", PushKind.NONE)
    if push == PushKind.OAR and not address:
        yield f"push{KeyMistake(push, 'without ssh', 'none: it comes over the connection by ssh')}"
    if users and not address:
        mistake = KeyMistake(users, "without ssh", "only where ssh leads has anybody another name")
        yield f"users{mistake}"
    if not address:
        return
    if is_local:
        yield f"ssh{KeyMistake(address, 'the local cluster', 'its programs run here')}"
    if cluster.get("spool_shared") is True:
        yield f"spool_shared{KeyMistake(True, 'with ssh', 'false: users there have other numbers')}"
    if push == PushKind.QEVENT:
        yield f"push{KeyMistake(push, 'with ssh', 'none: it is asked once an interval')}"


def _claim_problems(cluster: Table, is_local: bool) -> Iterator[str]:
    """Find a claim that can't be made: it needs a file that both see, or a connection."""
    claim = cluster.get("claim", Claim.NONE)
    if claim not in (Claim.FILE, Claim.GRANT):
        return
    if is_local or not of_kind(cluster).has_claims:
        wrong = "the local cluster" if is_local else f"with kind {kind_name(cluster)}"
        yield f"claim{KeyMistake(claim, wrong, 'none: it is always reached')}"
    elif claim == Claim.FILE and cluster.get("spool_shared") is not True:
        right = "grant" if cluster.get("ssh") else "spool_shared = true"
        yield f"claim{KeyMistake(claim, 'without a shared spool', right)}"
    elif claim == Claim.GRANT and not cluster.get("ssh"):
        right = "file" if cluster.get("spool_shared") is True else "ssh, which carries the grants"
        yield f"claim{KeyMistake(claim, 'without ssh', right)}"
