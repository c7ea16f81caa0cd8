"""What goes wrong is told once, closes what it has to close, and heals where it can."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import describe_campaign_cycle_plan, plan_campaign_cycle
from gridbridge.decisions.campaigns.campaign_event_rules import (
    find_given_up_conflicting_ends,
    select_clusters_declared_lost,
)
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import repeat_event_with_longer_pause
from gridbridge.decisions.campaigns.event_texts_and_notifications import describe_campaign_event
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    AttemptOutcomeAtCluster,
    CampaignArray,
    CampaignState,
    TaskAttempt,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignFailuresSection
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    ClusterCapacityForCampaigns,
    ListedCampaignTaskCounts,
    PlannedCampaignTaskSend,
)
from gridbridge.model.campaigns.campaign_events import (
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
    CampaignSuccessAtCluster,
)
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.task_deletions_and_preemptions import TaskMissingSince
from tests.decisions.campaigns.campaign_builder import make_campaign

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
NO_TRIES = {"asked": 0, "preempted": 0, "site_fault": 0, "walltime": 0, "setup_error": -1}
CLUSTERS = {name: JdlSettingsAtCluster(exec_file="run") for name in ("beta", "gamma")}
SWEEP = make_campaign(jdl=Jdl(name="sweep", clusters=CLUSTERS))


def test_what_a_cluster_refuses_is_told_in_its_words() -> None:
    one = event(CampaignEventCode.RUNNER_SUBMIT_ERROR)

    assert describe_campaign_event(replace(one, why='unknown resource "foo"')) == (
        'beta refuses the campaign\'s arrays: unknown resource "foo"'
    )
    assert describe_campaign_event(one) == "beta refuses the campaign's arrays"


@pytest.mark.parametrize(
    ("state", "then"),
    [
        (CampaignState.PAUSED, "the campaign is paused: griddel -r 1 resumes the campaign"),
        (CampaignState.IN_TREATMENT, "the campaign continues with the arrays in root's ledger"),
        (CampaignState.TERMINATED, "the campaign has ended, and needs no action"),
        (CampaignState.CANCELLED, "the campaign was cancelled, and sends no more tasks"),
    ],
)
def test_what_follows_from_an_older_state_file_fits_the_campaign(state: CampaignState, then: str) -> None:
    one = event(CampaignEventCode.RESTORED, cluster="")

    assert describe_campaign_event(one, state) == f"an older copy of the state file was restored; {then}"
    assert describe_campaign_event(one) == "an older copy of the state file was restored"


def array(number: int = 1, cluster: str = "beta", at: datetime = NOON) -> CampaignArray:
    state = ArraySubmissionState.RELEASED
    return CampaignArray(campaign=1, number=number, cluster=cluster, state=state, size=9, intended_at=at)


def ended(*outcomes: TaskAttemptOutcome, array: int = 1) -> tuple[TaskAttempt, ...]:
    return tuple(
        TaskAttempt(
            campaign=1,
            task=place - 1,
            attempt=1,
            array=array,
            place=place,
            outcome=outcome,
            exit_status=3 if outcome is TaskAttemptOutcome.PROGRAM_ERROR else None,
            wallclock_s=1,
        )
        for place, outcome in enumerate(outcomes, start=1)
    )


def seen(**other: object) -> CampaignCycleSituation:
    """Return a cycle's look at one campaign, with a slot free at each cluster."""
    known: dict[str, object] = {
        "campaigns": (SWEEP,),
        "waiting": {1: 50},
        "arrays": (array(),),
        "room": {name: ClusterCapacityForCampaigns(free_slots=4, max_slots=4) for name in CLUSTERS},
        "asked": frozenset(CLUSTERS),
        "max_tasks": 100,
        "at": NOON,
        "failures": CampaignFailuresSection(program_errors=3, probe_s=60, probe_max_s=200),
    }
    return CampaignCycleSituation(**(known | other))  # type: ignore[arg-type]


