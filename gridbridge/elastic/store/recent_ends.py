"""The tasks that ended of late, kept in a file of a few kilobytes however many they were."""

from contextlib import suppress

from gridbridge.errors import StateError
from gridbridge.model.elastic.published_balance import RecentlyEndedTasks
from gridbridge.shell import files
from gridbridge.state import published_json


def read(path: str) -> RecentlyEndedTasks:
    """Return what was kept; nothing where nothing was, or where it can't be read any more.

    Then all of it is read again from the accounting file.
    """
    with suppress(StateError):
        return published_json.read(path, RecentlyEndedTasks) or RecentlyEndedTasks()
    return RecentlyEndedTasks()


def write(path: str, ends: RecentlyEndedTasks) -> None:
    """Keep it; StateError when it can't be."""
    files.replace(path, published_json.encode(ends), durable=False)
