"""Drains a remote cluster: no more jobs go there, jobs that are there go on."""

import os
import pwd
from collections.abc import Iterable
from datetime import datetime

from gridbridge.errors import GridbridgeError
from gridbridge.model.places import PUBLISHED
from gridbridge.model.shown import ShownDrain
from gridbridge.state import drains, shown

MAX_CHARACTERS = 500


def drain(cluster: str, reason: str, now: datetime, folder: str = PUBLISHED) -> None:
    """Close the queues that lead to a cluster; the poller does it at its next look.

    Raises GridbridgeError for a cluster to which no queue leads, StateError for others.
    """
    service = shown.read_all(folder).service
    refuse_unreached(cluster, (route.cluster for route in service.routes) if service else ())
    if not reason.isprintable() or not 0 < len(reason) <= MAX_CHARACTERS:
        raise GridbridgeError(f"the reason is one line of at most {MAX_CHARACTERS} characters")
    by = pwd.getpwuid(os.getuid()).pw_name
    drains.put(cluster, ShownDrain(by=by, at=now, reason=reason), folder)


def undrain(cluster: str, folder: str = PUBLISHED) -> None:
    """Let jobs go there again; GridbridgeError for a cluster that is not drained."""
    if not drains.remove(cluster, folder):
        known = ", ".join(sorted(drains.names(folder))) or "none"
        raise GridbridgeError(f"{cluster} is not drained; those that are: {known}")


def refuse_unreached(cluster: str, reached: Iterable[str]) -> None:
    """Raise GridbridgeError for a cluster to which no queue leads."""
    clusters = sorted(set(reached))
    if cluster not in clusters:
        known = ", ".join(clusters) or "none"
        raise GridbridgeError(f"no transfer queue leads to {cluster!r}; there are some to: {known}")
