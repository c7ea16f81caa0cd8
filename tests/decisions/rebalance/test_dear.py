"""Costs of a rebalancing round: the number of passes over all tasks, and the length of the list of refusals."""

from collections.abc import Iterator
from dataclasses import replace

from gridbridge.decisions.rebalance.automatic_round_and_evacuation import plan_automatic_round
from gridbridge.decisions.rebalance.job_copy_repair_and_spread import plan_job_repair_or_spread
from gridbridge.decisions.rebalance.move_plan_draft_and_refusals import MAX_LISTED_REFUSALS, UNLISTED
from gridbridge.model.rebalance.placement_snapshot_and_moves import (
    PlacementHost,
    PlacementHostState,
    PlacementSnapshot,
    PlacementTask,
    PlacementTaskState,
    RecentPlacementMoveTimes,
)
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from tests.decisions.rebalance.boards import LATELY, NOW, host, job, reasons, snapshot, tasks

RULES = RebalanceSection()
RUNNING = PlacementTaskState.RUNNING


class Passed(tuple[PlacementTask, ...]):
    """A tuple of tasks that counts the iterations over all tasks."""

    passes = 0

    def __iter__(self) -> Iterator[PlacementTask]:
        type(self).passes += 1
        return super().__iter__()


def passes(seen: PlacementSnapshot) -> int:
    Passed.passes = 0
    advice = plan_automatic_round(replace(seen, tasks=Passed(seen.tasks)), RULES)
    assert not advice.moves
    return Passed.passes


def running_jobs(count: int) -> PlacementSnapshot:
    names = [f"job{number}" for number in range(count)]
    places = [host("a"), host("b")]
    return snapshot(places, [one for name in names for one in tasks({"a": 4}, name, state=RUNNING)])


def drained(count: int) -> PlacementSnapshot:
    places = [host(f"h{number}", state=PlacementHostState.DRAIN) for number in range(count)]
    counts = {one.name: 1 for one in places}
    return snapshot([*places, host("z")], tasks(counts, state=RUNNING))


def test_the_number_of_passes_over_all_tasks_does_not_grow_with_the_uneven_jobs() -> None:
    assert passes(running_jobs(1)) == passes(running_jobs(30))


def test_the_number_of_passes_over_all_tasks_does_not_grow_with_the_failed_hosts() -> None:
    assert passes(drained(1)) == passes(drained(30))


def test_a_target_host_that_accepts_no_task_is_reported_once_per_job() -> None:
    """The target has just received a task, so the target would refuse every task of the job."""
    places = [host("a"), host("b")]
    resting = RecentPlacementMoveTimes(hosts={"b": NOW})

    advice = plan_job_repair_or_spread(snapshot(places, tasks({"a": 40}), recent=resting), "one", RULES)

    assert reasons(advice) == {(1, "b"): "b got a task less than 180 s ago"}


def test_the_plan_lists_at_most_a_fixed_number_of_refusals() -> None:
    many = tasks({"a": MAX_LISTED_REFUSALS + 5}, state=RUNNING)

    advice = plan_job_repair_or_spread(snapshot([host("a"), host("b")], many), "one", RULES)

    assert len(advice.rejected) == MAX_LISTED_REFUSALS
    assert f"job one has all its replicas: nothing can be moved; {UNLISTED}" == advice.sentence


def test_a_hosts_fair_share_counts_only_the_hosts_allowed_for_the_job() -> None:
    places = [PlacementHost(name=name, slots=slots) for name, slots in (("a", 8), ("b", 8), ("c", 4))]
    one = job(hosts=frozenset("ac"), last_run=LATELY)

    advice = plan_job_repair_or_spread(snapshot(places, tasks({"a": 6}, size=0), [one]), "one", RULES)

    assert {"c"} == {move.target for move in advice.moves}
