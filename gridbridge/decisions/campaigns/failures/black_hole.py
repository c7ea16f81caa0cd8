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
    for one in records:
        of.setdefault(one.campaign, []).append(one)
    return frozenset(
        (one.campaign, one.cluster)
        for every in of.values()
        for one in _suspects(every)
        if is_sink(one, [other for other in every if other is not one])
    )


def _suspects(every: Iterable[ClusterSuccessRecord]) -> list[ClusterSuccessRecord]:
    """Return those that are short beside the longest task anywhere: no other can be a sink."""
    known = [one for one in every if one.durations_s]
    longest_s = max((max(one.durations_s) for one in known), default=0)
    limit_s = min(SHORT_S, SHARE * longest_s)
    return [one for one in known if median(one.durations_s) < limit_s]


def is_sink(one: ClusterSuccessRecord, others: Iterable[ClusterSuccessRecord]) -> bool:
    """Say whether its successes are much shorter than those of the other clusters."""
    elsewhere = [seconds for other in others for seconds in other.durations_s]
    if one.is_trusted or len(one.durations_s) < LEAST or len(elsewhere) < LEAST_ELSEWHERE:
        return False
    usual_s = max(NOTHING_S, median(one.durations_s))
    return usual_s < SHORT_S and usual_s < SHARE * median(elsewhere)