def event(code: CampaignEventCode, cluster: str = "beta", **other: object) -> CampaignEvent:
    known = {"kind": CampaignEventSubject.CAMPAIGN, "campaign": 1, "opened_at": NOON, "last_at": NOON}
    return CampaignEvent(number=9, code=code, cluster=cluster, **(known | other))  # type: ignore[arg-type]


def told(look: CampaignCycleSituation) -> dict[CampaignEventCode, CampaignEvent]:
    return {one.code: one for one in plan_campaign_cycle(look).changes.events}


def sent(look: CampaignCycleSituation) -> dict[str, int]:
    return {one.cluster: one.tasks for one in plan_campaign_cycle(look).sends}


def test_one_failing_task_closes_nothing_and_is_told() -> None:
    """CiGri would blacklist the cluster for the campaign."""
    look = seen(
        ended=ended(TaskAttemptOutcome.SUCCESS, TaskAttemptOutcome.PROGRAM_ERROR, TaskAttemptOutcome.PROGRAM_ERROR)
    )

    (found,) = told(look).values()

    assert (found.code, found.kind, found.tasks, found.first_task) == (
        CampaignEventCode.EXIT_ERROR,
        CampaignEventSubject.TASK,
        2,
        1,
    )
    assert found.exit_status == 3
    assert sent(look) == {"beta": 4, "gamma": 4}


@pytest.mark.parametrize(
    ("outcome", "codes"),
    [(TaskAttemptOutcome.CANCELLED, {CampaignEventCode.FRAG}), (TaskAttemptOutcome.UNWANTED, set())],
)
def test_what_its_owner_cancelled_is_no_event(outcome: TaskAttemptOutcome, codes: set[CampaignEventCode]) -> None:
    look = seen(ended=ended(outcome))

    assert told(look).keys() == codes
    assert plan_campaign_cycle(look).again == ()


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (TaskAttemptOutcome.PROGRAM_ERROR, CampaignEventCode.EXIT_ERROR),
        (TaskAttemptOutcome.SIGNAL, CampaignEventCode.EXIT_ERROR),
        (TaskAttemptOutcome.WALLTIME, CampaignEventCode.WALLTIME),
        (TaskAttemptOutcome.SITE_FAULT, CampaignEventCode.SITE_FAULT),
        (TaskAttemptOutcome.PREEMPTED, CampaignEventCode.PREEMPTED),
        (TaskAttemptOutcome.SETUP_ERROR, CampaignEventCode.NOT_STARTED),
        (TaskAttemptOutcome.RESUBMIT, CampaignEventCode.RESUBMIT),
        (TaskAttemptOutcome.RESUBMIT_LAST, CampaignEventCode.RESUBMIT),
    ],
)
def test_each_task_that_is_not_tried_again_says_why(outcome: TaskAttemptOutcome, code: CampaignEventCode) -> None:
    """Also one that has used up what its cause allows; as long as it has not, nothing is told."""
    last = seen(ended=ended(outcome), failures=CampaignFailuresSection(**NO_TRIES))
    first = seen(ended=ended(outcome))
    tried = {CampaignEventCode.EXIT_ERROR} & {code}

    (found,) = (one for one in plan_campaign_cycle(last).changes.events if one.kind is CampaignEventSubject.TASK)
    assert (found.code, found.cluster, found.tasks, found.first_task) == (code, "beta", 1, 0)
    assert {one.code for one in told(first).values() if one.kind is CampaignEventSubject.TASK} == tried


def test_tasks_that_fail_alike_later_are_counted_in_the_same_event() -> None:
    known = replace(
        event(CampaignEventCode.EXIT_ERROR), kind=CampaignEventSubject.TASK, exit_status=3, tasks=5, first_task=8
    )

    found = told(seen(ended=ended(TaskAttemptOutcome.PROGRAM_ERROR), events=(known,), at=NOON + MINUTE))

    assert found[CampaignEventCode.EXIT_ERROR] == replace(known, tasks=6, last_at=NOON + MINUTE)


