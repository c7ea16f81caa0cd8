"""Which of the names in the folder of campaign files are looked at, and in which order."""

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress

TOKEN = re.compile("[0-9a-f]{32}")  # as files.random_name makes it
A_SCAN = 10  # files of a person in one look


def begun(listed: Iterable[str], brought: str, taken: str, folder: str) -> list[str]:
    """Rename what was brought, and return the tokens of all that is begun and not finished."""
    known = list(listed)
    for name in some(known, brought, folder):
        with suppress(OSError):  # taken back, or something odd stands there
            os.rename(f"{folder}/{name}", f"{folder}/{taken}{name.removeprefix(brought)}")
            known.append(f"{taken}{name.removeprefix(brought)}")
    return [name.removeprefix(taken) for name in some(known, taken, folder)]


def some(listed: Iterable[str], prefix: str, folder: str) -> list[str]:
    """Return names of a kind, the first of each person: nobody's many files hide another's."""
    of_uid: dict[int, list[str]] = {}
    for name in listed:
        if not _is_of(name, prefix):
            continue
        with suppress(OSError):
            facts = os.lstat(f"{folder}/{name}")
            if not stat.S_ISDIR(facts.st_mode):
                of_uid.setdefault(facts.st_uid, []).append(name)
    return [name for names in of_uid.values() for name in sorted(names)[:A_SCAN]]


def _is_of(name: str, prefix: str) -> bool:
    """Say whether a name is one that our programs give; what else lies there is left alone."""
    return name.startswith(prefix) and bool(TOKEN.fullmatch(name.removeprefix(prefix)))
