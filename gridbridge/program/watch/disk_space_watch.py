"""Check every five seconds whether people and the service can write their files."""

import logging
import os
from collections.abc import Callable, Iterable

from gridbridge.decisions.site.disk_space import first_disk_space_problem
from gridbridge.model.places import CAMPAIGNS
from gridbridge.model.site.host_facts import FolderFreeSpace
from gridbridge.shell import host

LOOK_S = 5.0

_log = logging.getLogger(__name__)


class DiskSpaceWatch:
    """Reports which folder is full, from regular write tests."""

    def __init__(
        self,
        folders: Iterable[str],
        clock: Callable[[], float],
        tmpdirs: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._folders = tuple(folders)
        self._tmpdirs = tmpdirs  # starters' folders, possibly not writable for us
        self._clock = clock
        self._looked_at = -LOOK_S
        self._lacks = ""

    def lacks(self) -> str:
        """Return which folder is full; empty if none is. A full folder closes the queues."""
        if self._clock() - self._looked_at >= LOOK_S:
            self._looked_at = self._clock()
            self._look()
        return self._lacks

    def _look(self) -> None:
        rooms = {folder: host.measure_room_by_writing(folder) for folder in self._folders}
        shortage = first_disk_space_problem(rooms) or first_disk_space_problem(
            free_space_of_tmpdirs(self._tmpdirs())
        )
        if bool(shortage) != bool(self._lacks):
            words = f"event=full why={shortage!r}" if shortage else "event=room_again"
            _log.log(logging.ERROR if shortage else logging.INFO, words)
        self._lacks = shortage


def free_space_of_campaign_filesystem(folder: str = CAMPAIGNS) -> dict[str, FolderFreeSpace]:
    """Return the free space of the campaigns' folder if it is a separate filesystem."""
    return {folder: host.measure_folder_room(folder)} if os.path.ismount(folder) else {}


def free_space_of_tmpdirs(tmpdirs: Iterable[str]) -> dict[str, FolderFreeSpace]:
    """Return the free space of TMPDIR folders; missing folders are skipped as execd's trouble."""
    rooms = {folder: host.measure_folder_room(folder) for folder in tmpdirs}
    return {folder: room for folder, room in rooms.items() if not room.trouble}