def test_program_errors_in_a_row_close_the_cluster_to_the_campaign_alone() -> None:
    other = replace(SWEEP, number=2)
    before = CampaignSuccessAtCluster(campaign=1, cluster="beta", errors_in_row=2)
    look = seen(
        campaigns=(SWEEP, other), ended=ended(TaskAttemptOutcome.SIGNAL), records=(before,), waiting={1: 1, 2: 50}
    )

    assert told(look)[CampaignEventCode.BLACKLIST].until is None
    assert plan_campaign_cycle(look).sends == (
        PlannedCampaignTaskSend(campaign=1, cluster="gamma", tasks=1),
        PlannedCampaignTaskSend(campaign=2, cluster="beta", tasks=4),
        PlannedCampaignTaskSend(campaign=2, cluster="gamma", tasks=3),
    )


@pytest.mark.parametrize(
    ("before", "hosts", "expected"),
    [
        ("n1", ("n1", "n1"), ", all of them on n1"),
        ("n1", ("n1", "n2"), ""),
        ("n1", ("n2", "n2"), ""),
        ("", ("n1", "n1"), ""),
        ("n1", ("n1", ""), ""),
    ],
    ids=["one", "two", "another", "several before", "unknown"],
)
def test_a_host_on_which_all_of_a_row_failed_is_named(before: str, hosts: tuple[str, ...], expected: str) -> None:
    known = CampaignSuccessAtCluster(campaign=1, cluster="beta", errors_in_row=1, error_host=before)
    failed = zip(ended(*[TaskAttemptOutcome.PROGRAM_ERROR] * len(hosts)), hosts, strict=True)
    look = seen(ended=tuple(replace(one, host=host) for one, host in failed), records=(known,))

    found = told(look)[CampaignEventCode.BLACKLIST]
    assert describe_campaign_event(found) == f"the last 3 tasks at beta failed by themselves{expected}"


@pytest.mark.parametrize(
    "between", [TaskAttemptOutcome.SUCCESS, TaskAttemptOutcome.RESUBMIT, TaskAttemptOutcome.WALLTIME]
)
def test_a_task_that_ran_breaks_the_row(between: TaskAttemptOutcome) -> None:
    before = CampaignSuccessAtCluster(campaign=1, cluster="beta", errors_in_row=2)
    look = seen(ended=ended(TaskAttemptOutcome.PROGRAM_ERROR, between), records=(before,))

    assert CampaignEventCode.BLACKLIST not in told(look)
    assert [one.errors_in_row for one in plan_campaign_cycle(look).changes.records] == [0]


def test_a_task_that_lost_its_host_breaks_no_row() -> None:
    before = CampaignSuccessAtCluster(campaign=1, cluster="beta", errors_in_row=1)
    look = seen(ended=ended(TaskAttemptOutcome.PROGRAM_ERROR, TaskAttemptOutcome.SITE_FAULT), records=(before,))

    assert [one.errors_in_row for one in plan_campaign_cycle(look).changes.records] == [2]


def test_a_setup_error_closes_the_cluster_and_its_task_goes_elsewhere() -> None:
    look = seen(ended=ended(TaskAttemptOutcome.SETUP_ERROR))

    assert told(look)[CampaignEventCode.SETUP_ERROR].until == NOON + MINUTE
    assert sent(look) == {"gamma": 4}
    assert [one.avoid for one in plan_campaign_cycle(look).again] == [("beta",)]


def test_tasks_that_no_cluster_could_start_are_told() -> None:
    """Beside what closes the cluster: -r has them tried again."""
    (last,) = ended(TaskAttemptOutcome.SETUP_ERROR)
    earlier = tuple(
        AttemptOutcomeAtCluster(campaign=1, task=0, attempt=n, cluster="beta", outcome=TaskAttemptOutcome.SETUP_ERROR)
        for n in range(2, 6)
    )
    found = told(seen(ended=(last,), earlier=earlier))

    assert found.keys() == {CampaignEventCode.SETUP_ERROR, CampaignEventCode.NOT_STARTED}
    one = found[CampaignEventCode.NOT_STARTED]
    assert (one.kind, one.cluster, one.tasks, one.first_task) == (CampaignEventSubject.TASK, "beta", 1, 0)


