"""Arrays in root's ledger are restored after the restore of an older state file."""

from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter
from typing import Any

import pytest

from gridbridge.decisions.campaigns.ledger_recovery_rules import (
    is_ledger_ahead_of_state_file,
    plan_recovery_from_root_ledger,
)
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    AttemptOutcomeAtCluster,
    CampaignArray,
    LedgerRecoveryStep,
    RecordedCampaignTasks,
    RootLedgerArray,
    TaskAttempt,
    TaskAttemptOutcome,
    TaskGroupSize,
    WaitingTaskRange,
)
from gridbridge.model.campaigns.task_index_and_attempt_texts import Attempts
from tests.builders.campaigns import NOON, released_array
from tests.decisions.campaigns.campaign_builder import make_attempt


def array(number: int, state: ArraySubmissionState = ArraySubmissionState.INTENDED, size: int = 2) -> CampaignArray:
    return released_array(number=number, state=state, size=size)


def entry(number: int, *tasks: tuple[int, int], job_id: int = 0, **values: Any) -> RootLedgerArray:
    return RootLedgerArray(**{"number": number, "cluster": "beta", "tasks": tasks, "job_id": job_id} | values)


def stored(
    arrays: tuple[CampaignArray, ...] = (),
    attempts: tuple[TaskAttempt, ...] = (),
    waiting: tuple[WaitingTaskRange, ...] = (),
    **values: Any,
) -> RecordedCampaignTasks:
    return RecordedCampaignTasks(arrays=arrays, attempts=attempts, waiting=waiting, **values)


def attempts(array: int, *tasks: tuple[int, int]) -> tuple[TaskAttempt, ...]:
    return tuple(
        make_attempt(place, task=task, attempt=attempt, array=array)
        for place, (task, attempt) in enumerate(tasks, start=1)
    )


RUNNING = array(1, ArraySubmissionState.RELEASED)


def whole(
    kept: RecordedCampaignTasks, noted: Iterable[RootLedgerArray], refused: CampaignArray, most: int = 3
) -> LedgerRecoveryStep:
    """Return all recovery steps of a campaign as one step, with the tasks that wait in the end."""
    waiting = [*kept.waiting]
    portions = plan_recovery_from_root_ledger(1, kept, noted, NOON, refused=refused, most=most)
    for one in portions:
        assert {*one.no_longer} <= {*waiting}
        waiting = [each for each in waiting if each not in one.no_longer] + [*one.waiting]
    return LedgerRecoveryStep(
        campaign=1,
        undone=tuple(each for one in portions for each in one.undone),
        arrays=tuple(sorted((each for one in portions for each in one.arrays), key=attrgetter("number"))),
        attempts=tuple(sorted((each for one in portions for each in one.attempts), key=attrgetter("array", "place"))),
        superseded=tuple(each for one in portions for each in one.superseded),
        waiting=tuple(sorted(waiting, key=attrgetter("first"))),
    )


def test_lost_arrays_are_restored_and_arrays_that_reused_their_numbers_are_undone() -> None:
    """Array 2 was submitted with different tasks; array 3 had the second attempt of a task."""
    both = (*attempts(1, (0, 1), (1, 1)), *attempts(2, (4, 1), (5, 1)))
    kept = stored((RUNNING, array(2)), both, (WaitingTaskRange(first=6, last=9),))
    noted = (
        entry(1, (0, 1), (1, 1), job_id=71),
        entry(2, (4, 1), (7, 1), job_id=72, cluster="gamma"),
        entry(3, (1, 2), (7, 2)),
    )

    found = whole(kept, noted, array(2))

    assert found.undone == (2,)
    assert [(one.number, one.cluster, one.state, one.job_id) for one in found.arrays] == [
        (2, "gamma", ArraySubmissionState.SUBMITTED, 72),
        (3, "beta", ArraySubmissionState.INTENDED, 0),
    ]
    assert [(one.array, one.task, one.attempt, one.outcome) for one in found.attempts] == [
        (2, 4, 1, TaskAttemptOutcome.PENDING),
        (2, 7, 1, TaskAttemptOutcome.SITE_FAULT),
        (3, 1, 2, TaskAttemptOutcome.PENDING),
        (3, 7, 2, TaskAttemptOutcome.PENDING),
    ]
    assert [(one.task, one.attempt) for one in found.superseded] == [(1, 1)]
    assert [(one.first, one.last) for one in found.waiting] == [(5, 5), (6, 6), (8, 9)]


