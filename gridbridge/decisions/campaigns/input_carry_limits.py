"""Decides how many tasks are worth the time that carrying their input files to a cluster takes."""

from bisect import bisect_left
from collections import Counter
from itertools import accumulate
from math import inf
from statistics import fmean
from typing import NamedTuple

from gridbridge.model.campaigns.campaign import ArraySubmissionState, Campaign, CampaignCluster
from gridbridge.model.campaigns.campaign_cycle_plan import NO_TASKS, CampaignCycleSituation


class _ClustersByCarry(NamedTuple):
    carry_s: list[float]  # time of a task's carry to each cluster that runs the campaign's tasks, ascending
    started_per_s: list[float]  # tasks that the clusters start, summed over the first clusters of `carry_s`


class InputCarryLimits:
    """The time of carries to each cluster, and the number of tasks that a carry lets start sooner.

    A carry for n tasks takes n * t seconds. Meanwhile, clusters with a shorter carry start r tasks a second. Of w
    waiting tasks, n tasks start sooner at the cluster if n * t <= (w - n) / r.
    """

    def __init__(self, situation: CampaignCycleSituation) -> None:
        self._room = situation.room
        self._task_s = {(cost.campaign, cost.cluster): cost.task_s for cost in situation.carry_costs}
        self._task_bytes = {(cost.campaign, cost.cluster): cost.task_bytes for cost in situation.carry_costs}
        self._rates = {(cost.campaign, cost.cluster): cost.bytes_per_s for cost in situation.carry_costs}
        self._mean_s = situation.sharing.mean_s
        self._by_carry: dict[int, _ClustersByCarry] = {}
        self._mean_rates: dict[int, float] = {}
        self._views = {view.campaign_and_cluster: view for view in situation.there}
        self._travelling = Counter[CampaignCluster]()
        for array in situation.arrays:
            if array.state is ArraySubmissionState.INTENDED:
                self._travelling[array.campaign, array.cluster] += array.size

    def carry_s(self, campaign: int, cluster: str) -> float:
        """Return the seconds in which the input files of one task are carried to a cluster, 0 if unknown."""
        return self._task_s.get((campaign, cluster)) or 0.0

    def max_tasks_ahead(self, campaign: int, cluster: str) -> float:
        """Return how many more tasks may get their input files before a slot is free, by the bytes of the files.

        Tasks that wait at the cluster, or whose files are being carried, use up this number.
        """
        pair = campaign, cluster
        if not (task_bytes := self._task_bytes.get(pair, 0.0)):
            return inf
        ahead = self._views.get(pair, NO_TASKS).waiting + self._travelling[pair]
        return max(0, self._room[cluster].inputs_ahead_bytes // task_bytes - ahead)

    def is_first_carry_awaited(self, campaign: Campaign, cluster: str) -> bool:
        """Say whether the time of carries to a cluster is unknown, although another cluster may take the tasks."""
        is_unknown = self._task_s.get((campaign.number, cluster), 0.0) is None
        return is_unknown and any(name in self._room for name in campaign.jdl.clusters if name != cluster)

    def is_carry_fast(self, campaign: Campaign, cluster: str) -> bool:
        """Say whether files travel to a cluster at least as fast as to the campaign's clusters on average.

        A cluster that sees the files needs no time for them.
        """
        number = campaign.number
        if number not in self._mean_rates:
            rates = (self._rates.get((number, name), inf) for name in campaign.jdl.clusters if name in self._room)
            self._mean_rates[number] = fmean(rates)
        return self._rates.get((number, cluster), inf) >= self._mean_rates[number]

    def max_tasks_worth_carrying(self, campaign: Campaign, cluster: str, unsent: int, given_tasks: int = 0) -> int:
        """Return how many of the unsent tasks start sooner at a cluster than elsewhere.

        The cluster already gets `given_tasks` tasks in this cycle. Until the first carry has been timed, one task is
        sent.
        """
        travelling = self._travelling[campaign.number, cluster] + given_tasks
        if self.is_first_carry_awaited(campaign, cluster):
            return max(0, 1 - travelling)
        if not (carry_s := self.carry_s(campaign.number, cluster)):
            return unsent
        started = carry_s * self._tasks_started_elsewhere_per_s(campaign, carry_s)
        return max(0, int((unsent + travelling) / (1 + started)) - travelling)

    def _tasks_started_elsewhere_per_s(self, campaign: Campaign, carry_s: float) -> float:
        """Return the rate at which clusters with a shorter carry start the campaign's tasks."""
        if campaign.number not in self._by_carry:
            self._by_carry[campaign.number] = self._sort_clusters_by_carry(campaign)
        clusters = self._by_carry[campaign.number]
        return clusters.started_per_s[bisect_left(clusters.carry_s, carry_s)]

    def _sort_clusters_by_carry(self, campaign: Campaign) -> _ClustersByCarry:
        number, rates = campaign.number, list[tuple[float, float]]()
        for name in campaign.jdl.clusters:
            view, mean_s = self._views.get((number, name), NO_TASKS), self._mean_s.get(number, {}).get(name)
            if name in self._room and mean_s:
                rates.append((self.carry_s(number, name), (view.listed - view.waiting) / mean_s))
        rates.sort()
        return _ClustersByCarry(
            carry_s=[carry_s for carry_s, _ in rates],
            started_per_s=[*accumulate((rate for _, rate in rates), initial=0.0)],
        )
