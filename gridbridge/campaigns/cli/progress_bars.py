"""Shows the progress of campaigns: progress bars on a terminal, lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from gridbridge.campaigns.cli.campaign_table import LETTERS, cigri_campaign_line
from gridbridge.cli import output
from gridbridge.model.campaigns.published_campaigns import ShownCampaign
from gridbridge.model.status_report import replace_control_characters

PAUSE_S = 1.0
COLUMNS = (
    TextColumn("{task.fields[number]:>6} {task.description} {task.fields[state]}"),
    BarColumn(bar_width=None, complete_style="cyan", finished_style="green"),
    MofNCompleteColumn(table_column=Column(no_wrap=True)),
    TextColumn("{task.fields[told]}"),
)

NAME = (6, 20)  # least and most columns of a campaign's name
REST = 50  # columns for numbers and bar

Look = Callable[[], Sequence[ShownCampaign]]


def watch_campaigns_until_end(
    look: Look, pause: Callable[[float], None] = time.sleep, print_line: Callable[[str], None] | None = None
) -> None:
    """Show the progress of campaigns until each campaign has ended."""
    if sys.stdout.isatty() and not print_line:
        _bars(look, pause)
    else:
        _lines(look, pause, print_line or _print_line)


class _Bars(Progress):
    """Progress bars that fit the terminal's lines, with the number of hidden campaigns."""

    def __init__(self) -> None:
        self._known: dict[int, TaskID] = {}
        self._hidden = 0
        super().__init__(*COLUMNS, console=Console(), transient=False)

    def show(self, campaigns: Sequence[ShownCampaign]) -> None:
        """Update the bars to the present state of campaigns."""
        chosen = _chosen(campaigns, self.console.height)
        for campaign in campaigns:
            if campaign.number not in self._known:
                self._known[campaign.number] = self.add_task("", number=0, state="", told="", visible=False)
            self._set(campaign, is_visible=campaign.number in chosen)
        self._hidden = len(campaigns) - len(chosen)

    def get_renderables(self) -> Iterator[RenderableType]:
        """Yield the bars, and a line with the number of hidden campaigns."""
        yield from super().get_renderables()
        if self._hidden:
            yield Text(f"and {self._hidden} more: gridstat shows all")

    def _set(self, campaign: ShownCampaign, *, is_visible: bool) -> None:
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


def _chosen(campaigns: Sequence[ShownCampaign], lines: int) -> frozenset[int]:
    """Return the campaigns to show: the oldest living ones, then the last ones that ended."""
    numbers = [campaign.number for campaign in campaigns]
    if len(numbers) < lines:  # the cursor needs one line
        return frozenset(numbers)
    living = sorted(campaign.number for campaign in campaigns if campaign.state.is_alive)
    ended = sorted(frozenset(numbers).difference(living), reverse=True)
    return frozenset((living + ended)[: max(1, lines - 2)])


def _bars(look: Look, pause: Callable[[float], None]) -> None:
    with _Bars() as bars:
        while True:
            campaigns = look()
            bars.show(campaigns)
            if not any(campaign.state.is_alive for campaign in campaigns):
                return
            pause(PAUSE_S)


def _print_line(line: str) -> None:
    output.print_line(line)
    output.flush_output()


def _lines(look: Look, pause: Callable[[float], None], print_line: Callable[[str], None]) -> None:
    """Print a campaign's line whenever the line changes."""
    before: dict[int, str] = {}
    while True:
        campaigns = look()
        for campaign in campaigns:
            line = cigri_campaign_line(campaign)
            if before.get(campaign.number) != line:
                print_line(line)
            before[campaign.number] = line
        if not any(campaign.state.is_alive for campaign in campaigns):
            return
        pause(PAUSE_S)
