"""Draws a plot for each column of the balancer's statistics, and plots that compare replayed policies."""

import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import matplotlib as mpl
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from gridbridge.cli import plot_files
from gridbridge.cli.plot_files import convert_time_to_axis_number, label_local_time_axis
from gridbridge.elastic.simulation.replay_policy_comparison import ReplayPolicyComparison
from gridbridge.elastic.simulation.simulated_nodes_and_queue import replay_seconds_to_datetime
from gridbridge.errors import StandardOutputUnwritable
from gridbridge.model.elastic.published_balance import BalanceRoundStatistics
from gridbridge.model.elastic.replay_tasks_and_results import ComparedReplayRules, PolicyReplayResult

mpl.use("Agg")
SIZE_INCHES, DOTS = (9.0, 4.0), 110
FEW = 60  # plots with at most this many rows mark each row
GAP = 10  # the line breaks where the time between rows exceeds this many usual intervals
SECOND, MINUTE, HOUR, DAY = ("s", 1), ("min", 60), ("h", 3600), ("d", 86400)
UNITS = ((DAY, HOUR), (HOUR, MINUTE), (MINUTE, SECOND), (SECOND, SECOND))
STEPS_S = [
    *(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200),
    *(14400, 21600, 43200, *(86400 * days for days in (1, 2, 5, 10, 20, 50, 100, 200, 500))),
]
ALONE = timedelta(minutes=5)  # margin of the time axis if there is only one row


@dataclass(frozen=True, slots=True)
class BalancePlot:
    name: str
    title: str
    unit: str
    value: Callable[[BalanceRoundStatistics], float]
    colour: str
    is_stepped: bool = True  # whether a value stays valid until the next round
    is_time: bool = False


LATELY, OF_TIME = "of recently ended tasks", {"is_stepped": False, "is_time": True}
PICTURES = (
    BalancePlot("queued", "Waiting tasks that could start", "tasks", lambda row: row.queued, "#D55E00"),
    BalancePlot("running", "Tasks that run", "tasks", lambda row: row.running, "#009E73"),
    BalancePlot("num_hosts", "Hosts", "hosts", lambda row: row.hosts, "#0072B2"),
    BalancePlot(
        "avg_duration", f"Mean run time {LATELY}", "run time", lambda row: row.duration_s, "#CC79A7", **OF_TIME
    ),
    BalancePlot("avg_wait", f"Mean wait {LATELY}", "wait", lambda row: row.wait_s, "#E69F00", **OF_TIME),
    BalancePlot("avg_load", "Mean load of the hosts", "load", lambda row: row.load, "#56B4E9", is_stepped=False),
)


