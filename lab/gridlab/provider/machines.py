"""Starts and ends the hosts behind rented nodes, by a program of its own.

Forking is not for a process with threads, and the lab's lock stays with the program when the
service is killed: whoever waits for the lock never finds a host half made.
"""

import subprocess

from gridlab import lock, paths
from gridlab.errors import LabError
from gridlab.provider.nodes import Node

LIMIT_S = 120.0


def is_free(host: str) -> bool:
    """Say whether a reserve host has no disk: it never ran, or was deleted."""
    return not paths.host_dir(host).exists()


def boot(node: Node) -> None:
    """Switch a node on; a node without a disk becomes a new machine."""
    if paths.host_key(node.host).with_suffix(".pub").exists():
        _power(node.host, "on")
        return
    _power(node.host, "gone")
    _power(node.host, "bare", "--name", node.name)


def stop(node: Node) -> None:
    """Switch a node off; its disk stays."""
    _power(node.host, "off")


def throw_away(node: Node) -> None:
    """End a node with its disk."""
    _power(node.host, "gone")


def _power(host: str, state: str, *options: str) -> None:
    program = str(paths.CHECKOUT / "lab" / "lab")
    with lock.exclusive() as handle:
        run = subprocess.run(
            [program, "power", host, state, "--locked", *options],
            pass_fds=(handle,),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    if run.returncode != 0:
        raise LabError(run.stderr.strip())
