"""Gives free slots to campaigns, turn by turn: first come, first served, or fairly."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from gridbridge.decisions.campaigns.backlog import NOT_BARRED, Backlog
from gridbridge.decisions.campaigns.failures.blacklist import BlacklistEntry
from gridbridge.decisions.campaigns.failures.starvation import in_vain
from gridbridge.decisions.campaigns.fairshare import HORIZON_S, ShareRequest, shared
from gridbridge.decisions.campaigns.matching import Pair, SchedulerMatching
from gridbridge.decisions.campaigns.metascheduler import ClusterOffer, claimant, turns
from gridbridge.model.campaigns.campaign import Array, Campaign
from gridbridge.model.campaigns.cycle_plan import CycleSituation, TaskSend
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.job_ratio import JobRatioPrediction
from gridbridge.model.campaigns.usage_sharing import ShareBy


def sends(
    situation: CycleSituation,
    predicted: Mapping[Pair, JobRatioPrediction],
    campaigns: Sequence[Campaign] = (),
    begun: Sequence[Array] = (),
    barred: Mapping[Pair, BlacklistEntry] = NOT_BARRED,
) -> tuple[TaskSend, ...]:
    """Fill the free slots, none twice, and after them the places where tasks may wait.

    So no task waits at one cluster that could start at another. `campaigns` are the same as in
    `seen` with the clusters that are closed to them, and `begun` arrays are submitted besides. At
    `barred` clusters campaigns get nothing, or one task to try.
    """
    unsent = Backlog(situation, barred, campaigns)
    distribution = CycleAllotment(
        situation, unsent, SchedulerMatching(situation, predicted, campaigns, begun)
    )
    offered = turns(situation)
    for turn in offered:
        distribution.fill(turn)
    for turn in offered:
        distribution.let_wait(turn)
    return tuple(
        TaskSend(
            campaign=campaign,
            cluster=cluster,
            tasks=tasks,
            kept_off=unsent.taken(campaign, cluster),
            array_tasks=situation.room[cluster].limits.tasks,
        )
        for (campaign, cluster), tasks in distribution.given.items()
    )


class CycleAllotment:
    """What one cycle gives away."""

    def __init__(
        self, situation: CycleSituation, unsent: Backlog, matching: SchedulerMatching
    ) -> None:
        self.given: Counter[Pair] = Counter()
        self._situation = situation
        self._matching = matching
        self._remaining = matching.left
        self._unsent = unsent
        self._in_vain = in_vain(situation)
        self._used_s = _used_s(situation)
        self._ahead = _ahead(situation)

    def fill(self, turn: tuple[ClusterOffer, ...]) -> None:
        """Give the campaigns of a turn the free slots of the clusters that they are offered."""
        is_test = any(campaign.jdl.type is CampaignType.TEST for campaign, _ in turn)
        if is_test or self._situation.sharing.by is ShareBy.NONE:
            self._first_come(turn)
        else:
            self._fairly(turn)

    def let_wait(self, turn: tuple[ClusterOffer, ...]) -> None:
        """Give them what may wait besides.

        Who comes first is not made to wait for a later campaign's task of several slots.
        """
        for campaign, clusters in turn:
            for cluster in self._best_first(campaign, clusters):
                allotted = self.given[campaign.number, cluster]
                tasks = self._matching.to_wait(campaign, cluster, allotted)
                self._matching.wait(campaign, cluster, self._take(campaign, cluster, tasks))
            if self._goes_before_others(campaign):
                self._remaining.closed_to_wide.update(self._wanting(campaign, clusters))

    def _goes_before_others(self, campaign: Campaign) -> bool:
        is_usual = campaign.jdl.type is not CampaignType.TEST
        return is_usual and self._situation.sharing.by is ShareBy.NONE

    def _wanting(self, campaign: Campaign, clusters: Iterable[str]) -> list[str]:
        return [
            name
            for name in clusters
            if self._unsent.at(campaign.number, name)
            and self._matching.is_wanted(campaign, name, self.given[campaign.number, name])
        ]

    def _first_come(self, turn: tuple[ClusterOffer, ...]) -> None:
        for campaign, clusters in turn:
            for cluster in self._best_first(campaign, clusters):
                self._give(campaign, cluster, self._matching.to_start(campaign, cluster))

    def _fairly(self, turn: tuple[ClusterOffer, ...]) -> None:
        """Share each cluster among those who are offered it, their best one first.

        That is the one which comes first for them in the mean, then one with more room. Best-effort
        slots are shared after those of ordinary tasks.
        """
        offered: dict[tuple[str, bool], list[Campaign]] = {}
        ranks: dict[tuple[str, bool], list[int]] = {}
        for campaign, clusters in turn:
            for rank, cluster in enumerate(self._best_first(campaign, clusters)):
                key = cluster, campaign.jdl.clusters[cluster].is_besteffort
                offered.setdefault(key, []).append(campaign)
                ranks.setdefault(key, []).append(rank)
        order = {
            key: (key[1], fmean(ranks[key]), -self._free(offered_to[0], key[0]), key[0])
            for key, offered_to in offered.items()
        }
        for key in sorted(offered, key=lambda cluster_kind: order[cluster_kind]):
            self._share(key[0], offered[key])

    def _share(self, cluster: str, campaigns: list[Campaign]) -> None:
        requests = [self._request(campaign, cluster) for campaign in campaigns]
        free = self._free(campaigns[0], cluster)
        tasks = shared(free, requests, self._used_s, self._ahead)
        for campaign, request in zip(campaigns, requests, strict=True):
            self._give(campaign, cluster, tasks[campaign.number])
            used_s = tasks[campaign.number] * request.slots * HORIZON_S
            self._used_s[request.claimant] = self._used_s.get(request.claimant, 0.0) + used_s
            self._ahead[request.claimant] -= tasks[campaign.number]

    def _request(self, campaign: Campaign, cluster: str) -> ShareRequest:
        unsent = self._unsent.all_of(campaign.number)
        going = self._unsent.at(campaign.number, cluster)
        return ShareRequest(
            campaign=campaign.number,
            claimant=claimant(campaign, self._situation.sharing),
            tasks=min(going, self._matching.to_start(campaign, cluster)),
            slots=campaign.jdl.clusters[cluster].slots,
            first=max(0, self._situation.sharing.first_tasks - (campaign.tasks - unsent)),
        )

    def _give(self, campaign: Campaign, cluster: str, tasks: int) -> None:
        tasks_taken = self._take(campaign, cluster, tasks)
        self._remaining.free.take(cluster, campaign.jdl.clusters[cluster], tasks_taken)

    def _free(self, campaign: Campaign, cluster: str) -> int:
        return self._remaining.free.of(cluster, campaign.jdl.clusters[cluster])

    def _take(self, campaign: Campaign, cluster: str, tasks: int) -> int:
        """Take so many of a campaign's tasks, or all that may go there; return how many."""
        most = self._matching.most(campaign, cluster) - self.given[campaign.number, cluster]
        tasks_taken = max(0, min(tasks, most, self._unsent.at(campaign.number, cluster)))
        if tasks_taken:
            self._unsent.take(campaign.number, cluster, tasks_taken)
            self.given[campaign.number, cluster] += tasks_taken
            allotted = self.given[campaign.number, cluster]
            self._matching.take_arrays(campaign, cluster, allotted)
        return tasks_taken

    def _best_first(self, campaign: Campaign, clusters: Iterable[str]) -> list[str]:
        """Sort clusters: those that end the campaign's tasks fastest, then those with most room.

        Where it is not known yet how fast that is, it is found out. Where its tasks waited in vain
        comes last: what has waited there would go there again though others have room.
        """
        mean_s = self._situation.sharing.mean_s.get(campaign.number, {})

        def order(name: str) -> tuple[int, float, int, str]:
            waited = self._in_vain.get((campaign.number, name), 0)
            return waited, mean_s.get(name, 0.0), -self._free(campaign, name), name

        return sorted(clusters, key=order)


def _used_s(situation: CycleSituation) -> dict[str, float]:
    """Return what is used by who shares, with the slots that they hold now."""
    used_s = dict(situation.sharing.used_s)
    campaigns = {campaign.number: campaign for campaign in situation.campaigns}
    for view in situation.there:
        if view.campaign in campaigns:
            campaign = campaigns[view.campaign]
            slots, name = campaign.jdl.slots_at(view.cluster), claimant(campaign, situation.sharing)
            used_s[name] = used_s.get(name, 0.0) + view.listed * slots * HORIZON_S
    return used_s


def _ahead(situation: CycleSituation) -> dict[str, int]:
    """Return how many tasks of each who shares go before all shares: until they have so many."""
    claimants = {
        campaign.number: claimant(campaign, situation.sharing) for campaign in situation.campaigns
    }
    ahead = dict.fromkeys(claimants.values(), situation.sharing.first_tasks)
    for view in situation.there:
        if view.campaign in claimants:
            ahead[claimants[view.campaign]] -= view.listed
    return ahead
