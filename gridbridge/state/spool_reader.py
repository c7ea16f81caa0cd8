"""Read spool files: which are complete messages, and which uid wrote each.

A message's author is the uid that the kernel reports for the open file; names and times prove
nothing. Folders that anybody may fill are scanned in portions.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from gridbridge.errors import ParseError, StateError
from gridbridge.model.transfer_message import MAX_BYTES, TransferMessage, TransferMessageKind, decode_transfer_message
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.shell import safe_files
from gridbridge.state.spool import IN_PLACE

UNFINISHED_S = 3600  # age at which the writer of an unfinished file has died
MOST = 5000  # names in a portion: removing as many takes a tenth of a second
WHOLE = b"\n\n"  # the end of a complete message from a shell
OF_SHELLS = tuple(f"kind={kind}\n".encode() for kind in (TransferMessageKind.ENDED, TransferMessageKind.CLOSED))
YEAR_10000_S = 253402300800  # the limit of datetime
# Errors of opening that the file's writer caused; other errors are the service's own.
WRITERS_FAULT = (errno.ELOOP, errno.ENXIO, errno.EACCES)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageWithAuthorUid:
    """A message with its file and its author's uid."""

    path: str
    uid: int
    message: TransferMessage


class SpoolFileVersion(NamedTuple):
    """Identifies a version of a file, to detect another file of the same name."""

    inode: int
    mtime_ns: int


class SpoolFile(NamedTuple):
    """A spool file as a scan found it; spool files sort by age."""

    mtime_ns: int
    name: str
    mark: SpoolFileVersion
    uid: int
    size: int  # bytes
    changed_s: float  # change time, which users cannot set
    is_linked: bool  # whether the file has several hard links

    @property
    def is_unfinished(self) -> bool:
        """Whether the writer has not renamed the file yet."""
        return self.name.startswith(safe_files.TEMPORARY)


