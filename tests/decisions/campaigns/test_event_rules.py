"""Each problem opens one event, which may close a cluster, such as a black hole, until the problem is solved."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gridbridge.decisions.campaigns.campaign_cycle_planning import describe_campaign_cycle_plan, plan_campaign_cycle
from gridbridge.decisions.campaigns.campaign_event_rules import (
    find_given_up_conflicting_ends,
    select_removed_clusters_declared_lost,
)
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import (
    find_black_hole_clusters,
    repeat_event_with_longer_pause,
)
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
    CampaignTaskCountsAtCluster,
    ClusterCapacityForCampaigns,
)
from gridbridge.model.campaigns.campaign_events import (
    ROOT_EVENTS,
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
    CampaignSuccessAtCluster,
)
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.task_deletions_and_preemptions import TaskMissingSince
from tests.builders.campaigns import NOON, released_array
from tests.decisions.campaigns.campaign_builder import make_attempt, make_campaign, make_cycle_situation, sent_tasks

MINUTE = timedelta(minutes=1)
SUBMIT_JOB_AT_BETA = CampaignEventCode.SUBMIT_JOB, (1, "beta")
NO_TRIES = {"asked": 0, "preempted": 0, "site_fault": 0, "walltime": 0, "setup_error": -1}
CLUSTERS = {name: JdlSettingsAtCluster(exec_file="run") for name in ("beta", "gamma")}
SWEEP = make_campaign(jdl=Jdl(name="sweep", clusters=CLUSTERS))


def test_a_refused_array_is_described_with_the_clusters_error_message() -> None:
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
def test_a_restored_state_file_is_described_with_the_effect_on_the_campaign(state: CampaignState, then: str) -> None:
    one = event(CampaignEventCode.RESTORED, cluster="")

    assert describe_campaign_event(one, state) == f"an older copy of the state file was restored; {then}"
    assert describe_campaign_event(one) == "an older copy of the state file was restored"


def array(number: int = 1, cluster: str = "beta", at: datetime = NOON, **values: Any) -> CampaignArray:
    return released_array(number=number, cluster=cluster, size=9, intended_at=at, **values)


def ended(*outcomes: TaskAttemptOutcome, array: int = 1) -> tuple[TaskAttempt, ...]:
    status = {TaskAttemptOutcome.PROGRAM_ERROR: 3}
    return tuple(
        make_attempt(place, array=array, outcome=outcome, exit_status=status.get(outcome), wallclock_s=1)
        for place, outcome in enumerate(outcomes, start=1)
    )


def seen(**values: Any) -> CampaignCycleSituation:
    room = {name: ClusterCapacityForCampaigns(free_slots=4, max_slots=4) for name in CLUSTERS}
    usual = {"campaigns": (SWEEP,), "waiting": {1: 50}, "arrays": (array(),), "room": room}
    usual |= {"failures": CampaignFailuresSection(program_errors=3, probe_s=60, probe_max_s=200)}
    return make_cycle_situation(**usual | {"asked": frozenset(CLUSTERS)} | values)


def event(code: CampaignEventCode, cluster: str = "beta", **values: Any) -> CampaignEvent:
    usual: dict[str, Any] = {"kind": CampaignEventSubject.CAMPAIGN, "campaign": 1, "opened_at": NOON, "last_at": NOON}
    return CampaignEvent(**{"number": 9, "code": code, "cluster": cluster} | usual | values)


def cluster_event(code: CampaignEventCode, **values: Any) -> CampaignEvent:
    return event(code, kind=CampaignEventSubject.CLUSTER, campaign=0, **values)


def row(errors: int, **values: Any) -> tuple[CampaignSuccessAtCluster, ...]:
    return (CampaignSuccessAtCluster(campaign=1, cluster="beta", errors_in_row=errors, **values),)


def told(look: CampaignCycleSituation) -> dict[CampaignEventCode, CampaignEvent]:
    return {one.code: one for one in plan_campaign_cycle(look).changes.events}


def sent(look: CampaignCycleSituation) -> dict[str, int]:
    return {one.cluster: one.tasks for one in plan_campaign_cycle(look).sends}


def test_few_failed_tasks_open_an_event_and_close_no_cluster() -> None:
    """CiGri closes the cluster to the campaign after one failed task."""
    failed = [TaskAttemptOutcome.PROGRAM_ERROR] * 2
    look = seen(ended=ended(TaskAttemptOutcome.SUCCESS, *failed))

    (found,) = told(look).values()

    assert (found.code, found.kind) == (CampaignEventCode.EXIT_ERROR, CampaignEventSubject.TASK)
    assert (found.tasks, found.first_task, found.exit_status) == (2, 1, 3)
    assert sent(look) == {"beta": 4, "gamma": 4}


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
        (TaskAttemptOutcome.CANCELLED, CampaignEventCode.FRAG),
    ],
)
def test_a_failed_task_without_a_retry_opens_an_event_with_the_cause(
    outcome: TaskAttemptOutcome, code: CampaignEventCode
) -> None:
    last = seen(ended=ended(outcome), failures=CampaignFailuresSection(**NO_TRIES))
    first = seen(ended=ended(outcome))
    tried = {CampaignEventCode.EXIT_ERROR, CampaignEventCode.FRAG} & {code}

    (found,) = (one for one in plan_campaign_cycle(last).changes.events if one.kind is CampaignEventSubject.TASK)
    assert (found.code, found.cluster, found.tasks, found.first_task) == (code, "beta", 1, 0)
    assert {one.code for one in told(first).values() if one.kind is CampaignEventSubject.TASK} == tried


def test_a_task_cancelled_by_its_owner_opens_no_event_and_gets_no_retry() -> None:
    plan = plan_campaign_cycle(seen(ended=ended(TaskAttemptOutcome.UNWANTED)))

    assert (plan.changes.events, plan.again) == ((), ())


def test_equal_failures_are_counted_in_the_same_event() -> None:
    counted = {"exit_status": 3, "tasks": 5, "first_task": 8}
    known = event(CampaignEventCode.EXIT_ERROR, kind=CampaignEventSubject.TASK, **counted)

    found = told(seen(ended=ended(TaskAttemptOutcome.PROGRAM_ERROR), events=(known,), at=NOON + MINUTE))

    assert found[CampaignEventCode.EXIT_ERROR] == replace(known, tasks=6, last_at=NOON + MINUTE)


def test_program_errors_in_a_row_close_the_cluster_only_to_their_campaign() -> None:
    both = {"campaigns": (SWEEP, replace(SWEEP, number=2)), "waiting": {1: 1, 2: 50}}
    look = seen(**both, ended=ended(TaskAttemptOutcome.SIGNAL), records=row(2))

    assert told(look)[CampaignEventCode.BLACKLIST].until is None
    assert sent_tasks(look) == {(1, "gamma"): 1, (2, "beta"): 4, (2, "gamma"): 3}


@pytest.mark.parametrize(
    ("before", "hosts", "expected"),
    [
        ("n1", ("n1", "n1"), ", all of them on n1"),
        ("n1", ("n1", "n2"), ""),
        ("n1", ("n2", "n2"), ""),
        ("", ("n1", "n1"), ""),
        ("n1", ("n1", ""), ""),
    ],
    ids=["one host", "two hosts", "another host", "several hosts before", "unknown host"],
)
def test_an_event_names_the_host_on_which_all_tasks_in_a_row_failed(
    before: str, hosts: tuple[str, ...], expected: str
) -> None:
    failed = zip(ended(*[TaskAttemptOutcome.PROGRAM_ERROR] * len(hosts)), hosts, strict=True)
    look = seen(ended=tuple(replace(one, host=host) for one, host in failed), records=row(1, error_host=before))

    found = told(look)[CampaignEventCode.BLACKLIST]
    assert describe_campaign_event(found) == f"the last 3 tasks at beta failed by themselves{expected}"
    assert describe_campaign_event(replace(found, tasks=1)).startswith("the last 1 task at beta failed by itself")


@pytest.mark.parametrize(
    ("before", "outcome", "errors"),
    [
        (2, TaskAttemptOutcome.SUCCESS, 0),
        (2, TaskAttemptOutcome.RESUBMIT, 0),
        (2, TaskAttemptOutcome.WALLTIME, 0),
        (1, TaskAttemptOutcome.SITE_FAULT, 2),
    ],
)
def test_only_a_task_that_ran_without_a_program_error_resets_the_errors_in_a_row(
    before: int, outcome: TaskAttemptOutcome, errors: int
) -> None:
    look = seen(ended=ended(TaskAttemptOutcome.PROGRAM_ERROR, outcome), records=row(before))

    assert CampaignEventCode.BLACKLIST not in told(look)
    assert [record.errors_in_row for record in plan_campaign_cycle(look).changes.records] == [errors]


def test_a_setup_error_closes_the_cluster_and_the_task_is_sent_to_another_cluster() -> None:
    look = seen(ended=ended(TaskAttemptOutcome.SETUP_ERROR))

    assert told(look)[CampaignEventCode.SETUP_ERROR].until == NOON + MINUTE
    assert sent(look) == {"gamma": 4}
    assert [one.avoid for one in plan_campaign_cycle(look).again] == [("beta",)]


def test_a_task_that_no_cluster_could_start_opens_an_event() -> None:
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
def test_a_closed_cluster_gets_one_probe_after_its_pause(probes: int, pause_s: int) -> None:
    known = event(CampaignEventCode.SETUP_ERROR, until=NOON, probes=probes)

    look = seen(events=(known,))

    assert sent(look) == {"beta": 1, "gamma": 4}
    again = told(look)[CampaignEventCode.SETUP_ERROR]
    assert (again.probes, again.until) == (probes + 1, NOON + timedelta(seconds=pause_s))


def test_a_cluster_that_refused_arrays_gets_one_probe_without_a_further_event() -> None:
    look = seen(events=(event(CampaignEventCode.RUNNER_SUBMIT_ERROR, until=NOON),))

    assert sent(look) == {"beta": 1, "gamma": 4}
    assert told(look) == {}


def test_an_event_during_a_pause_does_not_lengthen_the_pause() -> None:
    events: list[CampaignEvent | None] = [None]
    for at in (NOON, NOON + MINUTE / 2, NOON + MINUTE):
        events.append(repeat_event_with_longer_pause(events[-1], *SUBMIT_JOB_AT_BETA, at, CampaignFailuresSection()))
    first, second, third = (one for one in events if one)

    until = [NOON + MINUTE, NOON + MINUTE, NOON + 3 * MINUTE]
    assert [(one.probes, one.until) for one in (first, second, third)] == list(zip((0, 0, 1), until, strict=True))
    assert second.last_at == NOON + MINUTE / 2


def test_a_closed_cluster_gets_no_task_during_its_pause() -> None:
    known = event(CampaignEventCode.SETUP_ERROR, until=NOON + MINUTE)
    forever = event(CampaignEventCode.BLACKLIST)

    assert sent(seen(events=(known,))) == {"gamma": 4}
    assert sent(seen(events=(forever, replace(known, until=NOON)))) == {"gamma": 4}
    assert sent(seen(events=(replace(known, until=NOON), forever))) == {"gamma": 4}


def test_a_pause_above_the_longest_pause_is_ignored() -> None:
    """The clock ran fast when the pause was stored, and was corrected afterwards."""
    ahead = timedelta(days=40)
    known = event(CampaignEventCode.SETUP_ERROR, until=NOON + ahead)
    pause = event(CampaignEventCode.SUBMIT_JOB, until=NOON + ahead)
    begun = array(state=ArraySubmissionState.INTENDED)

    look = seen(events=(known,))

    assert sent(look) == {"beta": 1, "gamma": 4}
    assert told(look)[CampaignEventCode.SETUP_ERROR].until == NOON + 2 * MINUTE
    assert plan_campaign_cycle(seen(events=(pause,), arrays=(begun,))).resumed == (begun,)
    again = repeat_event_with_longer_pause(pause, *SUBMIT_JOB_AT_BETA, NOON, CampaignFailuresSection())
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
def test_a_started_task_that_was_sent_after_the_setup_error_reopens_the_cluster(
    sent_at: datetime, outcome: TaskAttemptOutcome, is_closed: bool
) -> None:
    known = event(CampaignEventCode.SETUP_ERROR, until=NOON + 4 * MINUTE)
    at = NOON + 2 * MINUTE

    look = seen(events=(known,), arrays=(array(at=sent_at),), ended=ended(outcome), at=at)

    assert bool(told(look).get(CampaignEventCode.SETUP_ERROR)) is is_closed
    assert ("beta" in sent(look)) is is_closed


def test_a_campaign_whose_clusters_are_all_closed_waits_and_opens_an_event() -> None:
    both = tuple(replace(event(CampaignEventCode.BLACKLIST, name), number=n) for n, name in enumerate(CLUSTERS))
    look = seen(events=both, arrays=())

    assert told(look)[CampaignEventCode.NO_CLUSTER].closed_at is None
    assert (plan_campaign_cycle(look).finished, plan_campaign_cycle(look).sends) == ((), ())
    (told_once,) = describe_campaign_cycle_plan(plan_campaign_cycle(look))
    assert told_once.startswith("campaign 1: some waiting tasks have no cluster left: each cluster")
    stuck = event(CampaignEventCode.NO_CLUSTER, "")
    assert told(seen(events=(*both, stuck), arrays=())) == {}
    assert told(seen(events=(both[0], stuck)))[CampaignEventCode.NO_CLUSTER].closed_at == NOON


def test_a_cluster_that_does_not_answer_opens_one_event() -> None:
    down = seen(room={"gamma": ClusterCapacityForCampaigns(free_slots=4)})

    found = told(down)[CampaignEventCode.GET_JOBS]

    assert (found.kind, found.campaign, found.cluster) == (CampaignEventSubject.CLUSTER, 0, "beta")
    known = replace(found, number=3)
    assert told(replace(down, events=(known,))) == {}
    assert told(seen(events=(known,)))[CampaignEventCode.GET_JOBS].closed_at == NOON


def test_events_for_administrators_end_with_the_error_message() -> None:
    room = {"gamma": ClusterCapacityForCampaigns(free_slots=4)}
    silent = told(seen(room=room, silent={"beta": "ssh: no route to host"}))[CampaignEventCode.GET_JOBS]
    lost = [event(code, why="c.1: no such thing") for code in ROOT_EVENTS]

    assert describe_campaign_event(silent) == "beta gives no answer: ssh: no route to host"
    assert all(describe_campaign_event(one).endswith(": c.1: no such thing") for one in lost)


def test_a_cluster_removed_from_the_configuration_has_an_event_until_the_section_returns() -> None:
    begun = array(2, state=ArraySubmissionState.INTENDED)
    left = {"room": {"gamma": ClusterCapacityForCampaigns(free_slots=4)}, "asked": frozenset({"gamma"})}
    gone = seen(**left, dropped=frozenset({"beta"}), arrays=(array(), begun))

    found = told(gone)[CampaignEventCode.DROPPED]

    assert (found.kind, found.campaign, found.cluster) == (CampaignEventSubject.CLUSTER, 0, "beta")
    assert plan_campaign_cycle(gone).resumed == ()
    cancelled = replace(SWEEP, state=CampaignState.CANCELLED)
    assert plan_campaign_cycle(replace(gone, campaigns=(cancelled,))).deleted == ()
    known, silent = replace(found, number=3), cluster_event(CampaignEventCode.GET_JOBS)
    assert told(replace(gone, events=(known,))) == {}
    assert told(replace(gone, events=(known, silent)))[CampaignEventCode.GET_JOBS].closed_at == NOON
    assert told(seen(events=(known,)))[CampaignEventCode.DROPPED].closed_at == NOON


def test_tasks_with_contradicting_records_share_one_event_until_the_owner_gives_the_tasks_up() -> None:
    three = tuple(
        AttemptOutcomeAtCluster(campaign=1, task=task, attempt=1, cluster="beta", outcome=TaskAttemptOutcome.PENDING)
        for task in range(3)
    )
    look = seen(disputed=three[1:])

    found = told(look)[CampaignEventCode.DISPUTED]

    what = (found.kind, found.cluster, found.tasks, found.first_task)
    assert what == (CampaignEventSubject.CAMPAIGN, "beta", 2, 1)
    known = replace(found, number=3)
    assert told(replace(look, events=(known,))) == {}
    assert told(replace(look, events=(known,), disputed=three))[CampaignEventCode.DISPUTED].tasks == 3
    assert told(seen(events=(known,)))[CampaignEventCode.DISPUTED].closed_at == NOON
    assert told(seen(events=(known,), room={})).keys() == {CampaignEventCode.GET_JOBS}
    assert find_given_up_conflicting_ends([known]) == set()
    assert find_given_up_conflicting_ends([replace(known, until=NOON)]) == {(1, "beta")}


def test_tasks_at_a_removed_cluster_are_lost_only_if_root_declared_the_loss() -> None:
    known = cluster_event(CampaignEventCode.DROPPED)
    said, both = replace(known, until=NOON), frozenset({"beta", "gamma"})

    assert select_removed_clusters_declared_lost([known], both) == frozenset()
    assert select_removed_clusters_declared_lost([said], both) == {"beta"}
    assert select_removed_clusters_declared_lost([said], frozenset({"gamma"})) == frozenset()


def test_run_times_at_a_cluster_after_an_outage_make_no_other_cluster_a_black_hole() -> None:
    """During its outage gamma records no ends, so a task of one second seems to take ten minutes."""
    before, after = array(2, "gamma"), array(3, "gamma", NOON + 12 * MINUTE)
    upset = tuple(replace(one, wallclock_s=600) for one in ended(*[TaskAttemptOutcome.SUCCESS] * 4, array=2))
    known = {
        "records": row(0, successes=9, durations_s=(1,) * 9),
        "arrays": (array(), before, after),
        "at": NOON + 15 * MINUTE,
    }
    away = cluster_event(CampaignEventCode.GET_JOBS, cluster="gamma")
    now_back = seen(ended=upset, events=(away,), **known)
    was_back = seen(ended=upset, back_at={"gamma": NOON + 10 * MINUTE}, **known)
    since = [replace(one, array=3) for one in upset]

    assert CampaignEventCode.SINK not in told(now_back) | told(was_back)
    (record,) = plan_campaign_cycle(was_back).changes.records
    assert (record.cluster, record.successes, record.durations_s) == ("gamma", 4, ())
    assert CampaignEventCode.SINK in told(replace(was_back, ended=tuple(since)))
    assert CampaignEventCode.SINK in told(replace(was_back, back_at={}))


def test_a_black_hole_closes_the_cluster_and_opens_an_event_about_the_successes() -> None:
    gamma = CampaignSuccessAtCluster(campaign=1, cluster="gamma", successes=3, durations_s=(60,) * 3)
    look = seen(records=(*row(0, successes=9, durations_s=(1,) * 9), gamma))

    assert told(look)[CampaignEventCode.SINK].tasks == 9
    assert sent(look) == {"gamma": 4}


def test_the_end_of_a_campaign_closes_its_blacklist_events_and_those_about_acts_of_root() -> None:
    blacklist, lonely = event(CampaignEventCode.BLACKLIST), event(CampaignEventCode.NO_CLUSTER, "")
    of_root = event(CampaignEventCode.NO_LEDGER, until=NOON + MINUTE)
    look = seen(events=(blacklist, event(CampaignEventCode.SINK, "gamma"), lonely), arrays=(), waiting={})

    plan = plan_campaign_cycle(look)
    assert plan.finished == (1,)
    assert {event.code for event in plan.changes.events if event.closed_at} == {blacklist.code, lonely.code}
    assert told(seen(events=(of_root,))) == {}
    assert told(seen(campaigns=(), arrays=(), events=(of_root,)))[of_root.code].closed_at == NOON


def test_a_failed_submission_is_resumed_after_its_pause_and_a_release_at_once() -> None:
    begun = array(state=ArraySubmissionState.INTENDED)
    held = array(2, state=ArraySubmissionState.SUBMITTED)
    known = event(CampaignEventCode.SUBMIT_JOB, until=NOON + MINUTE)

    now = seen(arrays=(begun, held), events=(known,))
    later = replace(now, at=NOON + MINUTE)

    assert [plan_campaign_cycle(one).resumed for one in (now, later)] == [(held,), (begun, held)]


@pytest.mark.parametrize(
    "other",
    [
        event(CampaignEventCode.SUBMIT_JOB, campaign=2, until=NOON + MINUTE),
        event(CampaignEventCode.SUBMIT_JOB, "gamma", until=NOON + MINUTE),
        event(CampaignEventCode.SETUP_ERROR, until=NOON + MINUTE),
    ],
    ids=["another campaign", "another cluster", "another event"],
)
def test_a_pause_of_another_campaign_cluster_or_event_delays_no_submission(other: CampaignEvent) -> None:
    begun = array(state=ArraySubmissionState.INTENDED)

    assert plan_campaign_cycle(seen(arrays=(begun,), events=(other,))).resumed == (begun,)


def test_a_cycle_plan_stores_the_observed_facts_with_the_decisions() -> None:
    missed = (TaskMissingSince(campaign=1, array=2, place=3, since=NOON),)
    both = (array(), array(2))

    found = plan_campaign_cycle(seen(ended=ended(TaskAttemptOutcome.SUCCESS), arrays=both, missed=missed, behind=(1,)))

    assert found.arrays == (array(),)
    assert (found.missed, found.behind) == (missed, (1,))


def test_tasks_of_a_test_campaign_are_not_retried() -> None:
    test = replace(SWEEP, jdl=replace(SWEEP.jdl, type=CampaignType.TEST))

    assert plan_campaign_cycle(seen(campaigns=(test,), ended=ended(TaskAttemptOutcome.SETUP_ERROR))).again == ()


def test_a_task_lost_by_its_cluster_runs_again_only_in_an_idempotent_campaign() -> None:
    lost = tuple(replace(one, forgotten_job=8) for one in ended(*[TaskAttemptOutcome.SITE_FAULT] * 2))
    twice = replace(SWEEP, jdl=replace(SWEEP.jdl, is_idempotent=True))
    look = seen(ended=lost, arrays=(array(),))

    event = told(look)[CampaignEventCode.SITE_FAULT]
    why = "the cluster has no trace of job 8 or of its record"
    assert describe_campaign_event(event) == f"2 tasks were lost at beta: {why}"
    assert plan_campaign_cycle(look).again == ()
    assert [one.task for one in plan_campaign_cycle(replace(look, campaigns=(twice,))).again] == [0, 1]
    assert len(plan_campaign_cycle(replace(look, ended=ended(*[TaskAttemptOutcome.SITE_FAULT] * 2))).again) == 2


LISTED = (CampaignTaskCountsAtCluster(campaign=1, cluster="beta", waiting=0, listed=9),)


@pytest.mark.parametrize(("there", "told"), [(LISTED, ["1 array is deleted"]), ((), [])], ids=["listed", "not listed"])
def test_an_array_missing_in_the_job_list_is_not_reported_as_deleted(
    there: tuple[CampaignTaskCountsAtCluster, ...], told: list[str]
) -> None:
    over = replace(SWEEP, state=CampaignState.CANCELLED)
    decided = plan_campaign_cycle(seen(campaigns=(over,), there=there))

    assert decided.deleted == (array(),)
    assert [one for one in describe_campaign_cycle_plan(decided) if "deleted" in one] == told


def record(cluster: str, *durations_s: int, is_trusted: bool = False) -> CampaignSuccessAtCluster:
    return CampaignSuccessAtCluster(
        campaign=1, cluster=cluster, successes=len(durations_s), durations_s=durations_s, is_trusted=is_trusted
    )


@pytest.mark.parametrize(
    ("there", "elsewhere", "is_one"),
    [
        ((0, 1, 1, 1, 2), (60, 70, 80), True),
        ((1, 1, 1, 1), (60, 70, 80), False),
        ((1, 1, 1, 1, 1), (60, 70), False),
        ((5, 5, 5, 5, 5), (600, 700, 800), False),
        ((4, 4, 4, 4, 4), (39, 39, 39), False),
        ((4, 4, 4, 4, 4), (41, 41, 41), True),
        ((0, 0, 0, 0, 0), (0, 0, 0), False),
        ((1, 1, 1, 90, 90), (60, 70, 80), True),
        ((0, 0, 0, 0, 0), (1, 2, 5), False),
        ((0, 0, 0, 0, 0), (6, 6, 6), True),
    ],
    ids=[
        *("black hole", "few successes", "few successes elsewhere", "median of 5 s", "a tenth of the median elsewhere"),
        *("below a tenth", "all tasks are short", "median decides", "rounded run times", "long tasks elsewhere"),
    ],
)
def test_a_black_hole_has_very_short_run_times_compared_with_other_clusters(
    there: tuple[int, ...], elsewhere: tuple[int, ...], is_one: bool
) -> None:
    """The limits are five successes, a median under 5 s, and a tenth of the other clusters' median."""
    found = find_black_hole_clusters([record("beta", *there), record("gamma", *elsewhere)])

    assert found == ({(1, "beta")} if is_one else set())


def test_a_cluster_that_the_owner_trusts_is_no_black_hole() -> None:
    there = record("beta", *[1] * 9, is_trusted=True)

    assert find_black_hole_clusters([there, record("gamma", *[60] * 9)]) == set()


def test_run_times_of_different_campaigns_are_not_compared() -> None:
    other = CampaignSuccessAtCluster(campaign=2, cluster="gamma", durations_s=(60,) * 9)

    assert find_black_hole_clusters([record("beta", *[1] * 9), other]) == set()