@pytest.mark.parametrize(("probes", "pause_s"), [(0, 120), (1, 200), (30, 200), (1000, 200)])
def test_after_its_pause_a_cluster_gets_one_task_to_try(probes: int, pause_s: int) -> None:
    """The next pause is twice as long, up to a limit."""
    known = event(CampaignEventCode.SETUP_ERROR, until=NOON, probes=probes)

    look = seen(events=(known,))

    assert sent(look) == {"beta": 1, "gamma": 4}
    again = told(look)[CampaignEventCode.SETUP_ERROR]
    assert (again.probes, again.until) == (probes + 1, NOON + timedelta(seconds=pause_s))


def test_a_cluster_that_refused_arrays_is_tried_with_one_task_and_has_no_other_event() -> None:
    """Whether it takes that is seen when it is sent."""
    look = seen(events=(event(CampaignEventCode.RUNNER_SUBMIT_ERROR, until=NOON),))

    assert sent(look) == {"beta": 1, "gamma": 4}
    assert told(look) == {}


def test_what_happens_in_a_pause_makes_it_no_longer() -> None:
    first = repeat_event_with_longer_pause(
        None, CampaignEventCode.SUBMIT_JOB, (1, "beta"), NOON, CampaignFailuresSection()
    )
    second = repeat_event_with_longer_pause(
        first, CampaignEventCode.SUBMIT_JOB, (1, "beta"), NOON + MINUTE / 2, CampaignFailuresSection()
    )
    third = repeat_event_with_longer_pause(
        second, CampaignEventCode.SUBMIT_JOB, (1, "beta"), NOON + MINUTE, CampaignFailuresSection()
    )

    assert [(one.probes, one.until) for one in (first, second, third)] == [
        (0, NOON + MINUTE),
        (0, NOON + MINUTE),
        (1, NOON + 3 * MINUTE),
    ]
    assert second.last_at == NOON + MINUTE / 2


def test_in_its_pause_a_cluster_gets_nothing() -> None:
    known = event(CampaignEventCode.SETUP_ERROR, until=NOON + MINUTE)
    forever = event(CampaignEventCode.BLACKLIST)

    assert sent(seen(events=(known,))) == {"gamma": 4}
    assert sent(seen(events=(forever, replace(known, until=NOON)))) == {"gamma": 4}
    assert sent(seen(events=(replace(known, until=NOON), forever))) == {"gamma": 4}


def test_no_pause_is_longer_than_the_longest() -> None:
    """The clock was ahead when it was noted, and has been set back since."""
    ahead = timedelta(days=40)
    known = event(CampaignEventCode.SETUP_ERROR, until=NOON + ahead)
    pause = event(CampaignEventCode.SUBMIT_JOB, until=NOON + ahead)
    begun = replace(array(), state=ArraySubmissionState.INTENDED)

    look = seen(events=(known,))

    assert sent(look) == {"beta": 1, "gamma": 4}
    assert told(look)[CampaignEventCode.SETUP_ERROR].until == NOON + 2 * MINUTE
    assert plan_campaign_cycle(seen(events=(pause,), arrays=(begun,))).resumed == (begun,)
    again = repeat_event_with_longer_pause(
        pause, CampaignEventCode.SUBMIT_JOB, (1, "beta"), NOON, CampaignFailuresSection()
    )
    assert again.until == NOON + 2 * MINUTE


@pytest.mark.parametrize(
    ("sent_at", "outcome", "is_closed"),
    [
        (NOON + MINUTE, TaskAttemptOutcome.SUCCESS, True),
        (NOON + MINUTE, TaskAttemptOutcome.PROGRAM_ERROR, True),
        (NOON - MINUTE, TaskAttemptOutcome.SUCCESS, False),
        (NOON + MINUTE, TaskAttemptOutcome.SITE_FAULT, False),
    ],
)
def test_a_task_that_was_sent_later_and_began_opens_the_cluster(
    sent_at: datetime, outcome: TaskAttemptOutcome, is_closed: bool
) -> None:
    known = event(CampaignEventCode.SETUP_ERROR, until=NOON + 4 * MINUTE)
    at = NOON + 2 * MINUTE

    look = seen(events=(known,), arrays=(array(at=sent_at),), ended=ended(outcome), at=at)

    assert bool(told(look).get(CampaignEventCode.SETUP_ERROR)) is is_closed
    assert ("beta" in sent(look)) is is_closed


