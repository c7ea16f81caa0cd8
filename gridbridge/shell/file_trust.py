"""Checks that root alone can change a file, its parent folders and all symlinks to it.

Programs that root runs trust no other file, as with sshd(8) and sudo(8), and neither does the
service. Unprivileged users may use any file, since they gain no rights by it.
"""

import os
import pwd
import stat

from gridbridge.errors import FileWritableByOthers
from gridbridge.shell.runner import quote_for_sh

TYPE_CHECKING = False  # importing typing takes as long as importing json
if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = 0
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH  # in files with an ACL the group's bits are its mask
MAX_LINKS = 40  # most symlinks in a path, path_resolution(7)
PLAIN = "/-_.+@%"

Doubt = tuple[str, str]  # fault of a path, repair command


def required_trusted_file_owner() -> int | None:
    """Return the uid that must own trusted files: root if we are root, else None for any."""
    return ROOT if os.geteuid() == ROOT else None


def require_trusted_path(path: str, opened: int | None = None, owner: int = ROOT) -> None:
    """Raise FileWritableByOthers unless only `owner` and root can change a file and its path.

    With the descriptor `opened` the open file is checked as well. Raises OSError if the path leads
    nowhere.
    """
    doubts = dict(write_risks_along_path(path, owner))
    if opened is not None:
        doubts |= write_risks_of_file(path, os.fstat(opened), owner)
    if doubts:
        raise FileWritableByOthers(path, ", ".join(doubts), " && ".join(doubts.values()))


def write_risks_along_path(path: str, owner: int = ROOT) -> "Iterator[Doubt]":
    """Yield each permission by which others can change a path's target.

    A sticky parent folder is accepted: nobody else can rename or remove root's files in it.
    """
    for step in folders_and_links_of_path(path):
        facts = os.lstat(step)
        is_sticky = facts.st_mode & stat.S_ISVTX and step != path
        yield from (_owned if is_sticky else write_risks_of_file)(step, facts, owner)


def write_risks_below_folder(folder: str) -> "Iterator[tuple[str, tuple[Doubt, ...]]]":
    """Yield each path below a folder with the permissions that let others change it."""
    for at, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = f"{at}/{name}"
            yield path, tuple(write_risks_of_file(path, os.lstat(path)))


def folders_and_links_of_path(path: str) -> "Iterator[str]":
    """Yield each folder, symlink and file on a path, a symlink before its target."""
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
        except OSError:  # the path is no symlink
            at = f"{at}/{name}"
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(40, "Too many levels of symbolic links")
        pending.extend(target.split("/")[::-1])
        at = "" if target.startswith("/") else at


def write_risks_of_file(path: str, facts: os.stat_result, owner: int = ROOT) -> "Iterator[Doubt]":
    """Yield the permissions by which others can change one file, folder or symlink."""
    yield from _owned(path, facts, owner)
    if facts.st_mode & OTHERS_WRITE and not stat.S_ISLNK(facts.st_mode):
        mode = stat.S_IMODE(facts.st_mode)
        yield f"{path} has mode {mode:04o}", f"chmod go-w {_word(path)}"


def account_name_or_uid(uid: int) -> str:
    """Return an account's name, its number if it has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _owned(path: str, facts: os.stat_result, owner: int) -> "Iterator[Doubt]":
    if facts.st_uid not in (ROOT, owner):
        link = "-h " if stat.S_ISLNK(facts.st_mode) else ""
        yield (f"{path} belongs to {account_name_or_uid(facts.st_uid)}", f"chown {link}root {_word(path)}")


def _word(path: str) -> str:
    is_plain = path.isascii() and path.translate({ord(sign): None for sign in PLAIN}).isalnum()
    return path if is_plain else quote_for_sh(path)
