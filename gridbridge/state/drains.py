"""Reads and writes published files that say which clusters an administrator has drained, and why."""

import os
from datetime import UTC, datetime

from gridbridge.errors import ParseError, StateError
from gridbridge.model import transfer_messages_in_spool
from gridbridge.model.fixed_paths import PUBLISHED
from gridbridge.model.published_status_and_reports import PublishedClusterDrain
from gridbridge.shell import safe_files
from gridbridge.state import published_files

DRAINED = "drained"
KEYS = ("by", "at", "reason", "all")
MAX_BYTES = 4096


def make_cluster_drains_folder(folder: str = PUBLISHED) -> None:
    published_files.make_published_folder(f"{folder}/{DRAINED}")


def drain_cluster(cluster: str, drain: PublishedClusterDrain, folder: str = PUBLISHED) -> None:
    """Mark a cluster as drained; raise StateError for a user without permission."""
    _require_permission_to_drain(folder)
    values = {"by": drain.by, "at": drain.at.isoformat(), "reason": drain.reason}
    values |= {"all": "yes"} if drain.is_site_wide else {}
    if not os.path.isdir(f"{folder}/{DRAINED}"):
        hint = "expected a restart of gridbridge-poller, which creates the folder"
        raise StateError(f"{folder}/{DRAINED}: no such folder; {hint}")
    safe_files.replace_file_atomically(
        f"{folder}/{DRAINED}/{cluster}", transfer_messages_in_spool.encode_key_value_lines(values)
    )


def undrain_cluster(cluster: str, folder: str = PUBLISHED) -> bool:
    """Stop draining a cluster; return False if the cluster was not drained; raise StateError without permission."""
    _require_permission_to_drain(folder)
    if cluster not in list_drained_clusters(folder):  # also refuses names such as ../x, which the list can't contain
        return False
    path = f"{folder}/{DRAINED}/{cluster}"
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
    return True


def _require_permission_to_drain(folder: str) -> None:
    path = f"{folder}/{DRAINED}"
    if os.path.isdir(path) and not os.access(path, os.W_OK, effective_ids=True):
        owner = safe_files.account_name_or_uid(os.stat(path).st_uid)
        raise StateError(f"only {owner} and root may do this: sudo -u {owner} ...")


def list_drained_clusters(folder: str = PUBLISHED) -> frozenset[str]:
    """Return the names of drained clusters, without reading the files."""
    try:
        entries = os.listdir(f"{folder}/{DRAINED}")
    except FileNotFoundError:
        return frozenset()
    return frozenset(name for name in entries if not name.startswith(safe_files.TEMPORARY))


def read_cluster_drains(folder: str = PUBLISHED) -> dict[str, PublishedClusterDrain]:
    drains = {}
    for name in sorted(list_drained_clusters(folder)):
        path = f"{folder}/{DRAINED}/{name}"
        try:
            data, _ = safe_files.read_file_only_owner_writes(path, MAX_BYTES)
            values = transfer_messages_in_spool.decode_key_value_lines(data, KEYS)
            at = datetime.fromisoformat(values["at"]).astimezone(UTC)
        except FileNotFoundError:  # the drain was ended a moment ago
            continue
        except (ParseError, KeyError, ValueError) as error:
            raise StateError(f"{path}: not written by gridbridge drain") from error
        drains[name] = PublishedClusterDrain(
            by=values.get("by", ""), at=at, reason=values.get("reason", ""), is_site_wide="all" in values
        )
    return drains
