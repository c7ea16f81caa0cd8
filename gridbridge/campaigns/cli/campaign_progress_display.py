"""Shows the progress of campaigns: bars or lines while tasks run, and a plot."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from gridbridge.campaigns.cli.campaign_table import LETTERS, cigri_campaign_line
from gridbridge.cli import output_and_errors, plot_files
from gridbridge.cli.plot_files import convert_time_to_axis_number, label_local_time_axis
from gridbridge.model.campaigns.published_campaigns_and_tasks import CampaignTaskEndCounts, PublishedCampaign
from gridbridge.model.published_status_and_reports import replace_control_characters

if TYPE_CHECKING:  # not at run time, because a site may have no matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAUSE_S = 1.0
COLUMNS = (
    TextColumn("{task.fields[number]:>6} {task.description} {task.fields[state]}"),
    BarColumn(bar_width=None, complete_style="cyan", finished_style="green"),
    MofNCompleteColumn(table_column=Column(no_wrap=True)),
    TextColumn("{task.fields[told]}"),
)

NAME = (6, 20)  # smallest and largest width of a campaign's name, in columns
REST = 50  # width of a campaign's counts and bar, in columns


def watch_campaigns_until_end(
    read_campaigns: Callable[[], Sequence[PublishedCampaign]],
    pause: Callable[[float], None] = time.sleep,
    print_line: Callable[[str], None] | None = None,
) -> None:
    with ExitStack() as stack:
        is_terminal = sys.stdout.isatty() and not print_line
        show = (
            stack.enter_context(_CampaignProgressBars()).show_campaign_progress
            if is_terminal
            else _ChangedCampaignLines(print_line or _print_and_flush_line).show_campaign_progress
        )
        while True:
            campaigns = read_campaigns()
            show(campaigns)
            if not any(campaign.state.is_alive for campaign in campaigns):
                return
            pause(PAUSE_S)


class _CampaignProgressBars(Progress):
    """Progress bars that fit the terminal, and a line with the number of campaigns without a bar."""

    def __init__(self) -> None:
        self._known: dict[int, TaskID] = {}
        self._hidden = 0
        super().__init__(*COLUMNS, console=Console(), transient=False)

    def show_campaign_progress(self, campaigns: Sequence[PublishedCampaign]) -> None:
        chosen = _choose_campaigns_fitting_terminal_height(campaigns, self.console.height)
        for campaign in campaigns:
            if campaign.number not in self._known:
                self._known[campaign.number] = self.add_task("", number=0, state="", told="", visible=False)
            self._update_campaign_bar(campaign, is_visible=campaign.number in chosen)
        self._hidden = len(campaigns) - len(chosen)

    def get_renderables(self) -> Iterator[RenderableType]:
        yield from super().get_renderables()
        if self._hidden:
            yield Text(f"and {self._hidden} more: gridstat shows all")

    def _update_campaign_bar(self, campaign: PublishedCampaign, *, is_visible: bool) -> None:
        least, most = NAME
        width = max(least, min(most, self.console.width - REST))
        self.update(
            self._known[campaign.number],
            total=campaign.tasks,
            completed=campaign.ended,
            description=escape(f"{replace_control_characters(campaign.name):<{width}.{width}}"),
            number=campaign.number,
            state=LETTERS[campaign.state],
            told=f"{campaign.failed} failed" if campaign.failed else "",
            visible=is_visible,
        )


def _choose_campaigns_fitting_terminal_height(campaigns: Sequence[PublishedCampaign], lines: int) -> frozenset[int]:
    numbers = [campaign.number for campaign in campaigns]
    if len(numbers) < lines:  # one line of the terminal stays free for the cursor
        return frozenset(numbers)
    living = sorted(campaign.number for campaign in campaigns if campaign.state.is_alive)
    ended = sorted(frozenset(numbers).difference(living), reverse=True)
    return frozenset((living + ended)[: max(1, lines - 2)])


def _print_and_flush_line(line: str) -> None:
    output_and_errors.print_line(line)
    output_and_errors.flush_output()


class _ChangedCampaignLines:
    def __init__(self, print_line: Callable[[str], None]) -> None:
        self._print_line = print_line
        self._before: dict[int, str] = {}

    def show_campaign_progress(self, campaigns: Sequence[PublishedCampaign]) -> None:
        for campaign in campaigns:
            if self._before.get(campaign.number) != (line := cigri_campaign_line(campaign)):
                self._print_line(line)
            self._before[campaign.number] = line


COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
SEEN = 0.02
SIZE_INCHES, DOTS = (9.0, 5.0), 110


def write_campaign_progress_plot(
    campaign: PublishedCampaign,
    ends: Sequence[CampaignTaskEndCounts],
    now: datetime,
    band: tuple[datetime, ...],
    path: str,
) -> None:
    """Write a plot of a campaign's progress into a file; raise StandardOutputUnwritable on failure."""
    plot_files.save_plot(campaign_progress_figure(campaign, ends, now, band), path, DOTS)


