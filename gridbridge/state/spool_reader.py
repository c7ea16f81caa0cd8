"""Reads complete messages from spool files, with the uid of each author as the kernel reports it."""

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from gridbridge.errors import ParseError, StateError
from gridbridge.model.transfer_messages_in_spool import (
    MAX_BYTES,
    TransferMessage,
    TransferMessageKind,
    decode_transfer_message,
)
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.shell import safe_files
from gridbridge.state.spool import IN_PLACE

UNFINISHED_S = 3600  # seconds after which the writer of an unfinished file counts as dead
MOST = 5000  # largest number of names in a portion; the removal of 5000 files takes 0.1 s
WHOLE = b"\n\n"  # a complete message from a shell ends like this
OF_SHELLS = tuple(f"kind={kind}\n".encode() for kind in (TransferMessageKind.ENDED, TransferMessageKind.CLOSED))


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageWithAuthorUid:
    path: str
    uid: int
    message: TransferMessage

    @property
    def message_sort_key(self) -> tuple[float, str]:
        """The key by which messages are sorted: the time in the message, then the path."""
        return _parse_message_time(self.message.at), self.path


class SpoolFileVersion(NamedTuple):
    """What distinguishes a spool file from an earlier or later file of the same name."""

    inode: int
    mtime_ns: int


class SpoolFile(NamedTuple):
    """Facts about a scanned spool file; the oldest file sorts first."""

    mtime_ns: int
    name: str
    mark: SpoolFileVersion
    uid: int
    size: int
    changed_s: float  # time of the last change (ctime), which users can't set
    is_linked: bool

    @property
    def is_unfinished(self) -> bool:
        """Whether the file still has its temporary name, because its writer has not finished."""
        return self.name.startswith(safe_files.TEMPORARY)


