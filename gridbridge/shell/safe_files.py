"""Reads and writes files safely: in spite of kill -9, full disks and tricks of other users.

Programs of root, and the service, read only files that nobody else can change, as sshd(8) and sudo(8) do.
"""

import os
import stat
from codecs import BOM_UTF8

from gridbridge.errors import FileWritableByOthers, ParseError, StateError

TYPE_CHECKING = False  # importing typing would take as long as importing json
if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedIOBase
    from typing import BinaryIO


ENDLESS = 64 << 20  # longest line, in bytes, that may be skipped
LONGEST = 1 << 20  # longest accepted line in bytes
TEMPORARY = "."  # prefix of the names of unfinished files


def random_file_name(prefix: str = "") -> str:
    """Return a file name with 128 random bits."""
    return prefix + os.urandom(16).hex()


def replace_file_atomically(path: str, data: bytes, mode: int = 0o644, durable: bool = True) -> None:
    """Replace the content of a file by `data` in one step, or raise StateError.

    On a full disk or in an unwritable folder the file stays as it was, without a new file beside it. With `durable`
    the new content survives a power cut, on a filesystem with a journal.
    """
    folder, _, _ = path.rpartition("/")
    beside = f"{folder}/{random_file_name(TEMPORARY)}"
    try:
        _write_new_file_and_rename(beside, path, data, mode, durable)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error


def _write_new_file_and_rename(beside: str, path: str, data: bytes, mode: int, durable: bool) -> None:
    end = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        os.fchmod(end, mode)
        if os.write(end, data) != len(data):
            raise OSError(28, "No space left on device")
        os.rename(beside, path)
        if durable:
            os.fsync(end)
    except OSError:
        remove_file(beside)
        raise
    finally:
        os.close(end)


def remove_file(path: str) -> None:
    """Remove a file if the file exists."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def read_file_only_owner_writes(path: str, max_bytes: int, owner: int | None = None) -> tuple[bytes, os.stat_result]:
    """Read a regular file that only its owner can write; refuse symlinks and files with other hard links.

    Raises FileNotFoundError; or StateError for a refused file, a file above `max_bytes`, or one not of uid `owner`.
    """
    end, facts = open_file_only_owner_writes(path, max_bytes, owner)
    try:
        return os.read(end, facts.st_size), facts  # not max_bytes, because that buffer may need half a gigabyte
    finally:
        os.close(end)


def open_file_only_owner_writes(path: str, max_bytes: int, owner: int | None = None) -> tuple[int, os.stat_result]:
    """Open a file that `read_file_only_owner_writes` would read; the caller closes the descriptor."""
    try:
        end = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
    facts = os.fstat(end)
    try:
        _refuse_file_others_may_control(path, facts, max_bytes, owner)
    except StateError:
        os.close(end)
        raise
    return end, facts


def open_regular_without_blocking(path: str, flags: int) -> int:
    """Open a regular file without blocking on a FIFO or a terminal; an `opener` for open()."""
    end = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(end).st_mode):
        return end
    os.close(end)
    raise OSError(22, "not a regular file")


def checksum_regular_file(path: str) -> tuple[str, int] | None:
    """Read a file; return its SHA-256 in hexadecimal digits and its bytes, or None if it is no regular file."""
    import hashlib  # imported here, because hot programs load this module

    if not stat.S_ISREG(os.stat(path).st_mode):
        return None
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return digest, file.tell()


def is_owned_by_current_user(path: str) -> bool:
    return os.lstat(path).st_uid == os.geteuid()


def does_only_owner_write_file(path: str, facts: os.stat_result, max_bytes: int) -> bool:
    """Say whether `read_file_only_owner_writes` would read a file with these stat facts."""
    try:
        _refuse_file_others_may_control(path, facts, max_bytes, None)
    except StateError:
        return False
    return True


def forbid_others_to_write(folder: str) -> None:
    """Remove other users' write permission from a folder; raise StateError if another user owns the folder."""
    facts = os.lstat(folder)
    if not _is_own_folder(facts):
        raise StateError(f"{folder}: not a folder of uid {os.geteuid()}; remove {folder}")
    if facts.st_mode & 0o022:
        os.chmod(folder, stat.S_IMODE(facts.st_mode) & ~0o022)


def make_private_folder(path: str) -> None:
    """Make a folder that only its owner can enter; rename an existing folder that other users may write."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        facts = os.lstat(path)
        if _is_own_folder(facts) and not facts.st_mode & 0o022:
            return
        os.rename(path, random_file_name(f"{path}."))
        os.mkdir(path, 0o700)


def list_folder_or_empty(folder: str) -> list[str]:
    """Return the names in a folder, none for a missing folder; raise StateError for an unreadable folder."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StateError(f"{folder}: {error.strerror}") from error


def _is_own_folder(facts: os.stat_result) -> bool:
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()


