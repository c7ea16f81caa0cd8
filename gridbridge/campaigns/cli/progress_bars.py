"""Campaigns as they go on: progress bars on a terminal, lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from gridbridge.campaigns.cli.campaign_table import LETTERS, row
from gridbridge.cli import output
from gridbridge.model.campaigns.published_campaigns import ShownCampaign
from gridbridge.model.status_report import printable

PAUSE_S = 1.0
COLUMNS = (
    TextColumn("{task.fields[number]:>6} {task.description} {task.fields[state]}"),
    BarColumn(bar_width=None, complete_style="cyan", finished_style="green"),
    MofNCompleteColumn(table_column=Column(no_wrap=True)),
    TextColumn("{task.fields[told]}"),
)

NAME = (6, 20)  # columns of a name: on a narrow terminal, on one of 70 columns and more
REST = 50  # columns of the numbers and of the bar

Look = Callable[[], Sequence[ShownCampaign]]


def watch(
    look: Look,
    pause: Callable[[float], None] = time.sleep,
    tell: Callable[[str], None] | None = None,
) -> None:
    """Show campaigns until each of them has ended."""
    if sys.stdout.isatty() and not tell:
        _bars(look, pause)
    else:
        _lines(look, pause, tell or _tell)


class _Bars(Progress):
    """Bars of campaigns, as many as the terminal has lines for, and how many there are besides."""

    def __init__(self) -> None:
        self._known: dict[int, TaskID] = {}
        self._hidden = 0
        super().__init__(*COLUMNS, console=Console(), transient=False)

    def show(self, found: Sequence[ShownCampaign]) -> None:
        """Show them as they are now."""
        chosen = _chosen(found, self.console.height)
        for one in found:
            if one.number not in self._known:
                self._known[one.number] = self.add_task(
                    "", number=0, state="", told="", visible=False
                )
            self._set(one, is_visible=one.number in chosen)
        self._hidden = len(found) - len(chosen)

    def get_renderables(self) -> Iterator[RenderableType]:
        """Give the bars, and a line for what there is no room for."""
        yield from super().get_renderables()
        if self._hidden:
            yield Text(f"and {self._hidden} more: gridstat shows all")

    def _set(self, one: ShownCampaign, *, is_visible: bool) -> None:
        least, most = NAME
        width = max(least, min(most, self.console.width - REST))
        self.update(
            self._known[one.number],
            total=one.tasks,
            completed=one.ended,
            description=escape(f"{printable(one.name):<{width}.{width}}"),
            number=one.number,
            state=LETTERS[one.state],
            told=f"{one.failed} failed" if one.failed else "",
            visible=is_visible,
        )


def _chosen(found: Sequence[ShownCampaign], lines: int) -> frozenset[int]:
    """Return the campaigns that are shown: the oldest that go on, then those that ended last."""
    every = [one.number for one in found]
    if len(every) < lines:  # the cursor has the last one
        return frozenset(every)
    living = sorted(one.number for one in found if one.state.is_alive)
    others = sorted(frozenset(every).difference(living), reverse=True)
    return frozenset((living + others)[: max(1, lines - 2)])


def _bars(look: Look, pause: Callable[[float], None]) -> None:
    with _Bars() as bars:
        while True:
            found = look()
            bars.show(found)
            if not any(one.state.is_alive for one in found):
                return
            pause(PAUSE_S)


def _tell(line: str) -> None:
    output.line(line)
    output.finish()


def _lines(look: Look, pause: Callable[[float], None], tell: Callable[[str], None]) -> None:
    """Print a line whenever one changes."""
    before: dict[int, str] = {}
    while True:
        found = look()
        for one in found:
            line = row(one)
            if before.get(one.number) != line:
                tell(line)
            before[one.number] = line
        if not any(one.state.is_alive for one in found):
            return
        pause(PAUSE_S)
