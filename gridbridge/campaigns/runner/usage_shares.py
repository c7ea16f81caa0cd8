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
        lists = (self._section.priorities, *(one.affinity for one in policy.campaigns.values()))
        self._asks_groups = self._section.share_by is ShareBy.GROUP or "@" in "".join(lists)
        self._campaigns = campaigns
        self._usage = usage
        self._clock = clock
        self._read: tuple[DecayedUsage, ...] | None = None  # in this cycle

    def gather(self, unfinished: tuple[Campaign, ...]) -> UsageSharing:
        """Return what is known of campaigns that go on, of owners, and of what all have used."""
        self._read = self._usage.all()
        kept = tuple(map(self._now, self._read))
        campaigns = self._with_used(unfinished, kept)
        known = UsageSharing(
            priorities=self._section.priorities,
            by=self._section.share_by,
            first_tasks=self._section.first_tasks,
            groups=self._groups(campaigns),
            mean_s=_means(kept, frozenset(one.number for one in unfinished)),
        )
        if known.by is ShareBy.NONE:
            return known
        return replace(known, used_s=used_by(campaigns, known, _by_campaign(kept)))

    def count(self, seen: CycleSituation, plan: CyclePlan) -> None:
        """Add what the tasks used that have ended, and forget what counts no more."""
        kept, self._read = self._usage.all() if self._read is None else self._read, None
        before = {(one.campaign, one.cluster): one for one in map(self._now, kept)}
        jdls = {one.number: one.jdl for one in seen.campaigns}
        changed = []
        for (campaign, cluster), ended in _by_cluster(plan.ended, seen.arrays):
            old = before.get((campaign, cluster)) or self._nothing(campaign, cluster)
            slots = jdls[campaign].slots_at(cluster) if campaign in jdls else 1
            changed.append(used(old, ended, slots))
        self._usage.keep(changed)
        known = before | {(one.campaign, one.cluster): one for one in changed}
        self._usage.forget(one for one in known.values() if one.used_s < FORGOTTEN_S)

    def _groups(self, campaigns: Iterable[Campaign]) -> dict[str, tuple[str, ...]]:
        """Return the groups of owners, where anything is decided by groups."""
        owners = sorted({one.owner for one in campaigns}) if self._asks_groups else ()
        return {owner: host.groups_of(owner) for owner in owners}

    def _with_used(
        self, unfinished: tuple[Campaign, ...], kept: tuple[DecayedUsage, ...]
    ) -> tuple[Campaign, ...]:
        """Return those that go on, and where it matters those that ended and have used slots."""
        if self._section.share_by is ShareBy.NONE:
            return unfinished
        ended = {one.campaign for one in kept} - {one.number for one in unfinished}
        return (*unfinished, *filter(None, map(self._campaigns.find, sorted(ended))))

    def _now(self, usage: DecayedUsage) -> DecayedUsage:
        return decayed(usage, self._clock.now(), self._section.half_life_h * HOUR_S)

    def _nothing(self, campaign: int, cluster: str) -> DecayedUsage:
        return DecayedUsage(campaign=campaign, cluster=cluster, at=self._clock.now())


def _by_campaign(kept: Iterable[DecayedUsage]) -> dict[int, float]:
    found: dict[int, float] = {}
    for one in kept:
        found[one.campaign] = found.get(one.campaign, 0.0) + one.used_s
    return found


def _means(kept: Iterable[DecayedUsage], campaigns: frozenset[int]) -> dict[int, dict[str, float]]:
    """Return how long a successful task of each campaign takes at each cluster.

    That is very long where tasks have run and none succeeded: such a cluster comes last.
    """
    found: dict[int, dict[str, float]] = {}
    for one in kept:
        if one.campaign in campaigns and (one.successes or one.used_s >= FORGOTTEN_S):
            mean_s = one.success_s / one.successes if one.successes else NEVER_S
            found.setdefault(one.campaign, {})[one.cluster] = mean_s
    return found


def _by_cluster(
    ended: Iterable[Attempt], arrays: Iterable[Array]
) -> Iterator[tuple[tuple[int, str], list[Attempt]]]:
    """Group what ended by campaign and cluster."""
    clusters = clusters_of(arrays)
    placed = [(one, clusters.get((one.campaign, one.array), "")) for one in ended]
    placed.sort(key=lambda each: (each[0].campaign, each[1]))
    for key, some in groupby(placed, key=lambda each: (each[0].campaign, each[1])):
        if key[1]:
            yield key, [one for one, _ in some]
