"""The keeper: process 1 of a PID namespace around the whole lab.

It holds the mount namespace with the base systems and the network namespace with the bridge.
Every host's namespaces are nested in the keeper's, so ending this one process ends the lab, and
nothing of the lab is ever mounted or plugged on the machine itself.
"""

import os
import signal
import subprocess

from gridlab import namespaces, paths, presence
from gridlab.process import record_self

BRIDGE = "br0"
END_LIMIT_S = 20.0


def start() -> None:
    """Start the keeper unless it runs."""
    if presence.keeper() is None:
        namespaces.in_child(_spawn)


def end() -> None:
    """End the keeper and with it every process of the lab."""
    process = presence.keeper()
    if process is None:
        return
    process.send(signal.SIGKILL)
    process.wait_gone(END_LIMIT_S)


def join(*names: str) -> None:
    """Enter namespaces of the keeper; "pid" applies to the next children."""
    namespaces.join(presence.running_keeper().pid, *names)


def _spawn() -> None:
    namespaces.leave_terminal(str(paths.STATE / "keeper.log"))
    namespaces.unshare(
        namespaces.CLONE_NEWNS
        | namespaces.CLONE_NEWNET
        | namespaces.CLONE_NEWUTS
        | namespaces.CLONE_NEWIPC
        | namespaces.CLONE_NEWPID
    )
    if os.fork():
        return
    namespaces.keep_mounts_private()
    _plug_bridge()
    record_self(paths.KEEPER)
    os.chdir("/")
    os.execv(paths.ROOTFS / "init", ["gridlab-keeper", "keeper"])


def _plug_bridge() -> None:
    commands = f"link set lo up\nlink add {BRIDGE} type bridge\nlink set {BRIDGE} up\n"
    subprocess.run(["ip", "-batch", "-"], input=commands, text=True, check=True, timeout=10)
