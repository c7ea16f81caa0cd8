"""The grid as data: clusters, hosts, addresses, users and mounted folders.

A cluster is added here and nowhere else, unless it brings a new kind of batch system
(docs/how-to/lab.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

NETWORK = "10.77.0"  # private, /24, and only inside the lab's own namespaces
SGE_ROOT = "/var/lib/gridengine"  # as Debian has it
OAR_ROOT = "/var/lib/gridlab"
SPOOL = "/var/spool/gridbridge"  # a site's own; where gridbridge has it
SGE_BINARIES = f"{SGE_ROOT}/bin/lx-amd64"  # the programs themselves; /usr/bin has shell wrappers


class Kind(Enum):
    """A batch system; each has a package set of its own (base.py)."""

    GRID_ENGINE = "gridengine"
    OAR = "oar"


class Role(Enum):
    """The function of a host in its cluster; its boot starts the daemons in this order."""

    QMASTER = "qmaster"
    EXECD = "execd"
    POSTGRESQL = "postgresql"
    OAR_SERVER = "oar-server"
    OAR_API = "oar-api"  # OAR's REST interface
    OAR_NODE = "oar-node"  # OAR's own sshd; the server needs it too, for oarsub --notify
    SSHD = "sshd"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A person's account; the group has the same name and number.

    `holder` is the account at the site (SITE) whose key logs in as this one.
    """

    name: str
    uid: int
    holder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Hosts that share /home and user names; gridbridge may be installed on those of a site."""

    name: str
    users: tuple[User, ...]
    is_site: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine of the grid. One that is not `initial` is known but switched off at first."""

    name: str
    address: str
    roles: tuple[Role, ...]
    initial: bool = True
    pooled: bool = True  # has slots: is in @allhosts, or has OAR resources

    @property
    def is_worker(self) -> bool:
        """Say whether the batch system starts jobs on a host."""
        return bool({Role.EXECD, Role.OAR_NODE} & set(self.roles))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One batch system with its hosts; the first host is the master.

    `spool` says which hosts, also of other clusters, see the spool of this cluster's transfers, and
    where; `clients` which hosts of other clusters see this cell's common/ and are its submit and
    admin hosts. The ports are Grid Engine's.
    """

    name: str
    kind: Kind
    domain: Domain
    hosts: tuple[Host, ...]
    qmaster_port: int = 6444
    execd_port: int = 6445
    spool: Mapping[str, str] = field(default_factory=dict)
    clients: tuple[str, ...] = ()
    slots: int = 2

    @property
    def master(self) -> Host:
        """The host of the batch server."""
        return self.hosts[0]

    @property
    def initial_hosts(self) -> tuple[Host, ...]:
        """The hosts that `up` switches on."""
        return tuple(host for host in self.hosts if host.initial)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A folder of the lab's state, shared by every host that mounts it."""

    source: str  # below paths.STATE
    target: str


def _host(name: str, number: int, *roles: Role, initial: bool = True, pooled: bool = True) -> Host:
    address = f"{NETWORK}.{number}"
    return Host(name=name, address=address, roles=roles, initial=initial, pooled=pooled)


CAMPUS = Domain(
    name="campus",
    users=(User(name="alice", uid=10001), User(name="bob", uid=10002), User(name="carol", uid=10003)),
    is_site=True,
)
SERVICE_USER = User(name="gridbridge", uid=990)


def _foreign(name: str, first_uid: int) -> Domain:
    """Return a domain with accounts for alice, bob and the service, which is no site."""
    holders = (("al", "alice"), ("bo", "bob"), ("gb", SERVICE_USER.name))
    users = (
        User(name=f"{short}_{name}", uid=first_uid + number, holder=holder)
        for number, (short, holder) in enumerate(holders)
    )
    return Domain(name=name, users=tuple(users))