def _refuse_file_others_may_control(path: str, facts: os.stat_result, max_bytes: int, owner: int | None) -> None:
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
        raise StateError(f"{path}: not a regular file with one hard link")
    if facts.st_mode & 0o022:
        raise StateError(f"{path}: other users may write the file; chmod go-w {path}")
    if facts.st_size > max_bytes:
        raise StateError(f"{path}: larger than {max_bytes} bytes")
    if owner is not None and facts.st_uid != owner:
        raise StateError(f"{path}: owned by uid {facts.st_uid}, not {owner}")


def iterate_bounded_lines(
    file: "BinaryIO | BufferedIOBase", path: str, too_long: "list[int] | None" = None
) -> "Iterator[bytes]":
    """Yield each line of a user's file, with the newline; raise ParseError for a line that is too long.

    If `too_long` is given, it gets the number of each line that is too long, and the line is yielded empty. Then only a
    line without an end, as in /dev/zero, raises ParseError.
    """
    number = 1
    while line := file.readline(LONGEST + 1):
        if len(line) > LONGEST:
            if too_long is None or not _skip_rest_of_too_long_line(file, line):
                wrong = f"more than {LONGEST} bytes; expected a file of lines"
                raise ParseError(f"{path}:{number}: {wrong}")
            too_long.append(number)
            line = b"\n"
        yield line.removeprefix(BOM_UTF8) if number == 1 else line
        number += 1


def _skip_rest_of_too_long_line(file: "BinaryIO | BufferedIOBase", part: bytes) -> bool:
    passed_bytes = 0
    while part and not part.endswith(b"\n") and passed_bytes < ENDLESS:
        part = file.readline(LONGEST)
        passed_bytes += len(part)
    return passed_bytes < ENDLESS


ROOT = 0
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH  # in files with an ACL, the group's bits are the mask
MAX_LINKS = 40  # at most this many symlinks in a path, path_resolution(7)
PLAIN = "/-_.+@%"

Doubt = tuple[str, str]  # what is wrong with a path, and the command that corrects the path


def required_trusted_file_owner() -> int | None:
    """Return the uid that must own trusted files: root's for a process of root, else None (any user)."""
    return ROOT if os.geteuid() == ROOT else None


def require_trusted_path(path: str, opened: int | None = None, owner: int = ROOT) -> None:
    """Raise FileWritableByOthers if anyone but `owner` and root can change a path or the file `opened`."""
    doubts = dict(write_risks_along_path(path, owner))
    if opened is not None:
        doubts |= write_risks_of_file(path, os.fstat(opened), owner)
    if doubts:
        raise FileWritableByOthers(path, ", ".join(doubts), " && ".join(doubts.values()))


def write_risks_along_path(path: str, owner: int = ROOT) -> "Iterator[Doubt]":
    """Yield permissions by which other users can change a path's target; a sticky parent folder is no risk."""
    for step in folders_and_links_of_path(path):
        facts = os.lstat(step)
        is_sticky = facts.st_mode & stat.S_ISVTX and step != path
        yield from (_foreign_file_owner_risks if is_sticky else write_risks_of_file)(step, facts, owner)


def write_risks_below_folder(folder: str) -> "Iterator[tuple[str, tuple[Doubt, ...]]]":
    """Yield each path below a folder, with the permissions by which other users can change the path."""
    for at, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = f"{at}/{name}"
            yield path, tuple(write_risks_of_file(path, os.lstat(path)))


def folders_and_links_of_path(path: str) -> "Iterator[str]":
    """Yield each folder, symlink and file on a path; a symlink comes before its target."""
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
        except OSError:
            at = f"{at}/{name}"
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(40, "Too many levels of symbolic links")
        pending.extend(target.split("/")[::-1])
        at = "" if target.startswith("/") else at


def write_risks_of_file(path: str, facts: os.stat_result, owner: int = ROOT) -> "Iterator[Doubt]":
    """Yield the permissions by which other users can change a file, folder or symlink."""
    yield from _foreign_file_owner_risks(path, facts, owner)
    if facts.st_mode & OTHERS_WRITE and not stat.S_ISLNK(facts.st_mode):
        mode = stat.S_IMODE(facts.st_mode)
        yield f"{path} has mode {mode:04o}", f"chmod go-w {_quote_path_for_sh(path)}"


def account_name_or_uid(uid: int) -> str:
    import pwd  # only advice to administrators needs this import

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _foreign_file_owner_risks(path: str, facts: os.stat_result, owner: int) -> "Iterator[Doubt]":
    if facts.st_uid not in (ROOT, owner):
        link = "-h " if stat.S_ISLNK(facts.st_mode) else ""
        yield (f"{path} belongs to {account_name_or_uid(facts.st_uid)}", f"chown {link}root {_quote_path_for_sh(path)}")


def _quote_path_for_sh(path: str) -> str:
    from gridbridge.shell.program_runs import quote_for_sh  # only advice to administrators needs this import

    is_plain = path.isascii() and path.translate({ord(sign): None for sign in PLAIN}).isalnum()
    return path if is_plain else quote_for_sh(path)
