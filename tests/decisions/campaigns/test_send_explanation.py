"""Each cluster of a waiting campaign has a reason with the numbers of the decision."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gridbridge.decisions.campaigns.file_server_task_limits import decide_file_server_limits
from gridbridge.decisions.campaigns.task_send_explanation import explain_campaign_task_sends
from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.campaign_configuration_sections import FairShareUnit
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCyclePlan,
    CampaignCycleSituation,
    CampaignTaskCountsAtCluster,
    ClusterCapacityForCampaigns,
    FairShareInputs,
    JobRatio,
    PlannedCampaignTaskSend,
    TaskCountByExclusions,
)
from gridbridge.model.campaigns.campaign_events import (
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
    FailureEventsChangedInCycle,
)
from gridbridge.model.campaigns.file_server_load import FileServerRule, FileServerSituation
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.send_reasons import CampaignPrecedenceReason, TaskSendExplanation, TaskSentOrUnsentCause
from gridbridge.model.jobs_and_accounting import ClusterArrayLimits
from tests.builders.campaigns import NOON, released_array
from tests.decisions.campaigns.campaign_builder import make_campaign, make_cycle_situation

Cause, Code = TaskSentOrUnsentCause, CampaignEventCode


def campaign(wish: JdlSettingsAtCluster, type_: CampaignType = CampaignType.DEFAULT, **other: object) -> Campaign:
    return make_campaign(tasks=9, jdl=Jdl(name="sweep", type=type_, clusters={"beta": wish}), **other)


def seen(one: Campaign, free: int | None = 4, **values: Any) -> CampaignCycleSituation:
    room = {} if free is None else beta(free_slots=free)
    return make_cycle_situation(**{"campaigns": (one,), "waiting": {1: 5}, "room": room, "max_tasks": 9} | values)


def beta(**capacity: Any) -> dict[str, ClusterCapacityForCampaigns]:
    return {"beta": ClusterCapacityForCampaigns(**{"free_slots": 4} | capacity)}


def listed(campaign: int, waiting: int, tasks: int, fresh: int = 0) -> dict[str, Any]:
    counts = CampaignTaskCountsAtCluster(campaign=campaign, cluster="beta", waiting=waiting, listed=tasks, fresh=fresh)
    return {"there": (counts,)}


WISH = JdlSettingsAtCluster(exec_file="run", slots=2, max_jobs=3)
WANTED = campaign(WISH)
SENT = PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=2)


def bar(code: CampaignEventCode, until: datetime | None) -> CampaignEvent:
    known: dict[str, Any] = {"campaign": 1, "cluster": "beta", "opened_at": NOON, "last_at": NOON}
    return CampaignEvent(kind=CampaignEventSubject.CAMPAIGN, code=code, until=until, **known)


def stressed(stress: float | None) -> CampaignCycleSituation:
    return seen(WANTED, room=beta(is_stressed=True, stress=stress, stress_limit=0.8))


def full_server() -> CampaignCycleSituation:
    rule = FileServerRule(storage="home", clusters=("beta",), max_jobs=2)
    return seen(WANTED, **listed(1, 0, 2), servers=FileServerSituation(rules=(rule,)))


HOUR = NOON + timedelta(hours=1)
RATIO = JobRatio(campaign=1, cluster="beta", ratio=0.25, free=4, submitted=0)
ONE = JdlSettingsAtCluster(exec_file="run")
PARALLEL = replace(WANTED, jdl=replace(WANTED.jdl, max_parallel=2))
FIRST = replace(WANTED, jdl=replace(WANTED.jdl, first_tasks=2))
LIMITED = {"room": beta(limits=ClusterArrayLimits(of_person=1)), "arrays": (released_array(size=1),)}
BY_RATIO = {"room": beta(max_slots=8), "ratios": (RATIO,), **listed(1, 1, 1, fresh=1)}
UNKNOWN = {"free_slots": 0, "job_ratio": None}
ONE_WAITS = {"slots": 1, "max_jobs": 0, "listed": 1, "waiting": 1, "waiting_there": 1, "job_ratio": 0.25}
EXCLUDED = {1: (TaskCountByExclusions(tasks=5, never=("beta",)),)}
BLACKLIST, PAUSE = bar(Code.BLACKLIST, None), bar(Code.SUBMIT_JOB, HOUR)


@pytest.mark.parametrize(
    ("rows", "cause", "numbers"),
    [
        (seen(WANTED, None), Cause.NO_ANSWER, UNKNOWN),
        (seen(WANTED, None, dropped=frozenset({"beta"})), Cause.DROPPED, UNKNOWN),
        (seen(WANTED, 1), Cause.FULL, {"free_slots": 1}),
        (seen(WANTED, room=beta(free_slots=1, slots=1)), Cause.TOO_LARGE, {"free_slots": 1, "all_slots": 1}),
        (seen(WANTED, **LIMITED), Cause.MAX_ARRAYS, {}),
        (seen(WANTED, **listed(1, 1, 3)), Cause.MAX_JOBS, {"listed": 3, "waiting": 1, "waiting_there": 1}),
        (seen(WANTED), Cause.OTHERS_FIRST, {}),
        (seen(campaign(WISH, CampaignType.TEST), tried={1: frozenset({"beta"})}), Cause.TRIED, {"job_ratio": None}),
        (seen(WANTED, events=(BLACKLIST, PAUSE)), Cause.CLOSED, {"code": Code.BLACKLIST}),
        (seen(WANTED, events=(PAUSE,)), Cause.CLOSED, {"code": Code.SUBMIT_JOB, "until": HOUR}),
        (stressed(0.9), Cause.STRESSED, {"stress": 0.9, "stress_limit": 0.8}),
        (stressed(None), Cause.STRESSED, {"stress_limit": 0.8}),
        (seen(WANTED, **listed(2, 3, 3)), Cause.WAITING_THERE, {"waiting_there": 3}),
        (seen(campaign(ONE), **BY_RATIO), Cause.JOB_RATIO, ONE_WAITS),
        (seen(WANTED, room=beta(is_drained=True)), Cause.DRAINED, {}),
        (seen(WANTED, kept_off=EXCLUDED), Cause.KEPT_OFF, {}),
        (seen(PARALLEL, **listed(1, 0, 2)), Cause.MAX_PARALLEL, {"listed": 2, "max_parallel": 2}),
        (seen(FIRST, **listed(1, 0, 2)), Cause.FIRST_TASKS, {"listed": 2, "first_tasks": 2}),
        (full_server(), Cause.FILE_SERVER, {"storage": "home", "server_tasks": 2, "server_limit": 2, "listed": 2}),
    ],
)
def test_each_situation_has_one_cause_for_unsent_tasks(
    rows: CampaignCycleSituation, cause: TaskSentOrUnsentCause, numbers: dict[str, object]
) -> None:
    assert explained(rows) == expected_explanation(cause, **numbers)


def explained(rows: CampaignCycleSituation, *sends: PlannedCampaignTaskSend) -> TaskSendExplanation:
    plan = CampaignCyclePlan(sends=sends, server_limits=decide_file_server_limits(rows))
    (explanation,) = explain_campaign_task_sends(rows, plan)
    return explanation


def expected_explanation(cause: TaskSentOrUnsentCause, **numbers: Any) -> TaskSendExplanation:
    usual = {"free_slots": 4, "slots": 2, "max_jobs": 3, "job_ratio": 0.5}
    return TaskSendExplanation(campaign=1, cluster="beta", cause=cause, **usual | numbers)


def test_an_explanation_of_sent_tasks_has_the_number_of_tasks() -> None:
    assert explained(seen(WANTED), SENT) == expected_explanation(Cause.SENT, sent=2, jobs=2)


def test_tasks_sent_elsewhere_explain_an_unused_cluster() -> None:
    rows = seen(WANTED, waiting={1: 2})

    assert explained(rows, replace(SENT, cluster="gamma")) == expected_explanation(Cause.ELSEWHERE)


def test_an_event_of_the_same_cycle_explains_a_closed_cluster() -> None:
    changes = FailureEventsChangedInCycle(events=(bar(CampaignEventCode.SINK, None),))

    (told,) = explain_campaign_task_sends(seen(WANTED), CampaignCyclePlan(changes=changes))

    assert (told.cause, told.code) == (TaskSentOrUnsentCause.CLOSED, CampaignEventCode.SINK)


BY_USAGE = FairShareInputs(by=FairShareUnit.USER, used_s={"alice": 9.0, "bob": 2.0})
BY_PRIORITY = FairShareInputs(priorities="bob=5 alice=1")


@pytest.mark.parametrize(
    ("type_", "affinity", "sharing", "expected"),
    [
        (CampaignType.TEST, "", FairShareInputs(), (CampaignPrecedenceReason.TEST, 0, 0)),
        (CampaignType.DEFAULT, "bob", FairShareInputs(), (CampaignPrecedenceReason.AFFINITY, 0, 0)),
        (CampaignType.DEFAULT, "bob alice", BY_USAGE, (CampaignPrecedenceReason.SHARE, 9.0, 2.0)),
        (CampaignType.DEFAULT, "", BY_PRIORITY, (CampaignPrecedenceReason.PRIORITY, 1, 5)),
        (CampaignType.DEFAULT, "", FairShareInputs(), (CampaignPrecedenceReason.AGE, 0, 0)),
    ],
    ids=["test", "affinity", "share", "priority", "age"],
)
def test_an_explanation_names_the_campaigns_served_first_and_the_reason(
    type_: CampaignType,
    affinity: str,
    sharing: FairShareInputs,
    expected: tuple[CampaignPrecedenceReason, float, float],
) -> None:
    ours = campaign(ONE)
    bobs = replace(campaign(ONE, type_), number=0, owner="bob")
    rows = replace(seen(ours, room=beta(affinity=affinity), sharing=sharing), campaigns=(bobs, ours))

    told = explained(rows, replace(SENT, campaign=0))

    assert (told.cause, told.before) == (TaskSentOrUnsentCause.OTHERS_FIRST, (0,))
    assert (told.order, told.own, told.theirs) == expected


@pytest.mark.parametrize(
    "rows",
    [
        seen(WANTED, waiting={}),
        seen(campaign(WISH, state=CampaignState.PAUSED)),
        seen(campaign(WISH, state=CampaignState.CANCELLED)),
    ],
)
def test_a_campaign_that_sends_no_tasks_has_no_explanation(rows: CampaignCycleSituation) -> None:
    assert explain_campaign_task_sends(rows, CampaignCyclePlan()) == ()
