"""Draw the balancer's statistics: one plot for each of StarCluster's columns."""

import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from gridbridge.cli import plot_files
from gridbridge.cli.plot_files import label_local_time_axis, time_axis_position
from gridbridge.errors import StandardOutputUnwritable
from gridbridge.model.elastic.published_balance import BalanceRoundStatistics

mpl.use("Agg")
SIZE_INCHES, DOTS = (9.0, 4.0), 110
FEW = 60  # up to this number of rows, each row gets a mark
GAP = 10  # a longer gap, in usual distances of rows, interrupts the line
SECOND, MINUTE, HOUR, DAY = ("s", 1), ("min", 60), ("h", 3600), ("d", 86400)
UNITS = ((DAY, HOUR), (HOUR, MINUTE), (MINUTE, SECOND), (SECOND, SECOND))
STEPS_S = [
    *(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200),
    *(14400, 21600, 43200, *(86400 * days for days in (1, 2, 5, 10, 20, 50, 100, 200, 500))),
]
ALONE = timedelta(minutes=5)  # margin of the time axis around a single row


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancePlot:
    """One plot of the balancer's statistics: its column, title, unit and style."""

    name: str  # file name
    title: str
    unit: str
    value: Callable[[BalanceRoundStatistics], float]
    colour: str
    is_stepped: bool = True  # the value holds until the next round
    is_time: bool = False


PICTURES = (
    BalancePlot(
        name="queued",
        title="Tasks that wait and could start",
        unit="tasks",
        value=lambda row: row.queued,
        colour="#D55E00",
    ),
    BalancePlot(name="running", title="Tasks that run", unit="tasks", value=lambda row: row.running, colour="#009E73"),
    BalancePlot(name="num_hosts", title="Hosts", unit="hosts", value=lambda row: row.hosts, colour="#0072B2"),
    BalancePlot(
        name="avg_duration",
        title="Mean run time of tasks that ended of late",
        unit="run time",
        value=lambda row: row.duration_s,
        colour="#CC79A7",
        is_stepped=False,
        is_time=True,
    ),
    BalancePlot(
        name="avg_wait",
        title="Mean wait of tasks that ended of late",
        unit="wait",
        value=lambda row: row.wait_s,
        colour="#E69F00",
        is_stepped=False,
        is_time=True,
    ),
    BalancePlot(
        name="avg_load",
        title="Mean load of the hosts",
        unit="load",
        value=lambda row: row.load,
        colour="#56B4E9",
        is_stepped=False,
    ),
)


def draw_balance_plots(rows: Sequence[BalanceRoundStatistics], folder: str) -> tuple[str, ...]:
    """Draw all plots of at least one statistics row into a folder; return their paths.

    The folder is created. Raises StandardOutputUnwritable when it can't be written.
    """
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise StandardOutputUnwritable(f"{error.filename or folder}: {error.strerror}") from error
    return tuple(_draw(picture, rows, folder) for picture in PICTURES)


def _draw(picture: BalancePlot, rows: Sequence[BalanceRoundStatistics], folder: str) -> str:
    figure = Figure(figsize=SIZE_INCHES, dpi=DOTS, layout="constrained")
    axes = figure.add_subplot()
    _line(axes, picture, rows)
    _frame(axes, picture, rows)
    path = f"{folder}/{picture.name}.png"
    plot_files.save_plot(figure, path, DOTS)
    return path


def _line(axes: Axes, picture: BalancePlot, rows: Sequence[BalanceRoundStatistics]) -> None:
    """Draw a line with a gap wherever rows are missing."""
    for part in _parts(rows):
        at = [time_axis_position(row.at) for row in part]
        values = [picture.value(row) for row in part]
        mark = "o" if len(rows) <= FEW else ("o" if len(part) == 1 else None)
        style = "steps-post" if picture.is_stepped else "default"
        axes.plot(at, values, color=picture.colour, drawstyle=style, marker=mark, markersize=3, clip_on=False)
        step: Literal["post"] | None = "post" if picture.is_stepped else None
        axes.fill_between(at, values, color=picture.colour, alpha=0.15, step=step, lw=0)


def _parts(rows: Sequence[BalanceRoundStatistics]) -> list[list[BalanceRoundStatistics]]:
    between = sorted((after.at - before.at).total_seconds() for before, after in itertools.pairwise(rows))
    usual_s = between[len(between) // 2] if between else 0.0
    parts = [[rows[0]]]
    for before, after in itertools.pairwise(rows):
        if (after.at - before.at).total_seconds() > GAP * max(usual_s, 1.0):
            parts.append([])
        parts[-1].append(after)
    return parts


def _frame(axes: Axes, picture: BalancePlot, rows: Sequence[BalanceRoundStatistics]) -> None:
    most = max(picture.value(row) for row in rows)
    axes.set_ylim(0, most * 1.1 or 1)
    axes.set_ylabel(picture.unit)
    last = picture.value(rows[-1])
    now, top = (_value_text(picture, value) for value in (last, most))
    axes.set_title(f"{picture.title}: {now} at last, {top} at most", loc="left")
    if picture.is_time:
        axes.yaxis.set_major_locator(MultipleLocator(_step_s(most)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_duration(value)))
    else:
        is_whole = picture.name != "avg_load"
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=is_whole, min_n_ticks=1))
    axes.grid(axis="y", color="0.9", lw=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if rows[0].at == rows[-1].at:
        axes.set_xlim(*(time_axis_position(at) for at in (rows[0].at - ALONE, rows[0].at + ALONE)))
    label_local_time_axis(axes)


def _value_text(picture: BalancePlot, value: float) -> str:
    if picture.is_time:
        return format_duration(value)
    return f"{value:g}" if picture.name == "avg_load" else f"{value:.0f}"


def _step_s(most_s: float) -> float:
    """Return the smallest round tick distance for at most six ticks."""
    return next((step for step in STEPS_S if most_s <= 6 * step), most_s / 6)


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units, such as `2 h 5 min`."""
    whole = round(seconds)
    large, small = next((pair for pair in UNITS if whole >= pair[0][1]), UNITS[-1])
    (unit, size), (less, lesser) = large, small
    remainder = f" {whole % size // lesser} {less}" if size > 1 and whole % size >= lesser else ""
    return f"{whole // size} {unit}{remainder}"
