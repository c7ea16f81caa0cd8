"""Checks and writes plot files atomically, and labels time axes of matplotlib."""

from __future__ import annotations

import logging
import os
from datetime import datetime
from typing import TYPE_CHECKING

import click

from gridbridge.errors import StandardOutputUnwritable
from gridbridge.shell.optional_libraries import require_library

if TYPE_CHECKING:  # not at run time, because the import takes half a second
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# matplotlib logs the path of its font cache, which concerns no user
logging.getLogger("matplotlib").setLevel(logging.ERROR)

ENDINGS = ("png", "svg", "pdf", "svgz", "ps", "eps", "jpg", "jpeg", "tif", "tiff", "webp")


def require_image_file_suffix(_: click.Context, __: click.Parameter, path: str | None) -> str | None:
    if path is not None and _file_suffix(path) not in ENDINGS:
        name = path or "an empty name"
        raise click.BadParameter(f"{name}: not a picture's name; expected the ending .{', .'.join(ENDINGS)}")
    if path is not None:
        require_library("matplotlib")
    return path


def require_writable_plot_path(path: str) -> None:
    """Refuse an unwritable path of a plot, before the slow gathering of the plot's data."""
    folder = os.path.dirname(path) or "."
    try:
        os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
    except OSError as error:
        raise StandardOutputUnwritable(f"{path}: {error.strerror or error}") from error
    if os.path.isdir(path):
        raise StandardOutputUnwritable(f"{path}: is a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StandardOutputUnwritable(f"{path}: Permission denied")


def save_plot(figure: Figure, path: str, dots: int) -> None:
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f".{name}.{os.getpid()}")
    try:
        figure.savefig(beside, format=_file_suffix(path), dpi=dots)
        os.replace(beside, path)
    except OSError as error:
        if os.path.exists(beside):
            os.unlink(beside)
        raise StandardOutputUnwritable(f"{path}: {error.strerror or error}") from error


def _file_suffix(path: str) -> str:
    return os.path.splitext(path)[1].removeprefix(".").lower()


def convert_time_to_axis_number(at: datetime) -> float:
    from matplotlib import dates

    return float(dates.date2num(at))  # type: ignore[no-untyped-call]


def label_local_time_axis(axes: Axes) -> None:
    from matplotlib import dates

    zone = datetime.now().astimezone().tzinfo
    locator = dates.AutoDateLocator(tz=zone)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=zone))  # type: ignore[no-untyped-call]


def draw_grid_without_frame(axes: Axes) -> None:
    axes.grid(axis="y", color="0.9", lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
