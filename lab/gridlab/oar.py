"""An OAR server: PostgreSQL, configuration, resources, nodes (oar.conf(5), facts/oar.md).

Its keys and those of its nodes come with the base, where the packages made them.
Without cpusets: those of the machine are not the lab's to change.
"""

import json
import shlex
from collections.abc import Sequence

from gridlab import remote
from gridlab.topology import CLUSTER_OF_HOST, Cluster, Host, built_marker

JOIN_LIMIT_S = 30.0
DATABASE = "/var/lib/postgresql/gridlab"
PING = "/usr/local/lib/gridlab/oar-ping"
ALIVE = {"Alive"}

UNSET = (  # the first three make cpusets; a sentinel would be asked before the generic command
    *("JOB_RESOURCE_MANAGER_PROPERTY_DB_FIELD", "JOB_RESOURCE_MANAGER_FILE", "CPUSET_PATH"),
    "PINGCHECKER_SENTINELLE_SCRIPT_COMMAND",
)
CONFIGURATION = {
    "DB_TYPE": "Pg",
    "DB_BASE_PASSWD": "oar",  # the database listens to this cluster's hosts alone
    "DB_BASE_PASSWD_RO": "oar_ro",
    "SERVER_PORT": "6666",
    "DETACH_JOB_FROM_SERVER": "1",
    "OPENSSH_CMD": "/usr/bin/ssh -p 6667 -e none -o ConnectTimeout=5",
    "FINAUD_FREQUENCY": "15",
    "CHECK_NODES_WITH_RUNNING_JOB": "yes",
    "PINGCHECKER_GENERIC_COMMAND": PING,
    "JOBDEL_SOFTWALLTIME": "10",
    "JOBDEL_WALLTIME": "20",
    "SCHEDULER_JOB_SECURITY_TIME": "1",
    "SCHEDULER_MIN_TIME_BETWEEN_2_CALLS": "0",  # too early a call is made 10 s later
    "USERS_ALLOWED_HOLD_RESUME": "yes",
    "LOG_LEVEL": "3",
}
API_LOGINS = {"gridbridge": "gridlab", "gb_gamma": "gridlab-status"}  # the first may name any user
POSTGRESQL = {  # a power cut of the lab leaves the page cache: nothing needs to be synced
    "listen_addresses": "*",
    "fsync": "off",
    "shared_buffers": "32MB",
    "autovacuum": "off",
}


def build(cluster: Cluster) -> None:
    """Set up the database and the server, and start them."""
    remote.script(cluster.master, _database_script(cluster))
    _configure(cluster.master)
    remote.script(
        cluster.master,
        f"""
exec >&2
labctl start postgresql
oar-database --create --db-is-local -y
labctl start oar-server
{_api_script(cluster)}
labctl start oar-api
oarproperty -a core
touch {built_marker(cluster)}
""",
    )


def wait_answering(cluster: Cluster) -> None:
    """Wait until the server and its database answer."""
    remote.wait_for(f"{cluster.name}: oar-server", lambda: _silence(cluster), JOIN_LIMIT_S)


def admit(cluster: Cluster, host: Host) -> None:
    """Add a node's slots to the server, absent until the node reports."""
    if not host.pooled:
        return
    number = int(host.address.rpartition(".")[2])
    lines = (
        f"oarnodesetting -a -h {host.name} -s Absent -p cpuset={slot} -p core={number * cluster.slots + slot}"
        for slot in range(cluster.slots)
    )
    remote.script(cluster.master, "exec >&2\n" + "\n".join(lines))


def known_hosts(cluster: Cluster) -> set[str]:
    """Return the nodes that the server knows."""
    return set(_states(cluster))


def start_worker(host: Host) -> None:
    """Start OAR's sshd on a host; do nothing if it runs."""
    _configure(host)
    remote.script(host, "/usr/local/sbin/labctl start oar-node")


def settle(cluster: Cluster, host: Host) -> None:
    """Do nothing: a new node that is alive has slots."""


def wait_joined(cluster: Cluster, names: Sequence[str]) -> None:
    """Wait until the server calls these nodes alive, and report the answering nodes to it.

    The server itself rechecks suspected nodes after some seconds, but never absent ones.
    """
    remote.wait_for(f"{cluster.name}: nodes", lambda: _missing(cluster, names), JOIN_LIMIT_S)


def _silence(cluster: Cluster) -> str:
    answer = remote.run(cluster.master, ["sh", "-ec", "labctl status oar-server; oarnodes -s"])
    return "" if answer.returncode == 0 else answer.stdout + answer.stderr.strip()


def _states(cluster: Cluster) -> dict[str, set[str]]:
    """Return the states of each node's resources; empty when the server has none."""
    answer = remote.script(cluster.master, "oarnodes -J -s") or "{}"
    nodes: dict[str, dict[str, str]] = json.loads(answer)
    return {name: set(resources.values()) for name, resources in nodes.items()}


def _missing(cluster: Cluster, names: Sequence[str]) -> str:
    """Return the nodes that are not alive, after an attempt to make them alive."""
    states = _states(cluster)
    missing = [name for name in names if states.get(name, ALIVE) != ALIVE]
    for name in missing:
        tell = f'[ -n "$({PING} {name} 2>&1)" ] || oarnodesetting -s Alive -h {name} >&2'
        remote.script(cluster.master, tell)
    return " ".join(missing)


def _configure(host: Host) -> None:
    """Write the values of CONFIGURATION into Debian's oar.conf, once for a host's disk."""
    master = CLUSTER_OF_HOST[host.name].master.name
    values = {**CONFIGURATION, "SERVER_HOSTNAME": master, "DB_HOSTNAME": master}
    lines = "".join(f'{key}="{value}"\n' for key, value in values.items())
    keys = "|".join((*values, *UNSET))
    remote.script(
        host,
        f"""
cd /etc/oar
[ ! -e oar.conf.debian ] || exit 0
cp -p oar.conf oar.conf.new
sed -i -E '/^({keys})=/d' oar.conf.new
printf %s {shlex.quote(lines)} >>oar.conf.new
cp -p oar.conf oar.conf.debian
mv oar.conf.new oar.conf
""",
    )


def _api_script(cluster: Cluster) -> str:
    """Return a script that makes the certificates and logins of the REST interface, which only the lab reaches."""
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650"
    name = cluster.master.name
    logins = "".join(f"htpasswd -bB users {user} {password}\n" for user, password in API_LOGINS.items())
    return f"""
install -d -m 755 /etc/oar/api
cd /etc/oar/api
{make} -subj /CN={name} -addext subjectAltName=DNS:{name} -keyout key -out server.pem
{make} -subj /CN=gridbridge -keyout client.key -out client.pem
cp server.pem authority.pem
cat key >>server.pem
touch users
{logins}
"""


def _database_script(cluster: Cluster) -> str:
    """Return a script that makes an empty database for oar and oar_ro."""
    settings = "".join(f"{key} = '{value}'\n" for key, value in POSTGRESQL.items())
    rules = "local all postgres peer\n" + "".join(
        f"host oar oar,oar_ro {host.address}/32 scram-sha-256\n" for host in cluster.hosts
    )
    as_postgres = "runuser -u postgres --"
    return f"""
exec >&2
install -d -o postgres -g postgres /var/lib/postgresql /run/postgresql
rm -rf {DATABASE}
{as_postgres} /usr/lib/postgresql/*/bin/initdb --no-sync -D {DATABASE}
printf %s {shlex.quote(settings)} >>{DATABASE}/postgresql.conf
printf %s {shlex.quote(rules)} >{DATABASE}/pg_hba.conf
"""
