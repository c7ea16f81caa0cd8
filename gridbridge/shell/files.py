"""Files that survive kill -9, a full disk, and attacks by other users; and people's own."""

import os
import stat
from codecs import BOM_UTF8

from gridbridge.errors import ParseError, StateError

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedIOBase
    from typing import BinaryIO

ENDLESS = 64 << 20  # bytes of a line that is passed over
LONGEST = 1 << 20  # bytes of a line; no file that is read so has one
TEMPORARY = "."  # a file whose name begins with it is not finished


def random_name(prefix: str = "") -> str:
    """Return a name that nobody guesses: 128 bits."""
    return prefix + os.urandom(16).hex()


def replace(path: str, data: bytes, mode: int = 0o644, durable: bool = True) -> None:
    """Put `data` at `path`, whole or not at all.

    Written beside and renamed. One fsync after the rename makes both last on a journaling
    filesystem; a writer of the spool may not open its folder, so it can't fsync that. Raises
    StateError when the disk is full or the folder refuses; nothing is left behind then.
    """
    folder, _, _ = path.rpartition("/")
    beside = f"{folder}/{random_name(TEMPORARY)}"
    try:
        _write_and_rename(beside, path, data, mode, durable)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error


def _write_and_rename(beside: str, path: str, data: bytes, mode: int, durable: bool) -> None:
    end = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        os.fchmod(end, mode)
        if os.write(end, data) != len(data):
            raise OSError(28, "No space left on device")
        os.rename(beside, path)
        if durable:
            os.fsync(end)
    except OSError:
        remove(beside)
        raise
    finally:
        os.close(end)


def remove(path: str) -> None:
    """Remove a file that may be gone already."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def read(path: str, max_bytes: int, owner: int | None = None) -> tuple[bytes, os.stat_result]:
    """Read a regular file of one link that only its owner can write, never through a link.

    Returns its content and what the kernel says of it. Raises FileNotFoundError, and StateError
    for anything that is not such a file, is larger, or is not `owner`'s.
    """
    try:
        end = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
    try:
        facts = os.fstat(end)
        _refuse_tricks(path, facts, max_bytes, owner)
        return os.read(end, facts.st_size), facts  # room for max_bytes may be half a gigabyte
    finally:
        os.close(end)


def open_at_once(path: str, flags: int) -> int:
    """Open a regular file, and wait at no FIFO or terminal; an opener for open()."""
    end = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(end).st_mode):
        return end
    os.close(end)
    raise OSError(22, "not a regular file")


def is_own(path: str) -> bool:
    """Say whether a folder, or the link of that name, is ours."""
    return os.lstat(path).st_uid == os.geteuid()


def is_plain(path: str, facts: os.stat_result, max_bytes: int) -> bool:
    """Say whether what is there is such a file as `read` takes."""
    try:
        _refuse_tricks(path, facts, max_bytes, None)
    except StateError:
        return False
    return True


def shut_out_others(folder: str) -> None:
    """Let nobody else write into a folder; StateError unless it is ours, and no link."""
    facts = os.lstat(folder)
    if not _is_own_folder(facts):
        raise StateError(f"{folder}: owned by uid {facts.st_uid}, or no folder; remove it")
    if facts.st_mode & 0o022:
        os.chmod(folder, stat.S_IMODE(facts.st_mode) & ~0o022)


def make_own_folder(path: str) -> None:
    """Make a folder for us alone, in one that others can't write; another's is moved aside."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        facts = os.lstat(path)
        if _is_own_folder(facts) and not facts.st_mode & 0o022:
            return
        os.rename(path, random_name(f"{path}."))
        os.mkdir(path, 0o700)


def names(folder: str) -> list[str]:
    """Return what is in a folder, nothing without one; StateError when it can't be read."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StateError(f"{folder}: {error.strerror}") from error


def _is_own_folder(facts: os.stat_result) -> bool:
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()


def _refuse_tricks(path: str, facts: os.stat_result, max_bytes: int, owner: int | None) -> None:
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
        raise StateError(f"{path}: not a regular file of one link")
    if facts.st_mode & 0o022:
        raise StateError(f"{path}: others may write it; chmod go-w {path}")
    if facts.st_size > max_bytes:
        raise StateError(f"{path}: larger than {max_bytes} bytes")
    if owner is not None and facts.st_uid != owner:
        raise StateError(f"{path}: owned by uid {facts.st_uid}, not {owner}")


def lines(
    file: "BinaryIO | BufferedIOBase", path: str, too_long: "list[int] | None" = None
) -> "Iterator[bytes]":
    """Give each line of a file that a person named, with its end.

    Raises ParseError for one that is too long. With a list of numbers such a line is noted there,
    and an empty one given; ParseError for one that does not end, as /dev/zero has it.
    """
    number = 1
    while line := file.readline(LONGEST + 1):
        if len(line) > LONGEST:
            if too_long is None or not _is_passed(file, line):
                wrong = f"more than {LONGEST} bytes; expected a file of lines"
                raise ParseError(f"{path}:{number}: {wrong}")
            too_long.append(number)
            line = b"\n"
        yield line.removeprefix(BOM_UTF8) if number == 1 else line
        number += 1


def _is_passed(file: "BinaryIO | BufferedIOBase", part: bytes) -> bool:
    """Read to the end of a line that begins so; say whether it has one."""
    passed_bytes = 0
    while part and not part.endswith(b"\n") and passed_bytes < ENDLESS:
        part = file.readline(LONGEST)
        passed_bytes += len(part)
    return passed_bytes < ENDLESS
