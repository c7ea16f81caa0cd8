"""The route of a transfer queue: what its starters must know about both clusters.

Values are not checked here, because only root writes gridbridge.toml, from which they come.
"""

from gridbridge.model import light_dataclass, transfer_messages_in_spool

TYPE_CHECKING = False  # importing typing would take as long as importing json
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

BARE = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}  # environment in which commands of batch systems run
GRIDENGINE = "gridengine"  # kind of a cluster; an empty kind also means Grid Engine
OAR = "oar"
EMBEDDED = "embedded"


@light_dataclass(kw_only=True)
class SshLogin:
    host: str
    user: str = ""  # account on the host; empty: same name as the local account
    port: str = ""  # ssh port; empty: the port from ssh_config(5), by default 22
    person: str = ""  # if root runs ssh: the user whose key is used; empty: root's key

    @property
    def shared_connection_key(self) -> tuple[str, str, str, str]:
        """Host, port, remote account and person; logins with equal keys may share an ssh connection."""
        return self.host, self.port, self.user, self.person


def parse_ssh_login_address(address: str, user: str, person: str = "") -> SshLogin | None:
    """Return the ssh login for an address HOST or HOST:PORT; None for an empty address."""
    host, _, port = address.partition(":")
    return SshLogin(host=host, port=port, user=user, person=person) if host else None


class ClusterAccessSettings:
    SETTINGS: "tuple[tuple[str, str], ...]"  # keys of [cluster.NAME] that become values here, with their defaults
    CAN_BE_HOME = True  # whether starters can run on the cluster
    IS_OF_ONE_USER = False
    timeout_s: float
    login: SshLogin | None

    def with_time_limit(self, timeout_s: float) -> "Self":
        """Return access to the same cluster, in which each command's time limit is at most `timeout_s`."""
        return type(self)(**(vars(self) | {"timeout_s": min(timeout_s, self.timeout_s)}))

    def command_environment(self) -> dict[str, str]:
        """Return the environment of the batch system's commands, without the caller's variables."""
        return dict(BARE)

    @property
    def has_own_accounts(self) -> bool:
        """Whether a person's account at the cluster may have another name than on this host."""
        return self.login is not None

    def account_of_user(self, person: str) -> str:
        """Return the account at the cluster for which this access was made, or `person` itself."""
        return self.login.user if self.login else person


@light_dataclass(kw_only=True)
class GridEngineCellAccessSettings(ClusterAccessSettings):
    root: str
    cell: str
    qmaster_port: str
    execd_port: str
    binaries: str
    timeout_s: float
    login: SshLogin | None = None  # None: programs run on this host

    kind = GRIDENGINE
    SETTINGS = (
        ("root", "/var/lib/gridengine"),
        ("cell", ""),
        ("qmaster_port", ""),
        ("execd_port", ""),
        ("binaries", "/usr/lib/gridengine"),
    )

    def command_environment(self) -> dict[str, str]:
        return BARE | {
            "SGE_ROOT": self.root,
            "SGE_CELL": self.cell,
            "SGE_QMASTER_PORT": self.qmaster_port,
            "SGE_EXECD_PORT": self.execd_port,
            "SGE_SINGLE_LINE": "1",
        }


@light_dataclass(kw_only=True)
class EmbeddedClusterAccessSettings(ClusterAccessSettings):
    """How to run the commands of an embedded cluster: its folder, and a Python that has gridbridge."""

    folder: str
    python: str = ""  # empty: the Python of this installation
    timeout_s: float
    login: SshLogin | None = None  # an embedded cluster is never reached by ssh

    kind = EMBEDDED
    SETTINGS = (("folder", ""),)
    IS_OF_ONE_USER = True


@light_dataclass(kw_only=True)
class OarServerAccessSettings(ClusterAccessSettings):
    """How to reach an OAR server: by OAR's commands on a frontend, or by OAR's REST interface."""

    login: SshLogin | None = None  # None: programs run on this host
    binaries: str = "/usr/bin"
    timeout_s: float
    ends: str = ""  # FIFO that receives the ids of ended OAR jobs; empty: ids are not reported
    api: str = ""  # address of the REST interface; empty: OAR's commands run
    api_login: str = ""  # file with the login to the REST interface
    api_account: str = ""  # account as which the REST interface acts

    kind = OAR
    SETTINGS = (("binaries", "/usr/bin"), ("ends", ""), ("api", ""), ("api_login", ""), ("api_account", ""))
    CAN_BE_HOME = False

    @property
    def has_own_accounts(self) -> bool:
        return bool(self.api) or super().has_own_accounts

    def account_of_user(self, person: str) -> str:
        return self.api_account or super().account_of_user(person)


