"""Decides to which clusters a waiting task may go with its checkpoint, which is then carried to the cluster.

A task that is not sent to another cluster with its checkpoint waits for a cluster with the checkpoint, or begins anew.
The checkpoint may be carried if this takes less time than the better of these two choices loses.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

from gridbridge.decisions.campaigns.input_carry_limits import InputCarryLimits
from gridbridge.decisions.campaigns.remaining_cluster_capacity import FreeClusterSlots
from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.campaigns.campaign_cycle_plan import NO_TASKS, CampaignCycleSituation, TaskCountByExclusions
from gridbridge.model.campaigns.checkpoint_statistics import CheckpointCarry, CheckpointOfWaitingTask

CARRY_CALLS_S = 5.0  # of the programs that carry
LEAST_UNKNOWN_WAIT_S = 600.0


def lost_s_without_carry(home_start_s: float, start_s: float, work_s: float) -> float:
    """Return the seconds that a task loses at least if its checkpoint is not carried to a cluster.

    The task starts in `home_start_s` at a cluster with its checkpoint, or in `start_s` at the other cluster, where it
    repeats `work_s`.
    """
    return min(home_start_s - start_s, work_s)


def checkpoint_carry_s(size_bytes: int, bytes_per_s: Iterable[float]) -> float:
    """Return the seconds of a carry with the rates from the old cluster and to the new cluster."""
    return CARRY_CALLS_S + sum(size_bytes / rate for rate in bytes_per_s)


def plan_checkpoint_carries(
    situation: CampaignCycleSituation, reachable: Sequence[Campaign]
) -> tuple[CheckpointCarry, ...]:
    """Return the carries that this cycle allows; the JDLs in `reachable` name only open clusters."""
    starts = _ExpectedStarts(situation)
    campaigns = {campaign.number: campaign for campaign in reachable}
    carries: list[CheckpointCarry] = []
    for checkpoint in situation.waiting_checkpoints:
        campaign = campaigns.get(checkpoint.campaign)
        if campaign and not starts.take_free_slot(campaign, campaign.jdl.clusters.keys() - {*checkpoint.never}):
            worth = _carries_worth_their_time(situation, starts, campaign, checkpoint)
            if best := min(worth, key=lambda carry: (carry.carry_s - carry.lost_s, carry.cluster), default=None):
                starts.take_free_slot(campaign, [best.cluster])
                carries.append(best)
    return tuple(carries)


def _carries_worth_their_time(
    situation: CampaignCycleSituation,
    starts: "_ExpectedStarts",
    campaign: Campaign,
    checkpoint: CheckpointOfWaitingTask,
) -> Iterator[CheckpointCarry]:
    home = (starts.start_s(campaign, name) for name in campaign.jdl.clusters if name not in checkpoint.never)
    home_start_s = min((start_s for start_s in home if start_s is not None), default=None)
    if home_start_s is None:  # such a wait lasts about as long again as it has lasted
        home_start_s = max(LEAST_UNKNOWN_WAIT_S, checkpoint.waited_s)
    bytes_per_s = {cluster: of_owners[campaign.uid] for cluster, of_owners in situation.carry_rates.items()}
    for name in campaign.jdl.clusters:
        start_s = starts.start_s(campaign, name) if name in checkpoint.never else None
        if start_s is None or name in checkpoint.excluded or checkpoint.size_bytes is None:
            continue
        lost_s = lost_s_without_carry(home_start_s, start_s, checkpoint.work_s)
        source = max(checkpoint.clusters, key=lambda cluster: bytes_per_s.get(cluster, inf))
        both = (bytes_per_s.get(cluster, inf) for cluster in (source, name))
        carry_s = checkpoint_carry_s(checkpoint.size_bytes, both)
        if carry_s < lost_s:
            yield CheckpointCarry(
                campaign=campaign.number,
                task=checkpoint.task,
                attempt=checkpoint.attempt,
                source=source,
                cluster=name,
                carry_s=carry_s,
                lost_s=lost_s,
            )


class _ExpectedStarts:
    """The expected starts of tasks at clusters, which get later as tasks take free slots."""

    def __init__(self, situation: CampaignCycleSituation) -> None:
        self._situation = situation
        self._free = FreeClusterSlots(situation.room)
        self._inputs = InputCarryLimits(situation)
        self._views = {view.campaign_and_cluster: view for view in situation.there}

    def start_s(self, campaign: Campaign, cluster: str) -> float | None:
        """Return the seconds until a task may start; None for a closed cluster, or without a measured run time."""
        room, slots = self._situation.room.get(cluster), campaign.jdl.slots_at(cluster)
        if room is None or not room.may_start_task_of_slots(slots):
            return None
        carry_s = self._inputs.carry_s(campaign.number, cluster)
        if self._has_free_slot(campaign, cluster):
            return carry_s
        view = self._views.get((campaign.number, cluster), NO_TASKS)
        mean_s, running = self._mean_s(campaign).get(cluster), view.listed - view.waiting
        return carry_s + (view.waiting + 1) * mean_s / running if mean_s and running > 0 else None

    def take_free_slot(self, campaign: Campaign, clusters: Iterable[str]) -> bool:
        """Take the slots of one task at an open cluster, if any has them free."""
        for cluster in sorted(clusters):
            if self.start_s(campaign, cluster) is not None and self._has_free_slot(campaign, cluster):
                self._free.take_slots(cluster, campaign.jdl.clusters[cluster], 1)
                return True
        return False

    def _has_free_slot(self, campaign: Campaign, cluster: str) -> bool:
        request = campaign.jdl.clusters[cluster]
        startable = self._views.get((campaign.number, cluster), NO_TASKS).startable_task_count
        return self._free.free_slots_for_request(cluster, request) >= request.slots * (startable + 1)

    def _mean_s(self, campaign: Campaign) -> Mapping[str, float]:
        return self._situation.sharing.mean_s.get(campaign.number, {})


def allow_carries_in_situation(
    situation: CampaignCycleSituation, carries: Iterable[CheckpointCarry]
) -> CampaignCycleSituation:
    """Let the unsent tasks of allowed carries go to the carries' clusters in this cycle already."""
    excluded = {
        number: Counter({(kind.avoid, kind.never): kind.tasks for kind in kinds})
        for number, kinds in situation.kept_off.items()
    }
    by_task = {(checkpoint.campaign, checkpoint.task): checkpoint for checkpoint in situation.waiting_checkpoints}
    for carry in carries:
        checkpoint, counts = by_task[carry.campaign, carry.task], excluded.get(carry.campaign, Counter())
        now = checkpoint.avoid, checkpoint.never
        if counts[now]:  # otherwise another program has changed the task since the first query
            counts[now] -= 1
            counts[_without(carry.cluster, checkpoint.avoid), _without(carry.cluster, checkpoint.never)] += 1
    kept_off = {
        number: tuple(
            TaskCountByExclusions(tasks=tasks, avoid=avoid, never=never)
            for (avoid, never), tasks in counts.items()
            if tasks and (avoid or never)
        )
        for number, counts in excluded.items()
    }
    return replace(situation, kept_off=kept_off)


def _without(cluster: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name != cluster)
