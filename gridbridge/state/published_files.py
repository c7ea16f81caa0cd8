"""Puts a published file at its place, makes the folder for it, and removes what is old there."""

import os
from contextlib import suppress
from datetime import datetime

from gridbridge.errors import StateError
from gridbridge.shell import files

UNLISTED = 0o711  # mode of a folder in which people open files whose names they know


def put(path: str, data: bytes, mode: int = 0o755) -> None:
    """Publish a file, making its folder the first time, with this mode."""
    try:
        files.replace(path, data, durable=False)
    except StateError:
        make_folder(os.path.dirname(path), mode)
        files.replace(path, data, durable=False)


def sweep(folder: str, before: datetime, most: int) -> None:
    """Remove the files of a folder that were published before a time, and all but the newest."""
    dated = list[tuple[float, str]]()
    for name in files.names(folder):
        with suppress(OSError):
            dated.append((os.lstat(f"{folder}/{name}").st_mtime, name))
    for rank, (at, name) in enumerate(sorted(dated, reverse=True)):
        if rank >= most or at < before.timestamp():
            with suppress(OSError):
                os.unlink(f"{folder}/{name}")


def make_folder(path: str, mode: int = 0o755) -> None:
    """Make a folder with this mode, and its parents for everybody, whatever our umask is."""
    above = os.path.dirname(path)
    if above and not os.path.isdir(above):
        make_folder(above)
    try:
        os.mkdir(path)
        os.chmod(path, mode)
    except FileExistsError:
        return
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
