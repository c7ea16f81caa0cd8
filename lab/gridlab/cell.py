"""A Grid Engine cell: spooling, configuration, queue, parallel environments, hosts.

Follows Debian's init_cluster script, with a cell name, ports and spool folders of its own.
"""

import shlex

from gridlab import remote
from gridlab.topology import Cluster, Host, cell_dir

JOIN_LIMIT_S = 30.0
LIBRARY = "/usr/lib/gridengine"
DEFAULTS = "/usr/share/gridengine"
ALL_HOSTS = "@allhosts"

CONFIGURATION = {  # sge_conf(5)
    "mailer": "/usr/local/lib/gridlab/mailer",
    "load_report_time": "00:00:03",
    "max_unheard": "00:00:20",
    "gid_range": "20000-21000",  # more than any host's slots, else jobs bounce
    "reporting_params": "accounting=true reporting=false flush_time=00:00:01 "
    "accounting_flush_time=00:00:00 joblog=false sharelog=00:00:00",
}
SCHEDULER = {  # sched_conf(5)
    "schedule_interval": "0:0:1",
    "flush_submit_sec": "1",
    "flush_finish_sec": "1",
}
PARALLEL_ENVIRONMENTS = {"smp": "$pe_slots", "mpi": "$round_robin"}


def build(cluster: Cluster) -> None:
    """Set up a cell on its master, start the queue master and create its objects."""
    remote.script(cluster.master, _spool_script(cluster))
    remote.script(cluster.master, "/usr/local/sbin/labctl start qmaster")
    wait_answering(cluster)
    remote.script(cluster.master, _objects_script(cluster))


def wait_answering(cluster: Cluster) -> None:
    """Wait until the queue master answers queries."""
    remote.wait_for(f"{cluster.name}: qmaster", lambda: _silence(cluster), JOIN_LIMIT_S)


def admit(cluster: Cluster, host: Host) -> None:
    """Add a host to its cell, so that its execd can register."""
    remote.script(cluster.master, f"qconf -ah {host.name} >&2\nqconf -as {host.name} >&2\n")


def known_hosts(cluster: Cluster) -> set[str]:
    """Return the execution hosts that the cell knows."""
    return set(remote.run(cluster.master, ["qconf", "-sel"]).stdout.split())


def start_worker(host: Host) -> None:
    """Start an admitted host's execd; do nothing if it runs."""
    remote.script(host, "/usr/local/sbin/labctl start execd")


def settle(cluster: Cluster, host: Host) -> None:
    """Make a host that has registered a plain execution host with slots for the cell's queue.

    Only the registration needs an administrative host; a later restart of execd does not.
    """
    if host.name != cluster.master.name:
        remote.script(cluster.master, f"qconf -dh {host.name} >&2\n")
    if host.pooled:
        remote.script(
            cluster.master,
            f"qconf -shgrp {ALL_HOSTS} | grep -qw {host.name} ||"
            f" qconf -aattr hostgroup hostlist {host.name} {ALL_HOSTS} >&2\n",
        )


def wait_joined(cluster: Cluster, names: list[str]) -> None:
    """Wait until the cell has load reports of these hosts."""
    remote.wait_for(f"{cluster.name}: load reports", lambda: _unheard(cluster, names), JOIN_LIMIT_S)


def _silence(cluster: Cluster) -> str:
    answer = remote.run(cluster.master, ["qconf", "-sh"])
    return "" if answer.returncode == 0 else answer.stderr.strip() or "no answer"


def _unheard(cluster: Cluster, names: list[str]) -> str:
    """Return the names of hosts whose row in qhost has no load yet (column 7, LOAD)."""
    rows = [line.split() for line in remote.run(cluster.master, ["qhost"]).stdout.splitlines()]
    heard = {row[0] for row in rows if len(row) > 6 and row[6] != "-"}
    return " ".join(sorted(set(names) - heard))


def _spool_script(cluster: Cluster) -> str:
    """Return a script that makes an empty cell; it may be repeated after an interruption."""
    common = cell_dir(cluster)
    spool = f"/var/spool/gridengine/{cluster.name}"
    settings = _edits({"execd_spool_dir": f"{spool}/execd", **CONFIGURATION})
    bootstrap = _edits({"spooling_params": f"{spool}/spooldb", "qmaster_spool_dir": f"{spool}/qmaster"})
    defaults = f"runuser -u sgeadmin -- {LIBRARY}/spooldefaults"
    return f"""
rm -rf {spool}
install -d -o sgeadmin -g sgeadmin {common} {spool} {spool}/spooldb {spool}/qmaster
sed {bootstrap} {DEFAULTS}/default-bootstrap >{common}/bootstrap
sed {settings} {DEFAULTS}/default-configuration >/etc/gridlab/configuration
hostname >{common}/act_qmaster
echo {cluster.name} >{common}/cluster_name
chown sgeadmin: {common}/*
exec >&2
runuser -u sgeadmin -- {LIBRARY}/spoolinit berkeleydb libspoolb {spool}/spooldb init
{defaults} configuration /etc/gridlab/configuration
{defaults} complexes {DEFAULTS}/util/resources/centry
{defaults} usersets {DEFAULTS}/util/resources/usersets
{defaults} managers root sgeadmin
"""


def _edits(values: dict[str, str]) -> str:
    """Return sed arguments that replace the values of "key value" lines."""
    edits = (f"s|^{key}[[:space:]].*|{key} {value}|" for key, value in values.items())
    return " ".join(f"-e {shlex.quote(edit)}" for edit in edits)


def _objects_script(cluster: Cluster) -> str:
    """Return a script that creates the cell's objects through the running queue master."""
    submitters = ",".join([host.name for host in cluster.initial_hosts] + list(cluster.clients))
    admins = ",".join([cluster.master.name, *cluster.clients])
    environments = "\n".join(_environment(name) for name in PARALLEL_ENVIRONMENTS)
    queue = _edits(
        {
            "qname": "all.q",
            "hostlist": ALL_HOSTS,
            "slots": str(cluster.slots),
            "pe_list": " ".join(PARALLEL_ENVIRONMENTS),
            # hosts of the lab share one machine's load: a threshold would close them all
            "load_thresholds": "NONE",
        }
    )
    return f"""
exec >&2
cd /run
qconf -ah {admins} || true
qconf -as {submitters} || true
qconf -ssconf | sed {_edits(SCHEDULER)} >scheduler
qconf -Msconf scheduler
printf 'group_name {ALL_HOSTS}\\nhostlist NONE\\n' >hostgroup
qconf -Ahgrp hostgroup
{environments}
qconf -sq | sed {queue} >queue
qconf -Aq queue
"""


def _environment(name: str) -> str:
    """Return a command that adds a parallel environment, in the words of sge_pe(5)."""
    values = {
        "pe_name": name,
        "slots": "9999",
        "user_lists": "NONE",
        "xuser_lists": "NONE",
        "start_proc_args": "NONE",
        "stop_proc_args": "NONE",
        "allocation_rule": PARALLEL_ENVIRONMENTS[name],
        "control_slaves": "TRUE",
        "job_is_first_task": "TRUE",
        "urgency_slots": "min",
        "accounting_summary": "FALSE",
        "qsort_args": "NONE",
    }
    lines = "\n".join(f"{key} {value}" for key, value in values.items())
    return f"cat >pe-{name} <<'EOF'\n{lines}\nEOF\nqconf -Ap pe-{name}"
