"""Read the spool fairly for the service, with a message limit for each person.

Anybody may create files in the spool. So invalid files are not errors of the service: they are
removed and logged.
"""

import logging
import os
import stat
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, islice

from gridbridge.errors import ParseError, StateError
from gridbridge.model.fixed_paths import CAMPAIGNS
from gridbridge.model.transfer import claim_and_guard
from gridbridge.model.transfer_message import TransferMessage, shorten_reason_for_storage
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.shell.log_rotation_and_quota import LogLineQuotaByPerson
from gridbridge.state import spool_reader
from gridbridge.state.spool import MARK, WAKE
from gridbridge.state.spool_reader import MessageWithAuthorUid, ResumableFolderScan, SpoolFile, SpoolReader

MESSAGES_A_SCAN = 200  # messages of one uid in a scan, so that a flood hardly delays others
UIDS_TOLD = 5  # most uids in one log line about folders in the spool
NAMES_A_SCAN = 20_000  # names in a scan: 50,000 took up to 4 s on a busy machine
REMOVALS_A_SCAN = 10_000  # surplus files in a scan: a tenth of a second on ext4
ASLEEP_S = 86400  # age at which a starter without a record has given up

_log = logging.getLogger(__name__)


class SpoolInbox:
    """Reads and cleans the spool of starters' messages."""

    def __init__(self, folder: str, limit_per_uid: int, clock: Clock) -> None:
        self._folder = folder
        self.limit_per_uid = limit_per_uid
        self._clock = clock
        self._quota = LogLineQuotaByPerson(clock.steady_s)  # limits log lines per uid
        self._reader = SpoolReader(folder, clock.now_s)
        self._names = ResumableFolderScan(NAMES_A_SCAN)
        self._kept: Counter[int] = Counter()  # accepted files of each uid in this pass
        self._waking = ResumableFolderScan()
        # folders that are not empty and so cannot be removed
        self._full: frozenset[str] = frozenset()
        self._full_met: frozenset[str] = frozenset()  # folders of `_full` found in this pass

    def read(self) -> tuple[MessageWithAuthorUid, ...]:
        """Return the new messages since the last call, at most 200 of each uid.

        The order is fair: first the oldest message of each uid, then each uid's second message. A
        call reads at most 20,000 names and the next calls continue, so that one user's many files
        do not delay the round. A message stays in the spool until its removal, so a new SpoolInbox
        returns it again. Raises StateError only if the folder itself cannot be listed.
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
        """Remove a message that the state file has stored, unless a newer file replaced it."""
        name = os.path.basename(path)
        try:
            now = spool_reader.spool_file_version(os.lstat(f"{self._folder}/{name}"))
        except OSError:
            return
        if not self._reader.has_replaced(name, now):
            self._remove(name)

    def keep_mark(self) -> None:
        """Recreate the mark file that asks starters to resend, if it is missing or invalid.

        A loss of all messages also loses the mark. A mark dated in the future would make starters
        resend for ever.
        """
        if not self._has_mark():
            with suppress(StateError):  # disk full: the next round retries
                safe_files.replace_file_atomically(f"{self._folder}/{MARK}", b"", durable=False)

    def again(self, paths: Iterable[str]) -> None:
        """Return these spool messages again in the next call of `read`."""
        self._reader.again(map(os.path.basename, paths))

    def stage_of(self, path: str) -> str:
        """Return the remote folder that a transfer's record names; empty if none."""
        return self._record(path).stage

    def submitted_of(self, path: str) -> str:
        """Return when the local job of a record was submitted; empty if unknown."""
        return self._record(path).submitted

    def _record(self, path: str) -> TransferMessage:
        return spool_reader.read_transfer_record(f"{self._folder}/{os.path.basename(path)}")

    @property
    def is_amid_sweep(self) -> bool:
        """Whether the next sweep continues with remaining names."""
        return self._waking.is_amid

    def sweep(self, wakes: frozenset[str]) -> int:
        """Remove old FIFOs of wake/ that are not in `wakes`; return how many.

        A sweep reads a limited number of names and the next sweep continues. Raises StateError if
        wake/ is not the service's folder: if it were missing, anybody could create a symlink of
        that name.
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
        """List files, oldest first; remove folders and files that were never finished."""
        try:
            folders, entries = _apart(self._names.take(self._folder))
        except OSError as error:
            raise StateError(f"{self._folder}: {error.strerror}") from error
        self._remove_folders(folders)
        spool_files = [
            spool_file for spool_file in map(spool_reader.read_spool_file_facts, entries) if spool_file is not None
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
        """Return whether the mark file is ours and not dated in the future."""
        try:
            facts = os.lstat(f"{self._folder}/{MARK}")
        except OSError:
            return False
        is_past = facts.st_mtime_ns <= (self._clock.now_s() + 1) * 1e9
        return facts.st_uid == os.geteuid() and is_past

    def _remove_folders(self, folders: list[os.DirEntry[str]]) -> None:
        """Try once to remove each folder; only its owner can empty a folder with files."""
        new = [entry for entry in folders if entry.name not in self._full][:REMOVALS_A_SCAN]
        full = [entry for entry in new if not _remove_folder(entry.path)]
        self._full |= {entry.name for entry in full}
        self._full_met |= self._full & {entry.name for entry in folders}
        if full:
            uids = sorted({_uid(entry) for entry in full})
            of = ",".join(map(str, uids[:UIDS_TOLD]))
            _log.warning("event=full_folders new=%d all=%d uids=%s", len(full), len(self._full), of)

    def _open_new(self, of_uid: list[SpoolFile]) -> list[MessageWithAuthorUid]:
        """Read a uid's oldest new messages, ordered by their own times."""
        new = [spool_file for spool_file in of_uid if self._reader.is_due(spool_file)]
        read = (self._open(spool_file) for spool_file in new[:MESSAGES_A_SCAN])
        return sorted((message for message in read if message is not None), key=spool_reader.starter_message_sort_key)

    def _open(self, spool_file: SpoolFile) -> MessageWithAuthorUid | None:
        try:
            return self._reader.read(spool_file)
        except (StateError, ParseError, OSError) as error:
            self._refuse(spool_file, error)
            return None

    def _refuse(self, spool_file: SpoolFile, error: Exception) -> None:
        """Remove an invalid file; if that fails, never read or log it again.

        On an error of the service (no descriptors, a failing disk) the file stays and is read
        later.
        """
        removed = False
        if spool_reader.is_read_error_of_file_itself(error):
            removed = self._remove(spool_file.name)
            self._reader.skip(spool_file)
        if self._quota.allows(spool_file.uid):
            _log.warning(
                "event=no_message name=%a uid=%d removed=%s reason=%a",
                spool_file.name,
                spool_file.uid,
                "yes" if removed else "no",
                shorten_reason_for_storage(str(error)),
            )

    def _remove_surplus(self, surplus: list[SpoolFile], count: int) -> None:
        """Remove a uid's newest files beyond its limit, a limited number at a time."""
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
        """Remove a file or an empty folder of the spool; False if it stays."""
        path = f"{self._folder}/{name}"
        try:
            safe_files.remove_file(path)
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


