"""Free slots are given to campaigns in order, none twice; a multi-slot task gets slots that become free one by one."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import describe_campaign_cycle_plan, plan_campaign_cycle
from gridbridge.decisions.campaigns.campaign_order_and_fairshare import COMMITTED_USE_S
from gridbridge.decisions.campaigns.file_server_task_limits import RemainingTasksByLimit
from gridbridge.decisions.campaigns.nikita_deletion_planning import plan_nikita_deletions as wiping
from gridbridge.decisions.campaigns.remaining_cluster_capacity import FreeClusterSlots
from gridbridge.decisions.campaigns.slot_distribution_to_campaigns import distribute_slots_to_campaigns
from gridbridge.decisions.campaigns.tasks_per_free_slot_predictor import predict_job_ratios
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    Campaign,
    CampaignArray,
    CampaignState,
    TaskAttempt,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.campaign_configuration_sections import FairShareUnit
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    CampaignTaskCountsAtCluster,
    ClusterCapacityForCampaigns,
    FairShareInputs,
)
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.task_deletions_and_preemptions import NikitaDeletionReason, NikitaSituation
from gridbridge.model.jobs_and_accounting import ClusterArrayLimits
from tests.builders.campaigns import released_array
from tests.decisions.campaigns.campaign_builder import NOON, make_attempt, make_campaign, make_cycle_situation
from tests.decisions.campaigns.test_throttle import PATIENCE, part
from tests.steps import steps


def campaign(
    number: int,
    clusters: Mapping[str, JdlSettingsAtCluster],
    type_: CampaignType = CampaignType.DEFAULT,
    state: CampaignState = CampaignState.IN_TREATMENT,
) -> Campaign:
    return make_campaign(number=number, state=state, jdl=Jdl(name="sweep", type=type_, clusters=clusters))


def at(slots: int = 1, max_jobs: int = 0) -> JdlSettingsAtCluster:
    return JdlSettingsAtCluster(exec_file="run", slots=slots, max_jobs=max_jobs)


def sends(seen: CampaignCycleSituation) -> list[tuple[int, str, int]]:
    planned = distribute_slots_to_campaigns(seen, predict_job_ratios(seen), RemainingTasksByLimit(seen))
    return [(send.campaign, send.cluster, send.tasks) for send in planned]


def sent_by_campaign(seen: CampaignCycleSituation) -> dict[int, int]:
    return {number: tasks for number, _, tasks in sends(seen)}


def sent_of_bob_and_alice(**known: Any) -> dict[int, int]:
    bobs, alices = replace(campaign(1, {"beta": at()}), owner="bob"), campaign(2, {"beta": at()})
    return sent_by_campaign(make_cycle_situation(campaigns=(bobs, alices), waiting={1: 100, 2: 100}, **known))


def listed(tasks: int, waiting: int = 0, campaign: int = 1) -> tuple[CampaignTaskCountsAtCluster, ...]:
    return (CampaignTaskCountsAtCluster(campaign=campaign, cluster="beta", waiting=waiting, listed=tasks),)


def room(**free: int) -> dict[str, ClusterCapacityForCampaigns]:
    return {name: ClusterCapacityForCampaigns(free_slots=slots) for name, slots in free.items()}


def test_the_oldest_campaign_is_served_first() -> None:
    first, second = campaign(1, {"beta": at()}), campaign(2, {"beta": at(slots=2)})

    seen = make_cycle_situation(campaigns=(first, second), waiting={1: 3, 2: 9}, room=room(beta=10))

    assert sends(seen) == [(1, "beta", 3), (2, "beta", 3)]


STRESSED = ClusterCapacityForCampaigns(free_slots=9, max_slots=100, flood_rate=0.5, is_stressed=True)


@pytest.mark.parametrize(
    ("beta", "tasks_at_beta", "expected"),
    [
        ({"beta": STRESSED}, (0, 0), []),
        ({}, (0, 0), []),
        (room(beta=4), (4, 4), []),
        (room(beta=10), (3, 0), [(1, "beta", 2)]),
        (room(beta=9), (5, 0), []),
        (room(beta=9), (9, 0), []),
    ],
    ids=[
        "stressed",
        "no answer",
        "slots kept for waiting tasks",
        "max_jobs nearly reached",
        "max_jobs",
        "above max_jobs",
    ],
)
def test_a_cluster_gets_no_task_without_answer_under_stress_or_at_max_jobs(
    beta: dict[str, ClusterCapacityForCampaigns], tasks_at_beta: tuple[int, int], expected: list[tuple[int, str, int]]
) -> None:
    """CiGri v3 failed if max_jobs allowed no more tasks, or if no limit was set."""
    one = campaign(1, {"beta": at(max_jobs=5), "gamma": at()})
    seen = make_cycle_situation(campaigns=(one,), waiting={1: 50}, there=listed(*tasks_at_beta))

    assert sends(replace(seen, room=beta)) == expected
    assert (1, "gamma", 2) in sends(replace(seen, room=beta | room(gamma=2)))


def test_a_test_campaign_goes_first_and_sends_one_task_to_each_cluster() -> None:
    usual = campaign(1, {"beta": at()})
    test = campaign(2, {"beta": at(), "gamma": at()}, CampaignType.TEST)

    seen = make_cycle_situation(
        campaigns=(usual, test), waiting={1: 50, 2: 2}, room=room(beta=3, gamma=3), tried={2: frozenset({"gamma"})}
    )

    assert sends(seen) == [(2, "beta", 1), (1, "beta", 2)]


def test_the_cluster_with_the_shortest_mean_run_time_comes_first() -> None:
    """A cluster without a known run time comes before all others, to measure its run time."""
    one = campaign(1, {"beta": at(), "delta": at(), "gamma": at()})
    seen = make_cycle_situation(
        campaigns=(one,),
        waiting={1: 8},
        room=room(beta=9, delta=2, gamma=5),
        sharing=FairShareInputs(mean_s={1: {"beta": 60.0, "gamma": 20.0}}),
    )

    assert sends(seen) == [(1, "delta", 2), (1, "gamma", 5), (1, "beta", 1)]


def test_campaigns_of_owners_with_an_affinity_come_before_older_campaigns() -> None:
    older, newer = (campaign(number, {"beta": at(), "gamma": at()}) for number in (1, 2))
    seen = make_cycle_situation(
        campaigns=(replace(older, owner="bob"), newer),
        waiting={1: 50, 2: 4},
        room=room(beta=6, gamma=3) | {"beta": ClusterCapacityForCampaigns(free_slots=6, affinity="alice")},
    )

    assert sends(seen) == [(2, "beta", 4), (1, "gamma", 3), (1, "beta", 2)]


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        (FairShareInputs(), {1: 8}),
        (FairShareInputs(by=FairShareUnit.USER), {1: 4, 2: 4}),
        (FairShareInputs(by=FairShareUnit.USER, used_s={"bob": 2 * COMMITTED_USE_S}), {1: 3, 2: 5}),
        (FairShareInputs(by=FairShareUnit.USER, used_s={"bob": 9 * COMMITTED_USE_S}), {2: 8}),
        (FairShareInputs(by=FairShareUnit.USER, used_s={"bob": 9 * COMMITTED_USE_S}, first_tasks=3), {1: 3, 2: 5}),
        (FairShareInputs(by=FairShareUnit.PROJECT), {1: 8}),
        (FairShareInputs(by=FairShareUnit.GROUP, groups={"alice": ("a",), "bob": ("b",)}), {1: 4, 2: 4}),
    ],
)
def test_free_slots_are_shared_by_past_usage(sharing: FairShareInputs, expected: dict[int, int]) -> None:
    assert sent_of_bob_and_alice(room=room(beta=8), sharing=sharing) == expected


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [(0, {1: 5, 20: 59}), (3, {1: 2, 20: 62}), (5, {20: 64})],
    ids=["bob has no listed task", "three listed tasks", "five listed tasks"],
)
def test_splitting_work_into_many_campaigns_gains_no_slots(tasks: int, expected: dict[int, int]) -> None:
    """First tasks are counted by owner and not by campaign."""
    bobs = tuple(replace(campaign(number, {"beta": at()}), owner="bob", tasks=5) for number in range(1, 20))
    seen = make_cycle_situation(
        campaigns=(*bobs, campaign(20, {"beta": at()})),
        waiting={one.number: 5 for one in bobs} | {20: 100},
        room=room(beta=64),
        there=listed(tasks, campaign=19),
        sharing=FairShareInputs(by=FairShareUnit.USER, first_tasks=5, used_s={"bob": 1e9}),
    )

    assert sent_by_campaign(seen) == expected


@pytest.mark.parametrize(
    ("fastest", "expected"), [("gamma", {(1, "gamma"): 2, (2, "gamma"): 2}), ("beta", {(1, "beta"): 2, (2, "beta"): 2})]
)
def test_with_fair_shares_the_fastest_cluster_comes_first_too(
    fastest: str, expected: dict[tuple[int, str], int]
) -> None:
    bobs, alices = (campaign(number, {"beta": at(), "gamma": at()}) for number in (1, 2))
    mean_s = {"beta": 60.0, "gamma": 60.0} | {fastest: 20.0}
    seen = make_cycle_situation(
        campaigns=(replace(bobs, owner="bob"), alices),
        waiting={1: 2, 2: 2},
        room=room(beta=9, gamma=5),
        sharing=FairShareInputs(by=FairShareUnit.USER, mean_s={1: mean_s, 2: mean_s}),
    )

    assert {(number, cluster): tasks for number, cluster, tasks in sends(seen)} == expected


def test_slots_of_running_tasks_count_as_usage() -> None:
    sharing = FairShareInputs(by=FairShareUnit.USER)

    assert sent_of_bob_and_alice(room=room(beta=4), there=listed(2), sharing=sharing) == {1: 1, 2: 3}


def test_a_campaign_without_waiting_or_running_tasks_has_ended() -> None:
    one = campaign(1, {"beta": at()})

    decided = plan_campaign_cycle(make_cycle_situation(campaigns=(one,)))

    assert decided.finished == (1,)
    assert describe_campaign_cycle_plan(decided) == ["campaign 1 has ended"]


@pytest.mark.parametrize(
    ("outputs_to", "unbrought", "outcome", "finished"),
    [
        ("/home", {1}, None, ()),
        ("/home", set(), None, (1,)),
        ("/home", set(), TaskAttemptOutcome.SUCCESS, ()),
        ("/home", set(), TaskAttemptOutcome.PROGRAM_ERROR, (1,)),
        ("", set(), TaskAttemptOutcome.SUCCESS, (1,)),
    ],
    ids=["outputs on their way", "all at home", "outputs not begun", "a failed task", "nothing to bring"],
)
def test_a_campaign_ends_once_its_outputs_are_home(
    outputs_to: str, unbrought: set[int], outcome: TaskAttemptOutcome | None, finished: tuple[int, ...]
) -> None:
    one = campaign(1, {"beta": at()})
    one = replace(one, jdl=replace(one.jdl, outputs=("x",), outputs_to=outputs_to))
    attempt = TaskAttempt(
        campaign=1, task=0, attempt=9, array=1, place=1, outcome=outcome or TaskAttemptOutcome.SUCCESS
    )
    rows = make_cycle_situation(campaigns=(one,), ended=(attempt,) if outcome else (), unbrought=frozenset(unbrought))

    assert finished == plan_campaign_cycle(rows).finished


def test_a_plan_grows_linearly_with_campaigns_and_their_ended_tasks() -> None:
    took = []
    for count in (30, 300):
        jdl = replace(campaign(1, {"beta": at()}).jdl, outputs=("x",), outputs_to="/home")
        campaigns = tuple(replace(campaign(number, {"beta": at()}), jdl=jdl) for number in range(1, count + 1))
        ended = tuple(make_attempt(place, campaign=one.number) for one in campaigns for place in range(1, 6))
        ended = tuple(replace(attempt, outcome=TaskAttemptOutcome.SUCCESS) for attempt in ended)
        took.append(steps(partial(plan_campaign_cycle, make_cycle_situation(campaigns=campaigns, ended=ended))))

    assert took[1] <= 11 * took[0]


@pytest.mark.parametrize(
    ("waiting", "tried", "finished"),
    [({1: 1}, {"beta"}, ()), ({1: 1}, {"beta", "gamma"}, (1,)), ({}, {"beta"}, (1,))],
    ids=["gamma has no task yet", "each cluster had a task", "no task is left for gamma"],
)
def test_a_test_campaign_ends_when_each_cluster_got_a_task(
    waiting: dict[int, int], tried: set[str], finished: tuple[int, ...]
) -> None:
    one = campaign(1, {"beta": at(), "gamma": at()}, CampaignType.TEST)
    rows = make_cycle_situation(campaigns=(one,), waiting=waiting, max_tasks=9, room=room(beta=1))

    assert plan_campaign_cycle(replace(rows, tried={1: frozenset(tried)})).finished == finished


def limited(**limits: int) -> dict[str, ClusterCapacityForCampaigns]:
    return {"beta": ClusterCapacityForCampaigns(free_slots=90, limits=ClusterArrayLimits(**limits))}


def test_arrays_respect_the_clusters_limit_of_array_tasks() -> None:
    one = campaign(1, {"beta": at()})
    rows = make_cycle_situation(campaigns=(one,), waiting={1: 90}, max_tasks=50, room=limited(tasks=20))

    small = plan_campaign_cycle(replace(rows, arrays_at_once=3)).sends
    large = plan_campaign_cycle(replace(rows, room=limited(tasks=70))).sends

    assert [(send.tasks, send.array_tasks) for send in (*small, *large)] == [(60, 20), (50, 70)]


@pytest.mark.parametrize("by", [FairShareUnit.NONE, FairShareUnit.USER])
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, {1: 30, 2: 30, 3: 30}),
        ({"of_person": 3}, {1: 10, 3: 30}),
        ({"of_person": 4}, {1: 20, 3: 30}),
        ({"of_all": 4}, {1: 20}),
        ({"of_person": 2}, {3: 20}),
        ({"of_all": 2}, {}),
    ],
    ids=["no limit", "one more array", "two more arrays", "limit of all", "no more arrays", "no more arrays of all"],
)
def test_no_owner_sends_more_arrays_than_the_cluster_accepts(
    by: FairShareUnit, limits: dict[str, int], expected: dict[int, int]
) -> None:
    first, second, third = (campaign(number, {"beta": at()}) for number in (1, 2, 3))
    rows = make_cycle_situation(
        campaigns=(first, second, replace(third, uid=1001, owner="bob")),
        waiting={1: 30, 2: 30, 3: 30},
        arrays=(released_array(size=9), released_array(size=9, campaign=2)),
        max_tasks=10,
        arrays_at_once=9,
        room=limited(**limits) | {"gamma": ClusterCapacityForCampaigns(free_slots=9)},
        sharing=FairShareInputs(by=by),
    )

    assert sent_by_campaign(rows) == expected


def test_an_ended_array_does_not_count_towards_the_array_limit() -> None:
    one = campaign(1, {"beta": at()})
    rows = make_cycle_situation(campaigns=(one,), waiting={1: 9}, arrays=(released_array(size=9),), max_tasks=9)
    full = replace(rows, room=limited(of_person=1))

    assert sends(full) == []
    assert sends(replace(full, over=full.arrays)) == [(1, "beta", 9)]


def test_a_cycle_sends_several_arrays_of_a_campaign_if_slots_are_free() -> None:
    one = campaign(1, {"beta": at()})
    seen = make_cycle_situation(campaigns=(one,), waiting={1: 90}, max_tasks=10, room=room(beta=70))

    for arrays, tasks in ((1, 10), (5, 50), (9, 70)):
        assert sends(replace(seen, arrays_at_once=arrays)) == [(1, "beta", tasks)]


NARROW, WIDE = campaign(1, {"beta": at()}), campaign(2, {"beta": at(slots=4)})
FAIRLY = FairShareInputs(by=FairShareUnit.USER)


def small(free: int, *campaigns: int, flood_rate: float = 0.1, **known: object) -> CampaignCycleSituation:
    """Return campaigns for beta, which has eight slots; the default flood rate lets no task wait."""
    ours = tuple(one for one in (NARROW, WIDE) if one.number in campaigns)
    beta = ClusterCapacityForCampaigns(free_slots=free, max_slots=8, slots=8, flood_rate=flood_rate)
    usual = {"campaigns": ours, "waiting": dict.fromkeys(campaigns, 50), "room": {"beta": beta}}
    return make_cycle_situation(**usual | known)


def there(number: int, waiting: int) -> CampaignTaskCountsAtCluster:
    return CampaignTaskCountsAtCluster(campaign=number, cluster="beta", waiting=waiting, listed=waiting)


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


ORDINARY = JdlSettingsAtCluster(exec_file="run", is_besteffort=False)
YIELDING = JdlSettingsAtCluster(exec_file="run", slots=2)


@pytest.mark.parametrize(
    ("room", "ordinary", "besteffort"),
    [
        (ClusterCapacityForCampaigns(free_slots=5, besteffort_slots=3), 5, 3),
        (ClusterCapacityForCampaigns(free_slots=5, besteffort_slots=0), 5, 0),
        (ClusterCapacityForCampaigns(free_slots=5), 5, 5),
    ],
    ids=["both", "all suspended", "no best-effort queues"],
)
def test_ordinary_and_best_effort_tasks_have_separate_free_slots(
    room: ClusterCapacityForCampaigns, ordinary: int, besteffort: int
) -> None:
    free = FreeClusterSlots({"beta": room})

    assert (free.free_slots_for_request("beta", ORDINARY), free.free_slots_for_request("beta", YIELDING)) == (
        ordinary,
        besteffort,
    )


def test_each_sent_task_takes_an_ordinary_and_a_best_effort_slot() -> None:
    free = FreeClusterSlots({"beta": ClusterCapacityForCampaigns(free_slots=5, besteffort_slots=4)})

    free.take_slots("beta", YIELDING, 1)
    free.take_slots("beta", ORDINARY, 1)

    assert (free.free_slots_for_request("beta", ORDINARY), free.free_slots_for_request("beta", YIELDING)) == (2, 1)


def test_a_cluster_that_does_not_answer_has_no_free_slots() -> None:
    free = FreeClusterSlots({})
    free.take_slots("beta", ORDINARY, 1)

    assert free.free_slots_for_request("gamma", ORDINARY) == 0
    assert free.free_slots_for_request("beta", YIELDING) < 0


def counts(**numbers: int) -> CampaignTaskCountsAtCluster:
    return CampaignTaskCountsAtCluster(campaign=1, cluster="beta", waiting=0, **numbers)


def begun_array(size: int) -> CampaignArray:
    return replace(released_array(size=size), state=ArraySubmissionState.INTENDED, is_ordinary=True)


SEMI = JdlSettingsAtCluster(exec_file="run", slots=2, is_besteffort=False, is_semi_besteffort=True)


@pytest.mark.parametrize(
    ("request_", "there", "arrays", "sent", "ordinary"),
    [
        (SEMI, (), (), 5, 3),
        (SEMI, (counts(listed=3, ordinary=2),), (), 5, 1),
        (SEMI, (counts(listed=4, ordinary=4),), (), 5, 0),
        (SEMI, (), (begun_array(size=2),), 3, 1),
        (replace(SEMI, is_besteffort=True), (), (), 5, 0),
        (replace(SEMI, is_semi_besteffort=False), (), (), 5, 0),
    ],
    ids=["none runs", "two ordinary", "the share is used", "an array on its way", "best-effort", "normal"],
)
def test_semi_best_effort_tasks_are_ordinary_jobs_up_to_a_share_of_the_cluster(
    request_: JdlSettingsAtCluster,
    there: tuple[CampaignTaskCountsAtCluster, ...],
    arrays: tuple[CampaignArray, ...],
    sent: int,
    ordinary: int,
) -> None:
    """Seven of the cluster's slots may be used by ordinary jobs, and a task has two slots."""
    room = ClusterCapacityForCampaigns(free_slots=10, max_slots=20, semi_slots=7)
    seen = make_cycle_situation(
        campaigns=(campaign(1, {"beta": request_}),), waiting={1: 9}, room={"beta": room}, there=there, arrays=arrays
    )

    (send,) = plan_campaign_cycle(seen).sends

    assert (send.tasks, send.ordinary) == (sent, ordinary)


def test_a_semi_best_effort_task_starts_as_ordinary_job_where_no_best_effort_slot_is_free() -> None:
    room = ClusterCapacityForCampaigns(free_slots=10, besteffort_slots=2, max_slots=20, semi_slots=7)
    seen = make_cycle_situation(campaigns=(campaign(1, {"beta": SEMI}),), waiting={1: 9}, room={"beta": room})

    (send,) = plan_campaign_cycle(seen).sends

    assert (send.tasks, send.ordinary) == (3, 3)