class SpoolReader:
    """Reads each spool file once, and remembers which files it has read."""

    def __init__(self, folder: str, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._clock = clock
        self._read: dict[str, SpoolFileVersion] = {}
        self._growing: dict[str, SpoolFile] = {}  # files that were incomplete when read
        self._linked: set[SpoolFileVersion] = set()
        self._met: set[str | SpoolFileVersion] = set()  # names and marks seen since the last clean-up

    def remember(self, spool_files: Iterable[SpoolFile]) -> None:
        """Update the memory of scanned files: forget changed files, mark hard links.

        A file that ever had several links stays marked: if two links of another's file are in the
        spool, the second would look single once the first is removed.
        """
        for spool_file in spool_files:
            if self._read.get(spool_file.name, spool_file.mark) != spool_file.mark:
                del self._read[spool_file.name]
            if self._growing.get(spool_file.name, spool_file) != spool_file:
                del self._growing[spool_file.name]
            if spool_file.is_linked:
                self._linked.add(spool_file.mark)
            self._met.update(self._recognized(spool_file))

    def _recognized(self, spool_file: SpoolFile) -> Iterator[str | SpoolFileVersion]:
        """Yield the name and the mark of a file that the reader remembers."""
        if spool_file.name in self._read or spool_file.name in self._growing:
            yield spool_file.name
        if spool_file.mark in self._linked:
            yield spool_file.mark

    def forget_missing(self) -> None:
        """Forget files that were not seen since the last call."""
        met = self._met
        self._read = {name: mark for name, mark in self._read.items() if name in met}
        self._growing = {name: spool_file for name, spool_file in self._growing.items() if name in met}
        self._linked = {mark for mark in self._linked if mark in met}
        self._met = set()

    def is_due(self, spool_file: SpoolFile) -> bool:
        """Return whether a file was not read yet and looks complete."""
        if spool_file.name in self._read or spool_file.is_unfinished:
            return False
        return self._growing.get(spool_file.name) != spool_file or not self.is_young(spool_file)

    def is_young(self, spool_file: SpoolFile) -> bool:
        """Return whether a file's writer may still be working."""
        return self._clock() - spool_file.changed_s < UNFINISHED_S

    def has_replaced(self, name: str, now: SpoolFileVersion) -> bool:
        """Return whether another file has replaced the spool file that was read."""
        return self._read.get(name, now) != now

    def skip(self, spool_file: SpoolFile) -> None:
        """Never read this spool file again."""
        self._read[spool_file.name] = spool_file.mark
        self._met.add(spool_file.name)

    def again(self, names: Iterable[str]) -> None:
        """Read the spool files of these names again."""
        for name in names:
            self._read.pop(name, None)

    def read(self, spool_file: SpoolFile) -> MessageWithAuthorUid | None:
        """Return a file's message; None if it is incomplete or gone.

        Raises ParseError, StateError or OSError if the file is not a message or cannot be
        read.
        """
        path = f"{self._folder}/{spool_file.name}"
        self._refuse_linked(spool_file)
        try:
            data, facts = safe_files.read_file_only_owner_writes(path, MAX_BYTES)
        except FileNotFoundError:
            return None
        if spool_file.name.startswith(IN_PLACE) and self._may_grow(spool_file, data):
            self._growing[spool_file.name] = spool_file
            self._met.add(spool_file.name)
            return None
        message = _parse(_whole(spool_file.name, data), facts.st_mtime)
        self._read[spool_file.name] = spool_file_version(facts)
        self._met.add(spool_file.name)
        return MessageWithAuthorUid(path=path, uid=facts.st_uid, message=message)

    def _may_grow(self, spool_file: SpoolFile, data: bytes) -> bool:
        """Return whether a shell may still be writing this file."""
        return not data.endswith(WHOLE) and self.is_young(spool_file)

    def _refuse_linked(self, spool_file: SpoolFile) -> None:
        if spool_file.mark in self._linked:
            raise StateError(f"{spool_file.name}: not a file of one link")


def read_spool_file_facts(entry: os.DirEntry[str]) -> SpoolFile | None:
    """Return a scanned file's facts; None if the file is gone."""
    try:
        facts = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return SpoolFile(
        mtime_ns=facts.st_mtime_ns,
        name=entry.name,
        mark=spool_file_version(facts),
        uid=facts.st_uid,
        size=facts.st_size,
        changed_s=facts.st_ctime,
        is_linked=facts.st_nlink != 1,
    )


def spool_file_version(facts: os.stat_result) -> SpoolFileVersion:
    """Return the version of a file, which differs from other files of the same name."""
    return SpoolFileVersion(facts.st_ino, facts.st_mtime_ns)


def read_transfer_record(path: str) -> TransferMessage:
    """Return a transfer's record; an empty message if it cannot be read."""
    try:
        data, _ = safe_files.read_file_only_owner_writes(path, MAX_BYTES)
        return decode_transfer_message(data)
    except (OSError, ParseError, StateError):
        return TransferMessage()


def is_read_error_of_file_itself(error: Exception) -> bool:
    """Return whether a read error is due to the file itself, not to the service."""
    if isinstance(error, OSError):
        return False
    cause = error.__cause__
    return not isinstance(cause, OSError) or cause.errno in WRITERS_FAULT


def starter_message_sort_key(message: MessageWithAuthorUid) -> tuple[float, str]:
    """Return the key by which messages sort: their own time, then their path."""
    return _seconds(message.message.at), message.path


def _whole(name: str, data: bytes) -> bytes:
    """Return a shell message's lines; ParseError if it is cut or of a wrong kind."""
    if not name.startswith(IN_PLACE):
        return data
    if not data.endswith(WHOLE):
        raise ParseError("its writer did not finish it")
    if not data.startswith(OF_SHELLS):
        raise ParseError("shells tell of ends alone")
    return data[: -len(WHOLE) + 1]


def _parse(data: bytes, written_s: float) -> TransferMessage:
    """Parse a message; a message without a time gets the time of its file."""
    message = decode_transfer_message(data)
    if not message.at:
        message = message.but(at=f"{written_s:.3f}")
    if str(parse_transfer_name(message.transfer)) != message.transfer:
        raise ParseError(f"{message.transfer!r} has superfluous zeros")
    if not 0 <= _seconds(message.at) < YEAR_10000_S:
        raise ParseError(f"{message.at[:40]!r} is not a time")
    return message


def _seconds(at: str) -> float:
    try:
        return float(at)
    except ValueError:
        return -1


class ResumableFolderScan:
    """A scan of a folder that anybody may fill, continued at each call.

    Reading very many names at once would delay the round and all transfers.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._entries: Iterator[os.DirEntry[str]] | None = None

    @property
    def is_amid(self) -> bool:
        """Whether a pass over the folder has begun and names remain."""
        return self._entries is not None

    def take(self, folder: str) -> list[os.DirEntry[str]]:
        """Return the next names; after the folder's last name a new pass begins. Raises OSError."""
        entries, self._entries = self._entries or os.scandir(folder), None
        portion = list(islice(entries, self._most))
        if len(portion) == self._most:
            self._entries = entries
        return portion
