"""The command line of the lab: parse, dispatch, and the one error boundary.

Commands import what they need when they are called: `on` is called thousands of times by tests.
"""

import argparse
import contextlib
import os
import resource
import traceback
from collections.abc import Sequence

from gridlab import lock, paths
from gridlab.errors import LabError, UsageError
from gridlab.output import complain, say
from gridlab.topology import CLUSTER_BY_NAME, CLUSTERS, DOMAINS, HOST_BY_NAME, Cluster, Host

DESCRIPTION = "A real grid on one machine: hosts are namespaces, clusters are real."
EPILOG = """\
examples:
  lab/lab up                                       every cluster
  lab/lab on alpha-master -u alice -- qsub -b y sleep 5
  lab/lab on beta-master -- labctl freeze qmaster  more: labctl --help
  lab/lab power alpha-n1 cut                       as if its plug were pulled
  lab/lab net beta-master cut                      connections to it hang
  lab/lab logs alpha-n1 | less
  lab/lab down

With GRIDLAB=2 (to 9) in the environment all of this is about another lab.

exit status: 0 done, 1 failed (or unhealthy), 2 bad usage; `on`: the command's own,
128+N if signal N ended it, 127 not found, 126 not executable, 125 the lab failed; 141 the reader
of what it prints went away.
"""
READER_GONE = 141  # 128 + SIGPIPE, as of a program that it ends
NOT_STARTED = 125  # exit status of `on` when the lab failed, not the command (as in env(1))
DESCRIPTORS = 1024  # shepherds close as many as they might have, for every task several times
PATHS = {
    "opt": paths.OPT,
    "state": paths.STATE,
    "cache": paths.CACHE,
    "home": paths.home(CLUSTERS[0].domain.name),
    "spool": paths.spool(CLUSTERS[0].name),
}


def main(arguments: Sequence[str]) -> int:
    """Run one command and return the exit status."""
    ours, command = _split(arguments)
    chosen = _parser().parse_args(ours)
    chosen.cmd = command
    failed = NOT_STARTED if chosen.command == "on" else 1
    try:
        if not paths.NAME:
            raise UsageError(f"GRIDLAB={paths.CHOSEN!r}: 2 to 9, or nothing")
        if os.geteuid() != 0:
            raise LabError("the lab needs root: it makes namespaces and mounts in them")
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        status_code: int = COMMANDS[chosen.command](chosen)
    except UsageError as error:
        complain(str(error))
        return 2
    except BrokenPipeError:  # who read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return READER_GONE
    except (LabError, OSError) as error:
        complain(_told(error))
        return failed
    except KeyboardInterrupt:
        return 130
    return status_code


def _told(error: LabError | OSError) -> str:
    """Return an error in one line; a system error without a file name gets its place in the code."""
    if isinstance(error, LabError) or error.filename is not None:
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{error} ({place.filename}:{place.lineno})"