class SpoolMessageReader:
    """Reads the messages of a spool, each file once."""

    def __init__(self, folder: str, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._clock = clock
        self._read: dict[str, SpoolFileVersion] = {}
        self._growing: dict[str, SpoolFile] = {}  # files that were incomplete when they were read, by name
        self._linked: set[SpoolFileVersion] = set()
        self._met: set[str | SpoolFileVersion] = set()  # names and versions found since the last clean-up

    def remember_scanned_files(self, spool_files: Iterable[SpoolFile]) -> None:
        """Remember the files that a scan has found; a file that ever had several hard links is never read."""
        for spool_file in spool_files:
            if self._read.get(spool_file.name, spool_file.mark) != spool_file.mark:
                del self._read[spool_file.name]
            if self._growing.get(spool_file.name, spool_file) != spool_file:
                del self._growing[spool_file.name]
            if spool_file.is_linked:
                self._linked.add(spool_file.mark)
            if spool_file.name in self._read or spool_file.name in self._growing:
                self._met.add(spool_file.name)
            if spool_file.mark in self._linked:
                self._met.add(spool_file.mark)

    def forget_missing_files(self) -> None:
        """Forget the files that no scan has found since the last call."""
        met = self._met
        self._read = {name: mark for name, mark in self._read.items() if name in met}
        self._growing = {name: spool_file for name, spool_file in self._growing.items() if name in met}
        self._linked = {mark for mark in self._linked if mark in met}
        self._met = set()

    def is_file_to_read(self, spool_file: SpoolFile) -> bool:
        """Return whether a file has not been read yet and may be complete."""
        if spool_file.name in self._read or spool_file.is_unfinished:
            return False
        return self._growing.get(spool_file.name) != spool_file or not self.may_writer_be_writing(spool_file)

    def may_writer_be_writing(self, spool_file: SpoolFile) -> bool:
        return self._clock() - spool_file.changed_s < UNFINISHED_S

    def was_file_replaced(self, name: str, now: SpoolFileVersion) -> bool:
        """Say whether another file has replaced this spool file since the reader read it."""
        return self._read.get(name, now) != now

    def mark_file_as_read(self, spool_file: SpoolFile) -> None:
        """Treat a spool file as read; another file of the same name will be read."""
        self._read[spool_file.name] = spool_file.mark
        self._met.add(spool_file.name)

    def mark_files_as_unread(self, names: Iterable[str]) -> None:
        for name in names:
            self._read.pop(name, None)

    def read_message(self, spool_file: SpoolFile) -> MessageWithAuthorUid | None:
        """Return a spool file's message, None if incomplete or gone; raise an error for an invalid file."""
        path = f"{self._folder}/{spool_file.name}"
        if spool_file.mark in self._linked:
            raise StateError(f"{spool_file.name}: the file has several hard links")
        try:
            data, facts = safe_files.read_file_only_owner_writes(path, MAX_BYTES)
        except FileNotFoundError:
            return None
        if spool_file.name.startswith(IN_PLACE) and not data.endswith(WHOLE) and self.may_writer_be_writing(spool_file):
            self._growing[spool_file.name] = spool_file
            self._met.add(spool_file.name)
            return None
        message = _parse_spool_message(_bytes_of_complete_message(spool_file.name, data), facts.st_mtime)
        self._read[spool_file.name] = spool_file_version(facts)
        self._met.add(spool_file.name)
        return MessageWithAuthorUid(path=path, uid=facts.st_uid, message=message)


def read_spool_file_facts(entry: os.DirEntry[str]) -> SpoolFile | None:
    """Return the facts about a spool file that a scan has found; None if the file is gone."""
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
    return SpoolFileVersion(facts.st_ino, facts.st_mtime_ns)


def read_transfer_record(path: str) -> TransferMessage:
    """Return the record of a transfer (a starter's message); empty if it can't be read."""
    try:
        data, _ = safe_files.read_file_only_owner_writes(path, MAX_BYTES)
        return decode_transfer_message(data)
    except (OSError, ParseError, StateError):
        return TransferMessage()


def is_read_error_of_file_itself(error: Exception) -> bool:
    """Say whether the file or its writer, rather than the service, caused an error."""
    cause = error.__cause__
    is_writers = not isinstance(cause, OSError) or cause.errno in (errno.ELOOP, errno.ENXIO, errno.EACCES)
    return is_writers and not isinstance(error, OSError)


def _bytes_of_complete_message(name: str, data: bytes) -> bytes:
    if not name.startswith(IN_PLACE):
        return data
    if not data.endswith(WHOLE):
        raise ParseError("the message is incomplete")
    if not data.startswith(OF_SHELLS):
        raise ParseError("a shell may only report the end of a job")
    return data[: -len(WHOLE) + 1]


def _parse_spool_message(data: bytes, written_s: float) -> TransferMessage:
    message = decode_transfer_message(data)
    if not message.at:
        message = message.with_changes(at=f"{written_s:.3f}")
    if str(parse_transfer_name(message.transfer)) != message.transfer:
        raise ParseError(f"{message.transfer!r} has superfluous zeros")
    if not 0 <= _parse_message_time(message.at) < 253402300800:
        raise ParseError(f"{message.at[:40]!r} is not a time")
    return message


def _parse_message_time(at: str) -> float:
    try:
        return float(at)
    except ValueError:
        return -1


class ResumableFolderScan:
    """Scans a folder in portions, so that a folder full of users' files does not delay the service."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._entries: Iterator[os.DirEntry[str]] | None = None

    @property
    def is_folder_scan_unfinished(self) -> bool:
        """Whether the next call of `list_next_folder_portion` continues the present pass over the folder."""
        return self._entries is not None

    def list_next_folder_portion(self, folder: str) -> list[os.DirEntry[str]]:
        """Return the next names; after the folder's last name a new pass begins. Raises OSError on failure."""
        entries, self._entries = self._entries or os.scandir(folder), None
        portion = list(islice(entries, self._most))
        if len(portion) == self._most:
            self._entries = entries
        return portion