def test_a_restored_array_keeps_the_settings_of_its_submission() -> None:
    (step,) = plan_recovery_from_root_ledger(
        1, stored(), [entry(1, (0, 1), job_id=71, is_ordinary=True, checkpoint_s=70)], NOON
    )

    assert [(one.is_ordinary, one.checkpoint_s) for one in step.arrays] == [(True, 70)]


def test_a_task_of_an_undone_array_waits_again_with_its_excluded_clusters() -> None:
    overran = AttemptOutcomeAtCluster(
        campaign=1, task=4, attempt=1, cluster="gamma", outcome=TaskAttemptOutcome.WALLTIME
    )
    known = {"earlier": (overran,), "clusters": frozenset({"beta", "gamma"})}
    kept = stored((array(2),), attempts(2, (4, 2), (5, 1)), **known)

    found = whole(kept, (), array(2))

    assert found.waiting == (
        WaitingTaskRange(first=4, last=4, attempt=2, avoid=("gamma",), never=("gamma",)),
        WaitingTaskRange(first=5, last=5),
    )


def test_an_array_equal_to_its_ledger_entry_is_not_changed() -> None:
    kept = stored((array(1, size=1), array(2, size=1)), (*attempts(1, (0, 1)), *attempts(2, (1, 1))))
    noted = (
        entry(1, (0, 1)),
        entry(3, (1, 1), job_id=9),
    )

    found = whole(kept, noted, array(2))

    assert found.undone == (2,)
    assert [one.number for one in found.arrays] == [3]
    assert found.waiting == ()


def test_an_array_missing_in_the_ledger_is_undone() -> None:
    """The array was never submitted, and its tasks may be in a lost array."""
    kept = stored((array(2), array(3)), (*attempts(2, (0, 1), (1, 1)), *attempts(3, (2, 1), (3, 1))))
    noted = (entry(2, (1, 1), (2, 1), job_id=72, cluster="gamma"),)

    found = whole(kept, noted, array(2))

    assert found.undone == (2, 3)
    assert [(one.array, one.task) for one in found.attempts] == [(2, 1), (2, 2)]
    assert [one.first for one in found.waiting] == [0, 3]


def test_a_restored_speculative_attempt_supersedes_no_attempt() -> None:
    arrays = (RUNNING, replace(array(2, size=1), copies_beyond_s=60))
    kept = stored(arrays, (*attempts(1, (0, 1), (1, 1)), *attempts(2, (0, 2))))
    noted = (
        entry(1, (0, 1), (1, 1), job_id=71),
        entry(2, (1, 2), job_id=72, is_of_copies=True, cluster="gamma"),
    )

    found = whole(kept, noted, kept.arrays[1])

    assert (found.undone, found.superseded, found.waiting) == ((2,), (), ())
    assert [(one.task, one.attempt, one.outcome) for one in found.attempts] == [(1, 2, TaskAttemptOutcome.PENDING)]
    assert [one.is_of_copies for one in found.arrays] == [True]


@pytest.mark.parametrize(
    ("job_id", "tasks", "left", "again"),
    [
        (0, ((4, 1), (5, 1)), {}, [(5, 2)]),
        (0, ((4, 1),), {}, []),
        (9, ((4, 1),), {}, []),
        (9, ((4, 1), (5, 1)), {(5, 1): TaskAttemptOutcome.PENDING}, []),
        (0, ((5, 1), (6, 1)), {(5, 1): TaskAttemptOutcome.PENDING, (6, 1): TaskAttemptOutcome.PENDING}, []),
    ],
    ids=["some sent again", "all sent again", "all, with a job id", "some, with a job id", "none sent again"],
)
def test_tasks_of_an_array_given_up_wait_again_unless_another_array_has_the_tasks(
    job_id: int, tasks: Attempts, left: dict[tuple[int, int], TaskAttemptOutcome], again: list[tuple[int, int]]
) -> None:
    """The cluster may have refused the array."""
    never = RootLedgerArray(number=1, cluster="beta", tasks=tasks, job_id=job_id)
    since = entry(2, (4, 2), job_id=8, cluster="gamma")
    kept = stored(waiting=(WaitingTaskRange(first=0, last=9),))

    (found,) = plan_recovery_from_root_ledger(1, kept, [never, since], NOON)

    (one,) = (each for each in found.arrays if each.number == 1)
    is_given_up = not left
    assert (one.state is ArraySubmissionState.RELEASED, one.is_repeated) == (is_given_up, is_given_up)
    of_one = {(each.task, each.attempt): each.outcome for each in found.attempts if each.array == 1}
    assert of_one == dict.fromkeys(tasks, TaskAttemptOutcome.SITE_FAULT) | left
    assert [(each.first, each.attempt) for each in found.again] == again


