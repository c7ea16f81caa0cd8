"""The inbox: what people's processes have put into the spool (the service's half).

Anybody may put anything there, so nothing in it is an error of ours: what is no message is
removed and reported. Who wrote a message is the uid that the kernel tells of the open file.
"""

import errno
import logging
import os
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from gridbridge.errors import ParseError, StateError
from gridbridge.model.ids import parse_transfer
from gridbridge.model.message import MAX_BYTES, Kind, Message, decode, short
from gridbridge.model.transfer import claim
from gridbridge.shell import files
from gridbridge.shell.quota import Quota
from gridbridge.state.spool import IN_PLACE, WAKE

LETTERS_A_SCAN = 200  # of one uid, so that a flood costs the others little
UIDS_TOLD = 5  # of those whose folders lie in the spool
REMOVALS_A_SCAN = 10_000  # of surplus files: a tenth of a second on ext4
UNFINISHED_S = 3600  # a writer ends or renames its file at once, or has died
ASLEEP_S = 86400  # a starter that never became a transfer has given up by then
WHOLE = b"\n\n"  # what a message ends with that a shell wrote
OF_SHELLS = tuple(f"kind={kind}\n".encode() for kind in (Kind.ENDED, Kind.CLOSED))
YEAR_10000_S = 253402300800  # datetime ends there
# How opening what is no readable file fails; anything else is trouble of our own.
WRITERS_FAULT = (errno.ELOOP, errno.ENXIO, errno.EACCES)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A message, where it lies, and whose it is."""

    path: str
    uid: int
    message: Message


class _Mark(NamedTuple):
    """What tells a file from another that takes its name."""

    inode: int
    mtime_ns: int


class _Found(NamedTuple):
    """A file of the spool as a scan sees it; they sort by age."""

    mtime_ns: int
    name: str
    mark: _Mark
    uid: int
    size: int  # bytes
    changed_s: float  # unlike the modification time nobody can set it
    is_linked: bool  # a file with another name somewhere


class Inbox:
    """The service's view of the spool; it remembers which files it has read."""

    def __init__(
        self, folder: str, limit_per_uid: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._folder = folder
        self.limit_per_uid = limit_per_uid
        self._clock = clock
        self._quota = Quota(clock=clock)  # of lines about each uid
        self._read: dict[str, _Mark] = {}
        self._growing: dict[str, _Found] = {}  # what was read before it was whole
        self._linked: frozenset[_Mark] = frozenset()
        self._full: frozenset[str] = frozenset()  # folders with something in them, which stay

    def read(self) -> tuple[Letter, ...]:
        """Return the messages that are new since the last call, at most 200 of each uid.

        First the oldest of each uid, then the second ones, each round in the order of their own
        times. A message stays in the spool until it is removed; a new Inbox returns it again.
        Raises StateError only when the folder itself can't be listed.
        """
        found = self._scan()
        self._remember(found)
        letters = []
        self._quota.tell_left_out(_log)
        for of_uid in _by_uid(found):
            letters.append(self._open_new(of_uid[: self.limit_per_uid]))
            self._remove_surplus(of_uid[self.limit_per_uid :], len(of_uid))
        return _fair(letters)

    def remove(self, path: str) -> None:
        """Remove a message that the state file has taken over, unless a newer one lies there."""
        name = os.path.basename(path)
        try:
            now = _mark(os.lstat(f"{self._folder}/{name}"))
        except OSError:
            return
        if self._read.get(name, now) == now:
            self._remove(name)

    def again(self, paths: Iterable[str]) -> None:
        """Return these messages once more."""
        for path in paths:
            self._read.pop(os.path.basename(path), None)

    def stage_of(self, path: str) -> str:
        """Return the folder elsewhere that a record tells of; empty when nothing is there."""
        return self._record(path).stage

    def submitted_of(self, path: str) -> str:
        """Return when the local job of a record was submitted; empty when that is not known."""
        return self._record(path).submitted

    def _record(self, path: str) -> Message:
        try:
            data, _ = files.read(f"{self._folder}/{os.path.basename(path)}", MAX_BYTES)
            return decode(data)
        except (OSError, ParseError, StateError):
            return Message()

    def sweep(self, known: frozenset[str]) -> int:
        """Remove old FIFOs of wake/ that are not among `known`; return how many.

        Raises StateError when wake/ is not a folder of ours: where it is missing anybody can
        put a link under its name.
        """
        folder = f"{self._folder}/{WAKE}"
        _refuse_foreign(folder)
        newest_s = self._clock() - ASLEEP_S
        unknown = (entry for entry in _entries(folder) if entry.name not in known)
        old = [entry.name for entry in unknown if _changed_s(entry) < newest_s]
        return sum(self._remove(f"{WAKE}/{name}") for name in old)

    def _scan(self) -> list[_Found]:
        """List the spool, oldest first, and remove folders and what its writer never finished."""
        folders, entries = _apart(_entries(self._folder))
        self._remove_folders(folders)
        found = [one for one in map(_look, entries) if one is not None]
        newest_s = self._clock() - UNFINISHED_S
        for one in found:
            if _is_unfinished(one) and one.changed_s < newest_s:
                self._remove(one.name)
        return sorted(found)

    def _remove_folders(self, folders: list[os.DirEntry[str]]) -> None:
        """Remove the empty ones, each tried once; nobody may empty another's, so the rest stay."""
        new = [entry for entry in folders if entry.name not in self._full][:REMOVALS_A_SCAN]
        full = [entry for entry in new if not _remove_folder(entry.path)]
        names = {entry.name for entry in folders}
        self._full = (self._full & names) | {entry.name for entry in full}
        if full:
            uids = sorted({_uid(entry) for entry in full})
            of = ",".join(map(str, uids[:UIDS_TOLD]))
            _log.warning("event=full_folders new=%d all=%d uids=%s", len(full), len(self._full), of)

    def _remember(self, found: list[_Found]) -> None:
        """Keep what is known of the files that are still there, unchanged.

        Once linked is linked for ever: with two links of somebody's file in the spool the
        second would be alone when the first is removed.
        """
        read = self._read
        self._read = {one.name: one.mark for one in found if read.get(one.name) == one.mark}
        self._growing = {one.name: one for one in found if self._growing.get(one.name) == one}
        self._linked = frozenset(
            one.mark for one in found if one.is_linked or one.mark in self._linked
        )

    def _open_new(self, of_uid: list[_Found]) -> list[Letter]:
        """Read a uid's oldest new messages, in the order of their own times."""
        new = [one for one in of_uid if one.name not in self._read and not self._must_wait(one)]
        letters = (self._open(one) for one in new[:LETTERS_A_SCAN])
        return sorted((letter for letter in letters if letter is not None), key=_age)

    def _open(self, found: _Found) -> Letter | None:
        path = f"{self._folder}/{found.name}"
        try:
            self._refuse_linked(found)
            data, facts = files.read(path, MAX_BYTES)
            if found.name.startswith(IN_PLACE) and self._may_grow(found, data):
                self._growing[found.name] = found
                return None
            message = _parse(_whole(found.name, data), facts.st_mtime)
            letter = Letter(path=path, uid=facts.st_uid, message=message)
        except FileNotFoundError:
            return None
        except (StateError, ParseError, OSError) as error:
            self._refuse(found, error)
            return None
        self._read[found.name] = _mark(facts)
        return letter

    def _must_wait(self, found: _Found) -> bool:
        """Say whether a file is unfinished, as far as can be told without reading it again."""
        is_same = self._growing.get(found.name) == found
        return _is_unfinished(found) or (is_same and self._is_young(found))

    def _may_grow(self, found: _Found, data: bytes) -> bool:
        """Say whether a shell may still be writing this file."""
        return not data.endswith(WHOLE) and self._is_young(found)

    def _is_young(self, found: _Found) -> bool:
        return self._clock() - found.changed_s < UNFINISHED_S

    def _refuse_linked(self, found: _Found) -> None:
        if found.mark in self._linked:
            raise StateError(f"{found.name}: not a file of one link")

    def _refuse(self, found: _Found, error: Exception) -> None:
        """Remove what is no message; what can't be removed is not tried or reported again.

        When the trouble is ours (no more descriptors, a failing disk) the file stays, to be
        read later.
        """
        removed = False
        if _is_writers_fault(error):
            removed = self._remove(found.name)
            self._read[found.name] = found.mark
        if self._quota.allows(found.uid):
            _log.warning(
                "event=no_message name=%a uid=%d removed=%s reason=%a",
                found.name,
                found.uid,
                "yes" if removed else "no",
                short(str(error)),
            )

    def _remove_surplus(self, surplus: list[_Found], count: int) -> None:
        """Remove a uid's newest files beyond its limit, some at a time."""
        newest = surplus[::-1]
        removed = 0
        for one in newest[:REMOVALS_A_SCAN]:
            self._read[one.name] = one.mark
            removed += self._remove(one.name)
        if newest and self._quota.allows(newest[0].uid):
            _log.warning(
                "event=too_many_messages uid=%d files=%d limit=%d removed=%d",
                newest[0].uid,
                count,
                self.limit_per_uid,
                removed,
            )

    def _remove(self, name: str) -> bool:
        """Remove a file or an empty folder; False when it stays."""
        path = f"{self._folder}/{name}"
        try:
            files.remove(path)
        except IsADirectoryError:
            return _remove_folder(path)
        except OSError:
            return False
        return True


def _remove_folder(path: str) -> bool:
    try:
        os.rmdir(path)
    except OSError:
        return False
    return True


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise StateError(f"{folder}: {error.strerror}") from error


def _apart(
    entries: Iterable[os.DirEntry[str]],
) -> tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]]:
    """Return the folders that are not ours, and all else; the kernel's list alone tells."""
    folders, others = [], []
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            others.append(entry)
        elif entry.name not in (WAKE, claim.FOLDER):
            folders.append(entry)
    return folders, others


