"""Reads a campaign's files for root; root's ledger and the service's register verify the files.

Before the first submission, only the register proves a file, because any user may create a file of the same name.
"""

import hashlib
import io
import json
import os
from collections.abc import Iterator
from contextlib import suppress

from gridbridge.campaigns.store.campaign_file_lines import read_lines_by_number
from gridbridge.errors import CampaignFileChanged, CampaignFileUnreadable, StateError, describe_error
from gridbridge.model.campaigns.campaign_file_and_array_names import ADDS_TO, campaign_file_name
from gridbridge.model.fixed_paths import CAMPAIGNS
from gridbridge.shell import safe_files

TYPE_CHECKING = False  # defined here, because importing the module typing would be slow
if TYPE_CHECKING:
    from collections.abc import Iterable

    from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks


MAX_BYTES = 512 << 20
MAX_FIRST_BYTES = 4 << 20  # limit of the first line, which may contain a script of 60,000 bytes for each cluster


class RootVerifiedCampaignFiles:
    """The files of one campaign, which root reads and verifies."""

    def __init__(self, campaign: int, folder: str = CAMPAIGNS) -> None:
        """Read the campaign's first file; raises CampaignFileUnreadable if the file cannot be read now."""
        self._campaign = campaign
        self._folder = folder
        self.file = campaign_file_name(campaign)
        self._whole, self.uid = self._read_campaign_file_with_uid(self.file)

    def record_file_in_ledger(self, ledger: "RootLedgerOfSubmittedTasks") -> None:
        """Record owner and first file in root's ledger; raise CampaignFileChanged for a replaced file."""
        digest = _sha256_digest(self._whole)
        if not ledger.has_campaign_file:
            self._require_registered_file(digest)
        ledger.record_or_verify_campaign_file(self.uid, digest)

    def record_unregistered_file(self, ledger: "RootLedgerOfSubmittedTasks") -> None:
        """Record owner and file of a campaign without submitted tasks, without a check of the register."""
        ledger.record_or_verify_campaign_file(self.uid, _sha256_digest(self._whole))

    def header_line(self) -> bytes:
        """Return the file's first line, which describes the campaign as JSON."""
        return first_line_of_campaign_file(self._whole)

    def parameters_of_tasks(self, tasks: "Iterable[int]", ledger: "RootLedgerOfSubmittedTasks") -> dict[int, bytes]:
        """Return {task number: parameters}; raises CampaignFileUnreadable if a file is missing."""
        numbers = sorted(set(tasks))
        lines = _select_task_lines(self._whole, numbers)
        remaining, part = numbers[len(lines) :], 0
        first = _count_task_lines(self._whole) if remaining else 0
        while remaining:
            part += 1
            count = ledger.count_tasks_of_part(part)
            if count is None or remaining[0] < first + count:
                added = self._read_added_tasks_file(part, ledger)
                count = _count_task_lines(added)
                part_lines = _select_task_lines(added, [task - first for task in remaining])
                lines |= {first + task: line for task, line in part_lines.items()}
                remaining = remaining[len(part_lines) :]
            first += count
        return lines

    def _read_added_tasks_file(self, part: int, ledger: "RootLedgerOfSubmittedTasks") -> bytes:
        name = campaign_file_name(self._campaign, part)
        whole, uid = self._read_campaign_file_with_uid(name)
        number = None
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            number = json.loads(first_line_of_campaign_file(whole))[ADDS_TO]
        if uid != self.uid or number != self._campaign:
            raise CampaignFileChanged(f"{name}: not a file of tasks that the campaign's owner added")
        digest = _sha256_digest(whole)
        if ledger.count_tasks_of_part(part) is None:
            self._require_registered_file(digest, part)
        ledger.record_or_verify_added_tasks_file(part, digest, _count_task_lines(whole))
        return whole

    def _require_registered_file(self, digest: str, part: int = 0) -> None:
        register = CampaignFileRegister(self._folder, os.stat(self._folder).st_uid)
        if register.has_different_campaign_file(self._campaign, self.uid, digest, part):
            name = campaign_file_name(self._campaign, part)
            raise CampaignFileChanged(f"{name}: the file has changed since the service accepted it")

    def _read_campaign_file_with_uid(self, name: str) -> tuple[bytes, int]:
        try:
            whole, facts = safe_files.read_file_only_owner_writes(f"{self._folder}/{name}", MAX_BYTES)
        except (OSError, StateError) as error:
            raise CampaignFileUnreadable(f"{name}: {describe_error(error)}") from error
        return whole, facts.st_uid


def owner_uid_of_invalid_campaign_file(campaign: int, folder: str = CAMPAIGNS) -> int | None:
    """Return the owner's uid if a campaign file is invalid; None if the file is missing or valid."""
    path = f"{folder}/{campaign_file_name(campaign)}"
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return None if safe_files.does_only_owner_write_file(path, facts, MAX_BYTES) else facts.st_uid


def _sha256_digest(whole: bytes) -> str:
    return hashlib.sha256(whole).hexdigest()


