"""Policy demand counts only the waiting tasks for which licences and parallel environments suffice."""

from collections.abc import Mapping
from dataclasses import replace

from gridbridge.decisions.elastic.demand.waiting_tasks_as_demand import startable_demand_and_refusals
from gridbridge.model.elastic.balance_plan import NodeAddOrRemoveRefusalCause as Cause
from gridbridge.model.elastic.grid_engine_cell import (
    CellConfiguration,
    CellResourceDefinition,
    ConsumableKind,
    ParallelEnvironment,
    ParallelSlotDistribution,
    WaitingJobGroup,
)
from tests.decisions.elastic.cells import MASTER, waiting
from tests.decisions.elastic.demand_cells import LAYOUT, cell, full

SEAT = CellResourceDefinition(name="seat", counted=ConsumableKind.BY_JOB, default="1")
TOKEN = CellResourceDefinition(name="token", counted=ConsumableKind.BY_JOB)
WIDEST = 4


def environment(name: str, slots: int) -> ParallelEnvironment:
    return ParallelEnvironment(name=name, spread=ParallelSlotDistribution.ONE_HOST, slots=slots)


def more(*of: CellResourceDefinition | ParallelEnvironment) -> CellConfiguration:
    resources = {one.name: one for one in of if isinstance(one, CellResourceDefinition)}
    environments = {one.name: one for one in of if isinstance(one, ParallelEnvironment)}
    return replace(
        LAYOUT, resources={**LAYOUT.resources, **resources}, environments={**LAYOUT.environments, **environments}
    )


def claimed(
    wait: list[WaitingJobGroup], layout: CellConfiguration, licences: Mapping[str, str]
) -> tuple[list[int], list[tuple[Cause | None, str]]]:
    """Return how many tasks of each job count as demand, and the refusals of the other tasks."""
    seen = cell(*full(MASTER), wait=wait, licences=licences, layout=layout)
    found, refused = startable_demand_and_refusals(seen, WIDEST)
    return [one.tasks for one in found], [(one.cause, one.name) for one in refused]


def test_the_scarcer_of_two_licences_limits_the_demand() -> None:
    wait = [waiting(1, tasks=10, licence="1", token="1")]

    for licences in ({"licence": "5", "token": "1"}, {"licence": "1", "token": "5"}):
        short = min(licences, key=lambda name: licences[name])
        assert claimed(wait, more(TOKEN), licences) == ([1], [(Cause.LICENCE, short)])


def test_tasks_that_lack_one_licence_do_not_use_up_another_licence() -> None:
    wait = [waiting(2, tasks=10, licence="1", token="1"), waiting(1, tasks=5, licence="1", jobs=(8,))]

    counts, _ = claimed(wait, more(TOKEN), {"licence": "10", "token": "1"})

    assert counts == [1, 5]


def test_a_job_without_a_licence_request_uses_the_default_amount_of_the_licence() -> None:
    assert claimed([waiting(1, tasks=10)], more(SEAT), {"seat": "3"}) == ([3], [(Cause.LICENCE, "seat")])
    assert claimed([waiting(1, tasks=10, seat="0")], more(SEAT), {"seat": "3"}) == ([10], [])


def test_the_slots_of_matching_parallel_environments_are_filled_one_after_the_other() -> None:
    both = more(environment("mpi1", 4), environment("mpi2", 5))

    assert claimed([waiting(1, tasks=4, slots=2, pe="mpi*")], both, {}) == ([4], [])
    assert claimed([waiting(1, tasks=9, slots=2, pe="mpi*")], both, {}) == ([4], [(Cause.ENVIRONMENT_FULL, "mpi2")])


def test_tasks_without_slots_in_a_parallel_environment_use_no_licences() -> None:
    wait = [waiting(2, tasks=3, slots=2, pe="mpi1", licence="1"), waiting(1, tasks=2, licence="1", jobs=(8,))]

    assert claimed(wait, more(environment("mpi1", 2)), {"licence": "3"})[0] == [1, 2]