def _uid(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_uid
    except OSError:  # gone
        return -1


def _refuse_foreign(folder: str) -> None:
    try:
        facts = os.lstat(folder)
    except OSError as error:
        raise StateError(f"{folder}: {error.strerror}") from error
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise StateError(f"{folder}: not a folder of ours")


def _look(entry: os.DirEntry[str]) -> _Found | None:
    try:
        facts = entry.stat(follow_symlinks=False)
    except OSError:  # gone
        return None
    return _Found(
        mtime_ns=facts.st_mtime_ns,
        name=entry.name,
        mark=_mark(facts),
        uid=facts.st_uid,
        size=facts.st_size,
        changed_s=facts.st_ctime,
        is_linked=facts.st_nlink != 1,
    )


def _changed_s(entry: os.DirEntry[str]) -> float:
    found = _look(entry)
    return found.changed_s if found else float("inf")


def _mark(facts: os.stat_result) -> _Mark:
    return _Mark(facts.st_ino, facts.st_mtime_ns)


def _is_unfinished(found: _Found) -> bool:
    return found.name.startswith(files.TEMPORARY)


def _is_writers_fault(error: Exception) -> bool:
    if isinstance(error, OSError):
        return False
    cause = error.__cause__
    return not isinstance(cause, OSError) or cause.errno in WRITERS_FAULT


def _by_uid(found: Iterable[_Found]) -> list[list[_Found]]:
    groups: dict[int, list[_Found]] = {}
    for one in found:
        groups.setdefault(one.uid, []).append(one)
    return list(groups.values())


def _whole(name: str, data: bytes) -> bytes:
    """Return a message's lines; ParseError for one of a shell that is cut or of another kind."""
    if not name.startswith(IN_PLACE):
        return data
    if not data.endswith(WHOLE):
        raise ParseError("its writer did not finish it")
    if not data.startswith(OF_SHELLS):
        raise ParseError("shells tell of ends alone")
    return data[: -len(WHOLE) + 1]


def _parse(data: bytes, written_s: float) -> Message:
    """Read a message; one without a time is as old as its file."""
    message = decode(data)
    if not message.at:
        message = message.but(at=f"{written_s:.3f}")
    if str(parse_transfer(message.transfer)) != message.transfer:
        raise ParseError(f"{message.transfer!r} has superfluous zeros")
    if not 0 <= _seconds(message.at) < YEAR_10000_S:
        raise ParseError(f"{message.at[:40]!r} is not a time")
    return message


def _seconds(at: str) -> float:
    try:
        return float(at)
    except ValueError:
        return -1


def _age(letter: Letter) -> tuple[float, str]:
    return _seconds(letter.message.at), letter.path


def _fair(letters: list[list[Letter]]) -> tuple[Letter, ...]:
    """Take the first letter of each uid, then the second of each, and so on."""
    ranked = chain.from_iterable(map(enumerate, letters))
    return tuple(letter for _, letter in sorted(ranked, key=lambda one: (one[0], _age(one[1]))))
