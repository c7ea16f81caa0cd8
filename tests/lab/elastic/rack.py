"""A power provider for squeeze tests: a script records each request, and the test switches the host."""

from collections.abc import Iterable

from tests.lab.grid import Grid

RACK, SWITCH_AT = "/run/squeeze-test", "/usr/local/bin/squeeze-test-switch"
SWITCH = f"""#!/bin/sh
# on, off or status of a host; the test reads the requests in this folder and writes the power states
case $1 in
    status) cat {RACK}/$2.is ;;
    *) echo "$1" >{RACK}/$2.wanted ;;
esac
"""


def sections(hosts: Iterable[str], max_nodes: int) -> str:
    powers = "".join(f'[power.{host}]\nprovider = "rack"\n' for host in hosts)
    return f"""
[balance]
max_nodes = {max_nodes}
min_nodes = 1
[demand]
idle_timeout_s = 1.0
shrink_pause_s = 0.0
boot_timeout_s = 20.0
[squeeze]
enabled = true
[provider.rack]
kind = "power"
way = "command"
program = "{SWITCH_AT}"
timeout_s = 10.0
{powers}"""


def install_switch(grid: Grid, master: str) -> None:
    grid.on(master, "tee", SWITCH_AT, stdin=SWITCH)
    grid.sh(master, f"chmod 755 {SWITCH_AT}")


def make_rack(grid: Grid, master: str, hosts: Iterable[str]) -> None:
    """Make the power program's folder, owned by the balancer's account, with all hosts on."""
    grid.sh(master, f"install -d -m 755 -o gridbridge-admin {RACK}")
    for host in hosts:
        grid.sh(master, f"echo on >{RACK}/{host}.is")


def power_state(grid: Grid, master: str, host: str) -> str:
    return grid.sh(master, f"cat {RACK}/{host}.is").strip()


def switch_as_requested(grid: Grid, master: str, hosts: Iterable[str]) -> None:
    for host in hosts:
        wanted = grid.on(master, "cat", f"{RACK}/{host}.wanted").out.strip()
        if wanted and wanted != power_state(grid, master, host):
            grid.lab("power", host, wanted)
            grid.sh(master, f"echo {wanted} >{RACK}/{host}.is")