def _apart(entries: Iterable[os.DirEntry[str]]) -> tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]]:
    """Split spool entries into foreign folders and files."""
    folders, plain_files = [], []
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            plain_files.append(entry)
        elif entry.name not in (WAKE, claim_and_guard.FOLDER, os.path.basename(CAMPAIGNS)):
            folders.append(entry)
    return folders, plain_files


def _uid(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_uid
    except OSError:  # removed meanwhile
        return -1


def _refuse_foreign(folder: str) -> None:
    try:
        facts = os.lstat(folder)
    except OSError as error:
        raise StateError(f"{folder}: {error.strerror}") from error
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise StateError(f"{folder}: not a folder of ours")


def _changed_s(entry: os.DirEntry[str]) -> float:
    spool_file = spool_reader.read_spool_file_facts(entry)
    return spool_file.changed_s if spool_file else float("inf")


def _by_uid(spool_files: Iterable[SpoolFile]) -> list[list[SpoolFile]]:
    groups: dict[int, list[SpoolFile]] = {}
    for spool_file in spool_files:
        groups.setdefault(spool_file.uid, []).append(spool_file)
    return list(groups.values())


def _fair(of_uids: list[list[MessageWithAuthorUid]]) -> tuple[MessageWithAuthorUid, ...]:
    """Interleave the uids' messages: the first message of each uid, then the second of each uid."""
    ranked = chain.from_iterable(map(enumerate, of_uids))
    return tuple(
        message
        for _, message in sorted(ranked, key=lambda pair: (pair[0], spool_reader.starter_message_sort_key(pair[1])))
    )
