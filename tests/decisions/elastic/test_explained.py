"""Waits of which accounting does not tell the cause."""

from gridbridge.decisions.elastic.replay.explained import explained
from gridbridge.model.elastic.replayed import LeftOut, Ran, Workload

FULL = Ran(submitted_s=0, run_s=3600, slots=4)


def test_a_wait_on_a_full_cluster_is_one_for_slots() -> None:
    waited = Ran(submitted_s=60, run_s=100, slots=2, waited_s=3540)
    found = explained(Workload(tasks=(FULL, waited)))

    assert found.tasks == (FULL, waited)
    assert found.left_out == {}


def test_a_wait_beside_free_slots_is_left_out_and_the_task_comes_when_it_started() -> None:
    held = Ran(submitted_s=60, run_s=100, slots=2, waited_s=5000)
    found = explained(Workload(tasks=(FULL, held, Ran(submitted_s=4000, run_s=2000))))

    (late,) = (one for one in found.tasks if not one.is_explained)
    assert (late.submitted_s, late.waited_s, late.run_s) == (5060, 0, 100)
    assert found.left_out == {LeftOut.UNEXPLAINED: 1}
    assert [one.submitted_s for one in found.tasks] == [0, 4000, 5060]


def test_a_moment_between_two_tasks_is_no_free_slot() -> None:
    after = Ran(submitted_s=0, run_s=3600, slots=4, waited_s=3600)

    assert explained(Workload(tasks=(FULL, after))).left_out == {}