HomeClusterAccessSettings = GridEngineCellAccessSettings | EmbeddedClusterAccessSettings
AnyClusterAccessSettings = GridEngineCellAccessSettings | OarServerAccessSettings | EmbeddedClusterAccessSettings
ACCESS: "dict[str, type[AnyClusterAccessSettings]]" = {
    GRIDENGINE: GridEngineCellAccessSettings,
    OAR: OarServerAccessSettings,
    EMBEDDED: EmbeddedClusterAccessSettings,
}


def access_to_cluster(
    settings: "Mapping[str, object]", timeout_s: float, login: SshLogin | None = None
) -> AnyClusterAccessSettings:
    """Return the access to a cluster with the keys of its section; an unknown kind counts as Grid Engine."""
    access = ACCESS.get(str(settings.get("kind")), GridEngineCellAccessSettings)
    values = {key: str(settings.get(key, default)) for key, default in access.SETTINGS}
    return access(timeout_s=timeout_s, login=login, **values)


class TransferRoute:
    """The home cluster and the remote cluster of one transfer queue; all values are texts."""

    cluster: str
    remote: str
    local_kind: str
    local_root: str  # $SGE_ROOT, or the folder of an embedded home cluster
    local_cell: str
    local_qmaster_port: str
    local_execd_port: str
    local_binaries: str
    local_timeout_s: str
    remote_kind: str
    remote_root: str
    remote_cell: str
    remote_qmaster_port: str
    remote_execd_port: str
    remote_binaries: str
    remote_timeout_s: str
    remote_shell: str
    remote_mapped: str  # yes: a mapping translates what jobs request
    remote_spool: str  # path of the spool on remote hosts; empty: remote hosts don't see the spool
    remote_ssh: str  # HOST or HOST:PORT that runs the remote cluster's commands; empty: this host
    remote_ends: str  # FIFO that receives the ids of ended OAR jobs; empty: ids are not reported
    remote_stage_dir: str
    identity: str  # `remote`: the job's variable JOB_ID is the remote number; empty: the local number
    remote_claim: str  # kind of claims: `file` or `grant SECONDS ACCOUNT`; empty: no claims
    staged: str  # yes: standard output and error of each job are copied home
    stage_in: str  # default paths of input files of the queue's jobs
    stage_out: str  # default paths of output files of the queue's jobs
    remote_users: str  # users with another account name at the cluster: `alice=al_there bob=bo_there`

    def __init__(self, **values: str) -> None:
        for key in KEYS:
            setattr(self, key, values.get(key, ""))

    @property
    def home_cluster_access(self) -> HomeClusterAccessSettings:
        return self._access_to_side("local")  # type: ignore[return-value]  # never the access to an OAR server

    @property
    def remote_cluster_access(self) -> AnyClusterAccessSettings:
        """How to reach the remote cluster, without an ssh login."""
        return self._access_to_side("remote")

    def declares_staged_files(self, context: tuple[tuple[str, str], ...]) -> bool:
        """Say whether the context or the queue names files to copy; such a job runs in its transfer's folder."""
        of_queue = self.stage_in or self.stage_out
        own = any(name in ("stage_in", "stage_out") for name, _ in context)
        return bool(self.remote_ssh and (of_queue or own))

    def remote_cluster_access_as_user(self, person: str) -> AnyClusterAccessSettings:
        cluster = self.remote_cluster_access
        accounts = dict(pair.split("=") for pair in self.remote_users.split())
        cluster.login = parse_ssh_login_address(self.remote_ssh, accounts.get(person, person))
        return cluster

    def _access_to_side(self, side: str) -> AnyClusterAccessSettings:
        prefix = f"{side}_"
        settings = {key.removeprefix(prefix): value for key, value in vars(self).items() if key.startswith(prefix)}
        return access_to_cluster(settings | {"folder": settings["root"]}, float(settings["timeout_s"]))


KEYS = tuple(TransferRoute.__annotations__)


def encode_transfer_route(route: TransferRoute) -> bytes:
    return transfer_messages_in_spool.encode_key_value_lines(vars(route))


def decode_transfer_route(data: bytes) -> TransferRoute:
    """Decode a published route; raise ParseError for invalid lines."""
    return TransferRoute(**transfer_messages_in_spool.decode_key_value_lines(data, KEYS))


TIMEOUT_S = 15.0


def remote_cluster_access_of_person(
    section: "Mapping[str, object]", name: str, person: str
) -> AnyClusterAccessSettings:
    users, timeout_s = section.get("users"), section.get("command_timeout_s")
    account = str(users.get(person, person)) if isinstance(users, dict) else person
    way = parse_ssh_login_address(str(section.get("ssh", "")), account)
    patience_s = float(timeout_s) if isinstance(timeout_s, int | float) else TIMEOUT_S
    acts_as = account if section.get("api") else ""
    return access_to_cluster({"cell": name, **section, "api_account": acts_as}, patience_s, way)