def test_a_campaign_to_which_every_cluster_is_closed_waits() -> None:
    """It does not end, and it says why; it goes on as soon as one is open."""
    both = tuple(replace(event(CampaignEventCode.BLACKLIST, name), number=n) for n, name in enumerate(CLUSTERS))
    look = seen(events=both, arrays=())

    assert told(look)[CampaignEventCode.NO_CLUSTER].closed_at is None
    assert (plan_campaign_cycle(look).finished, plan_campaign_cycle(look).sends) == ((), ())
    (told_once,) = describe_campaign_cycle_plan(plan_campaign_cycle(look))
    assert told_once.startswith("campaign 1: no cluster may take some waiting tasks: each cluster")
    stuck = event(CampaignEventCode.NO_CLUSTER, "")
    assert told(seen(events=(*both, stuck), arrays=())) == {}
    assert told(seen(events=(both[0], stuck)))[CampaignEventCode.NO_CLUSTER].closed_at == NOON


def test_a_cluster_that_does_not_answer_is_told_of_once() -> None:
    down = seen(room={"gamma": ClusterCapacityForCampaigns(free_slots=4)})

    found = told(down)[CampaignEventCode.GET_JOBS]

    assert (found.kind, found.campaign, found.cluster) == (CampaignEventSubject.CLUSTER, 0, "beta")
    known = replace(found, number=3)
    assert told(replace(down, events=(known,))) == {}
    assert told(seen(events=(known,)))[CampaignEventCode.GET_JOBS].closed_at == NOON


def test_what_an_administrator_has_to_mend_is_told_in_the_words_of_what_failed() -> None:
    room = {"gamma": ClusterCapacityForCampaigns(free_slots=4)}
    silent = told(seen(room=room, silent={"beta": "ssh: no route to host"}))[CampaignEventCode.GET_JOBS]
    lost = [
        replace(event(code), why="c.1: no such thing")
        for code in (CampaignEventCode.NO_LEDGER, CampaignEventCode.OWNER_UNKNOWN)
    ]

    assert describe_campaign_event(silent) == "beta gives no answer: ssh: no route to host"
    assert all(describe_campaign_event(one).endswith(": c.1: no such thing") for one in lost)


def test_a_cluster_that_left_is_told_of_until_its_section_is_back() -> None:
    """Nothing is asked of it meanwhile, and nothing goes on there."""
    begun = replace(array(2), state=ArraySubmissionState.INTENDED)
    left = {"room": {"gamma": ClusterCapacityForCampaigns(free_slots=4)}, "asked": frozenset({"gamma"})}
    gone = seen(**left, dropped=frozenset({"beta"}), arrays=(array(), begun))

    found = told(gone)[CampaignEventCode.DROPPED]

    assert (found.kind, found.campaign, found.cluster) == (CampaignEventSubject.CLUSTER, 0, "beta")
    assert plan_campaign_cycle(gone).resumed == ()
    cancelled = replace(SWEEP, state=CampaignState.CANCELLED)
    assert plan_campaign_cycle(replace(gone, campaigns=(cancelled,))).deleted == ()
    known, silent = (
        replace(found, number=3),
        event(CampaignEventCode.GET_JOBS, kind=CampaignEventSubject.CLUSTER, campaign=0),
    )
    assert told(replace(gone, events=(known,))) == {}
    assert told(replace(gone, events=(known, silent)))[CampaignEventCode.GET_JOBS].closed_at == NOON
    assert told(seen(events=(known,)))[CampaignEventCode.DROPPED].closed_at == NOON


