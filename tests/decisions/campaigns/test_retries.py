"""A task is tried again within its cause's budget, and at a cluster that has not failed it."""

from typing import Any

import pytest

from gridbridge.decisions.campaigns.failures.retries import (
    again,
    avoided,
    failed_at,
    never,
    to_run_again,
)
from gridbridge.model.campaigns.campaign import Outcome
from gridbridge.model.campaigns.plan import Again, Tried
from gridbridge.model.campaigns.sections import Failures

BOTH = {"beta", "gamma"}
POLICY = Failures(asked=2, preempted=3, site_fault=2, walltime=2, setup_error=1)


BETA: dict[str, Any] = {"campaign": 1, "task": 7, "attempt": 1, "cluster": "beta"}


def tried(attempt: int, outcome: Outcome, cluster: str = "beta") -> Tried:
    """Return an attempt of a task."""
    return Tried(campaign=1, task=7, attempt=attempt, cluster=cluster, outcome=outcome)


def runs(outcome: Outcome, times: int, clusters: set[str] = BOTH, at: str = "beta") -> bool:
    """Say whether a task runs again that came to this so often, always at one cluster."""
    *earlier, now = (tried(attempt, outcome, at) for attempt in range(1, times + 1))
    return again(now, earlier, clusters, POLICY)


@pytest.mark.parametrize(
    ("outcome", "times"),
    [
        (Outcome.SUCCESS, 0),
        (Outcome.PROGRAM_ERROR, 0),
        (Outcome.SIGNAL, 0),
        (Outcome.CANCELLED, 0),
        (Outcome.RESUBMIT, 2),
        (Outcome.RESUBMIT_LAST, 2),
        (Outcome.PREEMPTED, 3),
        (Outcome.WIPED, 5),
        (Outcome.SITE_FAULT, 2),
        (Outcome.WALLTIME, 2),
        (Outcome.SETUP_ERROR, 2),
    ],
)
def test_each_cause_has_its_budget(outcome: Outcome, times: int) -> None:
    """A program that fails has none; a set-up has one more for each further cluster."""
    found = [runs(outcome, each) for each in range(1, 6)]

    assert found == [each <= times for each in range(1, 6)]


def test_a_cause_does_not_cost_another_ones_budget() -> None:
    """A task that lost its place often may still lose its host."""
    earlier = [tried(attempt, Outcome.PREEMPTED) for attempt in (1, 2, 3)]

    assert again(tried(4, Outcome.SITE_FAULT), earlier, BOTH, POLICY)


def test_a_walltime_is_overrun_once_at_each_cluster() -> None:
    """It would be no longer there."""
    there = tried(1, Outcome.WALLTIME, "gamma")

    assert runs(Outcome.WALLTIME, 1)
    assert not runs(Outcome.WALLTIME, 1, {"beta"})
    assert not again(tried(2, Outcome.WALLTIME), [there], BOTH, POLICY)


@pytest.mark.parametrize(
    ("now", "earlier", "clusters", "expected"),
    [
        (tried(1, Outcome.SETUP_ERROR), [], BOTH, ("beta",)),
        (tried(1, Outcome.SETUP_ERROR), [], {"beta"}, ()),
        (tried(1, Outcome.PREEMPTED), [], BOTH, ()),
        (tried(2, Outcome.PREEMPTED), [tried(1, Outcome.SITE_FAULT, "gamma")], BOTH, ("gamma",)),
        (
            tried(3, Outcome.PREEMPTED),
            [tried(1, Outcome.SITE_FAULT, "gamma"), tried(2, Outcome.SETUP_ERROR)],
            BOTH,
            (),
        ),
        (tried(2, Outcome.SITE_FAULT), [tried(1, Outcome.WALLTIME, "gamma")], BOTH, ("beta",)),
        (
            tried(2, Outcome.SITE_FAULT),
            [tried(1, Outcome.SETUP_ERROR, "gamma")],
            {*BOTH, "delta"},
            ("beta", "gamma"),
        ),
        (tried(2, Outcome.SITE_FAULT), [tried(1, Outcome.SUCCESS, "gamma")], BOTH, ("beta",)),
        (tried(2, Outcome.MOVED), [tried(1, Outcome.SITE_FAULT, "gamma")], BOTH, ("beta",)),
        (tried(1, Outcome.MOVED), [], {"beta"}, ()),
    ],
    ids=[
        "another",
        "the only one",
        "its place",
        "its place where no fault was",
        "its place where each has failed it",
        "each",
        "a third",
        "not at fault",
        "moved",
        "moved in vain",
    ],
)
def test_a_cluster_that_failed_a_task_is_avoided(
    now: Tried, earlier: list[Tried], clusters: set[str], expected: tuple[str, ...]
) -> None:
    """Where each has failed it, that is the last one; a lost place is nobody's fault."""
    assert avoided(now, earlier, clusters) == expected


