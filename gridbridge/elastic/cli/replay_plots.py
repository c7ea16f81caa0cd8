"""Draw replays: nodes and waiting tasks over time, or the cost and wait of a sweep."""

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gridbridge.cli import plot_files
from gridbridge.elastic.simulation.replay_policy_comparison import ReplayPolicyComparison
from gridbridge.elastic.simulation.simulated_nodes_and_queue import replay_seconds_to_datetime
from gridbridge.model.elastic.replay_outcome import ComparedReplayRules, PolicyReplayResult

mpl.use("Agg")
WIDTH_INCHES, HEIGHT_INCHES, REPLAY_DOTS = 11.0, 3.4, 110
COLOURS = {
    ComparedReplayRules.DEMAND: "#0072B2",
    ComparedReplayRules.STARCLUSTER: "#D55E00",
    ComparedReplayRules.AZGE: "#009E73",
    ComparedReplayRules.SQUEEZE: "#CC79A7",
    ComparedReplayRules.ALWAYS_ON: "0.5",
}
MARKS = {
    ComparedReplayRules.DEMAND: "o",
    ComparedReplayRules.STARCLUSTER: "s",
    ComparedReplayRules.AZGE: "^",
    ComparedReplayRules.SQUEEZE: "D",
    ComparedReplayRules.ALWAYS_ON: "X",
}
HEIGHTS = (4, 14)  # alternating heights of labels, so that neighbours do not overlap


def draw_replay_comparisons(comparisons: Sequence[ReplayPolicyComparison], path: str) -> str:
    """Draw all compared workloads into one file.

    Raises StandardOutputUnwritable when the file can't be written.
    """
    rows = sum(1 if comparison.frontier else 2 for comparison in comparisons)
    figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES * rows), dpi=REPLAY_DOTS, layout="constrained")
    axes = [figure.add_subplot(rows, 1, number + 1) for number in range(rows)]
    for comparison in comparisons:
        if comparison.frontier:
            _swept(axes.pop(0), comparison)
        else:
            _over_time(axes.pop(0), axes.pop(0), comparison)
    plot_files.save_plot(figure, path, REPLAY_DOTS)
    return path


def _over_time(nodes: Axes, waiting: Axes, comparison: ReplayPolicyComparison) -> None:
    for outcome in comparison.outcomes:
        times = [replay_seconds_to_datetime(moment.at_s) for moment in outcome.moments]
        at = list(map(float, dates.date2num(times)))  # type: ignore[no-untyped-call]
        _draw_replay_line(nodes, outcome, at, [moment.nodes for moment in outcome.moments])
        _draw_replay_line(waiting, outcome, at, [moment.waiting for moment in outcome.moments])
    _frame_replay_axes(nodes, f"{comparison.name}: nodes that are on", "nodes")
    _frame_replay_axes(waiting, f"{comparison.name}: tasks that wait", "tasks")
    for axes in (nodes, waiting):
        locator = dates.AutoDateLocator()  # type: ignore[no-untyped-call]  # dates has no types
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        axes.set_xlabel("UTC", fontsize=8)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def _draw_replay_line(axes: Axes, outcome: PolicyReplayResult, at: list[float], values: list[int]) -> None:
    rules = outcome.way.rules
    width = 2.4 if rules is ComparedReplayRules.DEMAND else 1.0  # a wide line stays visible below an equal line
    style = "steps-post"
    axes.plot(at, values, drawstyle=style, color=COLOURS[rules], label=rules.value, lw=width)


def _swept(axes: Axes, comparison: ReplayPolicyComparison) -> None:
    for rules in dict.fromkeys(outcome.way.rules for outcome in comparison.outcomes):
        outcomes = [outcome for outcome in comparison.outcomes if outcome.way.rules is rules]
        axes.scatter(
            [outcome.cost for outcome in outcomes],
            [outcome.wait_mean_s for outcome in outcomes],
            facecolors="none",  # a mark in the same place stays visible
            edgecolors=COLOURS[rules],
            marker=MARKS[rules],
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
        f"{comparison.name}: mean wait and cost of each setting; the line joins those that no other beats",
        "mean wait, s",
    )
    axes.set_xlabel("cost")
    lines = "\n".join(f"{number}  {_named(outcome)}" for number, outcome in enumerate(best, 1))
    axes.text(1.01, 0.98, lines, transform=axes.transAxes, va="top", fontsize=7)


def _named(outcome: PolicyReplayResult) -> str:
    return f"{outcome.way.rules.value} {outcome.way.settings}".strip()


def _frame_replay_axes(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title, loc="left")
    axes.set_ylabel(unit)
    axes.set_ylim(0, axes.get_ylim()[1] * 1.15)
    axes.grid(axis="y", color="0.9", lw=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(loc="upper right", frameon=False, fontsize=8, ncols=5)