def campaign_progress_figure(
    campaign: PublishedCampaign, ends: Sequence[CampaignTaskEndCounts], now: datetime, band: tuple[datetime, ...]
) -> Figure:
    """Return the progress plot of a campaign with at least one ended task."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, dpi=DOTS, layout="constrained")
    axes = figure.add_subplot()
    _draw_ended_tasks_by_cluster(axes, campaign, ends, now)
    if len(band) == 2 and campaign.ended < campaign.tasks:
        begin, ended = max(now, *(end.at for end in ends)), sum(end.tasks for end in ends)
        x, y = [begin, min(band), max(band)], [ended, campaign.tasks, campaign.tasks]
        axes.fill(x, y, color="0.6", alpha=0.35, label="forecast: P50 to P90")
    _draw_axes_and_legend(axes, campaign)
    return figure


def _draw_ended_tasks_by_cluster(
    axes: Axes, campaign: PublishedCampaign, ends: Sequence[CampaignTaskEndCounts], now: datetime
) -> None:
    """Draw ended tasks as steps, one for each cycle, because the runner learns of ends only in cycles."""
    moments = sorted({end.at for end in ends})
    shown = (moments[-1] - campaign.submitted_at) * SEEN  # the last step gets this length, so that it can be seen
    last = now if campaign.ended < campaign.tasks and now > moments[-1] else moments[-1] + shown
    times = [campaign.submitted_at, *moments, last]
    at = list(map(convert_time_to_axis_number, times))
    clusters = sorted({end.cluster for end in ends})
    stacks = [_cumulate_ended_tasks(times, [end for end in ends if end.cluster == name]) for name in clusters]
    colours = [COLOURS[n % len(COLOURS)] for n in range(len(clusters))]
    names = [f"{name}: {stack[-1]}" for name, stack in zip(clusters, stacks, strict=True)]
    axes.stackplot(at, stacks, labels=names, colors=colours, step="post", alpha=0.85)
    if any(end.failed for end in ends):
        failed = _cumulate_ended_tasks(times, [replace(end, tasks=end.failed) for end in ends])
        label = f"failed, of all: {failed[-1]}"
        axes.step(at, failed, where="post", color="#B22222", linestyle="--", label=label)


def _cumulate_ended_tasks(times: Sequence[datetime], ends: Sequence[CampaignTaskEndCounts]) -> list[int]:
    by_moment = Counter[datetime]()
    for end in ends:
        by_moment[end.at] += end.tasks
    return list(accumulate(by_moment.pop(at, 0) for at in times))


def _draw_axes_and_legend(axes: Axes, campaign: PublishedCampaign) -> None:
    axes.axhline(campaign.tasks, color="0.4", linewidth=0.8)
    axes.set_ylim(0, campaign.tasks * 1.05 or 1)
    axes.set_xlim(left=convert_time_to_axis_number(campaign.submitted_at))
    axes.set_ylabel("tasks that have ended")
    name = replace_control_characters(campaign.name)[:60]
    title = f"campaign {campaign.number}, {name}: {campaign.ended} of {campaign.tasks}"
    axes.set_title(title, loc="left", parse_math=False)
    label_local_time_axis(axes)
    handles, names = axes.get_legend_handles_labels()
    beside = (1.0, 1.0)
    # the legend lists the clusters in the order of the plot's stacks
    axes.legend(handles[::-1], names[::-1], loc="upper left", bbox_to_anchor=beside, frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
