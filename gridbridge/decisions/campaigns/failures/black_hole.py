"""A cluster that swallows tasks: they succeed there in no time, and have done nothing.

A full disk, a missing licence or a wrong library can end a program at once with exit status 0. As
such a cluster is free again at once it gets ever more tasks. No batch system looks for it; the
limits are ours.
"""

from collections.abc import Iterable
from statistics import median

from gridbridge.model.campaigns.campaign_events import ClusterSuccessRecord

LEAST = 5  # successes there
LEAST_ELSEWHERE = 3  # successes at the campaign's other clusters
SHARE = 0.1  # of the median elsewhere
SHORT_S = 5.0
NOTHING_S = 0.5  # times are whole seconds: 0 may be as much
KEPT = 32  # durations of a campaign at a cluster


def sinks(records: Iterable[ClusterSuccessRecord]) -> frozenset[tuple[int, str]]:
    """Return the campaigns with the clusters that are a sink for them."""
    of: dict[int, list[ClusterSuccessRecord]] = {}
    for record in records:
        of.setdefault(record.campaign, []).append(record)
    return frozenset(
        (record.campaign, record.cluster)
        for of_campaign in of.values()
        for record in _suspects(of_campaign)
        if is_sink(
            record, [other_record for other_record in of_campaign if other_record is not record]
        )
    )


def _suspects(records: Iterable[ClusterSuccessRecord]) -> list[ClusterSuccessRecord]:
    """Return those that are short beside the longest task anywhere: no other can be a sink."""
    timed = [record for record in records if record.durations_s]
    longest_s = max((max(record.durations_s) for record in timed), default=0)
    limit_s = min(SHORT_S, SHARE * longest_s)
    return [record for record in timed if median(record.durations_s) < limit_s]


def is_sink(record: ClusterSuccessRecord, other_records: Iterable[ClusterSuccessRecord]) -> bool:
    """Say whether its successes are much shorter than those of the other clusters."""
    elsewhere = [seconds for other_record in other_records for seconds in other_record.durations_s]
    if record.is_trusted or len(record.durations_s) < LEAST or len(elsewhere) < LEAST_ELSEWHERE:
        return False
    usual_s = max(NOTHING_S, median(record.durations_s))
    return usual_s < SHORT_S and usual_s < SHARE * median(elsewhere)
