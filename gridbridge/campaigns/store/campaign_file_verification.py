"""Reads a campaign's files for root, verified against root's ledger and the service's register of files.

Root's ledger holds each file's digest from the file's first submission on. Before the first submission, the
file must match the service's register. Tasks of a file of added tasks follow all earlier tasks. Frequently
started programs load this module.

The register also has campaigns that a restored state file lacks. It proves that the service itself numbered a
file, because any user may create a file of such a name.
"""

import hashlib
import json
import os
from collections.abc import Iterator

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
        from gridbridge.campaigns.store.campaign_file_verification import CampaignNumberRegister

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


NAME = "given"
AGAIN = "again"
MOST_REGISTER_BYTES = 512 << 20

Brought = tuple[int, str]  # uid and digest of a file


class CampaignNumberRegister:
    """The append-only register of numbered campaign files."""

    def __init__(self, folder: str = CAMPAIGNS, owner: int | None = None) -> None:
        """Read the register; a register of another owner counts as empty."""
        self._path = f"{folder}/{NAME}"
        self._owner = os.geteuid() if owner is None else owner
        self._known: dict[tuple[int, int], Brought] = {}  # registered files by campaign and part
        self._again: dict[tuple[int, str], int] = {}  # times of retries by campaign and request
        self._is_whole = True
        self._is_ours = True
        self._is_there = True
        self._load()

    def highest(self) -> int:
        """Return the highest registered campaign number; 0 if there is none."""
        return max((campaign for campaign, _ in self._known), default=0)

    def campaigns(self) -> Iterator[int]:
        """Yield all registered campaign numbers in ascending order."""
        return (campaign for campaign, part in sorted(self._known) if not part)

    def has(self, campaign: int, uid: int, digest: str, part: int = 0) -> bool:
        """Return whether this file is registered under this campaign and part."""
        return self._known.get((campaign, part)) == (uid, digest)

    def is_anothers(self, campaign: int, uid: int, digest: str, part: int = 0) -> bool:
        """Return whether a different file is registered under this campaign and part."""
        recorded = self._known.get((campaign, part))
        return recorded is not None and recorded != (uid, digest)

    def note(self, campaign: int, uid: int, digest: str, part: int = 0) -> None:
        """Register a file before it is renamed; repeatable, StateError if the disk is full.

        A number that already has a file keeps this file.
        """
        if (campaign, part) in self._known:
            return
        self._add(f"{campaign_file_name(campaign, part)} {uid} {digest}\n")
        self._known[campaign, part] = (uid, digest)

    def note_again(self, campaign: int, token: str, at_s: int) -> None:
        """Record that a request retried failed tasks of a campaign."""
        self._add(f"{campaign_file_name(campaign)} {AGAIN} {token} {at_s}\n")
        self._again[campaign, token] = at_s

    def again_since(self, at_s: float) -> Iterator[tuple[int, str]]:
        """Yield the campaigns and requests of retries since a time."""
        return (pair for pair, noted_s in self._again.items() if noted_s >= at_s)

    def _add(self, line: str) -> None:
        try:
            if not self._is_ours:  # another user made the file
                self._move_aside()
            self._append(line if self._is_whole else f"\n{line}")
        except OSError as error:
            self._is_whole = False
            raise StateError(f"{self._path}: {error.strerror}") from error
        self._is_whole = True

    def _append(self, line: str) -> None:
        end = self._opened()
        try:
            if os.write(end, line.encode("ascii")) != len(line):
                raise OSError(28, "No space left on device")
            os.fsync(end)
        finally:
            os.close(end)

    def _opened(self) -> int:
        """Open the register for appending; move a foreign file of that name aside.

        The open never blocks, even if the foreign file is a pipe.
        """
        options = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        if self._is_there:
            return os.open(self._path, options | os.O_CREAT, 0o600)
        try:
            end = os.open(self._path, options | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            self._move_aside()
            end = os.open(self._path, options | os.O_CREAT | os.O_EXCL, 0o600)
        self._is_there = True
        return end

    def _move_aside(self) -> None:
        os.rename(self._path, safe_files.random_file_name(f"{self._path}."))
        self._is_ours, self._is_there = True, False

    def _load(self) -> None:
        try:
            text = safe_files.read_file_only_owner_writes(self._path, MOST_REGISTER_BYTES, self._owner)[0].decode(
                "ascii", "replace"
            )
        except FileNotFoundError:
            self._is_there = False
            return
        except StateError:
            self._is_ours = False
            return
        self._is_whole = text.endswith("\n")
        for line in text.split("\n")[:-1]:
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
