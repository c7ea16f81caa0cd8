"""The lab's folders and files, all of them outside the checkout.

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
    """Return the file that marks a host's disk as a bare host's and contains its host name."""
    return host_dir(host) / "bare"


def host_key(host: str) -> Path:
    """Return the path of a bare host's ssh key, made and removed with its disk."""
    return host_dir(host) / "host_key"


def home(domain: str) -> Path:
    """Return the /home of a domain."""
    return STATE / "domains" / domain / "home"


def spool(cluster: str) -> Path:
    """Return the spool of the transfers of a cluster."""
    return STATE / "spools" / cluster


def built(cluster: str) -> Path:
    """Return the file that marks a cluster's master as completely set up."""
    return STATE / "cells" / f"{cluster}.built"


def host_record(name: str) -> Path:
    """Return the file that records the host's init process."""
    return RUN / f"host.{name}"