def _split(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Split the lab's own arguments from the command after the first "--"."""
    if "--" not in arguments:
        return arguments, ()
    border = arguments.index("--")
    return arguments[:border], arguments[border + 1 :]


def _up(chosen: argparse.Namespace) -> int:
    from gridlab import grid

    clusters = [_cluster(name) for name in chosen.clusters] or CLUSTERS
    with lock.exclusive():
        grid.up(clusters)
    return 0


def _down(chosen: argparse.Namespace) -> int:
    from gridlab import grid

    with lock.exclusive():
        grid.down()
        if chosen.purge:
            grid.purge()
        lock.forget()
    return 0


def _on(chosen: argparse.Namespace) -> int:
    from gridlab import login

    host = _host(chosen.host)
    lock.check_ours()
    return login.run(host, chosen.user, chosen.cmd or ["/bin/bash", "-l"])


def _status(_: argparse.Namespace) -> int:
    from gridlab import presence, status

    lock.check_ours()
    presence.running_keeper()
    return 0 if status.show(CLUSTERS) else 1


def _power(chosen: argparse.Namespace) -> int:
    from gridlab import grid, presence
    from gridlab import host as hosts

    host = _host(chosen.host)
    acts = {
        "on": grid.switch_on,
        "off": hosts.switch_off,
        "cut": hosts.cut_power,
        "bare": lambda host: grid.switch_on_bare(host, chosen.name or host.name),
        "gone": grid.throw_away,
    }
    with contextlib.nullcontext() if chosen.locked else lock.exclusive():
        lock.check_ours()
        presence.running_keeper()
        acts[chosen.state](host)
    return 0


def _net(chosen: argparse.Namespace) -> int:
    from gridlab import network, presence

    host = _host(chosen.host)
    cables = {"cut": network.Cable.CUT, "heal": network.Cable.OK, "slow": network.Cable.SLOW}
    with lock.exclusive():
        lock.check_ours()
        presence.running_init(host)
        network.set_cable(host, cables[chosen.state])
    return 0


def _faults(chosen: argparse.Namespace) -> int:
    from gridlab import presence
    from gridlab.provider import faults

    lock.check_ours()
    presence.running_keeper()
    faults.switch(chosen.words)
    return 0


def _nodes(_: argparse.Namespace) -> int:
    from gridlab.output import say_table
    from gridlab.provider import nodes

    lock.check_ours()
    rented = nodes.load()
    rows = ((node.id, node.name, node.host, node.place.address, node.state.value) for node in rented)
    say_table([("ID", "NAME", "HOST", "ADDRESS", "STATE"), *rows])
    return 0


def _logs(chosen: argparse.Namespace) -> int:
    from gridlab import logs

    lock.check_ours()
    if chosen.host:
        logs.show(_host(chosen.host))
        return 0
    for host in HOST_BY_NAME.values():
        logs.show(host)
    for domain in DOMAINS:
        logs.show_mail(domain)
    return 0


def _path(chosen: argparse.Namespace) -> int:
    say(str(PATHS[chosen.what]))
    return 0


COMMANDS = {
    "up": _up,
    "down": _down,
    "on": _on,
    "status": _status,
    "power": _power,
    "net": _net,
    "faults": _faults,
    "nodes": _nodes,
    "logs": _logs,
    "path": _path,
}


def _host(name: str) -> Host:
    if name not in HOST_BY_NAME:
        raise UsageError(f"there is no host {name}; known: {', '.join(HOST_BY_NAME)}")
    return HOST_BY_NAME[name]


def _cluster(name: str) -> Cluster:
    if name not in CLUSTER_BY_NAME:
        raise UsageError(f"there is no cluster {name}; known: {', '.join(CLUSTER_BY_NAME)}")
    return CLUSTER_BY_NAME[name]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lab", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start clusters (all by default); repairs what is missing")
    up.add_argument("clusters", nargs="*", metavar="CLUSTER")
    on = commands.add_parser(
        "on",
        help="run a command on a host in a clean login environment",
        usage="lab on HOST [-u USER] [-- CMD...]   (without CMD: a login shell)",
    )
    on.add_argument("host", metavar="HOST")
    on.add_argument("-u", "--user", default="root", help="default: root")
    commands.add_parser("status", help="hosts and daemons; exit status 1 if one is missing")
    power = commands.add_parser(
        "power", help="switch a host on, off cleanly, cut its power; make a bare one of the reserve"
    )
    power.add_argument("host", metavar="HOST")
    power.add_argument("state", choices=("on", "off", "cut", "bare", "gone"))
    power.add_argument("--name", help="of a bare host; default: HOST")
    power.add_argument("--locked", action="store_true", help=argparse.SUPPRESS)  # by the caller
    faults = commands.add_parser("faults", help="have the power service misbehave, or stop that")
    faults.add_argument("words", nargs="*", metavar="FAULT[=VALUE]")
    commands.add_parser("nodes", help="what the power service has rented out")
    net = commands.add_parser("net", help="cut, heal or slow down a host's network")
    net.add_argument("host", metavar="HOST")
    net.add_argument("state", choices=("cut", "heal", "slow"))
    log = commands.add_parser("logs", help="the daemons' own logs, and without HOST the mail too")
    log.add_argument("host", nargs="?", metavar="HOST")
    path = commands.add_parser("path", help="print where something of the lab is on this machine")
    path.add_argument("what", choices=PATHS)
    down = commands.add_parser("down", help="end and delete everything but the cache")
    down.add_argument("--purge", action="store_true", help="delete the cache too")
    return parser
