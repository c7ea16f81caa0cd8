"""A campaign as its owner brought it: its file, and the parts that were added to it since.

Root reads it so. Its ledger has each file as it was when something of it was first submitted, and
until then a file has to be as the service noted it when it took it in. The
tasks of a part follow those of the file and of the parts before. Hot programs load this module.
"""

import hashlib
import json
import os

from gridbridge.errors import NotAsBrought, NotRead, StateError, plain_words
from gridbridge.model.campaigns.campaign_names import ADDS_TO, file_of
from gridbridge.model.places import CAMPAIGNS
from gridbridge.shell import files

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Iterable

    from gridbridge.campaigns.store.root_ledger import RootLedger

MAX_BYTES = 512 << 20
MAX_FIRST_BYTES = 4 << 20  # a script of 60,000 bytes for each of many clusters
FEW = 32  # lines that are searched for one by one


class VerifiedCampaign:
    """The files of one campaign; each is read when it is needed."""

    def __init__(self, campaign: int, folder: str = CAMPAIGNS) -> None:
        """Read the campaign's own file; NotRead when that can't be done now."""
        self._campaign = campaign
        self._folder = folder
        self.file = file_of(campaign)
        self._whole, self.uid = self._read(self.file)

    def note(self, ledger: "RootLedger") -> None:
        """Note whose campaign it is, and its file; NotAsBrought when it was another one."""
        digest = _digest(self._whole)
        if not ledger.has_file:
            self._require_given(digest)
        ledger.require(self.uid, digest)

    def claim(self, ledger: "RootLedger") -> None:
        """Note the same where nothing will be submitted, whatever the file was before."""
        ledger.require(self.uid, _digest(self._whole))

    def header(self) -> bytes:
        """Return what it says of the campaign: JSON."""
        return first_line(self._whole)

    def lines(self, tasks: "Iterable[int]", ledger: "RootLedger") -> dict[int, bytes]:
        """Return the parameters of some tasks, by number; NotRead where it has none."""
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

    def _part(self, part: int, ledger: "RootLedger") -> bytes:
        """Return the file of a part, which the same person added to this campaign."""
        name = file_of(self._campaign, part)
        whole, uid = self._read(name)
        if uid != self.uid or _header_value(whole, ADDS_TO) != self._campaign:
            raise NotAsBrought(f"{name}: not what the campaign's owner added to it")
        digest = _digest(whole)
        if ledger.tasks_of(part) is None:
            self._require_given(digest, part)
        ledger.require_part(part, digest, _count(whole))
        return whole

    def _require_given(self, digest: str, part: int = 0) -> None:
        """Raise NotAsBrought where the service, whose folder it is, took in another file."""
        from gridbridge.campaigns.store.campaign_register import CampaignRegister

        register = CampaignRegister(self._folder, os.stat(self._folder).st_uid)
        if register.is_anothers(self._campaign, self.uid, digest, part):
            name = file_of(self._campaign, part)
            raise NotAsBrought(f"{name}: not the file that it was when it was taken in")

    def _read(self, name: str) -> tuple[bytes, int]:
        """Return a file and whose it is; one that can't be read now may be as it was later."""
        try:
            whole, facts = files.read(f"{self._folder}/{name}", MAX_BYTES)
        except (OSError, StateError) as error:
            raise NotRead(f"{name}: {plain_words(error)}") from error
        return whole, facts.st_uid


def spoilt_by(campaign: int, folder: str = CAMPAIGNS) -> int | None:
    """Return whose the thing is that stands in the place of a campaign's file and is never read.

    None where what stands there may be the file, and where nothing does.
    """
    path = f"{folder}/{file_of(campaign)}"
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return None if files.is_plain(path, facts, MAX_BYTES) else facts.st_uid


def _header_value(whole: bytes, key: str) -> object:
    """Return what the first line has under a key."""
    try:
        return json.loads(first_line(whole))[key]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _digest(whole: bytes) -> str:
    return hashlib.sha256(whole).hexdigest()


def first_line(whole: bytes) -> bytes:
    """Return that of a campaign file; ValueError when it is longer than anybody's has to be."""
    end = whole.find(b"\n", 0, MAX_FIRST_BYTES)
    if end < 0:
        raise ValueError(f"no first line of at most {MAX_FIRST_BYTES} bytes")
    return whole[:end]


def _count(whole: bytes) -> int:
    """Return how many lines follow the first; a last one without its end is none."""
    return max(0, whole.count(b"\n") - 1)


def _lines(whole: bytes, numbers: list[int]) -> dict[int, bytes]:
    """Return the lines of these numbers, from 0 and in order, up to the first missing line.

    There may be a hundred million other lines: none of them is split off.
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
    """Return the end of so many lines from a byte on; -1 if there are fewer lines.

    Each line has at least one byte. So a step over as many bytes as lines are left never goes too
    far, and no byte is read twice.
    """
    while lines > FEW and 0 <= at < len(whole):
        at, lines = at + lines, lines - whole.count(b"\n", at, at + lines)
    while lines and at >= 0:
        at, lines = whole.find(b"\n", at) + 1 or -1, lines - 1
    return at
