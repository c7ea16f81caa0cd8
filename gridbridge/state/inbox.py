"""The inbox: the spool as the service sees it, with a limit for each person.

Anybody may put anything there, so nothing in it is an error of ours: files that are no messages are
removed and reported.
"""

import logging
import os
import stat
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, islice

from gridbridge.errors import ParseError, StateError
from gridbridge.model.message import StarterMessage, short
from gridbridge.model.places import CAMPAIGNS
from gridbridge.model.transfer import claim
from gridbridge.shell import files
from gridbridge.shell.clock import Clock
from gridbridge.shell.quota import LogQuota
from gridbridge.state import spool_reader
from gridbridge.state.spool import MARK, WAKE
from gridbridge.state.spool_reader import FolderScan, SpooledMessage, SpoolFile, SpoolReader

MESSAGES_A_SCAN = 200  # messages of one uid at once, so that a flood costs the others little
UIDS_TOLD = 5  # of those whose folders lie in the spool
NAMES_A_SCAN = 20_000  # to look at 50,000 took up to 4 s on a busy machine
REMOVALS_A_SCAN = 10_000  # of surplus files: a tenth of a second on ext4
ASLEEP_S = 86400  # a starter whose record never came has given up by then

_log = logging.getLogger(__name__)


class Inbox:
    """The service's view of the spool."""

    def __init__(self, folder: str, limit_per_uid: int, clock: Clock) -> None:
        self._folder = folder
        self.limit_per_uid = limit_per_uid
        self._clock = clock
        self._quota = LogQuota(clock.steady_s)  # of lines about each uid
        self._reader = SpoolReader(folder, clock.now_s)
        self._names = FolderScan(NAMES_A_SCAN)
        self._kept: Counter[int] = Counter()  # files of each uid within its limit, in this pass
        self._waking = FolderScan()
        self._full: frozenset[str] = frozenset()  # folders that are not empty, which stay
        self._full_met: frozenset[str] = frozenset()  # of these, what the pass has come to

    def read(self) -> tuple[SpooledMessage, ...]:
        """Return the messages that are new since the last call, at most 200 of each uid.

        First the oldest of each uid, then the second ones, each round in the order of their own
        times. Of very many names a call looks at 20,000, and the next calls go on, so that nobody's
        many files keep the round waiting. A message stays in the spool until it is removed; a new
        Inbox returns it again. Raises StateError only when the folder itself can't be listed.
        """
        spool_files = self._scan()
        self._reader.remember(spool_files)
        new = []
        self._quota.tell_left_out(_log)
        for of_uid in _by_uid(spool_files):
            room = max(0, self.limit_per_uid - self._kept[of_uid[0].uid])
            new.append(self._open_new(of_uid[:room]))
            self._remove_surplus(of_uid[room:], self._kept[of_uid[0].uid] + len(of_uid))
            self._kept[of_uid[0].uid] += len(of_uid[:room])
        if not self._names.is_amid:
            self._end_pass()
        return _fair(new)

    def _end_pass(self) -> None:
        self._reader.forget_missing()
        self._kept.clear()
        self._full, self._full_met = self._full_met, frozenset()

    def remove(self, path: str) -> None:
        """Remove a message that the state file has taken over, unless a newer one lies there."""
        name = os.path.basename(path)
        try:
            now = spool_reader.mark(os.lstat(f"{self._folder}/{name}"))
        except OSError:
            return
        if not self._reader.has_replaced(name, now):
            self._remove(name)

    def keep_mark(self) -> None:
        """Make the mark anew that tells starters to tell again, if there is none.

        Whoever removes the messages removes the mark. One from the future would call them for ever.
        """
        if not self._has_mark():
            with suppress(StateError):  # no room: the next round tries again
                files.replace(f"{self._folder}/{MARK}", b"", durable=False)

    def again(self, paths: Iterable[str]) -> None:
        """Return these messages once more."""
        self._reader.again(map(os.path.basename, paths))

    def stage_of(self, path: str) -> str:
        """Return the folder elsewhere that a record tells of; empty when nothing is there."""
        return self._record(path).stage

    def submitted_of(self, path: str) -> str:
        """Return when the local job of a record was submitted; empty when that is not known."""
        return self._record(path).submitted

    def _record(self, path: str) -> StarterMessage:
        return spool_reader.record(f"{self._folder}/{os.path.basename(path)}")

    @property
    def is_amid_sweep(self) -> bool:
        """Whether names are left for the next sweeps."""
        return self._waking.is_amid

    def sweep(self, wakes: frozenset[str]) -> int:
        """Remove old FIFOs of wake/ that are not among `wakes`; return how many.

        Of very many names some are looked at, and the next sweep goes on. Raises StateError when
        wake/ is not a folder of ours: where it is missing anybody can put a link under its name.
        """
        folder = f"{self._folder}/{WAKE}"
        _refuse_foreign(folder)
        newest_s = self._clock.now_s() - ASLEEP_S
        try:
            entries = self._waking.take(folder)
        except OSError as error:
            raise StateError(f"{folder}: {error.strerror}") from error
        unknown = (entry for entry in entries if entry.name not in wakes)
        old = [entry.name for entry in unknown if _changed_s(entry) < newest_s]
        return sum(self._remove(f"{WAKE}/{name}") for name in old)

    def _scan(self) -> list[SpoolFile]:
        """List names, oldest first, and remove folders and files that were never finished."""
        try:
            folders, entries = _apart(self._names.take(self._folder))
        except OSError as error:
            raise StateError(f"{self._folder}: {error.strerror}") from error
        self._remove_folders(folders)
        spool_files = [
            spool_file for spool_file in map(spool_reader.look, entries) if spool_file is not None
        ]
        dead = (
            spool_file
            for spool_file in spool_files
            if spool_file.is_unfinished and not self._reader.is_young(spool_file)
        )
        for spool_file in islice(dead, REMOVALS_A_SCAN):
            self._remove(spool_file.name)
        return sorted(spool_file for spool_file in spool_files if spool_file.name != MARK)

    def _has_mark(self) -> bool:
        """Say whether a mark is ours and tells nothing of a time to come."""
        try:
            facts = os.lstat(f"{self._folder}/{MARK}")
        except OSError:
            return False
        is_past = facts.st_mtime_ns <= (self._clock.now_s() + 1) * 1e9
        return facts.st_uid == os.geteuid() and is_past

    def _remove_folders(self, folders: list[os.DirEntry[str]]) -> None:
        """Remove the empty ones, trying each once; nobody may empty another's, so the rest stay."""
        new = [entry for entry in folders if entry.name not in self._full][:REMOVALS_A_SCAN]
        full = [entry for entry in new if not _remove_folder(entry.path)]
        self._full |= {entry.name for entry in full}
        self._full_met |= self._full & {entry.name for entry in folders}
        if full:
            uids = sorted({_uid(entry) for entry in full})
            of = ",".join(map(str, uids[:UIDS_TOLD]))
            _log.warning("event=full_folders new=%d all=%d uids=%s", len(full), len(self._full), of)

    def _open_new(self, of_uid: list[SpoolFile]) -> list[SpooledMessage]:
        """Read a uid's oldest new messages, in the order of their own times."""
        new = [spool_file for spool_file in of_uid if self._reader.is_due(spool_file)]
        read = (self._open(spool_file) for spool_file in new[:MESSAGES_A_SCAN])
        return sorted((message for message in read if message is not None), key=spool_reader.age)

    def _open(self, spool_file: SpoolFile) -> SpooledMessage | None:
        try:
            return self._reader.read(spool_file)
        except (StateError, ParseError, OSError) as error:
            self._refuse(spool_file, error)
            return None

    def _refuse(self, spool_file: SpoolFile, error: Exception) -> None:
        """Remove a file that is no message; if that fails it is not tried or reported again.

        When the trouble is ours (no more descriptors, a failing disk) the file stays, to be
        read later.
        """
        removed = False
        if spool_reader.is_writers_fault(error):
            removed = self._remove(spool_file.name)
            self._reader.skip(spool_file)
        if self._quota.allows(spool_file.uid):
            _log.warning(
                "event=no_message name=%a uid=%d removed=%s reason=%a",
                spool_file.name,
                spool_file.uid,
                "yes" if removed else "no",
                short(str(error)),
            )

    def _remove_surplus(self, surplus: list[SpoolFile], count: int) -> None:
        """Remove a uid's newest files beyond its limit, some at a time."""
        newest = surplus[::-1]
        removed = 0
        for spool_file in newest[:REMOVALS_A_SCAN]:
            if self._remove(spool_file.name):
                removed += 1
            else:
                self._reader.skip(spool_file)
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


def _apart(
    entries: Iterable[os.DirEntry[str]],
) -> tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]]:
    """Return the folders that are not ours, and the files, as the kernel lists them."""
    folders, plain_files = [], []
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            plain_files.append(entry)
        elif entry.name not in (WAKE, claim.FOLDER, os.path.basename(CAMPAIGNS)):
            folders.append(entry)
    return folders, plain_files


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


def _changed_s(entry: os.DirEntry[str]) -> float:
    spool_file = spool_reader.look(entry)
    return spool_file.changed_s if spool_file else float("inf")


def _by_uid(spool_files: Iterable[SpoolFile]) -> list[list[SpoolFile]]:
    groups: dict[int, list[SpoolFile]] = {}
    for spool_file in spool_files:
        groups.setdefault(spool_file.uid, []).append(spool_file)
    return list(groups.values())


def _fair(of_uids: list[list[SpooledMessage]]) -> tuple[SpooledMessage, ...]:
    """Take the first message of each uid, then the second of each, and so on."""
    ranked = chain.from_iterable(map(enumerate, of_uids))
    return tuple(
        message
        for _, message in sorted(ranked, key=lambda pair: (pair[0], spool_reader.age(pair[1])))
    )