def first_line_of_campaign_file(whole: bytes) -> bytes:
    """Return the first line of a campaign file; raises ValueError if the line is longer than 4 MB."""
    end = whole.find(b"\n", 0, MAX_FIRST_BYTES)
    if end < 0:
        raise ValueError(f"the first line is missing or longer than {MAX_FIRST_BYTES} bytes")
    return whole[:end]


def _count_task_lines(whole: bytes) -> int:
    return max(0, whole.count(b"\n") - 1)


def _select_task_lines(whole: bytes, numbers: list[int]) -> dict[int, bytes]:
    """Return the task lines with these ascending numbers, up to the first number without a line."""
    selected = read_lines_by_number(io.BytesIO(whole), (number + 1 for number in numbers))
    return {number - 1: line for number, line in selected}


NAME = "given"
AGAIN = "again"


class CampaignFileRegister:
    """The service's append-only register of the campaign files that got a number."""

    def __init__(self, folder: str = CAMPAIGNS, owner: int | None = None) -> None:
        """Read the register; a register file of another user counts as empty."""
        self._path = f"{folder}/{NAME}"
        self._owner = os.geteuid() if owner is None else owner
        # {(campaign number, part number): (uid, digest)} of the registered files
        self._known: dict[tuple[int, int], tuple[int, str]] = {}
        # {(campaign number, request token): time of the retry in seconds}
        self._again: dict[tuple[int, str], int] = {}
        self._is_whole = True
        self._is_ours = True
        self._is_there = True
        self._load_campaign_number_register()

    def highest_campaign_number(self) -> int:
        return max((campaign for campaign, _ in self._known), default=0)

    def campaign_numbers(self) -> Iterator[int]:
        """Yield all registered campaign numbers in ascending order."""
        return (campaign for campaign, part in sorted(self._known) if not part)

    def has_campaign_file(self, campaign: int, uid: int, digest: str, part: int = 0) -> bool:
        return self._known.get((campaign, part)) == (uid, digest)

    def has_different_campaign_file(self, campaign: int, uid: int, digest: str, part: int = 0) -> bool:
        recorded = self._known.get((campaign, part))
        return recorded is not None and recorded != (uid, digest)

    def register_campaign_file(self, campaign: int, uid: int, digest: str, part: int = 0) -> None:
        """Register a file before its renaming; keep an existing entry; raise StateError on a full disk."""
        if (campaign, part) in self._known:
            return
        self._append_line_to_register(f"{campaign_file_name(campaign, part)} {uid} {digest}\n")
        self._known[campaign, part] = (uid, digest)

    def record_retry_request(self, campaign: int, token: str, at_s: int) -> None:
        self._append_line_to_register(f"{campaign_file_name(campaign)} {AGAIN} {token} {at_s}\n")
        self._again[campaign, token] = at_s

    def retry_requests_since(self, at_s: float) -> Iterator[tuple[int, str]]:
        return (pair for pair, noted_s in self._again.items() if noted_s >= at_s)

    def _append_line_to_register(self, line: str) -> None:
        data = (line if self._is_whole else f"\n{line}").encode("ascii")
        try:
            if not self._is_ours:  # another user made the file
                self._rename_foreign_register_file()
            end = self._open_register_for_append()
            try:
                if os.write(end, data) != len(data):
                    raise OSError(28, "No space left on device")
                os.fsync(end)
            finally:
                os.close(end)
        except OSError as error:
            self._is_whole = False
            raise StateError(f"{self._path}: {error.strerror}") from error
        self._is_whole = True

    def _open_register_for_append(self) -> int:
        """Open the register for appending; rename a register file of another user."""
        options = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_CREAT
        if self._is_there:
            return os.open(self._path, options, 0o600)
        try:
            end = os.open(self._path, options | os.O_EXCL, 0o600)
        except FileExistsError:
            self._rename_foreign_register_file()
            end = os.open(self._path, options | os.O_EXCL, 0o600)
        self._is_there = True
        return end

    def _rename_foreign_register_file(self) -> None:
        os.rename(self._path, safe_files.random_file_name(f"{self._path}."))
        self._is_ours, self._is_there = True, False

    def _load_campaign_number_register(self) -> None:
        try:
            data, _ = safe_files.read_file_only_owner_writes(self._path, MAX_BYTES, self._owner)
        except FileNotFoundError:
            self._is_there = False
            return
        except StateError:
            self._is_ours = False
            return
        self._is_whole = data.endswith(b"\n")
        for line in data.decode("ascii", "replace").split("\n")[:-1]:
            name, _, remainder = line.partition(" ")
            uid, _, digest = remainder.partition(" ")
            numbers = name.split(".")[1:]
            if not (digest and all(map(str.isdigit, numbers))):
                continue
            campaign, part = (*map(int, numbers), 0)[:2]
            token, _, at_s = digest.partition(" ")
            if uid.isdigit():
                self._known[campaign, part] = (int(uid), digest)
            elif uid == AGAIN and at_s.isdigit():
                self._again[campaign, token] = int(at_s)
