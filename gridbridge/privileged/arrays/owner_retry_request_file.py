"""Reads, as root, the file by which an owner requests that tasks are tried again."""

import json

from gridbridge.model.fixed_paths import CAMPAIGNS, TAKEN_REQUEST
from gridbridge.privileged.owner import UNREADABLE, AsUserRequestRefusal
from gridbridge.shell import safe_files

MAX_BYTES = 1 << 16
RESUBMIT = "resubmit"
ROOT = 0


def require_owner_retry_request(token: str, campaign: int, uid: int) -> str:
    """Return the identity of an owner's request file, which a rename does not change.

    Raises AsUserRequestRefusal unless the campaign's owner, or root, asks for new tries of its
    tasks.
    """
    if not (token.isascii() and token.isalnum()):
        raise AsUserRequestRefusal(f"{token!r} is not the name of a request")
    path = f"{CAMPAIGNS}/{TAKEN_REQUEST}{token}"
    try:
        data, facts = safe_files.read_file_only_owner_writes(path, MAX_BYTES)
        request = json.loads(data)
        is_asked = request["verb"] == RESUBMIT and campaign in request["of"]
    except UNREADABLE as error:
        raise AsUserRequestRefusal(f"{path}: {error!r}") from error
    if not is_asked or facts.st_uid not in (uid, ROOT):
        raise AsUserRequestRefusal(f"{path}: expected the owner's resubmit request for campaign {campaign}")
    return f"{facts.st_ino}.{facts.st_mtime_ns}"
