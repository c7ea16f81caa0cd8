"""Draws the last hours of queues and nodes, and a campaign's ends, each as one picture with a title of one line."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gridbridge.cli import plot_files
from gridbridge.cli.plot_files import convert_time_to_axis_number, label_local_time_axis
from gridbridge.model.campaigns.published_campaigns_and_tasks import CampaignTaskEndCounts, PublishedCampaign
from gridbridge.model.elastic.elastic_nodes import ElasticNodeState
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.site.site_history import NodeCounts, QueueHistory

mpl.use("Agg")
WIDTH, PANEL, DOTS = 10.0, 2.6, 110  # inches, inches, dots an inch
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
COLOUR_OF_STATE = {
    ElasticNodeState.READY: "#009E73",
    ElasticNodeState.JOINING: "#56B4E9",
    ElasticNodeState.BOOTING: "#0072B2",
    ElasticNodeState.REQUESTED: "#999999",
    ElasticNodeState.DRAINING: "#F0E442",
    ElasticNodeState.REMOVING: "#E69F00",
    ElasticNodeState.STANDBY: "#CCCCCC",
    ElasticNodeState.FAILED: "#D55E00",
}
LEAST_SPAN = timedelta(minutes=1)  # of a time axis
Line = Sequence[tuple[datetime, float]]


def draw_queue_history(history: QueueHistory, since: datetime, now: datetime, path: str) -> None:
    """Draw waiting tasks, free slots and transfers; a line breaks where a cluster did not answer."""
    figure, (waiting, free, transfers) = _panels(3)
    for values, axes in (("pending", waiting), ("free_slots", free)):
        lines = {
            cluster: [(query.at, _number_or_gap(getattr(query, values))) for query in queries]
            for cluster, queries in sorted(history.queries.items())
        }
        _draw_lines(axes, lines)
    recorded = [queries[0].at for queries in history.queries.values()] or [since]
    begin = min(*recorded, now - LEAST_SPAN)
    _draw_lines(transfers, {queue: list(counts) for queue, counts in history.in_progress.items()})
    for axes, title in (
        (waiting, "Waiting tasks of each cluster"),
        (free, "Free slots of each cluster"),
        (transfers, "Transfers in progress, by queue"),
    ):
        _frame(axes, title, max(begin, since), now)
    plot_files.save_plot(figure, path, DOTS)


def draw_node_history(rounds: Sequence[NodeCounts], now: datetime, path: str) -> None:
    figure, (axes,) = _panels(1, 3.6)
    at = [convert_time_to_axis_number(each.at) for each in rounds] + [convert_time_to_axis_number(now)]
    rows = {
        label: [each.nodes.get(label, 0) for each in (*rounds, rounds[-1])]
        for label in COLOUR_OF_STATE
        if any(each.nodes.get(label) for each in rounds)
    }
    _draw_stack(axes, at, {label.value: row for label, row in rows.items()}, map(COLOUR_OF_STATE.get, rows))
    last = sum(row[-1] for row in rows.values())
    begin = min(rounds[0].at, now - LEAST_SPAN)
    _frame(axes, f"Nodes of the balancer by state: {last} at the last round that acted", begin, now)
    plot_files.save_plot(figure, path, DOTS)


def draw_campaign_ends(
    campaign: PublishedCampaign, ends: Sequence[CampaignTaskEndCounts], now: datetime, path: str
) -> None:
    figure, (axes,) = _panels(1, 3.6)
    times = sorted({end.at for end in ends})
    forecasts = (("P50", campaign.p50_at, "-."), ("P90", campaign.p90_at, ":")) if campaign.state.is_alive else ()
    last = max((*times, *(at for _, at, _ in forecasts if at), campaign.submitted_at + LEAST_SPAN))
    until = last + (last - campaign.submitted_at) / 50
    clusters = sorted({end.cluster for end in ends})
    by_cluster = {cluster: _counts_at(times, [end for end in ends if end.cluster == cluster]) for cluster in clusters}
    at = [campaign.submitted_at, *times, max((*times, min(now, until)))]
    _draw_stack(
        axes,
        [convert_time_to_axis_number(each) for each in at],
        {cluster: [0, *counts, counts[-1]] for cluster, counts in by_cluster.items()},
        COLOURS,
    )
    axes.axhline(campaign.tasks, color="0.4", lw=1, ls="--", label="all tasks")
    for name, forecast, dashes in forecasts:
        if forecast:
            axes.axvline(convert_time_to_axis_number(forecast), color="0.4", lw=1, ls=dashes, label=f"end, {name}")
    failed = f", {campaign.failed} failed" if campaign.failed else ""
    title = f"Campaign {campaign.number}: {campaign.ended} of {number_with_noun(campaign.tasks, 'task')} ended{failed}"
    _frame(axes, title, campaign.submitted_at, until)
    plot_files.save_plot(figure, path, DOTS)


def _panels(count: int, height: float = PANEL) -> tuple[Figure, tuple[Axes, ...]]:
    figure = Figure(figsize=(WIDTH, height * count), dpi=DOTS, layout="constrained")
    return figure, tuple(figure.add_subplot(count, 1, place + 1) for place in range(count))


def _number_or_gap(value: int | None) -> float:
    return math.nan if value is None else value


def _counts_at(times: Iterable[datetime], ends: Sequence[CampaignTaskEndCounts]) -> list[int]:
    """Return how many tasks had ended by each time."""
    return list(accumulate(sum(end.tasks for end in ends if end.at == at) for at in times))


def _draw_lines(axes: Axes, lines: Mapping[str, Line]) -> None:
    for place, (name, line) in enumerate(lines.items()):
        at = [convert_time_to_axis_number(at) for at, _ in line]
        colour = COLOURS[place % len(COLOURS)]
        axes.plot(at, [value for _, value in line], drawstyle="steps-post", color=colour, label=name, lw=1.4)


def _draw_stack(
    axes: Axes, at: Sequence[float], rows: Mapping[str, Sequence[int]], colours: Iterable[str | None]
) -> None:
    below = [0] * len(at)
    for (name, values), colour in zip(rows.items(), [*colours] * (1 + len(rows) // len(COLOURS)), strict=False):
        above = [low + value for low, value in zip(below, values, strict=True)]
        axes.fill_between(at, below, above, step="post", color=colour, label=name, lw=0)
        below = above


def _frame(axes: Axes, title: str, since: datetime, until: datetime) -> None:
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlim(convert_time_to_axis_number(since), convert_time_to_axis_number(until))
    axes.set_ylim(0, axes.get_ylim()[1] * 1.05 if axes.has_data() else 1)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    plot_files.draw_grid_without_frame(axes)
    label_local_time_axis(axes)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)
    else:
        axes.text(0.5, 0.5, "nothing was recorded", transform=axes.transAxes, ha="center", color="0.5")
