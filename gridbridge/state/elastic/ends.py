"""The tasks that ended of late, kept in a file of a few kilobytes however many they were."""

from contextlib import suppress

from gridbridge.errors import StateError
from gridbridge.model.elastic.seeing import RecentEnds
from gridbridge.shell import files
from gridbridge.state import shown


def read(path: str) -> RecentEnds:
    """Return what was kept; nothing where nothing was, or where it can't be read any more.

    Then all of it is read again from the accounting file.
    """
    with suppress(StateError):
        return shown.read(path, RecentEnds) or RecentEnds()
    return RecentEnds()


def write(path: str, ends: RecentEnds) -> None:
    """Keep it; StateError when it can't be."""
    files.replace(path, shown.encode(ends), durable=False)
