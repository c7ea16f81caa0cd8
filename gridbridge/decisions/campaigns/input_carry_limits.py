"""Decides how many tasks are worth the time that carrying their input files to a cluster takes."""

from collections import Counter
from math import inf

from gridbridge.model.campaigns.campaign import ArraySubmissionState, Campaign, CampaignCluster
from gridbridge.model.campaigns.campaign_cycle_plan import NO_TASKS, CampaignCycleSituation


class InputCarryLimits:
    """The time of carries to each cluster, and the tasks that start sooner there than at other clusters.

    While the files of n tasks travel to a cluster, each n times t seconds, the clusters with a shorter carry start r
    tasks a second. So of w waiting tasks n start sooner at the cluster if n * t <= (w - n) / r.
    """

    def __init__(self, situation: CampaignCycleSituation) -> None:
        self._room = situation.room
        self._task_s = {(cost.campaign, cost.cluster): cost.task_s for cost in situation.carry_costs}
        self._task_bytes = {(cost.campaign, cost.cluster): cost.task_bytes for cost in situation.carry_costs}
        self._mean_s = situation.sharing.mean_s
        self._views = {view.campaign_and_cluster: view for view in situation.there}
        self._travelling = Counter[CampaignCluster]()
        for array in situation.arrays:
            if array.state is ArraySubmissionState.INTENDED:
                self._travelling[array.campaign, array.cluster] += array.size

    def carry_s(self, campaign: int, cluster: str) -> float:
        """Return the seconds in which the input files of one task are carried to a cluster, 0 if unknown."""
        return self._task_s.get((campaign, cluster)) or 0.0

    def max_tasks_ahead(self, campaign: int, cluster: str) -> float:
        """Return how many more tasks without a free slot may get their input files, by the bytes of the files.

        Tasks that wait at the cluster count as such tasks, and so do tasks whose files are being carried.
        """
        pair = campaign, cluster
        if not (task_bytes := self._task_bytes.get(pair, 0.0)):
            return inf
        ahead = self._views.get(pair, NO_TASKS).waiting + self._travelling[pair]
        return max(0, self._room[cluster].inputs_ahead_bytes // task_bytes - ahead)

    def is_first_carry_awaited(self, campaign: Campaign, cluster: str) -> bool:
        """Say whether the time of carries to a cluster is unknown, although another cluster may take the tasks."""
        has_others = any(name in self._room for name in campaign.jdl.clusters if name != cluster)
        return has_others and self._task_s.get((campaign.number, cluster), 0.0) is None

    def max_tasks_worth_carrying(self, campaign: Campaign, cluster: str, unsent: int, given: int = 0) -> int:
        """Return how many of the unsent tasks start sooner at a cluster than elsewhere.

        `given` tasks go there in this cycle already. Until the first carry has been timed, one task is sent.
        """
        travelling = self._travelling[campaign.number, cluster] + given
        if self.is_first_carry_awaited(campaign, cluster):
            return max(0, 1 - travelling)
        carry_s = self.carry_s(campaign.number, cluster)
        started = carry_s * self._tasks_started_elsewhere_per_s(campaign, carry_s)
        return max(0, int((unsent + travelling) / (1 + started)) - travelling)

    def _tasks_started_elsewhere_per_s(self, campaign: Campaign, carry_s: float) -> float:
        """Return the rate at which clusters with a shorter carry start the campaign's tasks."""
        number, rate = campaign.number, 0.0
        for name in campaign.jdl.clusters:
            view, mean_s = self._views.get((number, name), NO_TASKS), self._mean_s.get(number, {}).get(name)
            if name in self._room and mean_s and self.carry_s(number, name) < carry_s:
                rate += (view.listed - view.waiting) / mean_s
        return rate