def test_tasks_of_disputed_ends_are_told_together_until_their_owner_gives_them_up() -> None:
    """What they came to is not known, and they keep their campaign from its end."""
    three = tuple(
        AttemptOutcomeAtCluster(campaign=1, task=task, attempt=1, cluster="beta", outcome=TaskAttemptOutcome.PENDING)
        for task in range(3)
    )
    look = seen(disputed=three[1:])

    found = told(look)[CampaignEventCode.DISPUTED]

    assert (found.kind, found.cluster, found.tasks, found.first_task) == (
        *(CampaignEventSubject.CAMPAIGN, "beta", 2),
        1,
    )
    known = replace(found, number=3)
    assert told(replace(look, events=(known,))) == {}
    assert told(replace(look, events=(known,), disputed=three))[CampaignEventCode.DISPUTED].tasks == 3
    assert told(seen(events=(known,)))[CampaignEventCode.DISPUTED].closed_at == NOON
    assert told(seen(events=(known,), room={})).keys() == {CampaignEventCode.GET_JOBS}
    assert (
        find_given_up_conflicting_ends([known]),
        find_given_up_conflicting_ends([replace(known, until=NOON)]),
    ) == (set(), {(1, "beta")})


def test_only_what_root_has_said_to_be_lost_is_written_off() -> None:
    known = event(CampaignEventCode.DROPPED, kind=CampaignEventSubject.CLUSTER, campaign=0)
    said, both = replace(known, until=NOON), frozenset({"beta", "gamma"})

    assert select_clusters_declared_lost([known], both) == frozenset()
    assert select_clusters_declared_lost([said], both) == {"beta"}
    assert select_clusters_declared_lost([said], frozenset({"gamma"})) == frozenset()


def test_a_cluster_beside_one_that_was_away_is_no_sink() -> None:
    """Tasks of one second that gamma could not note the ends of look as if they took ten minutes.

    Those that are told when it is back, and later, of arrays that were sent before; others count.
    """
    before, after = array(2, "gamma"), array(3, "gamma", NOON + 12 * MINUTE)
    upset = tuple(replace(one, wallclock_s=600) for one in ended(*[TaskAttemptOutcome.SUCCESS] * 4, array=2))
    known = {
        "records": (CampaignSuccessAtCluster(campaign=1, cluster="beta", successes=9, durations_s=(1,) * 9),),
        "arrays": (array(), before, after),
        "at": NOON + 15 * MINUTE,
    }
    away = CampaignEvent(
        kind=CampaignEventSubject.CLUSTER,
        code=CampaignEventCode.GET_JOBS,
        cluster="gamma",
        opened_at=NOON,
        last_at=NOON,
    )
    now_back = seen(ended=upset, events=(away,), **known)
    was_back = seen(ended=upset, back_at={"gamma": NOON + 10 * MINUTE}, **known)
    since = [replace(one, array=3) for one in upset]

    assert CampaignEventCode.SINK not in told(now_back) | told(was_back)
    (record,) = plan_campaign_cycle(was_back).changes.records
    assert (record.cluster, record.successes, record.durations_s) == ("gamma", 4, ())
    assert CampaignEventCode.SINK in told(replace(was_back, ended=tuple(since)))
    assert CampaignEventCode.SINK in told(replace(was_back, back_at={}))


def test_a_sink_closes_the_cluster_and_tells_of_its_results() -> None:
    records = (
        CampaignSuccessAtCluster(campaign=1, cluster="beta", successes=9, durations_s=(1,) * 9),
        CampaignSuccessAtCluster(campaign=1, cluster="gamma", successes=3, durations_s=(60,) * 3),
    )

    look = seen(records=records)

    assert told(look)[CampaignEventCode.SINK].tasks == 9
    assert sent(look) == {"gamma": 4}


def test_the_events_of_an_ended_campaign_close_nothing_any_more() -> None:
    events = (
        event(CampaignEventCode.BLACKLIST),
        event(CampaignEventCode.SINK, "gamma"),
        event(CampaignEventCode.NO_CLUSTER, ""),
    )
    look = seen(events=events, arrays=(), waiting={})

    assert plan_campaign_cycle(look).finished == (1,)
    assert {one.code for one in plan_campaign_cycle(look).changes.events if one.closed_at} == {
        CampaignEventCode.BLACKLIST,
        CampaignEventCode.NO_CLUSTER,
    }


