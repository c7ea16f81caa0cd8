"""Whole campaigns run on simulated clusters, with gridbridge's decisions and with CiGri's."""

from random import Random
from statistics import mean

import pytest

from bench.simulated import Cigri, Cluster, Ours, bound, copied, run, without_delay
from bench.simulation import (
    FEW,
    HUNDRED,
    KINDS,
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
from gridbridge.model.campaigns.campaign_configuration_sections import JobRatioRule
from tests.docs.console import ROOT


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
    assert f"makespan is {', '.join(first)} and {last}" in page


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
