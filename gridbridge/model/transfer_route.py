"""The route of a transfer queue: what starters of the queue's jobs must know of the home and remote clusters.

The poller publishes the route as lines `key=value`, so that starters read no gridbridge.toml. Only root writes
gridbridge.toml, so starters trust the values; `gridbridge check` looks for mistakes.
"""

from gridbridge.model import light_dataclass, transfer_messages_in_spool

TYPE_CHECKING = False  # importing typing takes as long as importing json
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

BARE = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}  # environment of commands of batch systems
GRIDENGINE = "gridengine"  # an empty kind means Grid Engine
OAR = "oar"
EMBEDDED = "embedded"


@light_dataclass(kw_only=True)
class SshLogin:
    """The host and account with which ssh runs a cluster's commands."""

    host: str
    user: str = ""  # remote account; empty: the name of the local account
    port: str = ""  # ssh port; empty: the port of ssh_config(5), or 22
    person: str = ""  # user whose key root uses; empty: root's key

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Host, port, remote account and person: equal logins may share a connection."""
        return self.host, self.port, self.user, self.person


def parse_ssh_login_address(address: str, user: str, person: str = "") -> SshLogin | None:
    """Return the ssh login for an address HOST or HOST:PORT; None for an empty address."""
    host, _, port = address.partition(":")
    return SshLogin(host=host, port=port, user=user, person=person) if host else None


class ClusterAccess:
    """How to run the commands of a cluster's batch system."""

    timeout_s: float

    def with_time_limit(self, timeout_s: float) -> "Self":
        """Return access to the same cluster with a shorter time limit for commands."""
        return type(self)(**(vars(self) | {"timeout_s": min(timeout_s, self.timeout_s)}))

    def environment(self) -> dict[str, str]:
        """Return the environment of the batch system's commands, without the caller's variables."""
        return dict(BARE)


@light_dataclass(kw_only=True)
class GridEngineCellAccess(ClusterAccess):
    """How to run Grid Engine's commands for one cell."""

    root: str
    cell: str
    qmaster_port: str
    execd_port: str
    binaries: str
    timeout_s: float
    login: SshLogin | None = None  # ssh login; None: run programs on this host

    kind = GRIDENGINE

    def environment(self) -> dict[str, str]:
        """Return the environment of Grid Engine's commands, without the caller's variables."""
        return BARE | {
            "SGE_ROOT": self.root,
            "SGE_CELL": self.cell,
            "SGE_QMASTER_PORT": self.qmaster_port,
            "SGE_EXECD_PORT": self.execd_port,
            "SGE_SINGLE_LINE": "1",
        }


@light_dataclass(kw_only=True)
class EmbeddedClusterAccess(ClusterAccess):
    """How to run the commands of an embedded cluster: its folder, and a Python with gridbridge."""

    path: str
    python: str
    timeout_s: float
    login: SshLogin | None = None  # an embedded cluster is never reached by ssh

    kind = EMBEDDED


@light_dataclass(kw_only=True)
class OarServerAccess(ClusterAccess):
    """How to run OAR's commands, on a host that the OAR server allows."""

    login: SshLogin | None = None  # ssh login; None: run programs on this host
    binaries: str = "/usr/bin"
    timeout_s: float
    ends: str = ""  # FIFO for reports of ended jobs; empty: no reports

    kind = OAR


Home = GridEngineCellAccess | EmbeddedClusterAccess  # clusters with transfer queues
Away = GridEngineCellAccess | OarServerAccess | EmbeddedClusterAccess  # clusters to which transfer queues lead


