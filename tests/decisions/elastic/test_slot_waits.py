"""Waiting times of recorded tasks that a lack of slots does not explain."""

import time

from gridbridge.decisions.elastic.cyclecloud_policy_and_replay_timeouts import drop_waits_unexplained_by_slots
from gridbridge.model.elastic.replay_tasks_and_results import (
    RecordedReplayTask,
    RecordedWorkload,
    ReplayExclusionReason,
)

YEARS_S, MOST_S = 10 * 365 * 86400.0, 1.0  # the latter of CPU: minute by minute it is four
FULL = RecordedReplayTask(submitted_s=0, run_s=3600, slots=4)


def test_a_wait_on_a_full_cluster_is_explained_by_a_lack_of_slots() -> None:
    waited = RecordedReplayTask(submitted_s=60, run_s=100, slots=2, waited_s=3540)
    found = drop_waits_unexplained_by_slots(RecordedWorkload(tasks=(FULL, waited)))

    assert found.tasks == (FULL, waited)
    assert found.left_out == {}


def test_a_task_that_waited_beside_free_slots_is_replayed_as_if_submitted_at_its_start() -> None:
    held = RecordedReplayTask(submitted_s=60, run_s=100, slots=2, waited_s=5000)
    found = drop_waits_unexplained_by_slots(
        RecordedWorkload(tasks=(FULL, held, RecordedReplayTask(submitted_s=4000, run_s=2000)))
    )

    (late,) = (one for one in found.tasks if not one.is_explained)
    assert (late.submitted_s, late.waited_s, late.run_s) == (5060, 0, 100)
    assert found.left_out == {ReplayExclusionReason.UNEXPLAINED: 1}
    assert [one.submitted_s for one in found.tasks] == [0, 4000, 5060]


def test_the_moment_between_two_tasks_does_not_count_as_a_free_slot() -> None:
    after = RecordedReplayTask(submitted_s=0, run_s=3600, slots=4, waited_s=3600)

    assert drop_waits_unexplained_by_slots(RecordedWorkload(tasks=(FULL, after))).left_out == {}


def test_a_task_recorded_years_earlier_does_not_slow_down_the_check() -> None:
    """A host with a wrong clock may record such a task; the minutes in between are not checked one by one."""
    old, began = RecordedReplayTask(submitted_s=0, run_s=60, waited_s=60), time.process_time()
    tasks = (old, *(RecordedReplayTask(submitted_s=YEARS_S + at, run_s=3600, waited_s=9) for at in range(99)))

    found = drop_waits_unexplained_by_slots(RecordedWorkload(tasks=tasks))

    assert len(found.tasks) == len(tasks)
    assert time.process_time() - began < MOST_S


def test_a_wait_of_years_beside_free_slots_is_not_explained_by_a_lack_of_slots() -> None:
    held = RecordedReplayTask(submitted_s=60, run_s=100, slots=2, waited_s=YEARS_S)
    found = drop_waits_unexplained_by_slots(
        RecordedWorkload(tasks=(FULL, held, RecordedReplayTask(submitted_s=2 * YEARS_S, run_s=60)))
    )

    assert found.left_out == {ReplayExclusionReason.UNEXPLAINED: 1}
