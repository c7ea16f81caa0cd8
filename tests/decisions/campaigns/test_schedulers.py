"""Each campaign scheduler decides from one offer how many tasks a cluster gets."""

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gridbridge.decisions.campaigns.campaign_schedulers import (
    SCHEDULERS,
    ClusterOfferToScheduler,
    TaskPerClusterScheduler,
    WorkqueueScheduler,
)
from gridbridge.model.campaigns.campaign_configuration_sections import JobRatioRule
from gridbridge.model.campaigns.campaign_cycle_plan import JobRatioInputs, JobRatioUpdate
from gridbridge.model.campaigns.jdl import CampaignType
from tests.decisions.campaigns.test_slot_distribution import at, campaign

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "campaign-schedulers.md"


def ratio(value: float, slots: float = 1.0) -> JobRatioUpdate:
    terms = JobRatioInputs(old=1.0, slots=slots, max_slots=100, free=0, submitted=0, running=0, waiting=0, allowed=0)
    return JobRatioUpdate(campaign=1, cluster="beta", law=JobRatioRule.MEASURED, terms=terms, ratio=value, submitted=0)


def place(slots: int = 1, **known: Any) -> ClusterOfferToScheduler:
    usual: dict[str, Any] = {"free_slots": 10, "may_wait": 3, "most": 100}
    one = campaign(1, {"beta": at(slots=slots)})
    return ClusterOfferToScheduler(campaign=one, cluster="beta", **usual | known)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (place(predicted=ratio(1.0)), 10),
        (place(predicted=ratio(0.5)), 5),
        (place(predicted=ratio(0.25, slots=4.0), slots=4), 2),
        (place(predicted=ratio(1.0), most=4), 4),
        (place(predicted=ratio(1.0), free_slots=0), 0),
        (place(predicted=ratio(1.0), free_slots=8, waiting=2), 8),  # two of ten have theirs
        (place(), 0),
    ],
)
def test_the_workqueue_scheduler_fills_free_slots_by_the_job_ratio(one: ClusterOfferToScheduler, expected: int) -> None:
    assert WorkqueueScheduler().to_start(one) == expected


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (place(predicted=ratio(1.0)), 3),
        (place(predicted=ratio(1.0), most=11, given=10), 1),
        (place(predicted=ratio(1.0), may_wait=-2), 0),
        (place(), 0),
    ],
)
def test_the_workqueue_scheduler_sends_further_tasks_to_wait(one: ClusterOfferToScheduler, expected: int) -> None:
    assert WorkqueueScheduler().to_wait(one) == expected


@pytest.mark.parametrize(
    ("one", "expected"), [(place(), 1), (place(is_tried=True), 0), (place(slots=11), 0), (place(free_slots=0), 0)]
)
def test_a_test_campaign_sends_one_task_in_all_to_each_cluster(one: ClusterOfferToScheduler, expected: int) -> None:
    scheduler = TaskPerClusterScheduler()

    assert (scheduler.to_start(one), scheduler.to_wait(one)) == (expected, 0)


def test_every_campaign_type_has_a_scheduler() -> None:
    assert set(SCHEDULERS) == set(CampaignType)


def test_the_example_scheduler_of_the_manual_works() -> None:
    text, _ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    polite = ModuleType("polite")
    exec(text, vars(polite))

    assert (polite.to_start(place()), polite.to_start(place(slots=2, most=1))) == (5, 1)
    assert polite.to_wait(place()) == 0
