"""The sections of a site: [site] and [cluster.NAME], and what they say of each other."""

from collections.abc import Iterator

from gridbridge.config.sections import Group, Named, Single
from gridbridge.config.words import Table, Wrong, key_name, kind_name, table_of
from gridbridge.model.cluster import MAX_PORT, Claim, Cluster, Kind, Push
from gridbridge.model.settings import CLUSTER_NAME
from gridbridge.model.site.sections import Site

GROUPS: tuple[Group, ...] = (
    Single(name="site", kind=Site),
    Named(name="cluster", field="clusters", kind=Cluster, form=CLUSTER_NAME, filled=Cluster.filled),
)
PORTS = ("qmaster_port", "execd_port")
GRIDENGINES = ("root", "cell", *PORTS)  # keys that no other kind has
NOT_OARS = (*GRIDENGINES, "spool_shared", "remote_spool_dir")
NOT_EMBEDDEDS = (*GRIDENGINES, "ssh", "users", "accounting")


def problems(sections: Table) -> Iterator[str]:
    """Find every mistake that no section shows by itself."""
    local, clusters = table_of(sections, "site").get("cluster"), table_of(sections, "cluster")
    for name in clusters:
        table = table_of(clusters, name)
        told = (*_kind_problems(table, name == local), *_ssh_problems(table, name == local))
        told += tuple(_mixture_problems(table, table_of(clusters, str(local))))
        told += tuple(_claim_problems(table, name == local))
        yield from (f"[cluster.{key_name(name)}] {problem}" for problem in told)


def _kind_problems(cluster: Table, is_local: bool) -> Iterator[str]:
    """Find what does not go with the batch system."""
    is_oar, is_embedded = kind_name(cluster) == Kind.OAR, kind_name(cluster) == Kind.EMBEDDED
    for name in PORTS:
        if not (is_oar or is_embedded) and not cluster.get(name, 0):
            yield f"{name}: missing; a whole number, 1 to {MAX_PORT}"
    for name in NOT_OARS if is_oar else NOT_EMBEDDEDS if is_embedded else ():
        if value := cluster.get(name):
            right = "it has none" if is_embedded else "it is of Grid Engine alone"
            yield f"{name}{Wrong(value, f'with kind {kind_name(cluster)}', right)}"
    push = cluster.get("push", Push.NONE)
    yield from _folder_problems(cluster, is_embedded)
    if is_embedded and push != Push.NONE:
        yield f"push{Wrong(push, 'with kind embedded', 'none: its jobs see the spool')}"
    elif push == (Push.QEVENT if is_oar else Push.OAR):
        right = "none, or oar by ssh" if is_oar else "none or qevent"
        yield f"push{Wrong(push, f'with kind {kind_name(cluster)}', right)}"


def _folder_problems(cluster: Table, is_embedded: bool) -> Iterator[str]:
    folder = cluster.get("folder", "")
    if is_embedded and not folder:
        yield "folder: missing; the absolute path of the folder that the cluster is"
    if folder and not is_embedded:
        wrong = f"with kind {kind_name(cluster)}"
        yield f"folder{Wrong(folder, wrong, 'only an embedded one has it')}"


def _mixture_problems(cluster: Table, local: Table) -> Iterator[str]:
    """Find an embedded cluster beside others: it is one person's, and the service is not."""
    kind, home = kind_name(cluster), kind_name(local) if local else "none"
    if (kind == Kind.EMBEDDED) != (home == Kind.EMBEDDED):
        right = "all clusters of a site are embedded, or none"
        yield f"kind{Wrong(kind, f'where the local cluster is {home}', right)}"


def _ssh_problems(cluster: Table, is_local: bool) -> Iterator[str]:
    """Find what does not go with ssh: its hosts are of another domain."""
    place, users = cluster.get("ssh", ""), cluster.get("users", {})
    push = cluster.get("push", Push.NONE)
    if push == Push.OAR and not place:
        yield f"push{Wrong(push, 'without ssh', 'none: it comes over the connection by ssh')}"
    if users and not place:
        yield f"users{Wrong(users, 'without ssh', 'only where ssh leads has anybody another name')}"
    if not place:
        return
    if is_local:
        yield f"ssh{Wrong(place, 'the local cluster', 'its programs run here')}"
    if cluster.get("spool_shared") is True:
        yield f"spool_shared{Wrong(True, 'with ssh', 'false: users there have other numbers')}"
    if push == Push.QEVENT:
        yield f"push{Wrong(push, 'with ssh', 'none: it is asked once an interval')}"


def _claim_problems(cluster: Table, is_local: bool) -> Iterator[str]:
    """Find a claim that can't be made: it needs a file that both see, or a connection."""
    claim, kind = cluster.get("claim", Claim.NONE), kind_name(cluster)
    if claim not in (Claim.FILE, Claim.GRANT):
        return
    if is_local or kind == Kind.EMBEDDED:
        wrong = "the local cluster" if is_local else f"with kind {kind}"
        yield f"claim{Wrong(claim, wrong, 'none: it is always reached')}"
    elif claim == Claim.FILE and cluster.get("spool_shared") is not True:
        right = "grant" if cluster.get("ssh") else "spool_shared = true"
        yield f"claim{Wrong(claim, 'without a shared spool', right)}"
    elif claim == Claim.GRANT and not cluster.get("ssh"):
        right = "file" if cluster.get("spool_shared") is True else "ssh, which carries the grants"
        yield f"claim{Wrong(claim, 'without ssh', right)}"
