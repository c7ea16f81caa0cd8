"""Each cluster of a campaign that waits has a reason with the numbers of the decision."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gridbridge.decisions.campaigns.task_send_explanation import explain_campaign_task_sends
from gridbridge.model.campaigns.campaign import ArraySubmissionState, Campaign, CampaignArray, CampaignState
from gridbridge.model.campaigns.campaign_configuration_sections import FairShareUnit
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCyclePlan,
    CampaignCycleSituation,
    ClusterCapacityForCampaigns,
    FairShareInputs,
    JobRatio,
    ListedCampaignTaskCounts,
    PlannedCampaignTaskSend,
    TaskCountByExclusions,
)
from gridbridge.model.campaigns.campaign_events import (
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
    EventsChangedInCycle,
)
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.send_reasons import CampaignPrecedenceReason, TaskSendExplanation, TaskSentOrUnsentCause
from gridbridge.model.jobs_and_accounting import ClusterArrayLimits
from tests.decisions.campaigns.campaign_builder import make_campaign

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def campaign(wish: JdlSettingsAtCluster, type_: CampaignType = CampaignType.DEFAULT, **other: object) -> Campaign:
    return make_campaign(tasks=9, jdl=Jdl(name="sweep", type=type_, clusters={"beta": wish}), **other)


def seen(one: Campaign, free: int | None = 4, **other: object) -> CampaignCycleSituation:
    room = {} if free is None else {"beta": ClusterCapacityForCampaigns(free_slots=free)}
    known: dict[str, object] = {"waiting": {1: 5}, "arrays": (), "room": room, "max_tasks": 9}
    return CampaignCycleSituation(campaigns=(one,), **(known | other))  # type: ignore[arg-type]


WISH = JdlSettingsAtCluster(exec_file="run", slots=2, max_jobs=3)
THERE = (ListedCampaignTaskCounts(campaign=1, cluster="beta", waiting=1, listed=3),)


SENT = (PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=2),)


def bar(code: CampaignEventCode, until: datetime | None, **other: object) -> CampaignEvent:
    known: dict[str, object] = {"campaign": 1, "cluster": "beta", "opened_at": NOON}
    kind = CampaignEventSubject.CAMPAIGN
    return CampaignEvent(kind=kind, code=code, last_at=NOON, until=until, **(known | other))  # type: ignore[arg-type]


def stressed(stress: float | None) -> dict[str, ClusterCapacityForCampaigns]:
    return {"beta": ClusterCapacityForCampaigns(free_slots=4, is_stressed=True, stress=stress, stress_limit=0.8)}


HOUR = NOON + timedelta(hours=1)
RATIO = JobRatio(campaign=1, cluster="beta", ratio=0.25, free=4, submitted=0)
ONE_WAITS = (ListedCampaignTaskCounts(campaign=1, cluster="beta", waiting=1, listed=1, fresh=1),)
THREE_WAIT = (ListedCampaignTaskCounts(campaign=2, cluster="beta", waiting=3, listed=3),)
ONE = JdlSettingsAtCluster(exec_file="run")
LIMITED = {"beta": ClusterCapacityForCampaigns(free_slots=4, limits=ClusterArrayLimits(of_person=1))}
OURS = CampaignArray(
    campaign=1, number=1, cluster="beta", state=ArraySubmissionState.RELEASED, size=1, intended_at=NOON
)
EIGHT = {"beta": ClusterCapacityForCampaigns(free_slots=4, max_slots=8)}


@pytest.mark.parametrize(
    ("rows", "sends", "cause", "numbers"),
    [
        (seen(campaign(WISH)), SENT, TaskSentOrUnsentCause.SENT, {"sent": 2}),
        (seen(campaign(WISH), None), (), TaskSentOrUnsentCause.NO_ANSWER, {"free_slots": 0, "job_ratio": None}),
        (
            seen(campaign(WISH), None, dropped=frozenset({"beta"})),
            (),
            TaskSentOrUnsentCause.DROPPED,
            {"free_slots": 0, "job_ratio": None},
        ),
        (seen(campaign(WISH), 1), (), TaskSentOrUnsentCause.FULL, {"free_slots": 1}),
        (
            seen(campaign(WISH), room={"beta": ClusterCapacityForCampaigns(free_slots=1, slots=1)}),
            (),
            TaskSentOrUnsentCause.TOO_LARGE,
            {"free_slots": 1, "all_slots": 1},
        ),
        (seen(campaign(WISH), room=LIMITED, arrays=(OURS,)), (), TaskSentOrUnsentCause.MAX_ARRAYS, {}),
        (
            seen(campaign(WISH), there=THERE),
            (),
            TaskSentOrUnsentCause.MAX_JOBS,
            {"listed": 3, "waiting": 1, "waiting_there": 1},
        ),
        (seen(campaign(WISH)), (), TaskSentOrUnsentCause.OTHERS_FIRST, {}),
        (
            seen(campaign(WISH, CampaignType.TEST), tried={1: frozenset({"beta"})}),
            (),
            TaskSentOrUnsentCause.TRIED,
            {"job_ratio": None},
        ),
        (
            seen(
                campaign(WISH), events=(bar(CampaignEventCode.BLACKLIST, None), bar(CampaignEventCode.SUBMIT_JOB, HOUR))
            ),
            (),
            TaskSentOrUnsentCause.CLOSED,
            {"code": CampaignEventCode.BLACKLIST},
        ),
        (
            seen(campaign(WISH), events=(bar(CampaignEventCode.SUBMIT_JOB, HOUR),), at=NOON),
            (),
            TaskSentOrUnsentCause.CLOSED,
            {"code": CampaignEventCode.SUBMIT_JOB, "until": HOUR},
        ),
        (
            seen(campaign(WISH), room=stressed(0.9)),
            (),
            TaskSentOrUnsentCause.STRESSED,
            {"stress": 0.9, "stress_limit": 0.8},
        ),
        (seen(campaign(WISH), room=stressed(None)), (), TaskSentOrUnsentCause.STRESSED, {"stress_limit": 0.8}),
        (seen(campaign(WISH), there=THREE_WAIT), (), TaskSentOrUnsentCause.WAITING_THERE, {"waiting_there": 3}),
        (
            seen(campaign(ONE), room=EIGHT, there=ONE_WAITS, ratios=(RATIO,)),
            (),
            TaskSentOrUnsentCause.JOB_RATIO,
            {"slots": 1, "max_jobs": 0, "listed": 1, "waiting": 1, "waiting_there": 1} | {"job_ratio": 0.25},
        ),
        (
            seen(campaign(WISH), waiting={1: 2}),
            (PlannedCampaignTaskSend(campaign=1, cluster="gamma", tasks=2),),
            TaskSentOrUnsentCause.ELSEWHERE,
            {},
        ),
        (
            seen(campaign(WISH), room={"beta": ClusterCapacityForCampaigns(free_slots=4, is_drained=True)}),
            (),
            TaskSentOrUnsentCause.DRAINED,
            {},
        ),
        (
            seen(campaign(WISH), kept_off={1: (TaskCountByExclusions(tasks=5, never=("beta",)),)}),
            (),
            TaskSentOrUnsentCause.KEPT_OFF,
            {},
        ),
    ],
    ids=[
        *(
            "sent",
            "no answer",
            "dropped",
            "full",
            "too large",
            "arrays",
            "max_jobs",
            "others",
            "tried",
            "blacklist",
            "probed later",
        ),
        *("stressed", "stress unknown", "others wait", "ratio", "elsewhere", "drained", "kept off"),
    ],
)
def test_each_situation_has_one_cause_for_sent_or_unsent_tasks(
    rows: CampaignCycleSituation,
    sends: tuple[PlannedCampaignTaskSend, ...],
    cause: TaskSentOrUnsentCause,
    numbers: dict[str, object],
) -> None:
    (told,) = explain_campaign_task_sends(rows, CampaignCyclePlan(sends=sends))

    usual = {"free_slots": 4, "slots": 2, "max_jobs": 3, "job_ratio": 0.5}
    expected = TaskSendExplanation(campaign=1, cluster="beta", cause=cause, **(usual | numbers))  # type: ignore[arg-type]
    assert told == expected


def test_an_event_of_the_same_cycle_explains_a_closed_cluster() -> None:
    changes = EventsChangedInCycle(events=(bar(CampaignEventCode.SINK, None),))

    (told,) = explain_campaign_task_sends(seen(campaign(WISH)), CampaignCyclePlan(changes=changes))

    assert (told.cause, told.code) == (TaskSentOrUnsentCause.CLOSED, CampaignEventCode.SINK)


@pytest.mark.parametrize(
    ("type_", "affinity", "sharing", "expected"),
    [
        (CampaignType.TEST, "", FairShareInputs(), (CampaignPrecedenceReason.TEST, 0, 0)),
        (CampaignType.DEFAULT, "bob", FairShareInputs(), (CampaignPrecedenceReason.AFFINITY, 0, 0)),
        (
            CampaignType.DEFAULT,
            "bob alice",
            FairShareInputs(by=FairShareUnit.USER, used_s={"alice": 9.0, "bob": 2.0}),
            (CampaignPrecedenceReason.SHARE, 9.0, 2.0),
        ),
        (
            CampaignType.DEFAULT,
            "",
            FairShareInputs(priorities="bob=5 alice=1"),
            (CampaignPrecedenceReason.PRIORITY, 1, 5),
        ),
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
    room = {"beta": ClusterCapacityForCampaigns(free_slots=4, affinity=affinity)}
    rows = replace(seen(ours, room=room, sharing=sharing), campaigns=(bobs, ours))

    (told,) = explain_campaign_task_sends(
        rows, CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=0, cluster="beta", tasks=4),))
    )

    assert (told.cause, told.before) == (TaskSentOrUnsentCause.OTHERS_FIRST, (0,))
    assert (told.order, told.own, told.theirs) == expected


@pytest.mark.parametrize(
    "rows",
    [
        seen(campaign(WISH), waiting={}),
        seen(campaign(WISH, state=CampaignState.PAUSED)),
        seen(campaign(WISH, state=CampaignState.CANCELLED)),
    ],
)
def test_a_campaign_that_sends_no_tasks_has_no_explanation(rows: CampaignCycleSituation) -> None:
    assert explain_campaign_task_sends(rows, CampaignCyclePlan()) == ()
