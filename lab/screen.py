"""What the demo shows while it plays: a live table, or without a terminal a line a change."""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress


class Shown(Protocol):
    """A job of the demo."""

    @property
    def number(self) -> str:
        """Its number at home."""
        ...

    @property
    def state(self) -> str:
        """Letters of qstat; empty once it has ended."""
        ...

    @property
    def where(self) -> str:
        """Where it is, in words."""
        ...

    @property
    def cluster(self) -> str:
        """The cluster that it was sent to, empty at home."""
        ...

    @property
    def fate(self) -> str:
        """What was done to it."""
        ...


class Screen:
    """The live table of a terminal, or one line for each change."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}
        self._deeds = 0
        self._begun = time.monotonic()
        self._live = None
        if sys.stdout.isatty():
            from rich.live import Live

            self._live = Live(auto_refresh=False)
            self._live.start()

    def show(self, jobs: Iterable[Shown], deeds: Sequence[str]) -> None:
        """Show every job and where it is, and what was done."""
        if self._live is not None:
            self._live.update(_table(jobs, deeds), refresh=True)
            return
        for job in jobs:
            self._say(job.number, f"job {job.number} {job.where}")
        for deed in deeds[self._deeds :]:
            self._say(deed, deed)
        self._deeds = len(deeds)

    def close(self) -> None:
        """Leave the last picture where it is."""
        if self._live is not None:
            self._live.stop()

    def _say(self, key: str, text: str) -> None:
        if self._said.get(key) != text:
            self._said[key] = text
            print(f"{time.monotonic() - self._begun:4.0f} s  {text}", flush=True)


class Progressing(Protocol):
    """How far a campaign is."""

    @property
    def ended(self) -> int:
        """Tasks that ended for good."""
        ...

    @property
    def at(self) -> Mapping[str, int]:
        """Tasks that ended, by cluster."""
        ...

    @property
    def there(self) -> Mapping[str, int]:
        """Tasks that wait or run there, by cluster."""
        ...


class Bars:
    """A progress bar for a campaign and one for each cluster, or without a terminal lines."""

    def __init__(self, tasks: int, clusters: Sequence[str]) -> None:
        self._tasks = tasks
        self._clusters = clusters
        self._begun = time.monotonic()
        self._deeds = 0
        self._tenths = -1
        self._progress = _progress() if sys.stdout.isatty() else None
        names = ("campaign", *clusters)
        if self._progress:
            self._bars = [self._progress.add_task(name, total=tasks, told="") for name in names]
            self._progress.start()

    def show(self, look: Progressing, deeds: Sequence[str]) -> None:
        """Show how far it is, and what was done since the last time."""
        for deed in deeds[self._deeds :]:
            self._say(deed)
        self._deeds = len(deeds)
        if self._progress:
            self._progress.update(self._bars[0], completed=look.ended)
            for bar, name in zip(self._bars[1:], self._clusters, strict=True):
                told = f"{look.there.get(name, 0)} there"
                self._progress.update(bar, completed=look.at.get(name, 0), told=told)
        elif 10 * look.ended // self._tasks > self._tenths:
            self._tenths = 10 * look.ended // self._tasks
            at = ", ".join(f"{name} {look.at.get(name, 0)}" for name in self._clusters)
            self._say(f"{look.ended} of {self._tasks} tasks ended: {at}")

    def close(self) -> None:
        """Leave the last picture where it is."""
        if self._progress:
            self._progress.stop()

    def _say(self, text: str) -> None:
        line = f"{time.monotonic() - self._begun:4.0f} s  {text}"
        if self._progress:
            self._progress.console.print(line, markup=False, highlight=False)
        else:
            print(line, flush=True)


def _progress() -> "Progress":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}"),
    )
    return Progress(*columns)


def _table(jobs: Iterable[Shown], deeds: Sequence[str]) -> object:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, caption="\n".join(deeds), caption_justify="left")
    for title in ("JOB", "STATE", "WHERE", ""):
        table.add_column(title)
    for job in jobs:
        style = "dim" if not job.state else "green" if job.cluster else ""
        table.add_row(job.number, job.state or "-", job.where, job.fate, style=style)
    return table