def test_a_task_never_returns_to_where_it_overran_its_walltime() -> None:
    """What failed it later is no reason to forget that."""
    ended, earlier = tried(2, Outcome.SITE_FAULT), tried(1, Outcome.WALLTIME, "gamma")
    three = {*BOTH, "delta"}

    (next_one,) = to_run_again([ended], [earlier], {1: three}, POLICY)

    assert (next_one.avoid, next_one.never) == (("beta", "gamma"), ("gamma",))


def test_a_task_that_runs_again_is_never_kept_off_every_cluster() -> None:
    """It would wait for ever."""
    overran = tried(1, Outcome.WALLTIME)

    assert never([overran], BOTH) == ("beta",)
    assert never([overran], {"beta"}) == ()
    assert never([overran, tried(2, Outcome.WALLTIME, "gamma")], BOTH) == ()


def test_an_attempt_that_overran_beside_a_copy_is_remembered() -> None:
    """It costs no try, and both may have ended in one look."""
    beside = Tried(**BETA | {"attempt": 1, "outcome": Outcome.COPY, "is_overrun": True})
    last = tried(2, Outcome.PREEMPTED, "gamma")

    (later,) = to_run_again([last], [beside], {1: BOTH}, POLICY)
    (at_once,) = to_run_again([beside, last], [], {1: BOTH}, POLICY)

    assert later.never == at_once.never == ("beta",)
    assert not again(tried(2, Outcome.WALLTIME, "gamma"), [beside], BOTH, POLICY)


def test_the_clusters_that_failed_tasks_are_known_by_task() -> None:
    """Of those a copy does not go to; a lost place and a program's failure are none."""
    seven = (
        tried(1, Outcome.WALLTIME),
        tried(2, Outcome.SETUP_ERROR, "gamma"),
        tried(3, Outcome.PREEMPTED, "delta"),
    )
    eight = Tried(**BETA | {"task": 8, "outcome": Outcome.COPY, "is_overrun": True})

    assert failed_at([*seven, eight]) == {7: ("beta", "gamma"), 8: ("beta",)}


def test_an_attempt_counts_once() -> None:
    """Whether it has ended now, or before; the last of the budget is one that runs again."""
    before, now = tried(1, Outcome.SITE_FAULT), tried(2, Outcome.SITE_FAULT)

    assert [one.attempt for one in to_run_again([now], [before], {1: BOTH}, POLICY)] == [2]
    assert to_run_again([tried(3, Outcome.SITE_FAULT)], [before, now], {1: BOTH}, POLICY) == ()


def test_a_campaign_whose_clusters_are_not_told_tries_nothing_again() -> None:
    """It is cancelled, or a test."""
    ended = [tried(1, Outcome.SITE_FAULT)]

    expected = Again(campaign=1, task=7, attempt=1, outcome=Outcome.SITE_FAULT, avoid=("beta",))
    assert to_run_again(ended, [], {1: BOTH}, POLICY) == (expected,)
    assert to_run_again(ended, [], {}, POLICY) == ()
