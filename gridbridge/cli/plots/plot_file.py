"""How a picture is written: whole or not at all, and into the very path that was named."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from gridbridge.errors import OutputError

if TYPE_CHECKING:  # it takes half a second, and a wrong name is told without it
    from matplotlib.figure import Figure

ENDINGS = ("png", "svg", "pdf", "svgz", "ps", "eps", "jpg", "jpeg", "tif", "tiff", "webp")


def named(_: click.Context, __: click.Parameter, path: str | None) -> str | None:
    """Refuse the name of a picture whose ending is none of a kind of picture."""
    if path is not None and _ending(path) not in ENDINGS:
        name = path or "an empty name"
        raise click.BadParameter(f"{name}: a picture's name ends in .{', .'.join(ENDINGS)}")
    return path


def require_room(path: str) -> None:
    """Refuse a picture that could not be written, before what it shows is found out."""
    folder = os.path.dirname(path) or "."
    try:
        os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from error
    if os.path.isdir(path):
        raise OutputError(f"{path}: it is a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: Permission denied")


def save(figure: Figure, path: str, dots: int) -> None:
    """Write it beside and rename it: who looks at one never sees half a picture.

    Its ending says what it is. OutputError when it can't be written.
    """
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f".{name}.{os.getpid()}")
    try:
        figure.savefig(beside, format=_ending(path), dpi=dots)
        os.replace(beside, path)
    except OSError as error:
        if os.path.exists(beside):
            os.unlink(beside)
        raise OutputError(f"{path}: {error.strerror or error}") from error


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].removeprefix(".").lower()
