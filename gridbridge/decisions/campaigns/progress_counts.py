"""Count the ended tasks of a campaign, by cluster and in total, for gridstat."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from gridbridge.model.campaigns.published_campaigns import ShownCampaign, ShownCampaignAtCluster
from gridbridge.model.campaigns.published_tasks import CampaignTaskEndCounts, sum_task_end_counts_by_cluster

HOUR = timedelta(hours=1)


def campaign_with_ended_task_counts(campaign: ShownCampaign, ends: Sequence[CampaignTaskEndCounts]) -> ShownCampaign:
    """Return a shown campaign with its ended tasks and mean run times by cluster.

    `ends` are in the order of time. An ended campaign gets the rate over its whole life, while a
    living campaign already has the rates of the last hour. Tasks that their owner cancelled count
    as ended, but neither as failed nor in a rate.
    """
    if not ends:
        return campaign
    last = ends[-1].at
    sums = {end.cluster: end for end in sum_task_end_counts_by_cluster(ends, last)}
    rates = () if campaign.state.is_alive else sums.values()
    per_h = {end.cluster: _per_h(end, campaign.submitted_at) for end in rates}
    total = sum_task_end_counts_by_cluster((replace(end, cluster="") for end in ends), last)
    return replace(
        campaign,
        at=tuple(_at(campaign, sums, per_h)),
        mean_s=total[0].mean_s if total else None,
        ended_per_h=campaign.ended_per_h if campaign.state.is_alive else _whole(per_h),
    )


def _at(
    campaign: ShownCampaign, sums: dict[str, CampaignTaskEndCounts], per_h: dict[str, float]
) -> Iterator[ShownCampaignAtCluster]:
    """Yield the counts at present, then at former clusters; "" has tasks ended without a send."""
    by_cluster = {at.cluster: at for at in campaign.at}
    for cluster in dict.fromkeys((*campaign.clusters, *sums)):
        at, end = (by_cluster.get(cluster, ShownCampaignAtCluster(cluster=cluster)), sums.get(cluster))
        yield replace(
            at,
            ended=end.tasks if end else 0,
            failed=end.failed if end else 0,
            ended_per_h=per_h.get(cluster, at.ended_per_h),
            mean_s=end.mean_s if end else at.mean_s,
        )


def _per_h(end: CampaignTaskEndCounts, since: datetime) -> float:
    return (end.tasks - end.cancelled) / max((end.at - since) / HOUR, 1 / 3600)


def _whole(per_h: dict[str, float]) -> float | None:
    return sum(per_h.values()) or None
