"""Where the lab keeps things, all of it outside the checkout.

`down` deletes STATE and RUN; CACHE survives until `down --purge`. With GRIDLAB=2 to 9 in the
environment everything is about another lab, which shares with the others its cache alone.
"""

import os
from pathlib import Path

CHOSEN = os.environ.get("GRIDLAB", "")
NAMES = {"": "gridbridge-lab", **{number: f"gridbridge-lab-{number}" for number in "23456789"}}
NAME = NAMES.get(CHOSEN, "")  # empty: there is no such lab

CHECKOUT = Path(__file__).resolve().parents[2]
ROOTFS = CHECKOUT / "lab" / "rootfs"

STATE = Path("/var/lib") / NAME
RUN = Path("/run") / NAME
LOCK = Path(f"/run/{NAME}.lock")
CACHE = Path("/var/cache/gridbridge-lab")

OPT = STATE / "opt"
KEYS = STATE / "keys"
OWNER = RUN / "owner"
KEEPER = RUN / "keeper"
PROVIDER = STATE / "provider"  # what the power service knows, and the token that it obeys
PROVIDER_RECORD = RUN / "provider"
UNFINISHED = RUN / "unfinished"


def host_dir(name: str) -> Path:
    """Return the folder of a host: upper and work (its disk), root (mount point), console.log."""
    return STATE / "hosts" / name


def bare_name(host: str) -> Path:
    """Return the file that says that a host's disk is a bare one's, and how the host is called."""
    return host_dir(host) / "bare"


def host_key(host: str) -> Path:
    """Return the key that a bare host's sshd shows; made with its disk, gone with it."""
    return host_dir(host) / "host_key"


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