def test_what_root_could_not_do_is_over_with_its_campaign() -> None:
    known = event(CampaignEventCode.NO_LEDGER, until=NOON + MINUTE)

    assert told(seen(events=(known,))) == {}
    assert told(seen(campaigns=(), arrays=(), events=(known,)))[CampaignEventCode.NO_LEDGER].closed_at == NOON


def test_a_submission_that_failed_is_gone_on_with_after_its_pause() -> None:
    begun = replace(array(), state=ArraySubmissionState.INTENDED)
    held = replace(array(2), state=ArraySubmissionState.SUBMITTED)
    known = event(CampaignEventCode.SUBMIT_JOB, until=NOON + MINUTE)

    now = plan_campaign_cycle(seen(arrays=(begun, held), events=(known,)))
    later = plan_campaign_cycle(seen(arrays=(begun, held), events=(known,), at=NOON + MINUTE))

    assert (now.resumed, later.resumed) == ((held,), (begun, held))


@pytest.mark.parametrize(
    "other",
    [
        event(CampaignEventCode.SUBMIT_JOB, campaign=2, until=NOON + MINUTE),
        event(CampaignEventCode.SUBMIT_JOB, "gamma", until=NOON + MINUTE),
        event(CampaignEventCode.SETUP_ERROR, until=NOON + MINUTE),
    ],
    ids=["another campaign", "another cluster", "another event"],
)
def test_no_other_pause_holds_a_submission_up(other: CampaignEvent) -> None:
    begun = replace(array(), state=ArraySubmissionState.INTENDED)

    assert plan_campaign_cycle(seen(arrays=(begun,), events=(other,))).resumed == (begun,)


def test_what_was_seen_is_kept_with_what_follows_from_it() -> None:
    """Where tasks ended, what is missing since when, and of what root's ledger knows more."""
    missed = (TaskMissingSince(campaign=1, array=2, place=3, since=NOON),)
    both = (array(), array(2))

    found = plan_campaign_cycle(seen(ended=ended(TaskAttemptOutcome.SUCCESS), arrays=both, missed=missed, behind=(1,)))

    assert found.arrays == (array(),)
    assert (found.missed, found.behind) == (missed, (1,))


def test_tasks_of_a_test_are_tried_once() -> None:
    test = replace(SWEEP, jdl=replace(SWEEP.jdl, type=CampaignType.TEST))

    assert plan_campaign_cycle(seen(campaigns=(test,), ended=ended(TaskAttemptOutcome.SETUP_ERROR))).again == ()


def test_what_its_cluster_lost_runs_again_only_if_it_may_run_twice() -> None:
    lost = tuple(replace(one, forgotten_job=8) for one in ended(*[TaskAttemptOutcome.SITE_FAULT] * 2))
    twice = replace(SWEEP, jdl=replace(SWEEP.jdl, is_idempotent=True))
    look = seen(ended=lost, arrays=(array(),))

    event = told(look)[CampaignEventCode.SITE_FAULT]
    assert describe_campaign_event(event) == ("2 tasks were lost at beta: the cluster has no trace of job 8")
    assert plan_campaign_cycle(look).again == ()
    assert [one.task for one in plan_campaign_cycle(replace(look, campaigns=(twice,))).again] == [0, 1]
    assert len(plan_campaign_cycle(replace(look, ended=ended(*[TaskAttemptOutcome.SITE_FAULT] * 2))).again) == 2


@pytest.mark.parametrize(
    ("there", "told"),
    [((ListedCampaignTaskCounts(campaign=1, cluster="beta", waiting=0, listed=9),), ["1 array is deleted"]), ((), [])],
    ids=["listed", "gone"],
)
def test_an_array_that_is_gone_is_not_told_to_be_deleted(
    there: tuple[ListedCampaignTaskCounts, ...], told: list[str]
) -> None:
    over = replace(SWEEP, state=CampaignState.CANCELLED)
    look = seen(campaigns=(over,), arrays=(array(),), there=there)

    decided = plan_campaign_cycle(look)

    assert decided.deleted == (array(),)
    assert [one for one in describe_campaign_cycle_plan(decided) if "deleted" in one] == told
