"""What a round costs: how often it goes over all tasks, and how much of it is listed."""

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
    """Tasks that know how often somebody went over all of them."""

    passes = 0

    def __iter__(self) -> Iterator[PlacementTask]:
        """Go over them."""
        type(self).passes += 1
        return super().__iter__()


def passes(seen: PlacementSnapshot) -> int:
    """Return how often a round that moves nothing goes over all tasks."""
    Passed.passes = 0
    advice = plan_automatic_round(replace(seen, tasks=Passed(seen.tasks)), RULES)
    assert not advice.moves
    return Passed.passes


def running_jobs(count: int) -> PlacementSnapshot:
    """Return so many jobs that are uneven, and of which no task waits."""
    names = [f"job{number}" for number in range(count)]
    places = [host("a"), host("b")]
    return snapshot(places, [one for name in names for one in tasks({"a": 4}, name, state=RUNNING)])


def drained(count: int) -> PlacementSnapshot:
    """Return so many hosts that are drained, with a task each that runs."""
    places = [host(f"h{number}", state=PlacementHostState.DRAIN) for number in range(count)]
    counts = {one.name: 1 for one in places}
    return snapshot([*places, host("z")], tasks(counts, state=RUNNING))


def test_a_round_goes_over_all_tasks_as_often_for_many_uneven_jobs_as_for_one() -> None:
    assert passes(running_jobs(1)) == passes(running_jobs(30))


def test_a_round_goes_over_all_tasks_as_often_for_many_failed_hosts_as_for_one() -> None:
    assert passes(drained(1)) == passes(drained(30))


def test_a_host_that_takes_nothing_refuses_a_job_once() -> None:
    """It rests: whichever task it would be, it gets none."""
    places = [host("a"), host("b")]
    resting = RecentPlacementMoveTimes(hosts={"b": NOW})

    advice = plan_job_repair_or_spread(snapshot(places, tasks({"a": 40}), recent=resting), "one", RULES)

    assert reasons(advice) == {(1, "b"): "b got a task less than 180 s ago"}


def test_of_what_is_refused_the_first_are_listed() -> None:
    many = tasks({"a": MAX_LISTED_REFUSALS + 5}, state=RUNNING)

    advice = plan_job_repair_or_spread(snapshot([host("a"), host("b")], many), "one", RULES)

    assert len(advice.rejected) == MAX_LISTED_REFUSALS
    assert f"job one has all its replicas: nothing can be moved; {UNLISTED}" == advice.sentence


def test_hosts_of_few_slots_have_the_same_share_in_a_round_as_by_themselves() -> None:
    """A round knows shares by slots; where a job may go counts as well."""
    places = [PlacementHost(name=name, slots=slots) for name, slots in (("a", 8), ("b", 8), ("c", 4))]
    one = job(hosts=frozenset("ac"), last_run=LATELY)

    advice = plan_job_repair_or_spread(snapshot(places, tasks({"a": 6}, size=0), [one]), "one", RULES)

    assert {"c"} == {move.target for move in advice.moves}
