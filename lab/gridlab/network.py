"""Cables: each host's eth0 is one end of a veth pair, the other end sits in the lab's bridge.

A cut takes the cable out of the bridge. Neighbours are permanent entries, so that a connection
to a host that is cut off hangs instead of failing with "no route to host" after three seconds.
"""

import os
import subprocess
from enum import Enum

from gridlab import keeper, namespaces, presence
from gridlab.errors import LabError
from gridlab.topology import CLUSTERS, Host

LIMIT_S = 10.0
SLOW_RATE = "256kbit"  # a full packet takes 48 ms, and whatever queues behind it waits
SLOW_DELAY = "200ms"


class Cable(Enum):
    """The state of a host's connection."""

    OK = "ok"
    CUT = "cut"
    SLOW = "slow"
    NONE = "-"


def hardware_address(host: Host) -> str:
    """Return the fixed MAC address that belongs to a host's address."""
    return "02:00:" + ":".join(f"{int(part):02x}" for part in host.address.split("."))


def plug_in(host: Host, keeper_pid: int) -> None:
    """Give the calling process's new network namespace its eth0; needs the machine's /proc."""
    mac = hardware_address(host)
    cable = (
        f"link add {host.name} type veth peer name eth0 address {mac} netns {os.getpid()}\n"
        f"link set {host.name} master {keeper.BRIDGE} up\n"
    )
    enter = ["nsenter", f"--net=/proc/{keeper_pid}/ns/net"]
    _run([*enter, "ip", "link", "delete", host.name], check=False)  # left by a power cut just now
    _run([*enter, "ip", "-batch", "-"], cable)
    others = [other for cluster in CLUSTERS for other in cluster.hosts if other != host]
    neighbours = (
        f"neigh replace {other.address} lladdr {hardware_address(other)} dev eth0 nud permanent\n" for other in others
    )
    own = f"link set lo up\naddress add {host.address}/24 dev eth0\nlink set eth0 up\n"
    _run(["ip", "-batch", "-"], own + "".join(neighbours))


def set_cable(host: Host, cable: Cable) -> None:
    """Cut, heal or slow down a host's connection."""
    namespaces.in_child(lambda: _set_cable(host, cable))


def cable_states() -> dict[str, Cable]:
    """Return the state of the connection of each running host, by host name."""
    enter = ["nsenter", f"--net=/proc/{presence.running_keeper().pid}/ns/net"]
    links = _run([*enter, "ip", "-oneline", "link", "show", "type", "veth"])
    return dict(_read_link(line) for line in links.splitlines())


def _read_link(line: str) -> tuple[str, Cable]:
    name = line.split()[1].partition("@")[0].rstrip(":")
    if f" master {keeper.BRIDGE} " not in line:
        return name, Cable.CUT
    return name, Cable.SLOW if " qdisc noqueue " not in line else Cable.OK


def _set_cable(host: Host, cable: Cable) -> None:
    keeper.join("net")
    _run(["tc", "qdisc", "delete", "dev", host.name, "root"], check=False)
    if cable is Cable.CUT:
        _run(["ip", "link", "set", host.name, "nomaster"])
        return
    _run(["ip", "link", "set", host.name, "master", keeper.BRIDGE])
    if cable is Cable.SLOW:
        _slow_down(host)


def _slow_down(host: Host) -> None:
    """Delay packets by netem if the kernel has it, else limit the rate by a token bucket."""
    add = ["tc", "qdisc", "add", "dev", host.name, "root"]
    try:
        _run([*add, "netem", "delay", SLOW_DELAY])
    except LabError:
        _run([*add, "tbf", "rate", SLOW_RATE, "burst", "1600", "latency", "5s"])


def _run(command: list[str], text: str = "", *, check: bool = True) -> str:
    run = subprocess.run(command, input=text, text=True, capture_output=True, timeout=LIMIT_S, check=False)
    if check and run.returncode != 0:
        raise LabError(f"{' '.join(command)}: {run.stderr.strip()}")
    return run.stdout
