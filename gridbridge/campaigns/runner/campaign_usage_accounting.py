"""Compute the past usage of campaigns and owners for the metascheduler's fair share."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import CampaignSlotUsageRows
from gridbridge.decisions.campaigns.fairshare import add_ended_tasks_to_usage, decay_usage
from gridbridge.decisions.campaigns.metascheduler import sum_usage_by_claimant
from gridbridge.model.campaigns.campaign import Campaign, CampaignArray, TaskAttempt, map_arrays_to_clusters
from gridbridge.model.campaigns.campaign_sections import FairShareUnit
from gridbridge.model.campaigns.cycle_plan import (
    CampaignCyclePlan,
    CampaignCycleSituation,
    DecayedCampaignUsage,
    FairShareInputs,
)
from gridbridge.model.grid_engine_amounts import HOUR_S
from gridbridge.model.policy import Policy
from gridbridge.shell import local_host_facts
from gridbridge.shell.clock import Clock

FORGOTTEN_S = 1.0  # usage in slot-seconds below which it is deleted as negligible
NEVER_S = 1e9  # stands for the mean duration at a cluster without any success


class FairShareUsageAccounting:
    """Reads and updates the usage that orders campaigns of different owners."""

    def __init__(self, policy: Policy, campaigns: CampaignRows, usage: CampaignSlotUsageRows, clock: Clock) -> None:
        self._section = policy.metascheduler
        lists = (self._section.priorities, *(section.affinity for section in policy.campaigns.values()))
        self._asks_groups = self._section.share_by is FairShareUnit.GROUP or "@" in "".join(lists)
        self._campaigns = campaigns
        self._usage = usage
        self._clock = clock
        self._read: tuple[DecayedCampaignUsage, ...] | None = None  # usage read in this cycle

    def gather(self, unfinished: tuple[Campaign, ...]) -> FairShareInputs:
        """Return the fair-share data of unfinished campaigns: usage, groups, mean durations."""
        self._read = self._usage.all()
        usages = tuple(map(self._now, self._read))
        campaigns = self._with_used(unfinished, usages)
        sharing = FairShareInputs(
            priorities=self._section.priorities,
            by=self._section.share_by,
            first_tasks=self._section.first_tasks,
            groups=self._groups(campaigns),
            mean_s=_means(usages, frozenset(campaign.number for campaign in unfinished)),
        )
        if sharing.by is FairShareUnit.NONE:
            return sharing
        return replace(sharing, used_s=sum_usage_by_claimant(campaigns, sharing, _by_campaign(usages)))

    def count(self, situation: CampaignCycleSituation, plan: CampaignCyclePlan) -> None:
        """Add the usage of ended tasks, and delete usage that has decayed to nothing."""
        usages, self._read = self._usage.all() if self._read is None else self._read, None
        before = {(usage.campaign, usage.cluster): usage for usage in map(self._now, usages)}
        jdls = {campaign.number: campaign.jdl for campaign in situation.campaigns}
        changed = []
        for (campaign, cluster), ended in _by_cluster(plan.ended, situation.arrays):
            old = before.get((campaign, cluster)) or self._nothing(campaign, cluster)
            slots = jdls[campaign].slots_at(cluster) if campaign in jdls else 1
            changed.append(add_ended_tasks_to_usage(old, ended, slots))
        self._usage.keep(changed)
        current = before | {(usage.campaign, usage.cluster): usage for usage in changed}
        self._usage.forget(usage for usage in current.values() if usage.used_s < FORGOTTEN_S)

    def _groups(self, campaigns: Iterable[Campaign]) -> dict[str, tuple[str, ...]]:
        """Return the groups of each owner; empty if no rule uses groups."""
        owners = sorted({campaign.owner for campaign in campaigns}) if self._asks_groups else ()
        return {owner: local_host_facts.groups_of_account(owner) for owner in owners}

    def _with_used(
        self, unfinished: tuple[Campaign, ...], usages: tuple[DecayedCampaignUsage, ...]
    ) -> tuple[Campaign, ...]:
        """Return the unfinished campaigns, and ended ones with usage if fair share is on."""
        if self._section.share_by is FairShareUnit.NONE:
            return unfinished
        ended = {usage.campaign for usage in usages} - {campaign.number for campaign in unfinished}
        return (*unfinished, *filter(None, map(self._campaigns.find, sorted(ended))))

    def _now(self, usage: DecayedCampaignUsage) -> DecayedCampaignUsage:
        return decay_usage(usage, self._clock.now(), self._section.half_life_h * HOUR_S)

    def _nothing(self, campaign: int, cluster: str) -> DecayedCampaignUsage:
        return DecayedCampaignUsage(campaign=campaign, cluster=cluster, at=self._clock.now())


def _by_campaign(usages: Iterable[DecayedCampaignUsage]) -> dict[int, float]:
    totals: dict[int, float] = {}
    for usage in usages:
        totals[usage.campaign] = totals.get(usage.campaign, 0.0) + usage.used_s
    return totals


def _means(usages: Iterable[DecayedCampaignUsage], campaigns: frozenset[int]) -> dict[int, dict[str, float]]:
    """Return the mean duration of successful tasks by campaign and cluster.

    A cluster where tasks ran and none succeeded gets a very long duration, so it comes last.
    """
    means: dict[int, dict[str, float]] = {}
    for usage in usages:
        if usage.campaign in campaigns and (usage.successes or usage.used_s >= FORGOTTEN_S):
            mean_s = usage.success_s / usage.successes if usage.successes else NEVER_S
            means.setdefault(usage.campaign, {})[usage.cluster] = mean_s
    return means


def _by_cluster(
    ended: Iterable[TaskAttempt], arrays: Iterable[CampaignArray]
) -> Iterator[tuple[tuple[int, str], list[TaskAttempt]]]:
    """Group ended attempts by campaign and cluster."""
    clusters = map_arrays_to_clusters(arrays)
    placed = [(attempt, clusters.get((attempt.campaign, attempt.array), "")) for attempt in ended]
    placed.sort(key=lambda pair: (pair[0].campaign, pair[1]))
    for key, pairs in groupby(placed, key=lambda pair: (pair[0].campaign, pair[1])):
        if key[1]:
            yield key, [attempt for attempt, _ in pairs]
