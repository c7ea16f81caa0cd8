"""Whether root alone decides what a path leads to: the file, each folder above it, each link.

Programs that root runs obey no other file, as with sshd(8) and sudo(8), and neither does the
service. Other people may read any file, since nothing runs with more rights for it.
"""

import os
import pwd
import stat

from gridbridge.errors import UntrustedFile
from gridbridge.shell.runner import quote

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = 0
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH  # the group's bits are the mask of an ACL, too
MAX_LINKS = 40  # path_resolution(7)
PLAIN = "/-_.+@%"

Doubt = tuple[str, str]  # what is wrong with a place, and the command that corrects it


def demanded() -> int | None:
    """Return the owner that files must have for us to obey them: root for root, any for others."""
    return ROOT if os.geteuid() == ROOT else None


def require(path: str, opened: int | None = None, owner: int = ROOT) -> None:
    """Raise Untrusted unless only `owner` and root can change a file and what leads to it.

    Who has `opened` it asks about that file as well; OSError when the path leads nowhere.
    """
    doubts = dict(along(path, owner))
    if opened is not None:
        doubts |= of(path, os.fstat(opened), owner)
    if doubts:
        raise UntrustedFile(path, ", ".join(doubts), " && ".join(doubts.values()))


def along(path: str, owner: int = ROOT) -> "Iterator[Doubt]":
    """Yield what lets others change the target of a path.

    In a sticky folder nobody else can rename or remove root's files, so it may lie above.
    """
    for step in way(path):
        facts = os.lstat(step)
        is_sticky = facts.st_mode & stat.S_ISVTX and step != path
        yield from (_owned if is_sticky else of)(step, facts, owner)


def beneath(folder: str) -> "Iterator[tuple[str, tuple[Doubt, ...]]]":
    """Yield every place in a folder, with what lets others than root change it."""
    for at, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = f"{at}/{name}"
            yield path, tuple(of(path, os.lstat(path)))


def way(path: str) -> "Iterator[str]":
    """Yield each place through which a path leads, a link before its target."""
    pending, at, links = path.split("/")[::-1], "", 0
    yield "/"
    while pending:
        name = pending.pop()
        if name == "..":
            at = at.rpartition("/")[0]
        if name in ("", ".", ".."):
            continue
        yield f"{at}/{name}"
        try:
            target = os.readlink(f"{at}/{name}")
        except OSError:  # no link
            at = f"{at}/{name}"
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(40, "Too many levels of symbolic links")
        pending.extend(target.split("/")[::-1])
        at = "" if target.startswith("/") else at


def of(path: str, facts: os.stat_result, owner: int = ROOT) -> "Iterator[Doubt]":
    """Yield what lets others change one file, folder or link."""
    yield from _owned(path, facts, owner)
    if facts.st_mode & OTHERS_WRITE and not stat.S_ISLNK(facts.st_mode):
        mode = stat.S_IMODE(facts.st_mode)
        yield f"{path} has mode {mode:04o}", f"chmod go-w {_word(path)}"


def name_of(uid: int) -> str:
    """Return an account's name, its number when it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _owned(path: str, facts: os.stat_result, owner: int) -> "Iterator[Doubt]":
    if facts.st_uid not in (ROOT, owner):
        link = "-h " if stat.S_ISLNK(facts.st_mode) else ""
        yield f"{path} belongs to {name_of(facts.st_uid)}", f"chown {link}root {_word(path)}"


def _word(path: str) -> str:
    is_plain = path.isascii() and path.translate({ord(sign): None for sign in PLAIN}).isalnum()
    return path if is_plain else quote(path)
