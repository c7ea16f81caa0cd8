"""What an owner asked for by a file of that person's own, as root reads it."""

import json

from gridbridge.model.places import CAMPAIGNS, TAKEN_REQUEST
from gridbridge.privileged.owner import UNREADABLE, OwnerRefusal
from gridbridge.shell import files

MAX_BYTES = 1 << 16
RESUBMIT = "resubmit"
ROOT = 0


def require_asked(token: str, campaign: int, uid: int) -> str:
    """Return which request it is; the service may call its file otherwise, and can't change this.

    Refused where the campaign's owner, or root, does not ask for its tasks to be tried again.
    """
    if not (token.isascii() and token.isalnum()):
        raise OwnerRefusal(f"{token!r} is no name of a request")
    path = f"{CAMPAIGNS}/{TAKEN_REQUEST}{token}"
    try:
        data, facts = files.read(path, MAX_BYTES)
        request = json.loads(data)
        is_asked = request["verb"] == RESUBMIT and campaign in request["of"]
    except UNREADABLE as error:
        raise OwnerRefusal(f"{path}: {error!r}") from error
    if not is_asked or facts.st_uid not in (uid, ROOT):
        raise OwnerRefusal(f"{path}: its owner does not ask for tasks of campaign {campaign} there")
    return f"{facts.st_ino}.{facts.st_mtime_ns}"
