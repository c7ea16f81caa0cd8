"""Where the lab keeps things. All of it is outside the checkout: one lab a machine.

`down` deletes STATE and RUN; CACHE survives until `down --purge`.
"""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
ROOTFS = CHECKOUT / "lab" / "rootfs"

STATE = Path("/var/lib/gridbridge-lab")
RUN = Path("/run/gridbridge-lab")
LOCK = Path("/run/gridbridge-lab.lock")
CACHE = Path("/var/cache/gridbridge-lab")

OPT = STATE / "opt"
KEYS = STATE / "keys"
OWNER = RUN / "owner"
KEEPER = RUN / "keeper"
UNFINISHED = RUN / "unfinished"


def host_dir(name: str) -> Path:
    """Return the folder of a host: upper and work (its disk), root (mount point), console.log."""
    return STATE / "hosts" / name


def home(domain: str) -> Path:
    """Return the /home of a domain."""
    return STATE / "domains" / domain / "home"


def spool(cluster: str) -> Path:
    """Return the spool of the transfers of a cluster."""
    return STATE / "spools" / cluster


def built(cluster: str) -> Path:
    """Return the file that says that a cluster's master has been set up completely."""
    return STATE / "cells" / f"{cluster}.built"


def host_record(name: str) -> Path:
    """Return the file that says which process is the host's init."""
    return RUN / f"host.{name}"
