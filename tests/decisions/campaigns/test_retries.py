"""A failed task is retried within the limit of its cause, at a cluster where the task has not failed."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.campaigns.task_retries_and_deciding_attempts import (
    choose_clusters_retry_avoids,
    list_walltime_overrun_clusters,
    map_tasks_to_failed_clusters,
    may_retry_task,
    plan_task_retries,
)
from gridbridge.model.campaigns.campaign import AttemptOutcomeAtCluster, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignFailuresSection
from gridbridge.model.campaigns.campaign_cycle_plan import TaskRetry

BOTH = {"beta", "gamma"}
POLICY = CampaignFailuresSection(asked=2, preempted=3, site_fault=2, walltime=2, setup_error=1)


BETA: dict[str, Any] = {"campaign": 1, "task": 7, "attempt": 1, "cluster": "beta"}


def tried(
    attempt: int, outcome: TaskAttemptOutcome, cluster: str = "beta", *, saved: bool = False
) -> AttemptOutcomeAtCluster:
    return AttemptOutcomeAtCluster(
        campaign=1, task=7, attempt=attempt, cluster=cluster, outcome=outcome, has_progressed=saved
    )


def runs(outcome: TaskAttemptOutcome, times: int, clusters: set[str] = BOTH, at: str = "beta") -> bool:
    """Return whether a task runs again after `times` ends with this outcome at one cluster."""
    *earlier, now = (tried(attempt, outcome, at) for attempt in range(1, times + 1))
    return may_retry_task(now, earlier, clusters, POLICY)


@pytest.mark.parametrize(
    ("outcome", "times"),
    [
        (TaskAttemptOutcome.SUCCESS, 0),
        (TaskAttemptOutcome.PROGRAM_ERROR, 0),
        (TaskAttemptOutcome.SIGNAL, 0),
        (TaskAttemptOutcome.CANCELLED, 0),
        (TaskAttemptOutcome.RESUBMIT, 2),
        (TaskAttemptOutcome.RESUBMIT_LAST, 2),
        (TaskAttemptOutcome.PREEMPTED, 3),
        (TaskAttemptOutcome.WIPED, 5),
        (TaskAttemptOutcome.SITE_FAULT, 2),
        (TaskAttemptOutcome.WALLTIME, 2),
        (TaskAttemptOutcome.SETUP_ERROR, 2),
    ],
)
def test_each_cause_of_failure_has_its_own_retry_limit(outcome: TaskAttemptOutcome, times: int) -> None:
    """A program error gets no retry; a setup error gets one more retry for each additional cluster."""
    found = [runs(outcome, each) for each in range(1, 6)]

    assert found == [each <= times for each in range(1, 6)]


def test_retries_for_one_cause_do_not_count_for_another_cause() -> None:
    earlier = [tried(attempt, TaskAttemptOutcome.PREEMPTED) for attempt in (1, 2, 3)]

    assert may_retry_task(tried(4, TaskAttemptOutcome.SITE_FAULT), earlier, BOTH, POLICY)


def test_a_task_overruns_its_walltime_at_most_once_at_each_cluster() -> None:
    there = tried(1, TaskAttemptOutcome.WALLTIME, "gamma")

    assert runs(TaskAttemptOutcome.WALLTIME, 1)
    assert not runs(TaskAttemptOutcome.WALLTIME, 1, {"beta"})
    assert not may_retry_task(tried(2, TaskAttemptOutcome.WALLTIME), [there], BOTH, POLICY)


@pytest.mark.parametrize(
    ("now", "earlier", "clusters", "expected"),
    [
        (tried(1, TaskAttemptOutcome.SETUP_ERROR), [], BOTH, ("beta",)),
        (tried(1, TaskAttemptOutcome.SETUP_ERROR), [], {"beta"}, ()),
        (tried(1, TaskAttemptOutcome.PREEMPTED), [], BOTH, ()),
        (tried(2, TaskAttemptOutcome.PREEMPTED), [tried(1, TaskAttemptOutcome.SITE_FAULT, "gamma")], BOTH, ("gamma",)),
        (
            tried(3, TaskAttemptOutcome.PREEMPTED),
            [tried(1, TaskAttemptOutcome.SITE_FAULT, "gamma"), tried(2, TaskAttemptOutcome.SETUP_ERROR)],
            BOTH,
            (),
        ),
        (tried(2, TaskAttemptOutcome.SITE_FAULT), [tried(1, TaskAttemptOutcome.WALLTIME, "gamma")], BOTH, ("beta",)),
        (tried(2, TaskAttemptOutcome.SITE_FAULT), [tried(1, TaskAttemptOutcome.SUCCESS, "gamma")], BOTH, ("beta",)),
        (tried(2, TaskAttemptOutcome.MOVED), [tried(1, TaskAttemptOutcome.SITE_FAULT, "gamma")], BOTH, ("beta",)),
        (tried(1, TaskAttemptOutcome.MOVED), [], {"beta"}, ()),
    ],
    ids=[
        "another cluster is left",
        "the only cluster",
        "preempted",
        "preempted, fault at another cluster",
        "preempted, faults at both clusters",
        "faults at both clusters",
        "success at another cluster",
        "moved",
        "moved from the only cluster",
    ],
)
def test_a_retry_avoids_clusters_where_the_task_failed(
    now: AttemptOutcomeAtCluster, earlier: list[AttemptOutcomeAtCluster], clusters: set[str], expected: tuple[str, ...]
) -> None:
    """If all clusters failed, only the last cluster is avoided; a preemption is no fault of the cluster."""
    assert choose_clusters_retry_avoids(now, earlier, clusters) == expected


LOST, PREEMPTED, WIPED = TaskAttemptOutcome.SITE_FAULT, TaskAttemptOutcome.PREEMPTED, TaskAttemptOutcome.WIPED


@pytest.mark.parametrize(
    ("attempts", "avoid", "has_checkpoint"),
    [
        ([tried(1, PREEMPTED, saved=True)], ("gamma",), True),
        ([tried(1, LOST, saved=True)], ("gamma",), True),
        ([tried(1, PREEMPTED, saved=True), tried(2, PREEMPTED)], ("gamma",), True),
        ([tried(1, PREEMPTED, saved=True), tried(2, WIPED)], ("gamma",), True),
        ([tried(1, LOST, saved=True), tried(2, LOST, "gamma", saved=True)], ("beta",), True),
        ([tried(1, LOST, saved=True), tried(2, LOST)], ("gamma",), True),
        ([tried(1, PREEMPTED, saved=True), tried(2, LOST), tried(3, LOST)], ("beta",), False),
        ([tried(1, LOST)], ("beta",), False),
        ([tried(1, LOST, "delta", saved=True)], (), False),
    ],
    ids=[
        "preempted",
        "lost",
        "preempted before the next checkpoint",
        "deleted before its start",
        "a later checkpoint elsewhere",
        "lost once there without progress",
        "lost twice there without progress",
        "no checkpoint",
        "a cluster that the campaign has no more",
    ],
)
def test_a_task_with_a_checkpoint_runs_again_at_the_same_cluster(
    attempts: list[AttemptOutcomeAtCluster], avoid: tuple[str, ...], has_checkpoint: bool
) -> None:
    """Other clusters get the task only if no other cluster is open, or after two failures at the checkpoint."""
    (retry,) = plan_task_retries(attempts[-1:], attempts[:-1], {1: BOTH}, POLICY)

    assert (avoid, has_checkpoint) == (retry.avoid, retry.checkpoint_wait_s > 0)
    assert (avoid if has_checkpoint else ()) == retry.others


@pytest.mark.parametrize(
    ("runs_s", "expected_s"),
    [([3000, 500], 3500), ([None], 600), ([5], 600), ([9**9], 604_800)],
    ids=["what it has worked there", "unknown", "short", "for a week"],
)
def test_a_task_waits_for_its_closed_cluster_as_long_as_it_has_worked_there(
    runs_s: list[int | None], expected_s: float
) -> None:
    """Work without a checkpoint, or at another cluster, is lost in any case."""
    saved = [
        replace(tried(number, PREEMPTED, saved=True), wallclock_s=run_s) for number, run_s in enumerate(runs_s, start=2)
    ]
    elsewhere = replace(tried(1, LOST, "gamma", saved=True), wallclock_s=7000)
    idle = replace(tried(9, PREEMPTED), wallclock_s=8000)

    (retry,) = plan_task_retries([idle], [elsewhere, *saved], {1: BOTH}, POLICY)

    assert (expected_s, ("gamma",)) == (retry.checkpoint_wait_s, retry.others)


@given(st.lists(st.booleans(), max_size=12), st.sampled_from([LOST, PREEMPTED]))
def test_only_retries_without_progress_count_and_a_task_without_progress_ends(
    saved: list[bool], outcome: TaskAttemptOutcome
) -> None:
    attempts = [tried(number, outcome, saved=each) for number, each in enumerate(saved, start=1)]
    budget = POLICY.site_fault if outcome is LOST else POLICY.preempted

    for now, earlier in ((attempts[end], attempts[:end]) for end in range(len(attempts))):
        without = sum(not attempt.has_progressed for attempt in (*earlier, now))
        assert may_retry_task(now, earlier, BOTH, POLICY) == (now.has_progressed or without <= budget)


def test_a_task_never_returns_to_a_cluster_where_the_task_overran_its_walltime() -> None:
    ended, earlier = (tried(2, TaskAttemptOutcome.SITE_FAULT), tried(1, TaskAttemptOutcome.WALLTIME, "gamma"))
    three = {*BOTH, "delta"}

    (next_one,) = plan_task_retries([ended], [earlier], {1: three}, POLICY)

    assert (next_one.avoid, next_one.never) == (("beta", "gamma"), ("gamma",))


def test_a_retry_never_excludes_all_clusters() -> None:
    overran = tried(1, TaskAttemptOutcome.WALLTIME)

    assert list_walltime_overrun_clusters([overran], BOTH) == ("beta",)
    assert list_walltime_overrun_clusters([overran], {"beta"}) == ()
    assert list_walltime_overrun_clusters([overran, tried(2, TaskAttemptOutcome.WALLTIME, "gamma")], BOTH) == ()


def test_an_overrun_beside_a_speculative_attempt_excludes_the_cluster() -> None:
    beside = AttemptOutcomeAtCluster(**BETA | {"attempt": 1, "outcome": TaskAttemptOutcome.COPY, "is_overrun": True})
    last = tried(2, TaskAttemptOutcome.PREEMPTED, "gamma")

    (later,) = plan_task_retries([last], [beside], {1: BOTH}, POLICY)
    (at_once,) = plan_task_retries([beside, last], [], {1: BOTH}, POLICY)

    assert later.never == at_once.never == ("beta",)
    assert not may_retry_task(tried(2, TaskAttemptOutcome.WALLTIME, "gamma"), [beside], BOTH, POLICY)


def test_failed_clusters_are_listed_for_each_task() -> None:
    """Preemptions and program errors are no failures of the cluster."""
    seven = (
        tried(1, TaskAttemptOutcome.WALLTIME),
        tried(2, TaskAttemptOutcome.SETUP_ERROR, "gamma"),
        tried(3, TaskAttemptOutcome.PREEMPTED, "delta"),
    )
    eight = AttemptOutcomeAtCluster(**BETA | {"task": 8, "outcome": TaskAttemptOutcome.COPY, "is_overrun": True})

    assert map_tasks_to_failed_clusters([*seven, eight]) == {7: ("beta", "gamma"), 8: ("beta",)}


def test_an_ended_attempt_counts_once_towards_the_retry_limit() -> None:
    before, now = tried(1, TaskAttemptOutcome.SITE_FAULT), tried(2, TaskAttemptOutcome.SITE_FAULT)

    assert [one.attempt for one in plan_task_retries([now], [before], {1: BOTH}, POLICY)] == [2]
    assert plan_task_retries([tried(3, TaskAttemptOutcome.SITE_FAULT)], [before, now], {1: BOTH}, POLICY) == ()


def test_a_campaign_without_given_clusters_gets_no_retries() -> None:
    ended = [tried(1, TaskAttemptOutcome.SITE_FAULT)]

    expected = TaskRetry(campaign=1, task=7, attempt=1, outcome=TaskAttemptOutcome.SITE_FAULT, avoid=("beta",))
    assert plan_task_retries(ended, [], {1: BOTH}, POLICY) == (expected,)
    assert plan_task_retries(ended, [], {}, POLICY) == ()
