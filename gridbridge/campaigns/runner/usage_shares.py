"""What campaigns have used, kept and gathered for the metascheduler."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.campaigns.store.campaign_usage import CampaignUsage
from gridbridge.decisions.campaigns.fairshare import decayed, used
from gridbridge.decisions.campaigns.metascheduler import used_by
from gridbridge.model.amounts import HOUR_S
from gridbridge.model.campaigns.campaign import Array, Attempt, Campaign, clusters_of
from gridbridge.model.campaigns.cycle_plan import CyclePlan, CycleSituation
from gridbridge.model.campaigns.usage_sharing import DecayedUsage, ShareBy, UsageSharing
from gridbridge.model.policy import Policy
from gridbridge.shell import host
from gridbridge.shell.clock import Clock

FORGOTTEN_S = 1.0  # of slot-seconds; less than that decides nothing
NEVER_S = 1e9  # of a success, at a cluster that has used slots and had none


class CampaignShares:
    """What decides about the order of campaigns besides their age."""

    def __init__(
        self, policy: Policy, campaigns: CampaignRows, usage: CampaignUsage, clock: Clock
    ) -> None:
        self._section = policy.metascheduler
        lists = (
            self._section.priorities,
            *(section.affinity for section in policy.campaigns.values()),
        )
        self._asks_groups = self._section.share_by is ShareBy.GROUP or "@" in "".join(lists)
        self._campaigns = campaigns
        self._usage = usage
        self._clock = clock
        self._read: tuple[DecayedUsage, ...] | None = None  # in this cycle

    def gather(self, unfinished: tuple[Campaign, ...]) -> UsageSharing:
        """Return what is known of campaigns that go on, of owners, and of what all have used."""
        self._read = self._usage.all()
        usages = tuple(map(self._now, self._read))
        campaigns = self._with_used(unfinished, usages)
        sharing = UsageSharing(
            priorities=self._section.priorities,
            by=self._section.share_by,
            first_tasks=self._section.first_tasks,
            groups=self._groups(campaigns),
            mean_s=_means(usages, frozenset(campaign.number for campaign in unfinished)),
        )
        if sharing.by is ShareBy.NONE:
            return sharing
        return replace(sharing, used_s=used_by(campaigns, sharing, _by_campaign(usages)))

    def count(self, situation: CycleSituation, plan: CyclePlan) -> None:
        """Add what the tasks used that have ended, and forget what counts no more."""
        usages, self._read = self._usage.all() if self._read is None else self._read, None
        before = {(usage.campaign, usage.cluster): usage for usage in map(self._now, usages)}
        jdls = {campaign.number: campaign.jdl for campaign in situation.campaigns}
        changed = []
        for (campaign, cluster), ended in _by_cluster(plan.ended, situation.arrays):
            old = before.get((campaign, cluster)) or self._nothing(campaign, cluster)
            slots = jdls[campaign].slots_at(cluster) if campaign in jdls else 1
            changed.append(used(old, ended, slots))
        self._usage.keep(changed)
        current = before | {(usage.campaign, usage.cluster): usage for usage in changed}
        self._usage.forget(usage for usage in current.values() if usage.used_s < FORGOTTEN_S)

    def _groups(self, campaigns: Iterable[Campaign]) -> dict[str, tuple[str, ...]]:
        """Return the groups of owners, where anything is decided by groups."""
        owners = sorted({campaign.owner for campaign in campaigns}) if self._asks_groups else ()
        return {owner: host.groups_of(owner) for owner in owners}

    def _with_used(
        self, unfinished: tuple[Campaign, ...], usages: tuple[DecayedUsage, ...]
    ) -> tuple[Campaign, ...]:
        """Return those that go on, and where it matters those that ended and have used slots."""
        if self._section.share_by is ShareBy.NONE:
            return unfinished
        ended = {usage.campaign for usage in usages} - {campaign.number for campaign in unfinished}
        return (*unfinished, *filter(None, map(self._campaigns.find, sorted(ended))))

    def _now(self, usage: DecayedUsage) -> DecayedUsage:
        return decayed(usage, self._clock.now(), self._section.half_life_h * HOUR_S)

    def _nothing(self, campaign: int, cluster: str) -> DecayedUsage:
        return DecayedUsage(campaign=campaign, cluster=cluster, at=self._clock.now())


def _by_campaign(usages: Iterable[DecayedUsage]) -> dict[int, float]:
    totals: dict[int, float] = {}
    for usage in usages:
        totals[usage.campaign] = totals.get(usage.campaign, 0.0) + usage.used_s
    return totals


def _means(
    usages: Iterable[DecayedUsage], campaigns: frozenset[int]
) -> dict[int, dict[str, float]]:
    """Return how long a successful task of each campaign takes at each cluster.

    That is very long where tasks have run and none succeeded: such a cluster comes last.
    """
    means: dict[int, dict[str, float]] = {}
    for usage in usages:
        if usage.campaign in campaigns and (usage.successes or usage.used_s >= FORGOTTEN_S):
            mean_s = usage.success_s / usage.successes if usage.successes else NEVER_S
            means.setdefault(usage.campaign, {})[usage.cluster] = mean_s
    return means


def _by_cluster(
    ended: Iterable[Attempt], arrays: Iterable[Array]
) -> Iterator[tuple[tuple[int, str], list[Attempt]]]:
    """Group what ended by campaign and cluster."""
    clusters = clusters_of(arrays)
    placed = [(attempt, clusters.get((attempt.campaign, attempt.array), "")) for attempt in ended]
    placed.sort(key=lambda pair: (pair[0].campaign, pair[1]))
    for key, pairs in groupby(placed, key=lambda pair: (pair[0].campaign, pair[1])):
        if key[1]:
            yield key, [attempt for attempt, _ in pairs]
