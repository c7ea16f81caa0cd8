"""What a wrapper does about its claim before its job's first process (model.claim).

Loaded for such jobs alone; file.sh and grant.sh run within job.sh.
"""

from gridbridge.model.transfer import claim
from gridbridge.shell.files import random_name
from gridbridge.shell.runner import quote

GRANTS = ".gridbridge/grants"  # below the home of the service's account there
HERE = __file__.rpartition("/")[0]


def make(route_says: str) -> str:
    """Return a new claim of the route's kind, with a random token."""
    return random_name(f"{route_says.partition(' ')[0]}.")


def lines(of: str, route_says: str, spool: str, uid: int) -> str:
    """Return the lines of sh for a claim of a person; `route_says`, `spool` are the route's."""
    kind, name = claim.split(of)[0], claim.name_of(of, uid)
    if kind == claim.FILE:
        told = f"gb_claim={quote(f'{spool}/{claim.FOLDER}/{name}')}\n"
    else:
        _, patience_s, account = route_says.split()
        told = f"gb_claim=~{account}/{GRANTS}/{name} gb_patience={patience_s}\n"
    with open(f"{HERE}/{kind}.sh", encoding="utf-8") as body:
        return told + body.read()
