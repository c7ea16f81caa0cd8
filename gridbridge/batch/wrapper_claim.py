"""What a wrapper does about its claim before its job's first process (model.claim).

Loaded for such jobs alone; file.sh and grant.sh run within job.sh.
"""

import os

from gridbridge.errors import StateError
from gridbridge.model.transfer import claim
from gridbridge.shell.files import random_name, replace
from gridbridge.shell.runner import quote

GRANTS = ".gridbridge/grants"  # below the home of the service's account there
HERE = __file__.rpartition("/")[0]


def make(route_says: str) -> str:
    """Return a new claim of the route's kind, with a random token of two halves."""
    return random_name(random_name(f"{route_says.partition(' ')[0]}."))


def keep_key(of: str, spool: str, uid: int) -> None:
    """Write the key of a claim by file, readable by us alone; other claims have no key.

    The folder of keys has to belong to the spool's owner, for anybody may make a name in the spool.
    Raises StateError when the folder does not, or when the key can't be written.
    """
    if claim.split_claim(of)[0] != claim.FILE:
        return
    folder, (name, word) = f"{spool}/{claim.FOLDER}", claim.claim_key_file(of, uid)
    try:
        is_services = os.lstat(folder).st_uid == os.stat(spool).st_uid
    except OSError as error:
        raise StateError(f"{folder}: {error.strerror}") from error
    if not is_services:
        raise StateError(f"{folder}: {claim.NOT_SERVICES}")
    replace(f"{folder}/{name}", f"{word}\n".encode(), mode=0o600, durable=False)


def lines(of: str, route_says: str, spool: str, uid: int) -> str:
    """Return the lines of sh for a claim of a person; `route_says`, `spool` are the route's."""
    kind = claim.split_claim(of)[0]
    if kind == claim.FILE:
        assignments = (
            f"gb_key={quote(f'{spool}/{claim.FOLDER}/{claim.claim_key_file(of, uid)[0]}')}\n"
        )
    else:
        _, patience_s, account = route_says.split()
        name = claim.claim_file_name(of, uid)
        assignments = f"gb_claim=~{account}/{GRANTS}/{name} gb_patience={patience_s}\n"
    with open(f"{HERE}/{kind}.sh", encoding="utf-8") as body:
        return assignments + body.read()
