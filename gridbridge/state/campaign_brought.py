"""A campaign as its owner brought it: its file, and the parts that were added to it since.

Root reads it so. Its ledger has each file as it was when something of it was first submitted. The
tasks of a part follow those of the file and of the parts before. Hot programs load this module.
"""

import hashlib
import json

from gridbridge.errors import NotAsBrought, StateError
from gridbridge.model.campaigns.names import ADDS_TO, UNIQUE, file_of
from gridbridge.model.places import CAMPAIGNS
from gridbridge.shell import files

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Iterable

    from gridbridge.state.ledger import Ledger

MAX_BYTES = 512 << 20


class Brought:
    """The files of one campaign; each is read when it is needed."""

    def __init__(self, campaign: int, folder: str = CAMPAIGNS) -> None:
        """Read the campaign's own file; NotAsBrought when it can't be read."""
        self._campaign = campaign
        self._folder = folder
        self.file = file_of(campaign)
        self._whole, self.uid = self._read(self.file)

    def note(self, ledger: "Ledger") -> None:
        """Note whose campaign it is, and its file; NotAsBrought when it was another one."""
        is_unique = _said(self._whole, UNIQUE) is not None  # those of older releases are not
        ledger.require(self.uid, _digest(self._whole), is_unique)

    def header(self) -> bytes:
        """Return what it says of the campaign: JSON."""
        return self._whole.partition(b"\n")[0]

    def lines(self, tasks: "Iterable[int]", ledger: "Ledger") -> dict[int, bytes]:
        """Return the parameters of some tasks, by number; NotAsBrought where it has none."""
        own = _lines(self._whole)
        wanted = sorted(tasks)
        found = {task: own[task] for task in wanted if task < len(own)}
        first, part, left = len(own), 0, wanted[len(found) :]
        while left:
            part += 1
            count = ledger.tasks_of(part)
            if count is None or left[0] < first + count:
                added = self._part(part, ledger)
                count = len(added)
                here = [task for task in left if task < first + count]
                found |= {task: added[task - first] for task in here}
                left = left[len(here) :]
            first += count
        return found

    def _part(self, part: int, ledger: "Ledger") -> list[bytes]:
        """Return the lines of a part, which the same person added to this campaign."""
        name = file_of(self._campaign, part)
        whole, uid = self._read(name)
        if uid != self.uid or _said(whole, ADDS_TO) != self._campaign:
            raise NotAsBrought(f"{name}: not what the campaign's owner added to it")
        lines = _lines(whole)
        ledger.require_part(part, _digest(whole), len(lines))
        return lines

    def _read(self, name: str) -> tuple[bytes, int]:
        try:
            whole, facts = files.read(f"{self._folder}/{name}", MAX_BYTES)
        except (FileNotFoundError, StateError) as error:
            raise NotAsBrought(f"{name}: {error}") from error
        return whole, facts.st_uid


def _said(whole: bytes, key: str) -> object:
    """Return what the first line has under a key."""
    try:
        return json.loads(whole.partition(b"\n")[0])[key]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _digest(whole: bytes) -> str:
    return hashlib.sha256(whole).hexdigest()


def _lines(whole: bytes) -> list[bytes]:
    """Return the lines after the first; a last one without its end is none."""
    return whole.split(b"\n")[1:-1]
