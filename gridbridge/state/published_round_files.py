"""The published times of rebalancing rounds, and whether rebalancing is paused."""

from dataclasses import replace
from datetime import datetime

from gridbridge.model.places import PUBLISHED
from gridbridge.model.rebalance.published_rounds import RebalanceRound, ShownQuiet, ShownRound
from gridbridge.state import published_files, published_json

QUIET = "rebalance-quiesced.json"


def begin(kind: RebalanceRound, at: datetime, folder: str = PUBLISHED) -> None:
    """Publish that a round began; an earlier unfinished round keeps its begin."""
    last = read(kind, folder)
    if last is None or not last.is_open:
        ended_at = last.ended_at if last else None
        published_files.put(
            _path(kind, folder), published_json.encode(ShownRound(began_at=at, ended_at=ended_at))
        )


def end(kind: RebalanceRound, at: datetime, folder: str = PUBLISHED) -> None:
    """Publish that a round ended."""
    last = read(kind, folder) or ShownRound(began_at=at)
    published_files.put(_path(kind, folder), published_json.encode(replace(last, ended_at=at)))


def read(kind: RebalanceRound, folder: str = PUBLISHED) -> ShownRound | None:
    """Return the published times of a kind of round; None if none ever began.

    Raises StateError for a file that the service did not write.
    """
    return published_json.read(_path(kind, folder), ShownRound)


def quiesce(since: datetime | None, folder: str = PUBLISHED) -> None:
    """Publish since when rebalancing is paused; None resumes it."""
    published_files.put(f"{folder}/{QUIET}", published_json.encode(ShownQuiet(since=since)))


def quiesced(folder: str = PUBLISHED) -> datetime | None:
    """Return since when rebalancing is paused; None if it is not.

    Raises StateError for a file that the service did not write.
    """
    published = published_json.read(f"{folder}/{QUIET}", ShownQuiet)
    return published.since if published else None


def _path(kind: RebalanceRound, folder: str) -> str:
    return f"{folder}/rebalance-{kind.value}.json"
