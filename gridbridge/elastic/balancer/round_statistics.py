"""What a round leaves for people to see: its numbers as a row, and what ended of late."""

import logging
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gridbridge.decisions.elastic.balancer_publication import LOOKBACK, count_round_statistics
from gridbridge.elastic.acts import ended_tasks
from gridbridge.elastic.store import recent_ends as kept
from gridbridge.elastic.store import statistics_file
from gridbridge.errors import StateError
from gridbridge.model.cluster import Cluster
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.published_balance import (
    BalanceRoundStatistics,
    RecentlyEndedTasks,
    minute_since_epoch,
)

LONGEST = timedelta(days=7)  # what is kept, so that another lookback holds at once

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundStatistics:
    """Where a round's numbers come from and go to."""

    accounting: str  # the cluster's file
    kept: str  # our file of what ended of late
    lookback: timedelta = LOOKBACK
    stats: str = ""  # the file that a row is added to; empty: none


def accounting_of(cluster: Cluster, name: str) -> str:
    """Return where a cluster of this machine writes its accounting."""
    settings = cluster.filled(name)
    return settings.accounting or f"{settings.root}/{settings.cell}/common/accounting"


def note(
    situation: BalanceSituation, queue: str, seeing: RoundStatistics
) -> BalanceRoundStatistics:
    """Count a round, and add its row to the file of statistics if there is to be one.

    What can't be read or written of all that is told in the log: it never ends a round.
    """
    row = count_round_statistics(situation, _ends(situation.now, seeing), queue, seeing.lookback)
    if seeing.stats:
        try:
            statistics_file.append(seeing.stats, row)
        except StateError as error:
            _log.warning("event=no_statistics why=%r", str(error))
    return row


def _ends(now: datetime, seeing: RoundStatistics) -> RecentlyEndedTasks:
    """Return what ended of late, with what is new in the accounting file."""
    before = kept.read(seeing.kept)
    try:
        read = ended_tasks.read_on(seeing.accounting, before, now)
        since = minute_since_epoch(now - max(LONGEST, seeing.lookback))
        after = replace(read, minutes=tuple(m for m in read.minutes if m.minute >= since))
        if after != before:
            kept.write(seeing.kept, after)
    except StateError as error:
        _log.warning("event=no_accounting why=%r", str(error))
        return before
    return after
