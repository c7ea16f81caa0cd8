"""Campaigns as they go on: progress bars on a terminal, lines elsewhere."""

import sys
import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from gridbridge.cli import output
from gridbridge.cli.grid.listing import LETTERS, row
from gridbridge.model.campaigns.shown import ShownCampaign
from gridbridge.model.report import printable

PAUSE_S = 1.0
COLUMNS = (
    TextColumn("{task.fields[number]:>6} {task.description} {task.fields[state]}"),
    BarColumn(bar_width=None, complete_style="cyan", finished_style="green"),
    MofNCompleteColumn(),
    TextColumn("{task.fields[told]}"),
)

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


def _bars(look: Look, pause: Callable[[float], None]) -> None:
    known: dict[int, TaskID] = {}
    with Progress(*COLUMNS, console=Console(), transient=False) as progress:
        while True:
            found = look()
            for one in found:
                if one.number not in known:
                    known[one.number] = progress.add_task(
                        "", number=0, state="", told="", visible=False
                    )
                _show(progress, known[one.number], one)
            if not any(one.state.is_alive for one in found):
                return
            pause(PAUSE_S)


def _show(progress: Progress, bar: TaskID, one: ShownCampaign) -> None:
    failed = f"{one.failed} failed" if one.failed else ""
    progress.update(
        bar,
        total=one.tasks,
        completed=one.ended,
        description=escape(f"{printable(one.name):<20.20}"),
        number=one.number,
        state=LETTERS[one.state],
        told=failed,
        visible=True,
    )


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
