"""Plots the progress of a campaign: ended tasks over time, stacked by cluster."""

from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gridbridge.cli import plot_files
from gridbridge.cli.plot_files import label_local_time_axis, time_axis_position
from gridbridge.model.campaigns.published_campaigns import ShownCampaign
from gridbridge.model.campaigns.published_tasks import CampaignTaskEndCounts
from gridbridge.model.status_report import replace_control_characters

mpl.use("Agg")
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
FAILED = "#B22222"
SEEN = 0.02
SIZE_INCHES, DOTS = (9.0, 5.0), 110


def write_campaign_progress_plot(
    campaign: ShownCampaign, ends: Sequence[CampaignTaskEndCounts], now: datetime, band: tuple[datetime, ...], path: str
) -> None:
    """Plot a campaign's progress into a file; StandardOutputUnwritable if it can't be written."""
    plot_files.save_plot(campaign_progress_figure(campaign, ends, now, band), path, DOTS)


def campaign_progress_figure(
    campaign: ShownCampaign, ends: Sequence[CampaignTaskEndCounts], now: datetime, band: tuple[datetime, ...]
) -> Figure:
    """Return the plot of a campaign with at least one ended task."""
    figure = Figure(figsize=SIZE_INCHES, dpi=DOTS, layout="constrained")
    axes = figure.add_subplot()
    _stacks(axes, campaign, ends, now)
    _ahead(axes, campaign, ends, now, band)
    _frame(axes, campaign)
    return figure


def _stacks(axes: Axes, campaign: ShownCampaign, ends: Sequence[CampaignTaskEndCounts], now: datetime) -> None:
    """Draw one step per cycle, since task ends are known by cycle only."""
    moments = sorted({end.at for end in ends})
    shown = (moments[-1] - campaign.submitted_at) * SEEN  # visible width of the last step
    last = now if campaign.ended < campaign.tasks and now > moments[-1] else moments[-1] + shown
    times = [campaign.submitted_at, *moments, last]
    at = list(map(time_axis_position, times))
    clusters = sorted({end.cluster for end in ends})
    stacks = [_sums(times, [end for end in ends if end.cluster == name]) for name in clusters]
    colours = [COLOURS[n % len(COLOURS)] for n in range(len(clusters))]
    names = [f"{name}: {stack[-1]}" for name, stack in zip(clusters, stacks, strict=True)]
    axes.stackplot(at, stacks, labels=names, colors=colours, step="post", alpha=0.85)
    if any(end.failed for end in ends):
        failed = _sums(times, [_only_failed(end) for end in ends])
        label = f"failed, of all: {failed[-1]}"
        axes.step(at, failed, where="post", color=FAILED, linestyle="--", label=label)


def _sums(times: Sequence[datetime], ends: Sequence[CampaignTaskEndCounts]) -> list[int]:
    """Return the number of tasks that had ended by each time."""
    by_moment: dict[datetime, int] = {}
    for end in ends:
        by_moment[end.at] = by_moment.get(end.at, 0) + end.tasks
    counted: set[datetime] = set()
    steps = [by_moment.get(at, 0) if not (at in counted or counted.add(at)) else 0 for at in times]  # type: ignore[func-returns-value]  # add returns None
    return list(accumulate(steps))


def _only_failed(end: CampaignTaskEndCounts) -> CampaignTaskEndCounts:
    return CampaignTaskEndCounts(at=end.at, cluster=end.cluster, tasks=end.failed, failed=end.failed)


def _ahead(
    axes: Axes,
    campaign: ShownCampaign,
    ends: Sequence[CampaignTaskEndCounts],
    now: datetime,
    band: tuple[datetime, ...],
) -> None:
    """Draw the forecast of the campaign's end, from P50 to P90."""
    if len(band) != 2 or campaign.ended >= campaign.tasks:
        return
    begin, ended = max(now, *(end.at for end in ends)), sum(end.tasks for end in ends)
    early, late = min(band), max(band)
    axes.fill(
        [begin, early, late],
        [ended, campaign.tasks, campaign.tasks],
        color="0.6",
        alpha=0.35,
        label="forecast: P50 to P90",
    )


def _frame(axes: Axes, campaign: ShownCampaign) -> None:
    axes.axhline(campaign.tasks, color="0.4", linewidth=0.8)
    axes.set_ylim(0, campaign.tasks * 1.05 or 1)
    axes.set_xlim(left=time_axis_position(campaign.submitted_at))
    axes.set_ylabel("tasks that have ended")
    name = replace_control_characters(campaign.name)[:60]
    title = f"campaign {campaign.number}, {name}: {campaign.ended} of {campaign.tasks}"
    axes.set_title(title, loc="left", parse_math=False)
    label_local_time_axis(axes)
    handles, names = axes.get_legend_handles_labels()
    order = slice(None, None, -1)  # legend in the order of the stacks
    beside = (1.0, 1.0)
    axes.legend(handles[order], names[order], loc="upper left", bbox_to_anchor=beside, frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
