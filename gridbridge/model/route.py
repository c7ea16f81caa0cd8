"""A route: what a starter must know of its queue. The poller publishes one file for each queue.

The published form is lines of `key=value` (lines.py), so that a hot program reads no
configuration file.
"""

from gridbridge.model import key_value_lines

BARE = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}  # what every client program is given
GRIDENGINE = "gridengine"  # kinds, in the configuration and in routes; an empty one is this
OAR = "oar"
EMBEDDED = "embedded"


class SshLogin:
    """The account and host for a cluster's client programs, reached by ssh with our own key."""

    __slots__ = ("host", "person", "port", "user")

    def __init__(self, *, host: str, user: str = "", port: str = "", person: str = "") -> None:
        self.host = host
        self.user = user  # empty: the one of the same name
        self.port = port  # empty: as ssh_config(5) says, or 22
        self.person = person  # root uses this person's key; empty: root's own


def ssh_login(address: str, user: str, person: str = "") -> SshLogin | None:
    """Return the login at a configured `HOST` or `HOST:PORT`, None for an empty one."""
    host, _, port = address.partition(":")
    return SshLogin(host=host, port=port, user=user, person=person) if host else None


class GridEngineCell:
    """How to reach one Grid Engine cell with the client programs."""

    kind = GRIDENGINE
    __slots__ = ("binaries", "cell", "execd_port", "login", "qmaster_port", "root", "timeout_s")

    def __init__(
        self,
        *,
        root: str,
        cell: str,
        qmaster_port: str,
        execd_port: str,
        binaries: str,
        timeout_s: float,
        login: SshLogin | None = None,
    ) -> None:
        self.root = root
        self.cell = cell
        self.qmaster_port = qmaster_port
        self.execd_port = execd_port
        self.binaries = binaries
        self.timeout_s = timeout_s
        self.login = login  # None: the programs are run here

    def within(self, timeout_s: float) -> "GridEngineCell":
        """Return the same cell with a shorter time limit."""
        return GridEngineCell(
            root=self.root,
            cell=self.cell,
            qmaster_port=self.qmaster_port,
            execd_port=self.execd_port,
            binaries=self.binaries,
            timeout_s=min(timeout_s, self.timeout_s),
            login=self.login,
        )

    def environment(self) -> dict[str, str]:
        """Return what the client programs need, and nothing of the caller's."""
        return BARE | {
            "SGE_ROOT": self.root,
            "SGE_CELL": self.cell,
            "SGE_QMASTER_PORT": self.qmaster_port,
            "SGE_EXECD_PORT": self.execd_port,
            "SGE_SINGLE_LINE": "1",
        }


class EmbeddedFolder:
    """How to reach an embedded cluster: the folder that it is, and a Python that has gridbridge."""

    kind = EMBEDDED
    __slots__ = ("login", "path", "python", "timeout_s")

    def __init__(self, *, path: str, python: str, timeout_s: float) -> None:
        self.path = path
        self.python = python
        self.timeout_s = timeout_s
        self.login: SshLogin | None = None  # an embedded cluster is never reached by ssh

    def within(self, timeout_s: float) -> "EmbeddedFolder":
        """Return the same cluster with a shorter time limit."""
        limit_s = min(timeout_s, self.timeout_s)
        return EmbeddedFolder(path=self.path, python=self.python, timeout_s=limit_s)

    def environment(self) -> dict[str, str]:
        """Return what its program needs, and nothing of the caller's."""
        return dict(BARE)


class OarServer:
    """How to reach an OAR server with the client programs, which only run where it lets them."""

    kind = OAR
    __slots__ = ("binaries", "ends", "login", "timeout_s")

    def __init__(
        self,
        *,
        login: SshLogin | None = None,
        binaries: str = "/usr/bin",
        timeout_s: float,
        ends: str = "",
    ) -> None:
        self.login = login  # None: the programs are run here
        self.binaries = binaries
        self.timeout_s = timeout_s
        self.ends = ends  # the FIFO there in which jobs report their ends; empty: they don't

    def within(self, timeout_s: float) -> "OarServer":
        """Return the same server with a shorter time limit."""
        limit_s = min(timeout_s, self.timeout_s)
        return OarServer(
            login=self.login, binaries=self.binaries, timeout_s=limit_s, ends=self.ends
        )

    def environment(self) -> dict[str, str]:
        """Return what its programs need, and nothing of the caller's."""
        return dict(BARE)


