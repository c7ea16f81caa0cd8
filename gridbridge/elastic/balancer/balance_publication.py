"""What the balancer publishes after each round: one file, for metrics and for people."""

import logging
from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

from gridbridge.decisions.elastic.balancer_publication import (
    BalancerRoundOutcome,
    publish_failed_round,
    publish_observed_round,
)
from gridbridge.elastic.store import published_balance_file
from gridbridge.errors import StateError
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation
from gridbridge.model.elastic.published_balance import BalanceRoundStatistics, PublishedBalance
from gridbridge.model.places import BALANCE_PUBLISHED

Next: TypeAlias = Callable[[PublishedBalance | None], PublishedBalance]

_log = logging.getLogger(__name__)


def after_round(
    cluster: str,
    situation: BalanceSituation,
    plan: BalancePlan,
    numbers: BalanceRoundStatistics,
    outcome: BalancerRoundOutcome,
    folder: str = BALANCE_PUBLISHED,
) -> None:
    """Publish a round that saw the whole cell; a file that can't be written is told in the log.

    `numbers` is what seeing.note returned, and `done` comes from decisions.elastic.shown.counted.
    """
    _publish(
        lambda last: publish_observed_round(last, cluster, situation, plan, numbers, outcome),
        folder,
    )


def blind_round(cluster: str, now: datetime, trouble: str, folder: str = BALANCE_PUBLISHED) -> None:
    """Publish a round that saw nothing, and why."""
    _publish(lambda last: publish_failed_round(last, cluster, now, trouble), folder)


def _publish(following: Next, folder: str) -> None:
    try:
        published_balance_file.put(following(_last(folder)), folder)
    except StateError as error:
        _log.warning("event=not_shown why=%r", str(error))


def _last(folder: str) -> PublishedBalance | None:
    """Return the round before; None where nobody can read it any more: counters begin anew."""
    try:
        return published_balance_file.read(folder)
    except StateError:
        return None
