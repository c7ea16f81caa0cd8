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
    seen: CycleSituation,
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
    unsent = Backlog(seen, barred, campaigns)
    distribution = CycleAllotment(
        seen, unsent, SchedulerMatching(seen, predicted, campaigns, begun)
    )
    offered = turns(seen)
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
            array_tasks=seen.room[cluster].limits.tasks,
        )
        for (campaign, cluster), tasks in distribution.given.items()
    )


class CycleAllotment:
    """What one cycle gives away."""

    def __init__(self, seen: CycleSituation, unsent: Backlog, matching: SchedulerMatching) -> None:
        self.given: Counter[Pair] = Counter()
        self._seen = seen
        self._matching = matching
        self._left = matching.left
        self._unsent = unsent
        self._in_vain = in_vain(seen)
        self._used_s = _used_s(seen)
        self._ahead = _ahead(seen)

    def fill(self, turn: tuple[ClusterOffer, ...]) -> None:
        """Give the campaigns of a turn the free slots of the clusters that they are offered."""
        is_test = any(campaign.jdl.type is CampaignType.TEST for campaign, _ in turn)
        if is_test or self._seen.sharing.by is ShareBy.NONE:
            self._first_come(turn)
        else:
            self._fairly(turn)

    def let_wait(self, turn: tuple[ClusterOffer, ...]) -> None:
        """Give them what may wait besides.

        Who comes first is not made to wait for a later campaign's task of several slots.
        """
        for campaign, clusters in turn:
            for cluster in self._best_first(campaign, clusters):
                given = self.given[campaign.number, cluster]
                tasks = self._matching.to_wait(campaign, cluster, given)
                self._matching.wait(campaign, cluster, self._take(campaign, cluster, tasks))
            if self._goes_before_others(campaign):
                self._left.closed_to_wide.update(self._wanted(campaign, clusters))

    def _goes_before_others(self, campaign: Campaign) -> bool:
        is_usual = campaign.jdl.type is not CampaignType.TEST
        return is_usual and self._seen.sharing.by is ShareBy.NONE

    def _wanted(self, campaign: Campaign, clusters: Iterable[str]) -> list[str]:
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
        places: dict[tuple[str, bool], list[int]] = {}
        for campaign, clusters in turn:
            for place, cluster in enumerate(self._best_first(campaign, clusters)):
                key = cluster, campaign.jdl.clusters[cluster].is_besteffort
                offered.setdefault(key, []).append(campaign)
                places.setdefault(key, []).append(place)
        order = {
            key: (key[1], fmean(places[key]), -self._free(some[0], key[0]), key[0])
            for key, some in offered.items()
        }
        for key in sorted(offered, key=lambda each: order[each]):
            self._share(key[0], offered[key])

    def _share(self, cluster: str, campaigns: list[Campaign]) -> None:
        wishes = [self._wish(one, cluster) for one in campaigns]
        free = self._free(campaigns[0], cluster)
        tasks = shared(free, wishes, self._used_s, self._ahead)
        for one, wish in zip(campaigns, wishes, strict=True):
            self._give(one, cluster, tasks[one.number])
            used_s = tasks[one.number] * wish.slots * HORIZON_S
            self._used_s[wish.claimant] = self._used_s.get(wish.claimant, 0.0) + used_s
            self._ahead[wish.claimant] -= tasks[one.number]

    def _wish(self, campaign: Campaign, cluster: str) -> ShareRequest:
        unsent = self._unsent.all_of(campaign.number)
        going = self._unsent.at(campaign.number, cluster)
        return ShareRequest(
            campaign=campaign.number,
            claimant=claimant(campaign, self._seen.sharing),
            tasks=min(going, self._matching.to_start(campaign, cluster)),
            slots=campaign.jdl.clusters[cluster].slots,
            first=max(0, self._seen.sharing.first_tasks - (campaign.tasks - unsent)),
        )

    def _give(self, campaign: Campaign, cluster: str, tasks: int) -> None:
        taken = self._take(campaign, cluster, tasks)
        self._left.free.take(cluster, campaign.jdl.clusters[cluster], taken)

    def _free(self, campaign: Campaign, cluster: str) -> int:
        return self._left.free.of(cluster, campaign.jdl.clusters[cluster])

    def _take(self, campaign: Campaign, cluster: str, tasks: int) -> int:
        """Take so many of a campaign's tasks, or all that may go there; return how many."""
        most = self._matching.most(campaign, cluster) - self.given[campaign.number, cluster]
        taken = max(0, min(tasks, most, self._unsent.at(campaign.number, cluster)))
        if taken:
            self._unsent.take(campaign.number, cluster, taken)
            self.given[campaign.number, cluster] += taken
            given = self.given[campaign.number, cluster]
            self._matching.take_arrays(campaign, cluster, given)
        return taken

    def _best_first(self, campaign: Campaign, clusters: Iterable[str]) -> list[str]:
        """Sort clusters: those that end the campaign's tasks fastest, then those with most room.

        Where it is not known yet how fast that is, it is found out. Where its tasks waited in vain
        comes last: what has waited there would go there again though others have room.
        """
        mean_s = self._seen.sharing.mean_s.get(campaign.number, {})

        def order(name: str) -> tuple[int, float, int, str]:
            waited = self._in_vain.get((campaign.number, name), 0)
            return waited, mean_s.get(name, 0.0), -self._free(campaign, name), name

        return sorted(clusters, key=order)


def _used_s(seen: CycleSituation) -> dict[str, float]:
    """Return what is used by who shares, with the slots that they hold now."""
    used_s = dict(seen.sharing.used_s)
    campaigns = {one.number: one for one in seen.campaigns}
    for there in seen.there:
        if there.campaign in campaigns:
            one = campaigns[there.campaign]
            slots, name = one.jdl.slots_at(there.cluster), claimant(one, seen.sharing)
            used_s[name] = used_s.get(name, 0.0) + there.listed * slots * HORIZON_S
    return used_s


def _ahead(seen: CycleSituation) -> dict[str, int]:
    """Return how many tasks of each who shares go before all shares: until they have so many."""
    claimants = {one.number: claimant(one, seen.sharing) for one in seen.campaigns}
    ahead = dict.fromkeys(claimants.values(), seen.sharing.first_tasks)
    for there in seen.there:
        if there.campaign in claimants:
            ahead[claimants[there.campaign]] -= there.listed
    return ahead
