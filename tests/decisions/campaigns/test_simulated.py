"""Simulated campaigns and simulated cycles of the runner and nikita."""

from collections.abc import Iterable, Set
from dataclasses import replace
from datetime import timedelta
from random import Random
from statistics import mean

import pytest

from bench import shared_inputs
from bench.checkpoints import FIXED_S, GAPS, least_lost_s, lost_s
from bench.simulated import Cigri, Cluster, Ours, bound, copied, run, without_delay
from bench.simulation import (
    FEW,
    HUNDRED,
    KINDS,
    MOST_LOST,
    PREEMPTED,
    SMALL_SEEDS,
    TOLD,
    UNEQUAL,
    _makespans,
    ends,
    filled_s,
    holding,
    lengths,
    waiting_at,
)
from gridbridge.decisions.campaigns import campaign_cycle_planning, nikita_deletion_planning
from gridbridge.decisions.campaigns.remaining_cluster_capacity import SLOT_KEPT_S
from gridbridge.model.campaigns.campaign_configuration_sections import JobRatioRule
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignTaskCountsAtCluster,
    ClusterCapacityForCampaigns,
    JobRatio,
)
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    ArrayTaskDeletion,
    ArrayTasksWithSameStateAndAge,
    NikitaSituation,
    NikitaTimeouts,
)
from tests.decisions.campaigns.campaign_builder import NOON, make_cycle_situation
from tests.decisions.campaigns.test_slots import at, campaign
from tests.docs.console import ROOT


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("seed", range(1, 5))
def test_preempted_tasks_lose_about_as_much_work_as_the_best_interval_costs(gap: str, seed: int) -> None:
    """The interval is learnt: a fixed interval of 15 minutes loses more."""
    learnt, fixed = (lost_s(GAPS[gap], PREEMPTED, fixed_s, seed) / least_lost_s() for fixed_s in (0.0, FIXED_S))

    assert learnt <= MOST_LOST < fixed


@pytest.mark.parametrize("kind", KINDS)
def test_three_unequal_clusters_finish_a_campaign_near_the_lower_bound(kind: str) -> None:
    work = lengths(kind, 10_000, Random(1))

    ours = run(copied(UNEQUAL), work, Ours(UNEQUAL))

    assert ours <= 1.15 * bound(UNEQUAL, work)


def test_a_small_campaign_ends_sooner_than_with_cigris_scheduler() -> None:
    """CiGri's taps open within minutes, and its turns ignore the sizes of clusters."""
    work = lengths("exponential", 1000, Random(1))

    ours, cigri = (run(copied(UNEQUAL), work, how(UNEQUAL)) for how in (Ours, Cigri))

    assert ours < cigri


@pytest.mark.parametrize("kind", KINDS)
def test_a_small_campaign_ends_nearly_as_soon_as_without_cycle_delays(kind: str) -> None:
    """The time above the lower bound comes from the unknown lengths of the last tasks."""
    works = [lengths(kind, 1000, Random(seed)) for seed in (1, 2, 3)]

    ours = sum(run(copied(UNEQUAL), work, Ours(UNEQUAL)) for work in works)

    assert ours <= 1.08 * sum(without_delay(UNEQUAL, work) for work in works)


def test_the_documented_makespans_of_small_campaigns_equal_the_measured_makespans() -> None:
    found = [ours for ours, _ in _makespans("of one length", FEW, SMALL_SEEDS)]
    page = " ".join((ROOT / "docs" / "reference" / "figures.md").read_text().split())

    assert pytest.approx(TOLD["of one length"], abs=0.01) == mean(found)
    *first, last = (f"{one:.2f}" for one in TOLD.values())
    assert f"campaign of 1,000 tasks takes {', '.join(first)} and {last} times the bound" in page


def test_speculative_attempts_end_a_campaign_sooner() -> None:
    """One attempt in twenty is slow; the speculative attempts use no more slot time than they save."""
    makespan, time = ends(300, None)

    assert makespan.measured < 2 < (makespan.baseline or 0)
    assert time.measured < 1.05


@pytest.mark.parametrize("law", JobRatioRule)
def test_free_slots_are_filled_soon_and_a_full_cluster_is_not_flooded(law: JobRatioRule) -> None:
    """The flood rate allows one waiting task per ten slots; slow-start is slower."""
    assert filled_s(Ours(HUNDRED, law)) <= (90 if law is JobRatioRule.SLOW_START else 45)
    assert waiting_at(Ours(HUNDRED, law), is_full=True) <= 10


@pytest.mark.parametrize("law", JobRatioRule)
def test_unusable_free_slots_get_one_load_of_tasks(law: JobRatioRule) -> None:
    assert waiting_at(Ours(HUNDRED, law), is_full=False) <= 110


def test_a_simulated_cluster_runs_each_task_once_at_its_speed() -> None:
    clusters = [Cluster("beta", 2, 2.0)]

    end = run(clusters, [60.0] * 4, Ours(clusters))

    assert sorted(clusters[0].ended) == [(30.0, 30.0)] * 2 + [(60.0, 30.0)] * 2
    assert end == 60.0


@pytest.mark.long
def test_p90_holds_for_most_simulated_campaigns() -> None:
    _, p90, _, *kinds = holding(300, seed=2)

    assert 80 <= p90.measured <= 97
    assert min(one.measured for one in kinds) >= 75


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

    def _there(self, number: int) -> CampaignTaskCountsAtCluster:
        own = [one for one in self.parts if one.campaign == number]
        fresh = [one for one in own if (self.now - one.since).total_seconds() < SETTLED_S]
        old = [one for one in own if (self.now - one.since).total_seconds() > SLOT_KEPT_S]
        waiting = _count(own)
        return CampaignTaskCountsAtCluster(
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


@pytest.mark.parametrize("kind", shared_inputs.KINDS)
def test_shared_input_files_are_carried_about_once_and_delay_no_campaign(kind: str) -> None:
    """Data-blind sending carries more bytes and ends later."""
    rows = [*shared_inputs.rows(kind, seeds=(1,))]

    assert all(row.is_met and row.baseline and row.measured < row.baseline for row in rows), rows