def draw_balance_plots(rows: Sequence[BalanceRoundStatistics], folder: str) -> tuple[str, ...]:
    """Draw statistics as plots in a folder; return their paths, or raise StandardOutputUnwritable."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise StandardOutputUnwritable(f"{error.filename or folder}: {error.strerror}") from error
    return tuple(_draw_plot_of_statistics_column(picture, rows, folder) for picture in PICTURES)


def _draw_plot_of_statistics_column(picture: BalancePlot, rows: Sequence[BalanceRoundStatistics], folder: str) -> str:
    figure = Figure(figsize=SIZE_INCHES, dpi=DOTS, layout="constrained")
    axes = figure.add_subplot()
    _draw_statistics_line(axes, picture, rows)
    _frame_statistics_axes(axes, picture, rows)
    path = f"{folder}/{picture.name}.png"
    plot_files.save_plot(figure, path, DOTS)
    return path


def _draw_statistics_line(axes: Axes, picture: BalancePlot, rows: Sequence[BalanceRoundStatistics]) -> None:
    """Draw a line, with a gap wherever rows are missing."""
    for part in _split_statistics_rows_at_gaps(rows):
        at = [convert_time_to_axis_number(row.at) for row in part]
        values = [picture.value(row) for row in part]
        mark = "o" if len(rows) <= FEW or len(part) == 1 else None
        style = "steps-post" if picture.is_stepped else "default"
        axes.plot(at, values, color=picture.colour, drawstyle=style, marker=mark, markersize=3, clip_on=False)
        step: Literal["post"] | None = "post" if picture.is_stepped else None
        axes.fill_between(at, values, color=picture.colour, alpha=0.15, step=step, lw=0)


def _split_statistics_rows_at_gaps(rows: Sequence[BalanceRoundStatistics]) -> list[list[BalanceRoundStatistics]]:
    between = sorted((after.at - before.at).total_seconds() for before, after in itertools.pairwise(rows))
    usual_s = between[len(between) // 2] if between else 0.0
    parts = [[rows[0]]]
    for before, after in itertools.pairwise(rows):
        if (after.at - before.at).total_seconds() > GAP * max(usual_s, 1.0):
            parts.append([])
        parts[-1].append(after)
    return parts


def _frame_statistics_axes(axes: Axes, picture: BalancePlot, rows: Sequence[BalanceRoundStatistics]) -> None:
    most = max(picture.value(row) for row in rows)
    axes.set_ylim(0, most * 1.1 or 1)
    axes.set_ylabel(picture.unit)
    last = picture.value(rows[-1])
    now, top = (_format_axis_value(picture, value) for value in (last, most))
    axes.set_title(f"{picture.title}: latest {now}, largest {top}", loc="left")
    if picture.is_time:
        step_s = next((step for step in STEPS_S if most <= 6 * step), most / 6)  # at most six ticks
        axes.yaxis.set_major_locator(MultipleLocator(step_s))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_duration(value)))
    else:
        is_whole = picture.name != "avg_load"
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=is_whole, min_n_ticks=1))
    plot_files.draw_grid_without_frame(axes)
    if rows[0].at == rows[-1].at:
        axes.set_xlim(*(convert_time_to_axis_number(at) for at in (rows[0].at - ALONE, rows[0].at + ALONE)))
    label_local_time_axis(axes)


def _format_axis_value(picture: BalancePlot, value: float) -> str:
    if picture.is_time:
        return format_duration(value)
    return f"{value:g}" if picture.name == "avg_load" else f"{value:.0f}"


def format_duration(seconds: float) -> str:
    """Format a duration in its two largest units, such as `2 h 5 min`."""
    whole = round(seconds)
    (unit, size), (less, lesser) = next((pair for pair in UNITS if whole >= pair[0][1]), UNITS[-1])
    remainder = f" {whole % size // lesser} {less}" if size > 1 and whole % size >= lesser else ""
    return f"{whole // size} {unit}{remainder}"


WIDTH_INCHES, HEIGHT_INCHES, REPLAY_DOTS = 11.0, 3.4, 110
STYLES = {  # colour and mark of each policy
    ComparedReplayRules.DEMAND: ("#0072B2", "o"),
    ComparedReplayRules.STARCLUSTER: ("#D55E00", "s"),
    ComparedReplayRules.AZGE: ("#009E73", "^"),
    ComparedReplayRules.SQUEEZE: ("#CC79A7", "D"),
    ComparedReplayRules.ALWAYS_ON: ("0.5", "X"),
}
HEIGHTS = (4, 14)  # heights alternate so that labels do not overlap


def draw_replay_comparisons(comparisons: Sequence[ReplayPolicyComparison], path: str) -> str:
    """Draw all compared workloads into one file; raises StandardOutputUnwritable if this fails."""
    rows = sum(1 if comparison.frontier else 2 for comparison in comparisons)
    figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES * rows), dpi=REPLAY_DOTS, layout="constrained")
    axes = [figure.add_subplot(rows, 1, number + 1) for number in range(rows)]
    for comparison in comparisons:
        if comparison.frontier:
            _draw_sweep_results(axes.pop(0), comparison)
        else:
            _draw_nodes_and_waiting_tasks(axes.pop(0), axes.pop(0), comparison)
    plot_files.save_plot(figure, path, REPLAY_DOTS)
    return path


def _draw_nodes_and_waiting_tasks(nodes: Axes, waiting: Axes, comparison: ReplayPolicyComparison) -> None:
    for outcome in comparison.outcomes:
        times = [replay_seconds_to_datetime(moment.at_s) for moment in outcome.moments]
        at = list(map(float, dates.date2num(times)))  # type: ignore[no-untyped-call]
        _draw_line_of_replayed_policy(nodes, outcome, at, [moment.nodes for moment in outcome.moments])
        _draw_line_of_replayed_policy(waiting, outcome, at, [moment.waiting for moment in outcome.moments])
    _frame_replay_axes(nodes, f"{comparison.name}: nodes that are on", "nodes")
    _frame_replay_axes(waiting, f"{comparison.name}: tasks that wait", "tasks")
    for axes in (nodes, waiting):
        locator = dates.AutoDateLocator()  # type: ignore[no-untyped-call]  # dates has no types
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        axes.set_xlabel("UTC", fontsize=8)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def _draw_line_of_replayed_policy(axes: Axes, outcome: PolicyReplayResult, at: list[float], values: list[int]) -> None:
    rules = outcome.way.rules
    width = 2.4 if rules is ComparedReplayRules.DEMAND else 1.0
    axes.plot(at, values, drawstyle="steps-post", color=STYLES[rules][0], label=rules.value, lw=width)


def _draw_sweep_results(axes: Axes, comparison: ReplayPolicyComparison) -> None:
    for rules in dict.fromkeys(outcome.way.rules for outcome in comparison.outcomes):
        outcomes = [outcome for outcome in comparison.outcomes if outcome.way.rules is rules]
        axes.scatter(
            [outcome.cost for outcome in outcomes],
            [outcome.wait_mean_s for outcome in outcomes],
            facecolors="none",  # hollow marks stay visible where they overlap
            edgecolors=STYLES[rules][0],
            marker=STYLES[rules][1],
            label=rules.value,
            s=32,
        )
    best = comparison.frontier
    axes.plot([e.cost for e in best], [e.wait_mean_s for e in best], color="0.3", lw=1, zorder=0)
    for number, outcome in enumerate(best, 1):
        point = (outcome.cost, outcome.wait_mean_s)
        above = (4, HEIGHTS[number % len(HEIGHTS)])
        axes.annotate(str(number), point, xytext=above, textcoords="offset points", fontsize=9)
    _frame_replay_axes(
        axes,
        f"{comparison.name}: mean wait and cost of each setting; the line joins the best settings",
        "mean wait, s",
    )
    axes.set_xlabel("cost")
    names = (f"{outcome.way.rules.value} {outcome.way.settings}".strip() for outcome in best)
    lines = "\n".join(f"{number}  {name}" for number, name in enumerate(names, 1))
    axes.text(1.01, 0.98, lines, transform=axes.transAxes, va="top", fontsize=7)


def _frame_replay_axes(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title, loc="left")
    axes.set_ylabel(unit)
    axes.set_ylim(0, axes.get_ylim()[1] * 1.15)
    plot_files.draw_grid_without_frame(axes)
    axes.legend(loc="upper right", frameon=False, fontsize=8, ncols=5)
