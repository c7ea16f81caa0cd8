"""The published times of rebalancing rounds, and whether rebalancing is paused."""

from dataclasses import replace
from datetime import datetime

from gridbridge.model.places import PUBLISHED
from gridbridge.model.rebalance.published_rounds import (
    RebalanceRound,
    ShownRebalancePause,
    ShownRebalanceRound,
)
from gridbridge.state import published_files, published_json

QUIET = "rebalance-quiesced.json"


def publish_round_begin(kind: RebalanceRound, at: datetime, folder: str = PUBLISHED) -> None:
    """Publish that a round began; an earlier unfinished round keeps its begin."""
    last = read_published_round(kind, folder)
    if last is None or not last.is_open:
        ended_at = last.ended_at if last else None
        published_files.publish_file(
            _path(kind, folder),
            published_json.encode_published_value(
                ShownRebalanceRound(began_at=at, ended_at=ended_at)
            ),
        )


def publish_round_end(kind: RebalanceRound, at: datetime, folder: str = PUBLISHED) -> None:
    """Publish that a round ended."""
    last = read_published_round(kind, folder) or ShownRebalanceRound(began_at=at)
    published_files.publish_file(
        _path(kind, folder), published_json.encode_published_value(replace(last, ended_at=at))
    )


def read_published_round(
    kind: RebalanceRound, folder: str = PUBLISHED
) -> ShownRebalanceRound | None:
    """Return the published times of a kind of round; None if none ever began.

    Raises StateError for a file that the service did not write.
    """
    return published_json.read_published_value(_path(kind, folder), ShownRebalanceRound)


def publish_rebalance_pause(since: datetime | None, folder: str = PUBLISHED) -> None:
    """Publish since when rebalancing is paused; None resumes it."""
    published_files.publish_file(
        f"{folder}/{QUIET}", published_json.encode_published_value(ShownRebalancePause(since=since))
    )


def rebalance_paused_since(folder: str = PUBLISHED) -> datetime | None:
    """Return since when rebalancing is paused; None if it is not.

    Raises StateError for a file that the service did not write.
    """
    published = published_json.read_published_value(f"{folder}/{QUIET}", ShownRebalancePause)
    return published.since if published else None


def _path(kind: RebalanceRound, folder: str) -> str:
    return f"{folder}/rebalance-{kind.value}.json"
