"""Read a campaign's file and its added tasks for root, and verify each against the ledger.

Root's ledger holds each file's digest from the file's first submission on. Before the first
submission, the file must match the service's register. Tasks of a file of added tasks follow all
earlier tasks. Frequently started programs load this module.
"""

import hashlib
import json
import os

from gridbridge.errors import CampaignFileChanged, CampaignFileUnreadable, StateError, describe_error
from gridbridge.model.campaigns.campaign_names import ADDS_TO, campaign_file_name
from gridbridge.model.fixed_paths import CAMPAIGNS
from gridbridge.shell import safe_files

TYPE_CHECKING = False  # importing typing takes as long as importing json
if TYPE_CHECKING:
    from collections.abc import Iterable

    from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks

MAX_BYTES = 512 << 20
MAX_FIRST_BYTES = 4 << 20  # limit of the first line: 60,000 bytes of script per cluster
FEW = 32  # most lines that are skipped one by one


class RootVerifiedCampaignFiles:
    """The files of one campaign, each read on first use."""

    def __init__(self, campaign: int, folder: str = CAMPAIGNS) -> None:
        """Read the campaign's own file; CampaignFileUnreadable if it cannot be read now."""
        self._campaign = campaign
        self._folder = folder
        self.file = campaign_file_name(campaign)
        self._whole, self.uid = self._read(self.file)

    def note(self, ledger: "RootLedgerOfSubmittedTasks") -> None:
        """Record owner and file in the ledger; CampaignFileChanged if the file was replaced."""
        digest = _digest(self._whole)
        if not ledger.has_file:
            self._require_given(digest)
        ledger.require(self.uid, digest)

    def claim(self, ledger: "RootLedgerOfSubmittedTasks") -> None:
        """Record owner and file without a check of the register, since no task is submitted."""
        ledger.require(self.uid, _digest(self._whole))

    def header(self) -> bytes:
        """Return the JSON description in the campaign's first line."""
        return first_line_of_campaign_file(self._whole)

    def lines(self, tasks: "Iterable[int]", ledger: "RootLedgerOfSubmittedTasks") -> dict[int, bytes]:
        """Return the parameters of tasks by number; CampaignFileUnreadable for a missing line."""
        numbers = sorted(set(tasks))
        lines = _lines(self._whole, numbers)
        remaining, part = numbers[len(lines) :], 0
        first = _count(self._whole) if remaining else 0
        while remaining:
            part += 1
            count = ledger.tasks_of(part)
            if count is None or remaining[0] < first + count:
                added = self._part(part, ledger)
                count = _count(added)
                part_lines = _lines(added, [task - first for task in remaining])
                lines |= {first + task: line for task, line in part_lines.items()}
                remaining = remaining[len(part_lines) :]
            first += count
        return lines

    def _part(self, part: int, ledger: "RootLedgerOfSubmittedTasks") -> bytes:
        """Return the file of a part, after the check that the owner added it."""
        name = campaign_file_name(self._campaign, part)
        whole, uid = self._read(name)
        if uid != self.uid or _header_value(whole, ADDS_TO) != self._campaign:
            raise CampaignFileChanged(f"{name}: not what the campaign's owner added to it")
        digest = _digest(whole)
        if ledger.tasks_of(part) is None:
            self._require_given(digest, part)
        ledger.require_part(part, digest, _count(whole))
        return whole

    def _require_given(self, digest: str, part: int = 0) -> None:
        """Raise CampaignFileChanged if the service registered a different file."""
        from gridbridge.campaigns.store.campaign_number_register import CampaignNumberRegister

        register = CampaignNumberRegister(self._folder, os.stat(self._folder).st_uid)
        if register.is_anothers(self._campaign, self.uid, digest, part):
            name = campaign_file_name(self._campaign, part)
            raise CampaignFileChanged(f"{name}: not the file that it was when it was taken in")

    def _read(self, name: str) -> tuple[bytes, int]:
        """Return a file's content and owner; CampaignFileUnreadable if it cannot be read now."""
        try:
            whole, facts = safe_files.read_file_only_owner_writes(f"{self._folder}/{name}", MAX_BYTES)
        except (OSError, StateError) as error:
            raise CampaignFileUnreadable(f"{name}: {describe_error(error)}") from error
        return whole, facts.st_uid


def uid_blocking_campaign_file(campaign: int, folder: str = CAMPAIGNS) -> int | None:
    """Return the uid whose non-regular file blocks a campaign's file name.

    None if the name is free or may be a valid campaign file.
    """
    path = f"{folder}/{campaign_file_name(campaign)}"
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return None if safe_files.does_only_owner_write_file(path, facts, MAX_BYTES) else facts.st_uid


def _header_value(whole: bytes, key: str) -> object:
    """Return the value of a key in the first line's JSON."""
    try:
        return json.loads(first_line_of_campaign_file(whole))[key]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _digest(whole: bytes) -> str:
    return hashlib.sha256(whole).hexdigest()


def first_line_of_campaign_file(whole: bytes) -> bytes:
    """Return the first line of a campaign file; ValueError if it exceeds 4 MB."""
    end = whole.find(b"\n", 0, MAX_FIRST_BYTES)
    if end < 0:
        raise ValueError(f"no first line of at most {MAX_FIRST_BYTES} bytes")
    return whole[:end]


def _count(whole: bytes) -> int:
    """Return how many complete lines follow the first line."""
    return max(0, whole.count(b"\n") - 1)


def _lines(whole: bytes, numbers: list[int]) -> dict[int, bytes]:
    """Return the lines of ascending numbers from 0, up to the first missing line.

    The file may have a hundred million lines, so other lines are not split off.
    """
    lines: dict[int, bytes] = {}
    at, number = _after(whole, 0, 1), 0
    for index in numbers:
        at, number = _after(whole, at, index - number), index + 1
        if at < 0 or (end := whole.find(b"\n", at)) < 0:
            break
        lines[index] = whole[at:end]
        at = end + 1
    return lines


def _after(whole: bytes, at: int, lines: int) -> int:
    """Return the byte offset after `lines` lines; -1 if there are fewer lines.

    Each line has at least one byte. So a step of as many bytes as lines remain never goes too far,
    and no byte is read twice.
    """
    while lines > FEW and 0 <= at < len(whole):
        at, lines = at + lines, lines - whole.count(b"\n", at, at + lines)
    while lines and at >= 0:
        at, lines = whole.find(b"\n", at) + 1 or -1, lines - 1
    return at
