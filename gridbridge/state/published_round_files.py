"""The files in which everybody sees when rounds of rebalancing began and ended, or rest."""

from dataclasses import replace
from datetime import datetime

from gridbridge.model.places import PUBLISHED
from gridbridge.model.rebalance.published_rounds import RebalanceRound, ShownQuiet, ShownRound
from gridbridge.state import published_files, published_json

QUIET = "rebalance-quiesced.json"


def begin(kind: RebalanceRound, at: datetime, folder: str = PUBLISHED) -> None:
    """Show that a round began; one that was begun before and never ended counts on."""
    last = read(kind, folder)
    if last is None or not last.is_open:
        ended_at = last.ended_at if last else None
        published_files.put(
            _path(kind, folder), published_json.encode(ShownRound(began_at=at, ended_at=ended_at))
        )


def end(kind: RebalanceRound, at: datetime, folder: str = PUBLISHED) -> None:
    """Show that it ended."""
    last = read(kind, folder) or ShownRound(began_at=at)
    published_files.put(_path(kind, folder), published_json.encode(replace(last, ended_at=at)))


def read(kind: RebalanceRound, folder: str = PUBLISHED) -> ShownRound | None:
    """Return what is shown of a kind; None where none began, StateError for what is not ours."""
    return published_json.read(_path(kind, folder), ShownRound)


def quiesce(since: datetime | None, folder: str = PUBLISHED) -> None:
    """Show since when nothing is moved, or with None that it is."""
    published_files.put(f"{folder}/{QUIET}", published_json.encode(ShownQuiet(since=since)))


def quiesced(folder: str = PUBLISHED) -> datetime | None:
    """Return since when nothing is moved; None: it is. StateError for what is not ours."""
    published = published_json.read(f"{folder}/{QUIET}", ShownQuiet)
    return published.since if published else None


def _path(kind: RebalanceRound, folder: str) -> str:
    return f"{folder}/rebalance-{kind.value}.json"
