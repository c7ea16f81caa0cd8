"""Puts a published file at its place, and makes the folder for it the first time."""

import os

from gridbridge.errors import StateError
from gridbridge.shell import files

UNLISTED = 0o711  # mode of a folder in which people open files whose names they know


def put(path: str, data: bytes, mode: int = 0o755) -> None:
    """Publish a file, making its folder the first time, with this mode."""
    try:
        files.replace(path, data, durable=False)
    except StateError:
        _make_folder(os.path.dirname(path), mode)
        files.replace(path, data, durable=False)


def _make_folder(path: str, mode: int) -> None:
    try:
        os.makedirs(path, mode=mode, exist_ok=True)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
