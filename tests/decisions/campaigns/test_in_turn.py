"""Cycles of the runner and nikita are simulated at a cluster whose free slots start no task."""

from collections.abc import Iterable, Set
from dataclasses import replace
from datetime import timedelta

import pytest

from gridbridge.decisions.campaigns import campaign_cycle_planning, nikita_deletion_planning
from gridbridge.decisions.campaigns.remaining_cluster_capacity import SLOT_KEPT_S
from gridbridge.model.campaigns.campaign_cycle_plan import (
    ClusterCapacityForCampaigns,
    JobRatio,
    ListedCampaignTaskCounts,
)
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    ArrayTaskDeletion,
    ArrayTasksWithSameStateAndAge,
    NikitaSituation,
    NikitaTimeouts,
)
from tests.decisions.campaigns.campaign_builder import NOON, make_cycle_situation
from tests.decisions.campaigns.test_slots import at, campaign

ROOM = ClusterCapacityForCampaigns(free_slots=100, max_slots=100, slots=100, flood_rate=0.1)
PATIENCE = NikitaTimeouts(grace_s=60, waiting_s=900, over_walltime_s=1800)
CYCLE_S, CYCLES_OF_NIKITA, SETTLED_S = 15, 4, 20


class Stuck:
    """A cluster whose free slots start no task, and campaigns with many tasks for the cluster."""

    def __init__(self, campaigns: int) -> None:
        self.campaigns = tuple(campaign(n, {"beta": at()}) for n in range(1, campaigns + 1))
        self.parts: list[ArrayTasksWithSameStateAndAge] = []
        self.ratios: dict[int, JobRatio] = {}
        self.sent = self.wiped = 0

    def run(self, cycles: int) -> None:
        for number in range(cycles):
            self.now = NOON + timedelta(seconds=CYCLE_S * number)
            if number % CYCLES_OF_NIKITA == 0:
                self._wipe()
            self._send()

    def _wipe(self) -> None:
        listed = NikitaSituation(now=self.now, parts=tuple(self.parts), allowed={"beta": 10}, patience=PATIENCE)
        for one in nikita_deletion_planning.plan_nikita_deletions(listed).wipes:
            gone = {place for places in one.places for place in places}
            self.wiped += len(gone)
            self.parts = [_without(part, gone) if _is_of(part, one) else part for part in self.parts]
        self.parts = [part for part in self.parts if part.places]

    def _send(self) -> None:
        seen = make_cycle_situation(
            campaigns=self.campaigns,
            waiting={one.number: 5000 for one in self.campaigns},
            max_tasks=1000,
            arrays_at_once=20,
            at=self.now,
            room={"beta": ROOM},
            there=tuple(self._there(one.number) for one in self.campaigns),
            ratios=tuple(self.ratios.values()),
        )
        plan = campaign_cycle_planning.plan_campaign_cycle(seen)
        for one in plan.predicted:
            known = {"campaign": one.campaign, "cluster": "beta", "submitted": one.submitted}
            self.ratios[one.campaign] = JobRatio(**known, ratio=one.ratio)
        for send in plan.sends:
            self.sent += send.tasks
            self.parts.append(self._part(send.campaign, send.tasks))

    def _part(self, number: int, tasks: int) -> ArrayTasksWithSameStateAndAge:
        return ArrayTasksWithSameStateAndAge(
            campaign=number,
            array=self.sent,
            cluster="beta",
            places=(range(1, tasks + 1),),
            since=self.now,
            is_waiting=True,
            walltime_s=3600,
        )

    def _there(self, number: int) -> ListedCampaignTaskCounts:
        own = [one for one in self.parts if one.campaign == number]
        fresh = [one for one in own if (self.now - one.since).total_seconds() < SETTLED_S]
        old = [one for one in own if (self.now - one.since).total_seconds() > SLOT_KEPT_S]
        waiting = _count(own)
        return ListedCampaignTaskCounts(
            campaign=number, cluster="beta", waiting=waiting, listed=waiting, fresh=_count(fresh), old=_count(old)
        )


def _is_of(part: ArrayTasksWithSameStateAndAge, wipe: ArrayTaskDeletion) -> bool:
    return (part.campaign, part.array) == (wipe.campaign, wipe.array)


def _without(part: ArrayTasksWithSameStateAndAge, gone: Set[int]) -> ArrayTasksWithSameStateAndAge:
    left = (place for places in part.places for place in places if place not in gone)
    return replace(part, places=tuple(range(place, place + 1) for place in left))


def _count(parts: Iterable[ArrayTasksWithSameStateAndAge]) -> int:
    return sum(len(places) for part in parts for places in part.places)


@pytest.mark.parametrize("campaigns", [1, 2, 3])
def test_tasks_are_not_sent_and_deleted_in_turn_at_a_cluster_that_starts_none(campaigns: int) -> None:
    stuck = Stuck(campaigns)

    stuck.run(cycles=2 * 3600 // CYCLE_S)

    assert stuck.wiped <= 100 + 120 * campaigns
    assert stuck.sent <= stuck.wiped + 10 + campaigns
