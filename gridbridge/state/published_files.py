"""Writes published files, creates their folders, and removes old files."""

import os
from contextlib import suppress
from datetime import datetime

from gridbridge.errors import StateError
from gridbridge.shell import safe_files

UNLISTED = 0o711  # mode of a folder whose files people can open by name, but not list


def publish_file(path: str, data: bytes, mode: int = 0o755) -> None:
    """Publish a file; if its folder is missing, create the folder with `mode`."""
    try:
        safe_files.replace_file_atomically(path, data, durable=False)
    except StateError:
        make_published_folder(os.path.dirname(path), mode)
        safe_files.replace_file_atomically(path, data, durable=False)


def remove_old_published_files(folder: str, before: datetime, most: int) -> None:
    """Remove files older than `before`, and all but the `most` newest files of a folder."""
    dated = list[tuple[float, str]]()
    for name in safe_files.list_folder_or_empty(folder):
        with suppress(OSError):
            dated.append((os.lstat(f"{folder}/{name}").st_mtime, name))
    for rank, (at, name) in enumerate(sorted(dated, reverse=True)):
        if rank >= most or at < before.timestamp():
            with suppress(OSError):
                os.unlink(f"{folder}/{name}")


def make_published_folder(path: str, mode: int = 0o755) -> None:
    """Create a folder with `mode`, whatever the umask; missing parents become readable for everybody."""
    above = os.path.dirname(path)
    if above and not os.path.isdir(above):
        make_published_folder(above)
    try:
        os.mkdir(path)
        os.chmod(path, mode)
    except FileExistsError:
        return
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
