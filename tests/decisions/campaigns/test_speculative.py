"""Long-running tasks get speculative attempts; one attempt decides the outcome, and the others are ended."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import describe_campaign_cycle_plan, plan_campaign_cycle
from gridbridge.decisions.campaigns.speculative_attempt_planning import (
    CampaignNearEnd,
    choose_speculative_attempts,
    is_campaign_near_end,
    run_time_percentile_95_s,
)
from gridbridge.decisions.campaigns.task_retries_and_deciding_attempts import (
    assign_retry_numbers_above_attempts,
    group_attempts_by_task,
    mark_ended_attempts_as_copies,
)
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    CampaignArray,
    CampaignState,
    TaskAttempt,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.campaign_configuration_sections import LateSpeculationSection
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    CampaignTaskCountsAtCluster,
    ClusterCapacityForCampaigns,
    FairShareInputs,
    LastPrologueOrEpilogueAttempt,
    PlannedCampaignTaskSend,
    TaskRetry,
)
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.campaigns.file_server_load import FileServerRule, FileServerSituation
from gridbridge.model.campaigns.jdl import CampaignType, Jdl
from gridbridge.model.campaigns.speculative_attempts import (
    CompetingAttempt,
    RunningTaskAttempt,
    SpeculativeAttemptsAtCluster,
    SupersededAttempts,
    TasksRunningNearCampaignEnd,
)
from gridbridge.model.campaigns.task_index_and_attempt_texts import PROLOGUE
from gridbridge.model.jobs_and_accounting import ClusterArrayLimits
from tests.builders.campaigns import NOON, released_array
from tests.decisions.campaigns.campaign_builder import make_attempt, make_cycle_situation
from tests.decisions.campaigns.test_event_rules import SWEEP, event

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "campaign-schedulers.md"


def live(task: int, elapsed_s: float, cluster: str = "beta", attempt: int = 1) -> RunningTaskAttempt:
    return RunningTaskAttempt(task=task, attempt=attempt, cluster=cluster, elapsed_s=elapsed_s)


def end(*tasks: RunningTaskAttempt, **known: Any) -> CampaignNearEnd:
    """Return a campaign with two unfinished tasks; its ended tasks ran for 1 to 100 s."""
    usual: dict[str, Any] = {
        "campaign": 1,
        "left": 2,
        "unsent": 0,
        "sent_s": 500.0,
        "free": {"gamma": 2, "delta": 9, "beta": 4},
        "durations_s": tuple(range(1, 101)),
        "made": {},
        "limits": LateSpeculationSection(),
    }
    return CampaignNearEnd(live=tasks, **usual | known)


def chosen(one: CampaignNearEnd) -> dict[str, tuple[int, ...]]:
    return {each.cluster: each.tasks for each in choose_speculative_attempts(one)}


OVERRAN = {7: ("gamma",), 8: ("delta",)}
THREE_LONG, BESIDE = (live(7, 96), live(8, 300), live(9, 200)), (live(7, 300), live(7, 96, "gamma", 2))


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(end(live(7, 96)), {"gamma": (7,)}, id="longer than 95 of 100 tasks"),
        pytest.param(end(live(7, 95)), {}, id="as long as the 95th task"),
        pytest.param(end(live(7, 0)), {}, id="no run time yet"),
        pytest.param(end(live(7, 96), live(8, 300)), {"gamma": (8, 7)}, id="longest run time first"),
        pytest.param(end(*THREE_LONG, left=3), {"gamma": (8, 9), "delta": (7,)}, id="full clusters are skipped"),
        pytest.param(end(live(7, 300, "gamma")), {"delta": (7,)}, id="not at the same cluster"),
        pytest.param(end(live(7, 300), free={"beta": 4}), {}, id="no other cluster has room"),
        pytest.param(end(live(7, 300), failed_at=OVERRAN), {"delta": (7,)}, id="not where the task overran"),
        pytest.param(end(*BESIDE, made={7: 1}), {"delta": (7,)}, id="second copy after a long first copy"),
        pytest.param(end(live(7, 300), live(7, 20, "gamma", 2), made={7: 1}), {}, id="no second beside a young copy"),
        pytest.param(end(live(7, 300, "gamma", 3), made={7: 2}), {}, id="two copies are enough"),
        pytest.param(end(live(7, 300), limits=LateSpeculationSection(copies=0)), {}, id="copies disabled"),
        pytest.param(end(live(7, 300), limits=LateSpeculationSection(least_s=400)), {}, id="below the least run time"),
        pytest.param(end(live(7, 300), durations_s=(1, 2)), {}, id="few ended tasks"),
        pytest.param(end(live(7, 300), left=15), {}, id="as many unfinished tasks as slots"),
        pytest.param(end(live(7, 300), left=15, sent_s=3600), {"gamma": (7,)}, id="all tasks sent long ago"),
        pytest.param(end(live(7, 300), left=15, sent_s=3600, unsent=1), {}, id="one task is unsent"),
    ],
)
def test_long_running_tasks_get_speculative_attempts_at_the_best_free_clusters(
    one: CampaignNearEnd, expected: dict[str, tuple[int, ...]]
) -> None:
    assert chosen(one) == expected


@pytest.mark.parametrize(
    ("durations", "expected"), [((), None), ((5, 5), None), ((1, 9, 2), 9), (range(1, 21), 19), (range(1, 101), 95)]
)
def test_the_95th_percentile_of_run_times_needs_three_ended_tasks(
    durations: tuple[float, ...], expected: float | None
) -> None:
    assert run_time_percentile_95_s(durations) == expected


@pytest.mark.parametrize(
    ("left", "unsent", "free", "sent_s", "expected"),
    [
        (3, 0, 4, 0.0, True),
        (4, 0, 4, 0.0, False),
        (3, 3, 4, 0.0, True),
        (9, 0, 0, 3600.0, True),
        (9, 0, 0, 3599.0, False),
        (9, 1, 0, 9999.0, False),
    ],
)
def test_a_campaign_is_near_its_end_with_few_unfinished_tasks_or_an_old_last_send(
    left: int, unsent: int, free: int, sent_s: float, expected: bool
) -> None:
    assert is_campaign_near_end(left, unsent, free, sent_s, LateSpeculationSection()) is expected


@pytest.mark.parametrize(
    ("type_", "is_idempotent", "expected"),
    [(CampaignType.DEFAULT, True, True), (CampaignType.DEFAULT, False, False), (CampaignType.TEST, True, False)],
)
def test_only_idempotent_default_campaigns_get_speculative_attempts(
    type_: CampaignType, is_idempotent: bool, expected: bool
) -> None:
    """Two attempts that write the same output collide; a test campaign sends one task to each cluster."""
    assert Jdl(name="n", type=type_, is_idempotent=is_idempotent).allows_speculative_attempts is expected


def test_the_example_rule_of_the_manual_works() -> None:
    texts = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    module: dict[str, Any] = {}
    exec(texts[1], module)

    assert module["choose_speculative_attempts"](end(live(7, 4000))) == (
        SpeculativeAttemptsAtCluster(campaign=1, cluster="gamma", tasks=(7,), beyond_s=3600),
    )


S, E, P = TaskAttemptOutcome.SUCCESS, TaskAttemptOutcome.PROGRAM_ERROR, TaskAttemptOutcome.PREEMPTED
LIVES, COPY, LOST = (TaskAttemptOutcome.PENDING, TaskAttemptOutcome.COPY, TaskAttemptOutcome.SITE_FAULT)
TASK = 5
AT = {1: "beta", 2: "gamma", 3: "beta"}  # each attempt is in the array of its number


def rival(
    attempt: int, outcome: TaskAttemptOutcome = LIVES, task: int = TASK, place: int = 1, array: int = 0
) -> CompetingAttempt:
    """Return a competing attempt, by default in the array of its number."""
    known = {"campaign": 1, "task": task, "attempt": attempt, "place": place, "outcome": outcome}
    return CompetingAttempt(**known, array=array or attempt, cluster=AT[array or attempt], is_copy=attempt > 1)


def ended(attempt: int, outcome: TaskAttemptOutcome, task: int = TASK) -> TaskAttempt:
    return make_attempt(task=task, attempt=attempt, array=attempt, outcome=outcome)


def array(number: int, state: ArraySubmissionState = ArraySubmissionState.RELEASED) -> CampaignArray:
    beyond_s = None if number == 1 else 95
    return released_array(number=number, cluster=AT[number], state=state, size=1, copies_beyond_s=beyond_s)


@pytest.mark.parametrize(
    ("rivals", "now", "expected"),
    [
        pytest.param((LIVES, LIVES), {2: S}, {2: S}, id="the copy succeeds first"),
        pytest.param((LIVES, LIVES), {1: S}, {1: S}, id="the original succeeds first"),
        pytest.param((LIVES, LIVES), {1: S, 2: S}, {1: S, 2: COPY}, id="both succeed in one cycle"),
        pytest.param((LIVES, LIVES), {2: E}, {2: COPY}, id="a copy fails, the original lives"),
        pytest.param((LIVES, LIVES), {1: E}, {1: COPY}, id="the original fails, the copy lives"),
        pytest.param((LIVES, LIVES), {1: E, 2: S}, {1: COPY, 2: S}, id="one fails, one succeeds"),
        pytest.param((LIVES, LIVES), {1: E, 2: P}, {1: COPY, 2: P}, id="both fail, the last decides"),
        pytest.param((COPY, LIVES), {2: E}, {2: E}, id="the remaining copy fails"),
        pytest.param((LIVES, COPY), {1: P}, {1: P}, id="the remaining original fails"),
        pytest.param((S, LIVES), {2: TaskAttemptOutcome.CANCELLED}, {2: COPY}, id="the superseded attempt was ended"),
        pytest.param((S, LIVES), {2: S}, {2: COPY}, id="the superseded attempt succeeds too late"),
        pytest.param((LIVES, LIVES, LIVES), {1: E, 3: E}, {1: COPY, 3: COPY}, id="one of three attempts lives"),
        pytest.param((E, COPY, LIVES), {3: S}, {3: S}, id="a retry succeeds after both failed"),
    ],
)
def test_one_attempt_decides_the_outcome_of_a_task(
    rivals: tuple[TaskAttemptOutcome, ...], now: dict[int, TaskAttemptOutcome], expected: dict[int, TaskAttemptOutcome]
) -> None:
    known = group_attempts_by_task(rival(attempt, each) for attempt, each in enumerate(rivals, start=1))

    found = mark_ended_attempts_as_copies([ended(attempt, outcome) for attempt, outcome in now.items()], known)

    assert {one.attempt: one.outcome for one in found} == expected


def test_a_task_without_speculative_attempts_keeps_its_outcome() -> None:
    one = ended(1, E, task=9)

    assert mark_ended_attempts_as_copies([one], group_attempts_by_task([rival(1), rival(2)])) == (one,)


def test_a_retry_gets_a_number_above_all_speculative_attempts() -> None:
    again = TaskRetry(campaign=1, task=TASK, attempt=1, outcome=P)

    (found,) = assign_retry_numbers_above_attempts([again], group_attempts_by_task([rival(1), rival(2, COPY)]))

    assert found.attempt == 2


def seen(*rivals: CompetingAttempt, **values: Any) -> CampaignCycleSituation:
    idempotent = replace(SWEEP, jdl=replace(SWEEP.jdl, is_idempotent=True), ended=99)
    usual = {"campaigns": (idempotent,), "arrays": (array(1), array(2)), "rivals": rivals}
    usual["room"] = dict.fromkeys(("beta", "gamma"), ClusterCapacityForCampaigns(free_slots=4))
    return make_cycle_situation(**usual | values)


def with_settings_at_gamma(look: CampaignCycleSituation, **settings: Any) -> CampaignCycleSituation:
    (campaign,) = look.campaigns
    clusters = {**campaign.jdl.clusters, "gamma": replace(campaign.jdl.clusters["gamma"], **settings)}
    return replace(look, campaigns=(replace(campaign, jdl=replace(campaign.jdl, clusters=clusters)),))


def test_the_first_success_ends_the_campaign_and_supersedes_the_other_attempt() -> None:
    look = seen(rival(1), rival(2), ended=(ended(2, S),), over=(array(2),))

    plan = plan_campaign_cycle(look)

    losers = (SupersededAttempts(array=array(1), places=(range(1, 2),), is_whole=False),)
    assert (plan.losers, plan.finished, plan.again) == (losers, (1,), ())
    assert "superseded: 1 attempt of campaign 1 at beta" in describe_campaign_cycle_plan(plan)


def test_a_superseded_attempt_is_deleted_in_each_cycle_until_its_end() -> None:
    """The first deletion may have been lost."""
    over = replace(SWEEP, state=CampaignState.TERMINATED, ended=100)
    look = seen(rival(1), rival(2, S), campaigns=(over,), arrays=(array(1),))

    again = plan_campaign_cycle(look)
    last = plan_campaign_cycle(replace(look, ended=(ended(1, TaskAttemptOutcome.CANCELLED),), over=(array(1),)))

    assert [one.array.number for one in again.losers] == [1]
    assert (again.finished, last.finished, last.losers) == ((), (), ())
    assert [one.outcome for one in last.ended] == [COPY]
    assert describe_campaign_cycle_plan(last) == ["1 surplus attempt ended"]


@pytest.mark.parametrize(
    ("state", "others", "lost", "is_resumed"),
    [
        (ArraySubmissionState.INTENDED, (), True, False),
        (ArraySubmissionState.SUBMITTED, (), True, False),
        (ArraySubmissionState.SUBMITTED, (rival(2, task=6, place=2), rival(1, task=6, place=2)), False, True),
    ],
)
def test_an_array_of_superseded_attempts_is_not_released(
    state: ArraySubmissionState, others: tuple[CompetingAttempt, ...], lost: bool, is_resumed: bool
) -> None:
    copies = array(2, state)
    look = seen(rival(1, S), rival(2), *others, arrays=(array(1), copies))

    plan = plan_campaign_cycle(look)

    assert (copies in [one.array for one in plan.losers]) is lost
    assert (copies in plan.resumed) is is_resumed


def test_a_failed_speculative_attempt_opens_no_event_and_causes_no_retry() -> None:
    look = seen(rival(1), rival(2), ended=(ended(2, E),), over=(array(2),))

    plan = plan_campaign_cycle(look)

    assert (plan.changes.events, plan.changes.records[:0], plan.again) == ((), (), ())
    assert [one.outcome for one in plan.ended] == [COPY]
    assert not plan.finished


def test_the_last_failed_attempt_of_a_task_causes_a_retry() -> None:
    look = seen(rival(1), rival(2, COPY), ended=(ended(1, LOST),), over=(array(1),))

    plan = plan_campaign_cycle(look)

    again = TaskRetry(campaign=1, task=TASK, attempt=2, outcome=LOST, avoid=("beta",))
    assert (plan.again, plan.finished) == ((again,), ())


TAIL = TasksRunningNearCampaignEnd(
    campaign=1,
    sent_s=100,
    durations_s=(10.0, 11.0, 12.0),
    live=(RunningTaskAttempt(task=TASK, attempt=1, cluster="beta", elapsed_s=400),),
)
FIRST = SpeculativeAttemptsAtCluster(campaign=1, cluster="gamma", tasks=(TASK,), beyond_s=60)


def copied(look: CampaignCycleSituation) -> tuple[SpeculativeAttemptsAtCluster, ...]:
    return plan_campaign_cycle(look).copies


def test_a_long_running_task_gets_a_speculative_attempt_at_another_cluster() -> None:
    plan = plan_campaign_cycle(seen(tails=(TAIL,)))

    assert plan.copies == (FIRST,)
    assert describe_campaign_cycle_plan(plan) == ["copied to gamma: 1 task of campaign 1 with a run time above 60 s"]


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param({"ended": (ended(1, S),), "over": (array(1),)}, (), id="the task has just ended"),
        pytest.param({"events": (event(CampaignEventCode.BLACKLIST, "gamma"),)}, (), id="gamma is closed"),
        pytest.param(
            {"events": (event(CampaignEventCode.SETUP_ERROR, "gamma", until=NOON),)}, (), id="gamma gets probes"
        ),
        pytest.param({"room": {"beta": ClusterCapacityForCampaigns(free_slots=9)}}, (), id="gamma does not answer"),
        pytest.param({"tails": (replace(TAIL, failed_at={TASK: ("gamma",)}),)}, (), id="the task overran at gamma"),
        pytest.param(
            {"room": {"gamma": ClusterCapacityForCampaigns(free_slots=9, is_stressed=True)}}, (), id="gamma is stressed"
        ),
        pytest.param({"rivals": (rival(1), rival(2, COPY))}, (FIRST,), id="a copy failed before"),
        pytest.param({"rivals": (rival(1), rival(2, COPY), rival(3, COPY))}, (), id="two copies failed"),
        pytest.param(
            {"sharing": FairShareInputs(mean_s={1: {"beta": 3.0}})}, (FIRST,), id="mean run time at gamma is unknown"
        ),
    ],
)
def test_speculative_attempts_respect_closed_failed_and_stressed_clusters(
    known: Any, expected: tuple[SpeculativeAttemptsAtCluster, ...]
) -> None:
    assert copied(replace(seen(tails=(TAIL,)), **known)) == expected


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [(None, ()), (TaskAttemptOutcome.PENDING, ()), (E, ()), (S, (FIRST,))],
    ids=["no prologue", "prologue runs", "prologue failed", "prologue succeeded"],
)
def test_a_speculative_attempt_needs_a_successful_prologue_at_the_cluster(
    outcome: TaskAttemptOutcome | None, expected: tuple[SpeculativeAttemptsAtCluster, ...]
) -> None:
    step = {"campaign": 1, "cluster": "gamma", "step": PROLOGUE, "attempt": 1, "array": 9}
    steps = (LastPrologueOrEpilogueAttempt(**step, outcome=outcome),) if outcome else ()
    plan = plan_campaign_cycle(with_settings_at_gamma(seen(tails=(TAIL,), steps=steps), prologue="make"))

    assert (plan.copies, plan.steps) == (expected, ())


def test_speculative_attempts_get_slots_that_ordinary_tasks_have_left() -> None:
    other = replace(SWEEP, number=2)
    look = seen(tails=(TAIL,), waiting={2: 6})
    look = replace(look, campaigns=(*look.campaigns, other))

    plan = plan_campaign_cycle(look)

    assert PlannedCampaignTaskSend(campaign=2, cluster="gamma", tasks=2) in plan.sends
    assert plan.copies == (FIRST,)
    assert copied(replace(look, waiting={2: 7})) == ()


@pytest.mark.parametrize(("listed", "expected"), [(1, (FIRST,)), (2, ())])
def test_max_jobs_limits_speculative_attempts_too(
    listed: int, expected: tuple[SpeculativeAttemptsAtCluster, ...]
) -> None:
    counts = ((1, "gamma", listed), (2, "gamma", 9), (1, "beta", 9))
    there = tuple(
        CampaignTaskCountsAtCluster(campaign=number, cluster=name, waiting=0, listed=tasks)
        for number, name, tasks in counts
    )

    assert copied(with_settings_at_gamma(seen(tails=(TAIL,), there=there), max_jobs=2)) == expected


@pytest.mark.parametrize(("listed", "expected"), [(2, (FIRST,)), (3, ())])
def test_max_parallel_and_file_servers_limit_speculative_attempts_too(
    listed: int, expected: tuple[SpeculativeAttemptsAtCluster, ...]
) -> None:
    there = (CampaignTaskCountsAtCluster(campaign=1, cluster="beta", waiting=0, listed=listed),)
    look, rule = (
        seen(tails=(TAIL,), there=there),
        FileServerRule(storage="home", clusters=("beta", "gamma"), max_jobs=3),
    )
    own = tuple(replace(one, jdl=replace(one.jdl, max_parallel=3)) for one in look.campaigns)

    assert copied(replace(look, campaigns=own)) == expected
    assert copied(replace(look, servers=FileServerSituation(rules=(rule,)))) == expected


class CountedLoads(dict[str, float]):
    reads = 0

    def get(self, *names: Any) -> Any:
        self.reads += 1
        return super().get(*names)


def test_a_cycle_decides_the_limits_of_file_servers_once() -> None:
    rule, loads = FileServerRule(storage="home", clusters=("beta", "gamma"), max_jobs=9), CountedLoads()

    assert copied(replace(seen(tails=(TAIL,)), servers=FileServerSituation(rules=(rule,), loads=loads))) == (FIRST,)
    assert loads.reads == 1


@pytest.mark.parametrize(("most", "expected"), [(1, ()), (2, (FIRST,))])
@pytest.mark.parametrize("kind", ["of_person", "of_all"])
def test_the_clusters_array_limits_hold_for_speculative_attempts_too(
    kind: str, most: int, expected: tuple[SpeculativeAttemptsAtCluster, ...]
) -> None:
    """Each send of speculative attempts is an array, and counts towards max_u_jobs and max_jobs."""
    look = seen(tails=(TAIL,))
    limits = ClusterArrayLimits(**{kind: most})
    room = {**look.room, "gamma": replace(look.room["gamma"], limits=limits)}

    assert [one.cluster for one in look.arrays] == ["beta", "gamma"]
    assert copied(replace(look, room=room)) == expected