def test_the_tasks_of_a_restored_job_have_the_jobs_index() -> None:
    group = TaskGroupSize(tasks=2, begin_s=300)
    tasks = ((4, 1), (5, 1), (6, 1))

    (found,) = plan_recovery_from_root_ledger(1, stored(), [entry(1, *tasks, job_id=8, group=group)], NOON)

    (one,) = found.arrays
    assert (one.size, one.group_tasks, one.group_s) == (2, 2, 300)
    assert [(attempt.task, attempt.place) for attempt in found.attempts] == [(4, 1), (5, 1), (6, 2)]


@pytest.mark.parametrize(("state_has", "restored"), [(0, [6, 7]), (1, [7]), (2, [])])
def test_further_tasks_of_running_jobs_are_restored(state_has: int, restored: list[int]) -> None:
    """The ledger's array has two jobs of two tasks; each got a further task, of which the state file lacks some."""
    group = TaskGroupSize(tasks=2, begin_s=300, wait_s=60)
    noted = entry(1, (0, 1), (1, 1), (2, 1), job_id=8, group=group, added=((2, ((6, 1),)), (1, ((7, 1),))))
    running = replace(RUNNING, group_tasks=2, added_tasks=state_has)
    kept = stored((running,), attempts(1, (0, 1)), (WaitingTaskRange(first=6 + state_has, last=9),))

    steps = plan_recovery_from_root_ledger(1, kept, [noted], NOON)
    (lost,) = plan_recovery_from_root_ledger(1, stored(waiting=kept.waiting), [noted], NOON)

    assert is_ledger_ahead_of_state_file([running], [noted]) == bool(restored)
    assert [attempt.task for step in steps for attempt in step.attempts] == restored
    assert [(step.arrays, [array.added_tasks for array in step.grown]) for step in steps] == [((), [2])] * bool(
        restored
    )
    assert [(each.first, each.last) for step in steps for each in step.waiting] == [(8, 9)] * bool(restored)
    assert [(attempt.task, attempt.place) for attempt in lost.attempts] == [(0, 1), (1, 1), (2, 2), (6, 2), (7, 1)]
    assert [(array.size, array.group, array.added_tasks) for array in lost.arrays] == [(2, group, 2)]


def test_a_waiting_task_with_a_speculative_attempt_in_the_ledger_no_longer_waits() -> None:
    """The state file lost the speculative attempt, so the end of the first attempt made the task wait."""
    kept = stored(waiting=(WaitingTaskRange(first=3, last=5, attempt=2),))
    ledger = [entry(1, (4, 1)), entry(2, (4, 2), job_id=8, is_of_copies=True, cluster="gamma")]

    found = whole(kept, ledger, array(2))
    after = whole(replace(kept, arrays=(RUNNING,)), ledger, array(2))

    assert [(one.first, one.last) for one in after.waiting] == [(3, 3), (5, 5)]
    assert [(one.task, one.attempt, one.outcome) for one in after.attempts] == [(4, 2, TaskAttemptOutcome.PENDING)]
    assert after.waiting == found.waiting


def test_a_lost_task_and_its_lost_speculative_attempt_are_both_restored() -> None:
    kept = stored((replace(RUNNING, size=1),), attempts(1, (1, 1)), (WaitingTaskRange(first=2, last=2),))
    noted = (
        entry(1, (1, 1), job_id=71),
        entry(2, (1, 2), (2, 1), job_id=72),
        entry(3, (1, 3), (2, 2), is_of_copies=True, cluster="gamma"),
    )

    found = whole(kept, noted, array(2))

    assert {one.outcome for one in found.attempts} == {TaskAttemptOutcome.PENDING}
    assert [(one.task, one.attempt) for one in found.superseded] == [(1, 1)]
    assert found.waiting == ()
