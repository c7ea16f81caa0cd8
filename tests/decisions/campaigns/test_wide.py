"""A task of several slots gets its turn where slots become free one by one."""

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
from tests.decisions.campaigns.campaign_builder import make_cycle_situation
from tests.decisions.campaigns.test_slot_distribution import at, campaign, sends
from tests.decisions.campaigns.test_throttle import NOON, PATIENCE, part

NARROW, WIDE = campaign(1, {"beta": at()}), campaign(2, {"beta": at(slots=4)})
FAIRLY = FairShareInputs(by=FairShareUnit.USER)


def small(free: int, *campaigns: int, flood_rate: float = 0.1, **known: object) -> CampaignCycleSituation:
    """Return beta of eight slots, where by the rate none may wait, and campaigns for it."""
    ours = tuple(one for one in (NARROW, WIDE) if one.number in campaigns)
    beta = ClusterCapacityForCampaigns(free_slots=free, max_slots=8, slots=8, flood_rate=flood_rate)
    seen = make_cycle_situation(campaigns=ours, waiting=dict.fromkeys(campaigns, 50), room={"beta": beta})
    return replace(seen, **known)  # type: ignore[arg-type]


def there(number: int, waiting: int) -> ListedCampaignTaskCounts:
    return ListedCampaignTaskCounts(campaign=number, cluster="beta", waiting=waiting, listed=waiting)


def told(seen: CampaignCycleSituation) -> dict[int, int]:
    return {one.campaign: one.tasks for one in sends(seen)}


@pytest.mark.parametrize(("free", "expected"), [(0, {2: 1}), (3, {2: 1}), (4, {2: 2}), (8, {2: 3})])
def test_one_that_has_no_room_waits_besides_those_that_have(free: int, expected: dict[int, int]) -> None:
    assert told(small(free, 2)) == expected


def test_while_it_waits_its_slots_are_given_to_nobody() -> None:
    """Else none of them would ever be free together; and no other one waits there."""
    seen = small(3, 1, 2, sharing=FAIRLY, there=(there(2, 1),))

    assert told(seen) == {}
    assert told(replace(seen, there=(there(2, 0),))) == {1: 3, 2: 1}


@pytest.mark.parametrize(("old", "others", "own"), [(0, {}, {2: 1}), (1, {1: 3}, {})], ids=["kept", "no more"])
def test_its_slots_are_kept_for_five_minutes(old: int, others: dict[int, int], own: dict[int, int]) -> None:
    """Perhaps no host has so many; nothing more of its campaign is sent there while it waits."""
    seen = small(3, 1, 2, sharing=FAIRLY, there=(replace(there(2, 1), old=old),))
    newer = replace(there(2, 2), old=old)

    empty = replace(seen.room["beta"], free_slots=8)

    assert told(seen) == others
    assert told(replace(seen, there=(newer,))) == {}
    assert told(replace(seen, waiting={2: 50}, room={"beta": empty})) == own


def test_those_of_one_slot_do_not_hold_its_place() -> None:
    assert told(small(0, 2, there=(there(1, 3),))) == {2: 1}
    assert told(small(0, 1, 2, flood_rate=0.5, sharing=FAIRLY)) == {1: 4, 2: 1}


def test_one_of_all_campaigns_waits_there() -> None:
    two = (WIDE, replace(WIDE, number=3))
    seen = small(0, 2, 3, campaigns=two, waiting={2: 50, 3: 50})

    assert told(seen) == {2: 1}
    assert told(replace(seen, sharing=FAIRLY)) == {2: 1}


def test_an_older_campaign_does_not_wait_for_it() -> None:
    """First come, first served: unless the older one is content with what it has there."""
    content = campaign(1, {"beta": at(max_jobs=3)})
    seen = small(3, 1, 2)

    assert told(seen) == {1: 3}
    assert told(replace(seen, waiting={1: 3, 2: 50})) == {1: 3, 2: 1}
    assert told(replace(seen, campaigns=(content, WIDE))) == {1: 3, 2: 1}


@pytest.mark.parametrize(
    "seen",
    [
        small(3, 2, flood_rate=0),
        small(3, 2, campaigns=(campaign(2, {"beta": at(slots=9)}),)),
        small(3, 2, room={"beta": replace(small(3).room["beta"], is_stressed=True)}),
        small(3, 1, there=(there(1, 3),)),
    ],
    ids=["nothing may wait", "wider than the cluster", "a stressed cluster", "of one slot"],
)
def test_others_do_not_wait(seen: CampaignCycleSituation) -> None:
    assert told(seen) == {}


def test_that_it_waits_is_no_excess() -> None:
    ratios = plan_campaign_cycle(small(4, 2)).predicted[0]
    before = replace(small(0, 2), there=(there(2, 1),)).room["beta"]
    seen = small(0, 2, there=(there(2, 1),), room={"beta": before})

    (found,) = predict_job_ratios(seen).values()
    assert (found.terms.waiting, found.terms.allowed, found.ratio) == (1, 1, ratios.ratio)


def test_nikita_leaves_the_oldest_of_them_and_wipes_what_else_waits() -> None:
    wide, newer = part(300, slots=4, array=1), part(200, array=2)
    seen = NikitaSituation(now=NOON, parts=(wide, newer), allowed={"beta": 0}, patience=PATIENCE)
    lets = replace(seen, to_wide=frozenset({"beta"}))
    late = replace(lets, parts=(replace(wide, since=part(901).since),))
    narrow = replace(lets, parts=(newer,))

    assert [(one.array, one.tasks) for one in wiping(seen).wipes] == [(2, 5), (1, 5)]
    assert [(one.array, one.tasks) for one in wiping(lets).wipes] == [(2, 5), (1, 4)]
    assert [(one.array, one.tasks) for one in wiping(narrow).wipes] == [(2, 5)]
    assert [(one.wiped_for, one.tasks) for one in wiping(late).wipes] == [(NikitaDeletionReason.WAITED, 5)]
