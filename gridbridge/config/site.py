"""The sections of gridbridge.toml for the site and its clusters: [site] and [cluster.NAME]."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from gridbridge.config.section_parsing import (
    ConfigKeyProblem,
    NamedSections,
    SectionGroupOfOneName,
    Table,
    UnnamedSection,
    batch_system_of_cluster_section,
    format_toml_key,
    subtable_or_empty,
)
from gridbridge.model.config_key_descriptions import CLUSTER_NAME
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import MAX_PORT, ClusterKind, ClusterSection, JobClaimKind, JobEndPushKind
from gridbridge.model.transfer_route import ACCESS

A_PORT = f"a whole number, 1 to {MAX_PORT}"
NEEDS_PORTS = dict.fromkeys(("qmaster_port", "execd_port"), A_PORT)
OF_CELLS = ("root", "cell", *NEEDS_PORTS)  # keys that only Grid Engine clusters have
OF_API = ("api", "api_login", "api_reader")
NO_API = dict.fromkeys(OF_API, "none, because only OAR has a REST interface")
LOOPBACK = ("localhost", "127.0.0.1")
NO_FOLDER = {"folder": "no folder, which only embedded clusters have"}
NO_PUSH = "none, because jobs of an embedded cluster see the spool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterKindKeys:
    needs: Mapping[str, str]  # required keys, with their expected form
    lacks: Mapping[str, str]  # forbidden keys, with the reason
    pushes: Mapping[JobEndPushKind, str]  # {unsupported value of key `push`: values expected instead}
    has_claims: bool = True  # whether claims are needed, because the cluster may be unreachable
    asks_by_rule: bool = False  # whether each requested resource needs a mapping rule, as at OAR
    accounts_memory: bool = True  # whether the accounting has the memory and written bytes of jobs
    has_environments: bool = False  # whether parallel environments place a job's slots


OF_KIND = {
    ClusterKind.GRIDENGINE: ClusterKindKeys(
        needs=NEEDS_PORTS,
        lacks=NO_FOLDER | NO_API,
        pushes={JobEndPushKind.OAR: "none or qevent"},
        has_environments=True,
    ),
    ClusterKind.OAR: ClusterKindKeys(
        needs={},
        lacks=dict.fromkeys((*OF_CELLS, "spool_shared", "remote_spool_dir"), "this key only for Grid Engine")
        | NO_FOLDER,
        pushes={JobEndPushKind.QEVENT: "none, or oar by ssh"},
        asks_by_rule=True,
        accounts_memory=False,
    ),
    ClusterKind.EMBEDDED: ClusterKindKeys(
        needs={"folder": "the absolute path of the cluster's folder"},
        lacks=dict.fromkeys((*OF_CELLS, "ssh", *OF_API, "users", "accounting"), "no such key"),
        pushes={JobEndPushKind.QEVENT: NO_PUSH, JobEndPushKind.OAR: NO_PUSH},
        has_claims=False,
    ),
}


def config_keys_of_cluster_kind(cluster: Table) -> ClusterKindKeys:
    """Return the required and forbidden keys of a cluster; an unknown kind counts as Grid Engine."""
    kind = batch_system_of_cluster_section(cluster)
    return OF_KIND[ClusterKind(kind) if kind in list(ClusterKind) else ClusterKind.GRIDENGINE]


GROUPS: tuple[SectionGroupOfOneName, ...] = (
    UnnamedSection(name="site", kind=SiteSection),
    NamedSections(name="cluster", field="clusters", kind=ClusterSection, form=CLUSTER_NAME),
)


def find_config_problems(sections: Table) -> Iterator[str]:
    """Find mistakes in sections of clusters, and contradictions between clusters."""
    local, clusters = subtable_or_empty(sections, "site").get("cluster"), subtable_or_empty(sections, "cluster")
    for name in clusters:
        table = subtable_or_empty(clusters, name)
        mistakes = (*_cluster_kind_problems(table), *_cluster_ssh_problems(table, name == local))
        mistakes += tuple(_problems_of_cluster_api_keys(table, name == local))
        mistakes += tuple(_embedded_mixture_problems(table, subtable_or_empty(clusters, str(local))))
        mistakes += tuple(_cluster_claim_problems(table, name == local))
        yield from (f"[cluster.{format_toml_key(name)}] {problem}" for problem in mistakes)


def _cluster_kind_problems(cluster: Table) -> Iterator[str]:
    keys, wrong = config_keys_of_cluster_kind(cluster), f"with kind {batch_system_of_cluster_section(cluster)}"
    for name, right in keys.needs.items():
        if not cluster.get(name):
            yield f"{name}: missing; expected {right}"
    for name, right in keys.lacks.items():
        if value := cluster.get(name):
            yield f"{name}{ConfigKeyProblem(value, wrong, right)}"
    for push, right in keys.pushes.items():
        if cluster.get("push") == push:
            yield f"push{ConfigKeyProblem(push, wrong, right)}"


def _embedded_mixture_problems(cluster: Table, local: Table) -> Iterator[str]:
    """Report a site that mixes embedded clusters, which belong to one person, with clusters of another kind."""
    kind, home = batch_system_of_cluster_section(cluster), batch_system_of_cluster_section(local) if local else "none"
    if _is_of_one_user(kind) != _is_of_one_user(home):
        right = "all clusters of a site embedded, or none"
        yield f"kind{ConfigKeyProblem(kind, f'the local cluster is {home}', right)}"


def _is_of_one_user(kind: str) -> bool:
    return kind in ACCESS and ACCESS[kind].IS_OF_ONE_USER


def _cluster_ssh_problems(cluster: Table, is_local: bool) -> Iterator[str]:
    address, users = cluster.get("ssh", ""), cluster.get("users", {})
    push = cluster.get("push", JobEndPushKind.NONE)
    if push == JobEndPushKind.OAR and not address:
        yield f"push{ConfigKeyProblem(push, 'without ssh', 'none, because OAR reports ends only by ssh')}"
    if users and not address and not cluster.get("api"):
        right = "other account names only at a cluster by ssh or api"
        yield f"users{ConfigKeyProblem(users, 'without ssh and api', right)}"
    if not address:
        return
    if is_local:
        yield f"ssh{ConfigKeyProblem(address, 'the local cluster', 'none, because its commands run here')}"
    if cluster.get("spool_shared") is True:
        yield f"spool_shared{ConfigKeyProblem(True, 'with ssh', 'false, as users have other uids at this cluster')}"
    if push == JobEndPushKind.QEVENT:
        yield f"push{ConfigKeyProblem(push, 'with ssh', 'none, as this cluster is queried at intervals')}"


def _problems_of_cluster_api_keys(cluster: Table, is_local: bool) -> Iterator[str]:
    address = cluster.get("api", "")
    if "api" in config_keys_of_cluster_kind(cluster).lacks:
        return
    for key in ("api_login", "api_reader"):
        if address and not cluster.get(key):
            yield f"{key}: missing; expected the absolute path of a file with a login to the REST interface"
        if cluster.get(key) and not address:
            yield f"{key}{ConfigKeyProblem(cluster[key], 'without api', 'none')}"
    if address and is_local:
        yield f"api{ConfigKeyProblem(address, 'the local cluster', 'none, because its commands run here')}"
    if address and cluster.get("ssh"):
        yield f"api{ConfigKeyProblem(address, 'with ssh', 'either ssh, which can do more, or api')}"
    if str(address).startswith("http:") and urlsplit(str(address)).hostname not in LOOPBACK:
        yield f"api{ConfigKeyProblem(address, 'the login would be sent unencrypted', 'https://, or this host')}"


def _cluster_claim_problems(cluster: Table, is_local: bool) -> Iterator[str]:
    claim = cluster.get("claim", JobClaimKind.NONE)
    if claim not in (JobClaimKind.FILE, JobClaimKind.GRANT):
        return
    if is_local or not config_keys_of_cluster_kind(cluster).has_claims:
        wrong = "the local cluster" if is_local else f"with kind {batch_system_of_cluster_section(cluster)}"
        yield f"claim{ConfigKeyProblem(claim, wrong, 'none, because this cluster is always reachable')}"
    elif claim == JobClaimKind.FILE and cluster.get("spool_shared") is not True:
        right = "grant" if cluster.get("ssh") else "spool_shared = true"
        yield f"claim{ConfigKeyProblem(claim, 'without a shared spool', right)}"
    elif claim == JobClaimKind.GRANT and not cluster.get("ssh"):
        right = "file" if cluster.get("spool_shared") is True else "ssh, which carries the grants"
        yield f"claim{ConfigKeyProblem(claim, 'without ssh', right)}"
