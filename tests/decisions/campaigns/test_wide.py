"""A multi-slot task starts although slots become free one by one."""

from dataclasses import replace

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.decisions.campaigns.nikita_deletion_planning import plan_nikita_deletions as wiping
from gridbridge.decisions.campaigns.tasks_per_free_slot_predictor import predict_job_ratios
from gridbridge.model.campaigns.campaign_configuration_sections import FairShareUnit
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    ClusterCapacityForCampaigns,
    FairShareInputs,
    ListedCampaignTaskCounts,
)
from gridbridge.model.campaigns.task_deletions_and_preemptions import NikitaDeletionReason, NikitaSituation
from tests.decisions.campaigns.campaign_builder import NOON, make_cycle_situation
from tests.decisions.campaigns.test_slot_distribution import at, campaign, sent_by_campaign
from tests.decisions.campaigns.test_throttle import PATIENCE, part

NARROW, WIDE = campaign(1, {"beta": at()}), campaign(2, {"beta": at(slots=4)})
FAIRLY = FairShareInputs(by=FairShareUnit.USER)


def small(free: int, *campaigns: int, flood_rate: float = 0.1, **known: object) -> CampaignCycleSituation:
    """Return campaigns for beta, which has eight slots; the default flood rate lets no task wait."""
    ours = tuple(one for one in (NARROW, WIDE) if one.number in campaigns)
    beta = ClusterCapacityForCampaigns(free_slots=free, max_slots=8, slots=8, flood_rate=flood_rate)
    usual = {"campaigns": ours, "waiting": dict.fromkeys(campaigns, 50), "room": {"beta": beta}}
    return make_cycle_situation(**usual | known)


def there(number: int, waiting: int) -> ListedCampaignTaskCounts:
    return ListedCampaignTaskCounts(campaign=number, cluster="beta", waiting=waiting, listed=waiting)


def test_free_slots_are_kept_for_a_waiting_multislot_task() -> None:
    """Otherwise the slots that the task needs would never be free at the same time."""
    seen = small(3, 1, 2, sharing=FAIRLY, there=(there(2, 1),))

    assert sent_by_campaign(seen) == {}
    assert sent_by_campaign(replace(seen, there=(there(2, 0),))) == {1: 3, 2: 1}


@pytest.mark.parametrize(
    ("old", "others", "own"), [(0, {}, {2: 1}), (1, {1: 3}, {})], ids=["slots are kept", "five minutes have passed"]
)
def test_free_slots_are_kept_for_a_multislot_task_for_five_minutes(
    old: int, others: dict[int, int], own: dict[int, int]
) -> None:
    """Perhaps no host has enough slots for the task."""
    seen = small(3, 1, 2, sharing=FAIRLY, there=(replace(there(2, 1), old=old),))
    newer = replace(there(2, 2), old=old)

    empty = replace(seen.room["beta"], free_slots=8)

    assert sent_by_campaign(seen) == others
    assert sent_by_campaign(replace(seen, there=(newer,))) == {}
    assert sent_by_campaign(replace(seen, waiting={2: 50}, room={"beta": empty})) == own


def test_waiting_one_slot_tasks_do_not_prevent_a_waiting_multislot_task() -> None:
    assert sent_by_campaign(small(0, 2, there=(there(1, 3),))) == {2: 1}
    assert sent_by_campaign(small(0, 1, 2, flood_rate=0.5, sharing=FAIRLY)) == {1: 4, 2: 1}


def test_only_one_multislot_task_of_all_campaigns_waits_at_a_cluster() -> None:
    two = (WIDE, replace(WIDE, number=3))
    seen = small(0, 2, 3, campaigns=two, waiting={2: 50, 3: 50})

    assert sent_by_campaign(seen) == {2: 1}
    assert sent_by_campaign(replace(seen, sharing=FAIRLY)) == {2: 1}


def test_a_multislot_task_does_not_delay_an_older_campaign() -> None:
    content = campaign(1, {"beta": at(max_jobs=3)})
    seen = small(3, 1, 2)

    assert sent_by_campaign(seen) == {1: 3}
    assert sent_by_campaign(replace(seen, waiting={1: 3, 2: 50})) == {1: 3, 2: 1}
    assert sent_by_campaign(replace(seen, campaigns=(content, WIDE))) == {1: 3, 2: 1}


@pytest.mark.parametrize(
    "seen",
    [
        small(3, 2, flood_rate=0),
        small(3, 2, campaigns=(campaign(2, {"beta": at(slots=9)}),)),
        small(3, 2, room={"beta": replace(small(3).room["beta"], is_stressed=True)}),
        small(3, 1, there=(there(1, 3),)),
    ],
    ids=["flood rate 0", "wider than the cluster", "a stressed cluster", "one-slot tasks"],
)
def test_no_task_waits_at_a_closed_or_small_cluster_or_with_flood_rate_0(seen: CampaignCycleSituation) -> None:
    assert sent_by_campaign(seen) == {}


def test_a_waiting_multislot_task_does_not_lower_the_job_ratio() -> None:
    ratios = plan_campaign_cycle(small(4, 2)).predicted[0]
    before = replace(small(0, 2), there=(there(2, 1),)).room["beta"]
    seen = small(0, 2, there=(there(2, 1),), room={"beta": before})

    (found,) = predict_job_ratios(seen).values()
    assert (found.terms.waiting, found.terms.allowed, found.ratio) == (1, 1, ratios.ratio)


def test_nikita_spares_the_oldest_waiting_multislot_task() -> None:
    wide, newer = part(300, slots=4, array=1), part(200, array=2)
    seen = NikitaSituation(now=NOON, parts=(wide, newer), allowed={"beta": 0}, patience=PATIENCE)
    lets = replace(seen, to_wide=frozenset({"beta"}))
    late = replace(lets, parts=(replace(wide, since=part(901).since),))
    narrow = replace(lets, parts=(newer,))

    assert [(one.array, one.task_count) for one in wiping(seen).wipes] == [(2, 5), (1, 5)]
    assert [(one.array, one.task_count) for one in wiping(lets).wipes] == [(2, 5), (1, 4)]
    assert [(one.array, one.task_count) for one in wiping(narrow).wipes] == [(2, 5)]
    assert [(one.wiped_for, one.task_count) for one in wiping(late).wipes] == [(NikitaDeletionReason.WAITED, 5)]
