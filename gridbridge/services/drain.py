"""Drain a remote cluster: nothing more goes there, what is there goes on."""

import os
import pwd
from datetime import UTC, datetime

from gridbridge.errors import GridbridgeError
from gridbridge.model.places import PUBLISHED
from gridbridge.model.shown import ShownDrain
from gridbridge.state import drains, shown

MAX_CHARACTERS = 500


def drain(cluster: str, reason: str, folder: str = PUBLISHED) -> None:
    """Close the queues that lead to a cluster; the poller does it at its next look.

    Raises GridbridgeError for a cluster to which no queue leads, StateError for who may not.
    """
    _refuse_unknown(cluster, folder)
    if not reason.isprintable() or not 0 < len(reason) <= MAX_CHARACTERS:
        raise GridbridgeError(f"the reason is one line of at most {MAX_CHARACTERS} characters")
    by = pwd.getpwuid(os.getuid()).pw_name
    drains.put(cluster, ShownDrain(by=by, at=datetime.now(UTC), reason=reason), folder)


def undrain(cluster: str, folder: str = PUBLISHED) -> None:
    """Let jobs go there again; GridbridgeError for a cluster that is not drained."""
    if not drains.remove(cluster, folder):
        known = ", ".join(sorted(drains.names(folder))) or "none"
        raise GridbridgeError(f"{cluster} is not drained; those that are: {known}")


def _refuse_unknown(cluster: str, folder: str) -> None:
    service = shown.read_all(folder).service
    reached = sorted({route.cluster for route in service.routes}) if service else []
    if cluster not in reached:
        known = ", ".join(reached) or "none"
        raise GridbridgeError(f"no transfer queue leads to {cluster!r}; there are some to: {known}")