class TransferRoute:
    """The home cluster and the remote cluster of one transfer queue, as text values."""

    cluster: str  # home cluster
    remote: str
    local_kind: str  # batch system of the home cluster
    local_root: str  # $SGE_ROOT, or the folder of an embedded home cluster
    local_cell: str
    local_qmaster_port: str
    local_execd_port: str
    local_binaries: str
    local_timeout_s: str
    remote_kind: str  # batch system of the remote cluster
    remote_root: str
    remote_cell: str
    remote_qmaster_port: str
    remote_execd_port: str
    remote_binaries: str
    remote_timeout_s: str
    remote_shell: str  # shell that runs the wrapper
    remote_mapped: str  # yes: requests are translated by a mapping
    remote_spool: str  # path of the spool on remote hosts; empty: not visible
    remote_ssh: str  # host of the remote cluster's commands, HOST or HOST:PORT; empty: this host
    remote_ends: str  # FIFO for reports of ended OAR jobs; empty: no reports
    remote_stage_dir: str  # remote folder for the files of jobs
    identity: str  # `remote`: JOB_ID is the remote job's number; empty: the local job's number
    remote_claim: str  # `file`, `grant SECONDS ACCOUNT`, or empty: no claims
    staged: str  # yes: standard output and error of each job are copied home
    stage_in: str  # input paths that the queue gives its jobs by default
    stage_out: str  # output paths that the queue gives its jobs by default
    remote_users: str  # users whose account name differs at the cluster: `alice=al_there bob=bo_there`

    def __init__(self, **values: str) -> None:
        for key in KEYS:
            setattr(self, key, values.get(key, ""))

    @property
    def home(self) -> Home:
        """How to reach the home cluster, which has the transfer queue."""
        return self._folder("local") if self.local_kind == EMBEDDED else self._cell("local")

    @property
    def away(self) -> Away:
        """How to reach the remote cluster, without an ssh login."""
        if self.remote_kind == OAR:
            return OarServerAccess(
                binaries=self.remote_binaries, timeout_s=float(self.remote_timeout_s), ends=self.remote_ends
            )
        return self._folder("remote") if self.remote_kind == EMBEDDED else self._cell("remote")

    def declares_staged_files(self, context: tuple[tuple[str, str], ...]) -> bool:
        """Say whether the job's context or its queue declares files to copy to or from the cluster.

        A remote job with copied files runs in the transfer's folder; without copied files, in the account's home.
        """
        of_queue = self.stage_in or self.stage_out
        own = any(name in ("stage_in", "stage_out") for name, _ in context)
        return bool(self.remote_ssh and (of_queue or own))

    def away_as(self, person: str) -> Away:
        """Return how a user reaches the remote cluster, with the user's ssh login."""
        cluster = self.away
        accounts = dict(pair.split("=") for pair in self.remote_users.split())
        cluster.login = parse_ssh_login_address(self.remote_ssh, accounts.get(person, person))
        return cluster

    def _folder(self, side: str) -> EmbeddedClusterAccess:
        from gridbridge.model.fixed_paths import PYTHON

        values = vars(self)
        timeout_s = float(values[f"{side}_timeout_s"])
        return EmbeddedClusterAccess(path=values[f"{side}_root"], python=PYTHON, timeout_s=timeout_s)

    def _cell(self, side: str) -> GridEngineCellAccess:
        values = vars(self)
        return GridEngineCellAccess(
            root=values[f"{side}_root"],
            cell=values[f"{side}_cell"],
            qmaster_port=values[f"{side}_qmaster_port"],
            execd_port=values[f"{side}_execd_port"],
            binaries=values[f"{side}_binaries"],
            timeout_s=float(values[f"{side}_timeout_s"]),
        )


KEYS = tuple(TransferRoute.__annotations__)


def encode_transfer_route(route: TransferRoute) -> bytes:
    """Encode a route for publication."""
    return transfer_messages_in_spool.encode_key_value_lines(vars(route))


def decode_transfer_route(data: bytes) -> TransferRoute:
    """Decode a published route; ParseError for invalid lines."""
    return TransferRoute(**transfer_messages_in_spool.decode_key_value_lines(data, KEYS))


TIMEOUT_S = 15.0


def remote_cluster_access_of_person(section: "Mapping[str, object]", name: str, person: str) -> Away:
    """Return how a user reaches a remote cluster, from the cluster's section in gridbridge.toml."""
    users, timeout_s = section.get("users"), section.get("command_timeout_s")
    account = str(users.get(person, person)) if isinstance(users, dict) else person
    way = parse_ssh_login_address(str(section.get("ssh", "")), account)
    patience_s = float(timeout_s) if isinstance(timeout_s, int | float) else TIMEOUT_S
    if section.get("kind") == EMBEDDED:
        from gridbridge.model.fixed_paths import PYTHON

        folder = str(section.get("folder", ""))
        return EmbeddedClusterAccess(path=folder, python=PYTHON, timeout_s=patience_s)
    if section.get("kind") == OAR:
        binaries = str(section.get("binaries", "/usr/bin"))
        return OarServerAccess(binaries=binaries, timeout_s=patience_s, login=way)
    return GridEngineCellAccess(
        root=str(section.get("root", "/var/lib/gridengine")),
        cell=str(section.get("cell", name)),
        qmaster_port=str(section.get("qmaster_port", "")),
        execd_port=str(section.get("execd_port", "")),
        binaries=str(section.get("binaries", "/usr/lib/gridengine")),
        timeout_s=patience_s,
        login=way,
    )
