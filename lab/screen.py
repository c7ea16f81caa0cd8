"""What the demo shows while it plays: a live table, or without a terminal a line a change."""

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Protocol


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


def _table(jobs: Iterable[Shown], deeds: Sequence[str]) -> object:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, caption="\n".join(deeds), caption_justify="left")
    for title in ("JOB", "STATE", "WHERE", ""):
        table.add_column(title)
    for job in jobs:
        style = "dim" if not job.state else "green" if job.cluster else ""
        table.add_row(job.number, job.state or "-", job.where, job.fate, style=style)
    return table
