"""Count the unsent tasks of campaigns, grouped by the clusters that the tasks avoid."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import ClusterClosureOrProbe
from gridbridge.decisions.campaigns.nightly_task_starts import is_each_night_too_short
from gridbridge.model.campaigns.campaign import Campaign, CampaignCluster, CampaignState
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation, TaskCountByExclusions

EMPTY_BLACKLIST: Mapping[CampaignCluster, ClusterClosureOrProbe] = {}


class TaskClusterExclusions(NamedTuple):
    """Clusters that a task avoids after a failure, and clusters it never uses after a walltime overrun."""

    avoid: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


NO_EXCLUSIONS = TaskClusterExclusions()


class UnsentTaskBacklog:
    """The unsent tasks in groups that avoid the same clusters; groups that avoid most are sent first."""

    def __init__(
        self,
        situation: CampaignCycleSituation,
        barred: Mapping[CampaignCluster, ClusterClosureOrProbe] = EMPTY_BLACKLIST,
        campaigns: Iterable[Campaign] = (),
    ) -> None:
        """Count the unsent tasks; the JDLs in `campaigns` still name the closed clusters.

        A cluster in `barred` counts as closed; a cluster that is probed gets one task.
        """
        self._barred = barred
        self._unsent = {number: _count_unsent_tasks_by_exclusions(situation, number) for number in situation.waiting}
        self._tasks_taken: dict[CampaignCluster, Counter[TaskClusterExclusions]] = defaultdict(Counter)
        self._open = {
            campaign.number: [
                name
                for name, request in campaign.jdl.clusters.items()
                if name in situation.room
                and situation.room[name].may_start_task_of_slots(request.slots)
                and (campaign.number, name) not in barred
            ]
            for campaign in campaigns or situation.campaigns
        }

    def taken_tasks_by_exclusions(self, campaign: int, cluster: str) -> tuple[TaskCountByExclusions, ...]:
        """Count the cluster's taken tasks for each set of clusters that tasks avoid; skip tasks that avoid none."""
        return tuple(
            TaskCountByExclusions(tasks=tasks, avoid=kind.avoid, never=kind.never)
            for kind, tasks in self._tasks_taken[campaign, cluster].items()
            if kind != NO_EXCLUSIONS
        )

    def count_unsent_tasks(self, campaign: int) -> int:
        return sum(self._unsent.get(campaign, {}).values())

    def count_tasks_for_cluster(self, campaign: int, cluster: str) -> int:
        """Return how many unsent tasks of a campaign may go to a cluster; at most one to a probed cluster."""
        tasks = sum(
            self._unsent[campaign][kind] for kind in self._task_groups_that_may_go_to_cluster(campaign, cluster)
        )
        is_probed = self._is_cluster_probed_for_campaign(campaign, cluster)
        return min(tasks, 1 - self._tasks_taken[campaign, cluster].total()) if is_probed else tasks

    def take_unsent_tasks(self, campaign: int, cluster: str, tasks: int) -> None:
        for kind in self._task_groups_that_may_go_to_cluster(campaign, cluster):
            tasks_taken = min(tasks, self._unsent[campaign][kind])
            self._unsent[campaign][kind] -= tasks_taken
            tasks -= tasks_taken
            if tasks_taken:
                self._tasks_taken[campaign, cluster][kind] += tasks_taken

    def _task_groups_that_may_go_to_cluster(self, campaign: int, cluster: str) -> list[TaskClusterExclusions]:
        """Return the groups of tasks for a cluster; tasks that avoid it go there only as a last resort."""
        unsent = self._unsent.get(campaign, {})
        able = [kind for kind in unsent if unsent[kind] and cluster not in kind.never]
        gladly = [kind for kind in able if cluster not in kind.avoid]
        if self._is_cluster_probed_for_campaign(campaign, cluster):
            return gladly or able
        return [
            kind for kind in able if kind in gladly or self._do_tasks_avoid_all_other_clusters(kind, campaign, cluster)
        ]

    def _do_tasks_avoid_all_other_clusters(self, kind: TaskClusterExclusions, campaign: int, cluster: str) -> bool:
        elsewhere = (name for name in self._open.get(campaign, ()) if name != cluster)
        return all(name in kind.avoid or name in kind.never for name in elsewhere)

    def _is_cluster_probed_for_campaign(self, campaign: int, cluster: str) -> bool:
        return self._barred.get((campaign, cluster)) is ClusterClosureOrProbe.PROBE


def _count_unsent_tasks_by_exclusions(
    situation: CampaignCycleSituation, campaign: int
) -> dict[TaskClusterExclusions, int]:
    choosy = sorted(situation.kept_off.get(campaign, ()), key=lambda group: -len({*group.avoid, *group.never}))
    unrestricted = max(0, situation.waiting[campaign] - sum(group.tasks for group in choosy))
    by_exclusions = {TaskClusterExclusions(group.avoid, group.never): group.tasks for group in choosy}
    return by_exclusions | {NO_EXCLUSIONS: unrestricted}


def has_unplaceable_tasks(
    campaign: Campaign, situation: CampaignCycleSituation, barred: Mapping[CampaignCluster, ClusterClosureOrProbe]
) -> bool | None:
    """Say whether some unsent tasks can go to no cluster; None if a cluster may take these tasks later."""
    if campaign.state is not CampaignState.IN_TREATMENT or not situation.waiting.get(campaign.number):
        return False
    waiting = [kind for kind, tasks in _count_unsent_tasks_by_exclusions(situation, campaign.number).items() if tasks]
    closed, taking = set[str](), set[str]()
    for name, request in campaign.jdl.clusters.items():
        room = situation.room.get(name)
        is_unfit = room is not None and (room.is_drained or room.has_too_few_slots(request.slots))
        if is_unfit or (campaign.number, name) in barred or is_each_night_too_short(request, name, situation):
            closed.add(name)
        elif room is not None and room.may_start_task_of_slots(request.slots):
            taking.add(name)
    if any(campaign.jdl.clusters.keys() <= closed.union(kind.never) for kind in waiting):
        return True
    return False if all(taking.difference(kind.never) for kind in waiting) else None
