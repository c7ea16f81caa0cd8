"""Publish the state and last round of the balanced cluster in one public file."""

import logging
from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

from gridbridge.decisions.elastic.published_balancer_figures import (
    BalancerRoundNodeChanges,
    balancer_figures_if_cell_observed,
    balancer_figures_if_cell_unobserved,
)
from gridbridge.errors import StateError
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation
from gridbridge.model.elastic.published_balance import BalanceRoundStatistics, PublishedBalancerFigures
from gridbridge.model.fixed_paths import BALANCE_PUBLISHED
from gridbridge.state import published_files, published_json

NAME = "balance.json"
Next: TypeAlias = Callable[[PublishedBalancerFigures | None], PublishedBalancerFigures]
_publication_log = logging.getLogger(__name__)


def write_published_balance(value: PublishedBalancerFigures, folder: str = BALANCE_PUBLISHED) -> None:
    """Replace the published file, and create its folder; raise StateError on a failure."""
    published_files.publish_file(f"{folder}/{NAME}", published_json.encode_published_value(value))


def read_published_balance(folder: str = BALANCE_PUBLISHED) -> PublishedBalancerFigures | None:
    """Return the published balance; None before the first round.

    Raises StateError for a foreign file.
    """
    return published_json.read_published_value(f"{folder}/{NAME}", PublishedBalancerFigures)


def publish_balancer_round(
    cluster: str,
    situation: BalanceSituation,
    plan: BalancePlan,
    numbers: BalanceRoundStatistics,
    outcome: BalancerRoundNodeChanges,
    folder: str = BALANCE_PUBLISHED,
) -> None:
    """Publish a round that observed the whole cell; log a file that can't be written.

    `numbers` are the round's statistics, and `outcome` says what the round did.
    """
    _publish(lambda last: balancer_figures_if_cell_observed(last, cluster, situation, plan, numbers, outcome), folder)


def publish_round_without_cell_answer(
    cluster: str, now: datetime, trouble: str, folder: str = BALANCE_PUBLISHED
) -> None:
    """Publish that a round could not query the cell, with the reason."""
    _publish(lambda last: balancer_figures_if_cell_unobserved(last, cluster, now, trouble), folder)


def _publish(following: Next, folder: str) -> None:
    try:
        write_published_balance(following(_last(folder)), folder)
    except StateError as error:
        _publication_log.warning("event=not_shown why=%r", str(error))


def _last(folder: str) -> PublishedBalancerFigures | None:
    """Return the previously published round; None for an unreadable file, which resets counters."""
    try:
        return read_published_balance(folder)
    except StateError:
        return None
