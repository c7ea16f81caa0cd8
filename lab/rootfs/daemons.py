"""The daemons that labctl knows: how each is started, found and asked."""

import glob
import os
import signal
from dataclasses import dataclass

GRID_ENGINE = "/usr/lib/gridengine"
SSHD = "/usr/sbin/sshd"
DATABASE = "/var/lib/postgresql/gridlab"


@dataclass(frozen=True)
class Daemon:
    """A daemon of this host.

    `process` is its name in /proc/PID/stat, `probe` a command that succeeds if it answers,
    `folders` what it needs, belonging to `owner`. Signals go to one process, or to its whole
    process group where its children would outlive it.
    """

    name: str
    process: str
    pid_file: str
    command: tuple[str, ...]
    probe: tuple[str, ...]
    folders: tuple[str, ...]
    owner: str = "root"
    stop_signal: signal.Signals = signal.SIGTERM
    is_group: bool = False


def known(host: dict[str, str]) -> dict[str, Daemon]:
    """Return the daemons that this host could run, by name."""
    daemons = [_sshd("sshd", 22, ())]
    if "SGE_CELL" in host:
        daemons += [_qmaster(host), _execd(host)]
    else:
        daemons += [_sshd("oar-node", 6667, ("-f", "/etc/oar/sshd_config"))]
        daemons += [_postgresql(), _oar_server(), _oar_api()]
    return {daemon.name: daemon for daemon in daemons}


def _qmaster(host: dict[str, str]) -> Daemon:
    pid_file = f"{_spool(host)}/qmaster/qmaster.pid"
    return _grid_engine("qmaster", host, pid_file, host["SGE_QMASTER_PORT"])


def _execd(host: dict[str, str]) -> Daemon:
    usual = f"{_spool(host)}/execd/{os.uname().nodename}/execd.pid"
    pid_file = host.get("SGE_EXECD_PIDFILE", usual)  # as Debian's own start has it
    return _grid_engine("execd", host, pid_file, host["SGE_EXECD_PORT"])


def _grid_engine(name: str, host: dict[str, str], pid_file: str, port: str) -> Daemon:
    spool = _spool(host)
    return Daemon(
        name=name,
        process=f"sge_{name}",
        pid_file=pid_file,
        command=(f"{GRID_ENGINE}/sge_{name}",),
        probe=(f"{GRID_ENGINE}/qping", "-info", os.uname().nodename, port, name, "1"),
        folders=(spool, f"{spool}/execd"),
        owner="sgeadmin",
    )


def _spool(host: dict[str, str]) -> str:
    return f"/var/spool/gridengine/{host['SGE_CELL']}"


def _postgresql() -> Daemon:
    """Return the database of the OAR server; a fast shutdown does not wait for its clients."""
    control = "".join(glob.glob("/usr/lib/postgresql/*/bin/pg_ctl"))
    start = ("runuser", "-u", "postgres", "--", control, "start", "--wait", "--silent")
    return Daemon(
        name="postgresql",
        process="postgres",
        pid_file=f"{DATABASE}/postmaster.pid",
        command=(*start, "-D", DATABASE),
        probe=("pg_isready", "--quiet"),
        folders=("/run/postgresql",),
        owner="postgres",
        stop_signal=signal.SIGINT,
    )


def _oar_server() -> Daemon:
    return Daemon(
        name="oar-server",
        process="Almighty",
        pid_file="/run/oar-server.pid",
        command=("/usr/sbin/oar-server",),
        probe=("bash", "-c", f": <>/dev/tcp/{os.uname().nodename}/6666"),
        folders=(),
        is_group=True,
    )


def _oar_api() -> Daemon:
    return Daemon(
        name="oar-api",
        process="apache2",
        pid_file="/run/oar-api/apache2.pid",
        command=("/usr/sbin/apache2", "-f", "/etc/gridlab/oar-api.conf", "-C", f"ServerName {os.uname().nodename}"),
        probe=("bash", "-c", f": <>/dev/tcp/{os.uname().nodename}/6669"),
        folders=("/run/oar-api", "/var/log/oar-api"),
        owner="oar",
        is_group=True,
    )


def _sshd(name: str, port: int, options: tuple[str, ...]) -> Daemon:
    pid_file = f"/run/{name}.pid"
    log = f"/var/log/gridlab-{name}.log"  # the lab has no syslog
    return Daemon(
        name=name,
        process="sshd",
        pid_file=pid_file,
        command=(SSHD, "-E", log, "-o", f"PidFile={pid_file}", *options),
        probe=_greeted(port),
        folders=("/run/sshd",),
    )


def _greeted(port: int) -> tuple[str, ...]:
    """Return a command that succeeds if an ssh server greets on a port."""
    script = 'exec 3<>"/dev/tcp/$1/$2" && read -r -t 3 -u 3 line && [[ $line == SSH-* ]]'
    return ("bash", "-c", script, "probe", os.uname().nodename, str(port))
