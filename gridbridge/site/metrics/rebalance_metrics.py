"""Rounds of rebalancing in numbers: one that does not end holds up all that follow."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from gridbridge.decisions.site.hanging_rounds import is_late
from gridbridge.model.rebalance.published_rounds import RebalanceRound, ShownRound
from gridbridge.program.metric_family import MetricFamily, several, timestamp


def families(rounds: Mapping[RebalanceRound, ShownRound], now: datetime) -> Iterator[MetricFamily]:
    """Yield what rounds published, of the kinds of which one ever began."""
    yield several(
        "rebalance_ended_timestamp_seconds",
        "When the last round of a kind ended",
        "kind",
        [((kind.value,), timestamp(last.ended_at)) for kind, last in rounds.items()],
    )
    yield several(
        "rebalance_late",
        "Whether no round of a kind has ended for long since one began",
        "kind",
        [((kind.value,), float(is_late(kind, last, now))) for kind, last in rounds.items()],
    )
