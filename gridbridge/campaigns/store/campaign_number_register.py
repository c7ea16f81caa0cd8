"""The service's register of campaign files, with their numbers and retries.

The register also has campaigns that a restored state file lacks. It proves that the service itself
numbered a file, because any user may create a file of such a name.
"""

import os
from collections.abc import Iterator

from gridbridge.errors import StateError
from gridbridge.model.campaigns.campaign_names import campaign_file_name
from gridbridge.model.fixed_paths import CAMPAIGNS
from gridbridge.shell import safe_files

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