Home = GridEngineCell | EmbeddedFolder  # what can have a transfer queue
Away = GridEngineCell | OarServer | EmbeddedFolder  # what it can lead to


class TransferRoute:
    """One transfer queue: the cluster at home and the one that it leads to."""

    cluster: str  # the local cluster's name
    remote: str  # the other one's
    local_kind: str  # its batch system
    local_root: str  # of an embedded cluster its folder; remote_root too
    local_cell: str
    local_qmaster_port: str
    local_execd_port: str
    local_binaries: str
    local_timeout_s: str
    remote_kind: str  # its batch system
    remote_root: str
    remote_cell: str
    remote_qmaster_port: str
    remote_execd_port: str
    remote_binaries: str
    remote_timeout_s: str
    remote_shell: str  # the shell that runs the wrapper there
    remote_mapped: str  # yes when requests are translated (model.mapping)
    remote_spool: str  # where remote hosts see our spool; empty when they don't
    remote_ssh: str  # where its programs run, HOST or HOST:PORT; empty for here
    remote_ends: str  # the FIFO there in which jobs of OAR report their ends; empty: they don't
    remote_stage_dir: str  # where transfers have their folders for carried files there
    identity: str  # `remote`: JOB_ID is the job's number there; empty: the one at home
    remote_claim: str  # as model.claim says: `file`, or `grant SECONDS ACCOUNT`; empty: none
    staged: str  # yes: the streams of every job come home, even if it declares nothing
    stage_in: str  # what is carried there for a job that declares nothing (staging)
    stage_out: str  # what is carried back
    remote_users: str  # who has another account there: `alice=al_there bob=bo_there`

    def __init__(self, **values: str) -> None:
        for key in KEYS:
            setattr(self, key, values.get(key, ""))

    @property
    def home(self) -> Home:
        """The cluster that the transfer queue is in."""
        return self._folder("local") if self.local_kind == EMBEDDED else self._cell("local")

    @property
    def away(self) -> Away:
        """The cluster that its jobs run in, where that is reached without ssh."""
        if self.remote_kind == OAR:
            return OarServer(
                binaries=self.remote_binaries,
                timeout_s=float(self.remote_timeout_s),
                ends=self.remote_ends,
            )
        return self._folder("remote") if self.remote_kind == EMBEDDED else self._cell("remote")

    def declares(self, context: tuple[tuple[str, str], ...]) -> bool:
        """Say whether files are carried for a job: declared by its context or for its queue.

        Then it works in the transfer's own folder there, else in the home of its account.
        """
        of_queue = self.stage_in or self.stage_out
        own = any(name in ("stage_in", "stage_out") for name, _ in context)
        return bool(self.remote_ssh and (of_queue or own))

    def away_as(self, person: str) -> Away:
        """Return the cluster that its jobs run in, as a person reaches it."""
        cluster = self.away
        accounts = dict(pair.split("=") for pair in self.remote_users.split())
        cluster.login = ssh_login(self.remote_ssh, accounts.get(person, person))
        return cluster

    def _folder(self, side: str) -> EmbeddedFolder:
        from gridbridge.model.places import PYTHON  # every program with a route has loaded it

        values = vars(self)
        timeout_s = float(values[f"{side}_timeout_s"])
        return EmbeddedFolder(path=values[f"{side}_root"], python=PYTHON, timeout_s=timeout_s)

    def _cell(self, side: str) -> GridEngineCell:
        values = vars(self)
        return GridEngineCell(
            root=values[f"{side}_root"],
            cell=values[f"{side}_cell"],
            qmaster_port=values[f"{side}_qmaster_port"],
            execd_port=values[f"{side}_execd_port"],
            binaries=values[f"{side}_binaries"],
            timeout_s=float(values[f"{side}_timeout_s"]),
        )


KEYS = tuple(TransferRoute.__annotations__)


def encode_route(route: TransferRoute) -> bytes:
    """Write a route as it is published."""
    return key_value_lines.encode_lines(vars(route))


def decode_route(data: bytes) -> TransferRoute:
    """Read a published route; ParseError for anything else."""
    return TransferRoute(**key_value_lines.decode_lines(data, KEYS))
