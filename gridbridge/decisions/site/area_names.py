"""Judges the names in a storage area: an account's name has to be that account's folder."""

import re
from collections.abc import Iterable, Iterator, Mapping

from gridbridge.model.site.setup_findings import CheckFinding, FindingState

ACCOUNT = re.compile(r"(?=.*[^0-9])[A-Za-z0-9_][A-Za-z0-9_.-]{0,255}")  # a number would be a uid
FOLDER = "d"  # find(1), -printf %y
SHOWN = 5


def strange_names(entries: Iterable[str]) -> dict[str, str]:
    """Return names and owners of entries that are no folder of the account of that name.

    `entries` are `OWNER TYPE NAME`; a name may have ends of lines. There may be no account of such
    a name.
    """
    owners = {}
    for entry in entries:
        owner, _, kind_and_name = entry.partition(" ")
        kind, _, name = kind_and_name.partition(" ")
        if ACCOUNT.fullmatch(name) and (kind != FOLDER or owner != name):
            owners[name] = owner
    return owners


def findings(
    storage: str, path: str, host: str, owners_by_name: Mapping[str, str] | None, most: int = 0
) -> Iterator[CheckFinding]:
    """Judge an area by the accounts' names that others own in it; None: nobody could look.

    `most`: only so many of its names were looked at, and there are more; 0: all were.
    """
    if owners_by_name is None:
        return
    item = f"storage {storage}: names"
    if most:
        yield CheckFinding(
            item=f"{item} that were not looked at",
            state=FindingState.WARNING,
            found=f"{path} has more than {most} names; the first {most} were looked at",
            right=f"{most} names at most",
            where=host,
            hint="a name that another account has taken may be among the others; see who made so"
            f" many: find {path}/ -mindepth 1 -maxdepth 1 -printf '%u\\n' | sort | uniq -c",
        )
    if not owners_by_name and not most:
        yield CheckFinding(item=item, state=FindingState.OK, found=path)
    if not owners_by_name:
        return
    owners = [f"{name} is {owner}'s" for name, owner in sorted(owners_by_name.items())]
    more = f", and {len(owners) - SHOWN} more" if len(owners) > SHOWN else ""
    yield CheckFinding(
        item=item,
        state=FindingState.WARNING,
        found=f"{path}: {', '.join(owners[:SHOWN])}{more}",
        right="no account's name taken by another account",
        where=host,
        hint="replicas of these accounts go to folders NAME.WORD there; ask the owners to remove"
        f" what they made, or remove it as root: rm -r -- {path}/NAME",
    )
