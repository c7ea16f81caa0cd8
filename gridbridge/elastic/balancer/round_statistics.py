"""Record a round's statistics row, and the tasks that ended recently."""

import logging
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gridbridge.decisions.elastic.published_balancer_figures import LOOKBACK, count_balancer_round_figures
from gridbridge.elastic.acts import ended_tasks_from_accounting
from gridbridge.elastic.acts import ended_tasks_from_accounting as kept
from gridbridge.elastic.store import balancer_statistics_file
from gridbridge.errors import StateError
from gridbridge.model.cluster import ClusterSection
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.published_balance import BalanceRoundStatistics, RecentlyEndedTasks, minute_since_epoch

LONGEST = timedelta(days=7)  # age limit of stored task ends, for any lookback

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerStatisticsPaths:
    """The accounting file from which statistics are read, and the files that store statistics."""

    accounting: str  # the cluster's accounting file
    kept: str  # the balancer's file of recent task ends
    lookback: timedelta = LOOKBACK
    stats: str = ""  # statistics file that gets a row each round; empty: none


def local_accounting_file_path(cluster: ClusterSection, name: str) -> str:
    """Return the path of a local cluster's accounting file."""
    settings = cluster.filled(name)
    return settings.accounting or f"{settings.root}/{settings.cell}/common/accounting"


def record_balancer_statistics(
    situation: BalanceSituation, queue: str, seeing: BalancerStatisticsPaths
) -> BalanceRoundStatistics:
    """Compute a round's statistics, and append them to the statistics file if one is set.

    A file that can't be read or written is logged, and never ends a round.
    """
    row = count_balancer_round_figures(situation, _ends(situation.now, seeing), queue, seeing.lookback)
    if seeing.stats:
        try:
            balancer_statistics_file.append_balancer_statistics(seeing.stats, row)
        except StateError as error:
            _log.warning("event=no_statistics why=%r", str(error))
    return row


def _ends(now: datetime, seeing: BalancerStatisticsPaths) -> RecentlyEndedTasks:
    """Return the recent task ends, including the accounting file's new ones."""
    before = kept.read_stored_task_ends(seeing.kept)
    try:
        read = ended_tasks_from_accounting.add_task_ends_from_accounting(seeing.accounting, before, now)
        since = minute_since_epoch(now - max(LONGEST, seeing.lookback))
        after = replace(read, minutes=tuple(m for m in read.minutes if m.minute >= since))
        if after != before:
            kept.write_stored_task_ends(seeing.kept, after)
    except StateError as error:
        _log.warning("event=no_accounting why=%r", str(error))
        return before
    return after
