"""The file of recently ended tasks, aggregated to a few kilobytes."""

from contextlib import suppress

from gridbridge.errors import StateError
from gridbridge.model.elastic.published_balance import RecentlyEndedTasks
from gridbridge.shell import files
from gridbridge.state import published_json


def read_recent_ends(path: str) -> RecentlyEndedTasks:
    """Return the stored recent ends; empty for a missing or unreadable file.

    Then the accounting file is read again from its start.
    """
    with suppress(StateError):
        return published_json.read_published_value(path, RecentlyEndedTasks) or RecentlyEndedTasks()
    return RecentlyEndedTasks()


def write_recent_ends(path: str, ends: RecentlyEndedTasks) -> None:
    """Store the recent ends; raise StateError when that fails."""
    files.replace_file(path, published_json.encode_published_value(ends), durable=False)
