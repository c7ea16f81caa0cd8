"""The status of every host: power, network and the health of its daemons."""

import subprocess

from gridlab import network, paths, presence
from gridlab.network import Cable
from gridlab.output import say_table
from gridlab.topology import CLUSTER_OF_HOST, POWER_SERVICE, PROVIDED, Cluster, Host

LIMIT_S = 15.0
HEADING = ("HOST", "CLUSTER", "ADDRESS", "POWER", "NET", "DAEMONS")


def show(clusters: tuple[Cluster, ...]) -> bool:
    """Print a table of hosts; return whether everything that should run does."""
    cables = network.cable_states()
    listed = [host for cluster in clusters for host in cluster.hosts]
    checks = {host.name: _ask(host) for host in listed if presence.init_of(host) is not None}
    rows = []
    healthy = True
    for host in listed:
        asked = checks.get(host.name)
        daemons, good = _answer(asked) if asked else ("-", not host.initial)
        power = "on" if asked else "off"
        cable = cables.get(host.name, Cable.NONE) if asked else Cable.NONE
        cluster = CLUSTER_OF_HOST[host.name].name
        rows.append((host.name, cluster, host.address, power, cable.value, daemons))
        healthy = healthy and good and cable is not Cable.CUT
    provider, is_serving = _provider(clusters)
    say_table([HEADING, *rows, *provider])
    return healthy and is_serving


def _provider(clusters: tuple[Cluster, ...]) -> tuple[list[tuple[str, ...]], bool]:
    """Return the row of the power service, and whether its state is right."""
    is_wanted = PROVIDED in clusters and paths.built(PROVIDED.name).exists()
    power = "on" if presence.provider() else "off"
    row = (POWER_SERVICE.name, "-", POWER_SERVICE.address, power, "-", "power-service")
    return ([row], power == "on") if is_wanted else ([], True)


def _ask(host: Host) -> subprocess.Popen[str]:
    command = [str(paths.CHECKOUT / "lab" / "lab"), "on", host.name, "--", "labctl", "status"]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def _answer(asked: subprocess.Popen[str]) -> tuple[str, bool]:
    try:
        text, _ = asked.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        asked.kill()
        return "no answer", False
    return ", ".join(text.splitlines()), asked.returncode == 0
