"""Reads users' messages from the spool for the service; removes invalid files, and files above a limit per user."""

import logging
import os
import stat
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from gridbridge.errors import ParseError, StateError
from gridbridge.model.fixed_paths import CAMPAIGNS
from gridbridge.model.transfer import claim_and_guard
from gridbridge.model.transfer_messages_in_spool import TransferMessage, shorten_reason_for_storage
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.shell.log_file_reopening_and_line_limits import LogLineQuotaByPerson
from gridbridge.state import spool_reader
from gridbridge.state.spool import MARK, WAKE
from gridbridge.state.spool_reader import MessageWithAuthorUid, ResumableFolderScan, SpoolFile, SpoolMessageReader

MESSAGES_A_SCAN = 200  # a scan reads at most this many messages of a uid, so that no user delays others
UIDS_TOLD = 5
NAMES_A_SCAN = 20_000  # a scan reads at most this many names: 50,000 names took up to 4 s on a busy host
REMOVALS_A_SCAN = 10_000  # a scan removes at most this many files, in a tenth of a second on ext4
ASLEEP_S = 86400  # this many seconds after its last change a FIFO is removed, because its starter is gone

_log = logging.getLogger(__name__)


class StarterMessageInbox:
    """The inbox of starters' messages; removes invalid and surplus files from the spool."""

    def __init__(self, folder: str, limit_per_uid: int, clock: Clock, fifos_a_scan: int = spool_reader.MOST) -> None:
        self._folder = folder
        self.limit_per_uid = limit_per_uid
        self._clock = clock
        self._quota = LogLineQuotaByPerson(clock.steady_s)
        self._reader = SpoolMessageReader(folder, clock.now_s)
        self._names = ResumableFolderScan(NAMES_A_SCAN)
        self._kept: Counter[int] = Counter()  # number of accepted files of each uid in the present pass over the folder
        self._waking = ResumableFolderScan(fifos_a_scan)
        self._full: frozenset[str] = frozenset()  # users' folders that can't be removed, because they have files
        # folders in `_full` that the present pass over the spool has found
        self._full_met: frozenset[str] = frozenset()

    def read_new_messages(self) -> tuple[MessageWithAuthorUid, ...]:
        """Return new messages: each uid's first, then each uid's second, and so on up to 200 of a uid.

        A call looks at up to 20,000 names, and the next call continues with the following names. The files stay until
        `remove_stored_message`. Raises StateError only if the folder can't be listed.
        """
        spool_files = self._list_spool_files()
        self._reader.remember_scanned_files(spool_files)
        ranked: list[tuple[int, MessageWithAuthorUid]] = []
        self._quota.log_omitted_line_counts(_log)
        by_uid: dict[int, list[SpoolFile]] = {}
        for spool_file in spool_files:
            by_uid.setdefault(spool_file.uid, []).append(spool_file)
        for uid, of_uid in by_uid.items():
            room = max(0, self.limit_per_uid - self._kept[uid])
            ranked += enumerate(self._read_unread_messages(of_uid[:room]))
            self._remove_surplus_messages(of_uid[room:], self._kept[uid] + len(of_uid))
            self._kept[uid] += len(of_uid[:room])
        if not self._names.is_folder_scan_unfinished:
            self._reader.forget_missing_files()
            self._kept.clear()
            self._full, self._full_met = self._full_met, frozenset()
        return tuple(message for _, message in sorted(ranked, key=lambda pair: (pair[0], pair[1].message_sort_key)))

    def remove_stored_message(self, path: str) -> None:
        """Remove a message that is stored in the state file; a newer file of the same name stays."""
        name = os.path.basename(path)
        try:
            now = spool_reader.spool_file_version(os.lstat(f"{self._folder}/{name}"))
        except OSError:
            return
        if not self._reader.was_file_replaced(name, now):
            self._remove_spool_file(name)

    def restore_spool_loss_mark(self) -> None:
        """Renew a mark file that is missing or from the future, so that starters send messages again."""
        if not self._has_valid_loss_mark():
            with suppress(StateError):  # the disk is full, so the next round tries again
                safe_files.replace_file_atomically(f"{self._folder}/{MARK}", b"", durable=False)

    def return_messages_again(self, paths: Iterable[str]) -> None:
        """Let the next call of `read_new_messages` return these messages once more."""
        self._reader.mark_files_as_unread(map(os.path.basename, paths))

    def staged_folder_of_record(self, path: str) -> str:
        return self._read_transfer_record(path).stage

    def submission_time_of_record(self, path: str) -> str:
        return self._read_transfer_record(path).submitted

    def _read_transfer_record(self, path: str) -> TransferMessage:
        return spool_reader.read_transfer_record(f"{self._folder}/{os.path.basename(path)}")

    @property
    def is_fifo_sweep_unfinished(self) -> bool:
        """Whether the next call of `remove_old_fifos` continues with remaining names."""
        return self._waking.is_folder_scan_unfinished

    def remove_old_fifos(self, wakes: frozenset[str]) -> int:
        """Remove a portion of starters' old FIFOs except those in `wakes`; return the number of removed FIFOs.

        Raises StateError if the folder is not the service's, because anybody can create a missing folder.
        """
        folder = f"{self._folder}/{WAKE}"
        _require_folder_of_service(folder)
        newest_s = self._clock.now_s() - ASLEEP_S
        try:
            entries = self._waking.list_next_folder_portion(folder)
        except OSError as error:
            raise StateError(f"{folder}: {error.strerror}") from error
        unknown = (entry for entry in entries if entry.name not in wakes)
        facts = [*filter(None, map(spool_reader.read_spool_file_facts, unknown))]
        return sum(self._remove_spool_file(f"{WAKE}/{fifo.name}") for fifo in facts if fifo.changed_s < newest_s)

    def _list_spool_files(self) -> list[SpoolFile]:
        """List the files of the spool, oldest first, and remove users' folders and old unfinished files."""
        try:
            folders, entries = _separate_user_folders_and_files(self._names.list_next_folder_portion(self._folder))
        except OSError as error:
            raise StateError(f"{self._folder}: {error.strerror}") from error
        self._remove_folders_made_by_users(folders)
        spool_files = [*filter(None, map(spool_reader.read_spool_file_facts, entries))]
        dead = (old for old in spool_files if old.is_unfinished and not self._reader.may_writer_be_writing(old))
        for spool_file in islice(dead, REMOVALS_A_SCAN):
            self._remove_spool_file(spool_file.name)
        return sorted(spool_file for spool_file in spool_files if spool_file.name != MARK)

    def _has_valid_loss_mark(self) -> bool:
        try:
            facts = os.lstat(f"{self._folder}/{MARK}")
        except OSError:
            return False
        is_past = facts.st_mtime_ns <= (self._clock.now_s() + 1) * 1e9
        return facts.st_uid == os.geteuid() and is_past

    def _remove_folders_made_by_users(self, folders: list[os.DirEntry[str]]) -> None:
        """Remove folders that users made; try only once to remove a folder that has files."""
        new = [entry for entry in folders if entry.name not in self._full][:REMOVALS_A_SCAN]
        full = [entry for entry in new if not _remove_empty_folder(entry.path)]
        self._full |= {entry.name for entry in full}
        self._full_met |= self._full & {entry.name for entry in folders}
        if full:
            facts = map(spool_reader.read_spool_file_facts, full)
            uids = sorted({folder.uid if folder else -1 for folder in facts})  # -1: the folder has disappeared
            of = ",".join(map(str, uids[:UIDS_TOLD]))
            _log.warning("event=full_folders new=%d all=%d uids=%s", len(full), len(self._full), of)

    def _read_unread_messages(self, of_uid: list[SpoolFile]) -> list[MessageWithAuthorUid]:
        new = [spool_file for spool_file in of_uid if self._reader.is_file_to_read(spool_file)]
        read = (self._read_message_or_remove_invalid_file(spool_file) for spool_file in new[:MESSAGES_A_SCAN])
        return sorted(
            (message for message in read if message is not None), key=lambda message: message.message_sort_key
        )

    def _read_message_or_remove_invalid_file(self, spool_file: SpoolFile) -> MessageWithAuthorUid | None:
        try:
            return self._reader.read_message(spool_file)
        except (StateError, ParseError, OSError) as error:
            self._remove_invalid_spool_file(spool_file, error)
            return None

    def _remove_invalid_spool_file(self, spool_file: SpoolFile, error: Exception) -> None:
        removed = False
        if spool_reader.is_read_error_of_file_itself(error):
            removed = self._remove_spool_file(spool_file.name)
            self._reader.mark_file_as_read(spool_file)
        if self._quota.may_write_log_line(spool_file.uid):
            word, reason = "yes" if removed else "no", shorten_reason_for_storage(str(error))
            message = "event=no_message name=%a uid=%d removed=%s reason=%a"
            _log.warning(message, spool_file.name, spool_file.uid, word, reason)

    def _remove_surplus_messages(self, surplus: list[SpoolFile], count: int) -> None:
        newest = surplus[::-1]
        removed = 0
        for spool_file in newest[:REMOVALS_A_SCAN]:
            if self._remove_spool_file(spool_file.name):
                removed += 1
            else:
                self._reader.mark_file_as_read(spool_file)
        if newest and self._quota.may_write_log_line(newest[0].uid):
            message = "event=too_many_messages uid=%d files=%d limit=%d removed=%d"
            _log.warning(message, newest[0].uid, count, self.limit_per_uid, removed)

    def _remove_spool_file(self, name: str) -> bool:
        path = f"{self._folder}/{name}"
        try:
            safe_files.remove_file(path)
        except IsADirectoryError:
            return _remove_empty_folder(path)
        except OSError:
            return False
        return True


def _remove_empty_folder(path: str) -> bool:
    try:
        os.rmdir(path)
    except OSError:
        return False
    return True


def _separate_user_folders_and_files(
    entries: Iterable[os.DirEntry[str]],
) -> tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]]:
    folders, plain_files = [], []
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            plain_files.append(entry)
        elif entry.name not in (WAKE, claim_and_guard.CLAIMS_FOLDER, os.path.basename(CAMPAIGNS)):
            folders.append(entry)
    return folders, plain_files


def _require_folder_of_service(folder: str) -> None:
    try:
        facts = os.lstat(folder)
    except OSError as error:
        raise StateError(f"{folder}: {error.strerror}") from error
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise StateError(f"{folder}: not a folder of the service account")