ALPHA = Cluster(
    name="alpha",
    kind=Kind.GRID_ENGINE,
    domain=CAMPUS,
    qmaster_port=6444,
    execd_port=6445,
    hosts=(
        _host("alpha-master", 10, Role.QMASTER, Role.EXECD, pooled=False),
        _host("alpha-n1", 11, Role.EXECD),
        _host("alpha-n2", 12, Role.EXECD),
        *(_host(f"alpha-n{n}", 10 + n, Role.EXECD, initial=False) for n in range(3, 7)),
    ),
    spool=dict.fromkeys(("alpha-master", "beta-n1", "beta-n2"), SPOOL),
    clients=("beta-master",),
)
RESERVE = tuple(host for host in ALPHA.hosts if not host.initial)
POWER_SERVICE = _host("power", 250)  # not a host of any cluster: see provider/
PROVIDED = ALPHA  # whose master may ask the power service for hosts of the reserve
ADMINISTRATOR = User(name="gridadm", uid=980)  # of bare hosts; the key is on that master
ALPHA_NODES = tuple(host.name for host in ALPHA.hosts if host.pooled)
BETA = Cluster(
    name="beta",
    kind=Kind.GRID_ENGINE,
    domain=CAMPUS,
    qmaster_port=6454,
    execd_port=6455,
    hosts=(
        _host("beta-master", 20, Role.QMASTER, Role.EXECD, pooled=False),
        _host("beta-n1", 21, Role.EXECD),
        _host("beta-n2", 22, Role.EXECD),
    ),
    spool={"beta-master": SPOOL, **dict.fromkeys(ALPHA_NODES, f"{SPOOL}-beta")},
    clients=("alpha-master",),
)
OF_OAR_MASTER = (Role.POSTGRESQL, Role.OAR_SERVER, Role.OAR_API, Role.OAR_NODE, Role.SSHD)
GAMMA = Cluster(
    name="gamma",
    kind=Kind.OAR,
    domain=_foreign("gamma", 30001),
    hosts=(
        _host("gamma-master", 30, *OF_OAR_MASTER, pooled=False),
        _host("gamma-n1", 31, Role.OAR_NODE),
        _host("gamma-n2", 32, Role.OAR_NODE),
    ),
)
DELTA = Cluster(
    name="delta",
    kind=Kind.GRID_ENGINE,
    domain=_foreign("delta", 40001),
    hosts=(_host("delta-master", 40, Role.QMASTER, Role.SSHD), _host("delta-n1", 41, Role.EXECD)),
)
CLUSTERS = (ALPHA, BETA, GAMMA, DELTA)
DOMAINS = tuple({cluster.domain.name: cluster.domain for cluster in CLUSTERS}.values())

CLUSTER_BY_NAME = {cluster.name: cluster for cluster in CLUSTERS}
CLUSTER_OF_HOST = {host.name: cluster for cluster in CLUSTERS for host in cluster.hosts}
HOST_BY_NAME = {host.name: host for cluster in CLUSTERS for host in cluster.hosts}


def cell_dir(cluster: Cluster) -> str:
    """Return where a cluster's shared folder is seen, the same path on every host that sees it.

    It is a cell's common/; OAR needs none, and there it only tells that the cluster is built.
    """
    if cluster.kind is Kind.OAR:
        return f"{OAR_ROOT}/{cluster.name}"
    return f"{SGE_ROOT}/{cluster.name}/common"


def visible_cells(host: Host) -> tuple[Cluster, ...]:
    """Return the cells whose common/ a host mounts: its own and those it is a client of."""
    own = CLUSTER_OF_HOST[host.name]
    others = tuple(cluster for cluster in CLUSTERS if host.name in cluster.clients)
    return (own, *others)


def binds(host: Host) -> tuple[Bind, ...]:
    """Return the shared folders of a host."""
    cluster = CLUSTER_OF_HOST[host.name]
    shared = [Bind(source=f"domains/{cluster.domain.name}/home", target="/home")]
    if cluster.domain.is_site:
        shared.append(Bind(source="opt", target="/opt/gridbridge"))
    for other in CLUSTERS:
        if host.name in other.spool:
            shared.append(Bind(source=f"spools/{other.name}", target=other.spool[host.name]))
    for cell in visible_cells(host):
        shared.append(Bind(source=f"cells/{cell.name}", target=cell_dir(cell)))
    return tuple(shared)


def built_marker(cluster: Cluster) -> str:
    """Return the marker file without which a boot starts no daemons, because the cluster is not built."""
    return f"{cell_dir(cluster)}/{'built' if cluster.kind is Kind.OAR else 'act_qmaster'}"


def environment(cluster: Cluster) -> dict[str, str]:
    """Return the variables that a login on a host of this cluster adds."""
    manuals = {"MANPATH": "/opt/gridbridge/share/man:"} if cluster.domain.is_site else {}
    cell = _cell_environment(cluster) if cluster.kind is Kind.GRID_ENGINE else {}
    return {**cell, **manuals, "LANG": "C.UTF-8"}


def _cell_environment(cluster: Cluster) -> dict[str, str]:
    return {
        "SGE_ROOT": SGE_ROOT,
        "SGE_CELL": cluster.name,
        "SGE_CLUSTER_NAME": cluster.name,
        "SGE_QMASTER_PORT": str(cluster.qmaster_port),
        "SGE_EXECD_PORT": str(cluster.execd_port),
    }


def search_path(cluster: Cluster, *, is_root: bool) -> str:
    """Return PATH: gridbridge and Grid Engine's real programs first, if present."""
    own = ["/opt/gridbridge/bin"] if cluster.domain.is_site else []
    if cluster.kind is Kind.GRID_ENGINE:
        own.append(SGE_BINARIES)
    administration = ["/usr/local/sbin", "/usr/sbin", "/sbin"] if is_root else []
    return ":".join([*own, *administration, "/usr/local/bin", "/usr/bin", "/bin"])
