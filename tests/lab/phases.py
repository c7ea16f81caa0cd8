"""Scenarios that run side by side, a phase at a time; each test asserts on the outcome of its scenario.

A scenario is a function that submits jobs, waits, and returns the values that its test checks. It may
be a generator that yields the name of the next phase ("beta is frozen") before it returns. A failed
assertion in a scenario fails only its own test.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from inspect import isgeneratorfunction
from typing import Any, TypeVar

from tests.lab.away import closed, qmaster
from tests.lab.grid import Grid, between

T = TypeVar("T")
Steps = Generator[str, None, T]
Scenario = Callable[[Grid], Any]
Phase = Callable[[Grid], AbstractContextManager[object]]
Phases = Mapping[str, Phase]
Ends = dict[Scenario, Future["End | str"]]
ROOM = 16  # slots a node of beta: more than the scenarios of any file take at once


def as_it_is(grid: Grid) -> AbstractContextManager[None]:
    del grid
    return nullcontext()


AT_ONCE: Phases = {"at once": as_it_is}


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    outcome: Any


class Outcomes:
    def __init__(self, grid: Grid, *scenarios: Scenario, phases: Phases = AT_ONCE) -> None:
        self._grid = grid
        self._phases = phases
        self._ends: dict[Scenario, Future[End | str] | None] = {**play(grid, phases, scenarios)}

    def of(self, scenario: Scenario) -> Any:
        """Return a scenario's result, or raise its error.

        A scenario that is requested again by a retried test runs anew and alone.
        """
        end = self._ends[scenario] or play(self._grid, self._phases, (scenario,))[scenario]
        self._ends[scenario] = None
        return end.result().outcome


def play(grid: Grid, phases: Phases, scenarios: tuple[Scenario, ...]) -> Ends:
    """Run scenarios to their ends; a phase ends when all scenarios have passed it.

    A phase for which no scenario waits is skipped.
    """
    grid.sh("alpha-master", "rm -f *.ran *.go", user="alice")  # notes of earlier jobs
    ends: Ends = {}
    going = {scenario: _steps(grid, scenario) for scenario in scenarios}
    awaited = dict.fromkeys(scenarios, next(iter(phases)))
    for name, phase in phases.items():
        due = [each for each in awaited if awaited[each] == name]
        if not due:
            continue
        with phase(grid), ThreadPoolExecutor(len(scenarios)) as pool:
            steps = {each: pool.submit(_step, going[each]) for each in due}
        awaited = {each: told for each, told in awaited.items() if each not in steps}
        awaited |= {each: step.result() for each, step in steps.items() if _goes_on(step)}
        ends |= {each: step for each, step in steps.items() if each not in awaited}
    assert not awaited, f"no such phase is to come: {awaited}"
    return ends


def _steps(grid: Grid, scenario: Scenario) -> Steps[Any]:
    """Return the steps of a scenario; a plain function is a single step."""
    if isgeneratorfunction(scenario):
        return (yield from scenario(grid))
    return scenario(grid)


def _step(steps: Steps[Any]) -> End | str:
    """Run a scenario to its next phase; return the phase, or the result at the scenario's end."""
    try:
        return next(steps)
    except StopIteration as end:
        return End(outcome=end.value)


def _goes_on(step: Future[End | str]) -> bool:
    return not step.exception() and isinstance(step.result(), str)


def roomy(grid: Grid) -> AbstractContextManager[None]:
    before = grid.sh("beta-master", "qconf -sq all.q | sed -n 's/^slots *//p'").strip()
    change = ("qconf", "-mattr", "queue", "slots")
    return between(lambda slots: grid.on("beta-master", *change, slots, "all.q"), str(ROOM), before)


def closed_home(grid: Grid) -> AbstractContextManager[None]:
    return closed(grid, "alpha")


def closed_beta(grid: Grid) -> AbstractContextManager[None]:
    return closed(grid, "beta")


def no_scheduler(grid: Grid) -> AbstractContextManager[None]:
    """Let no job start at home: end alpha's scheduler, a thread of its qmaster."""
    return between(lambda way: grid.cell("alpha", "qconf", way, "scheduler", user="root"), "-kt", "-at")


def frozen_beta(grid: Grid) -> AbstractContextManager[None]:
    """Freeze beta's qmaster: connections succeed, but get no answer."""
    return qmaster(grid, "freeze", "thaw")


def stopped_beta(grid: Grid) -> AbstractContextManager[None]:
    return qmaster(grid, "stop", "start")


@contextmanager
def no_jobs_left(grid: Grid) -> Iterator[None]:
    try:
        yield
    finally:
        for cluster in ("alpha", "beta"):
            grid.cell(cluster, "qdel", "-u", "alice", user="root")
        grid.until(lambda: not any(jobs_of_alice(grid)), "alice's jobs to be gone")
        grid.require_ready()


def jobs_of_alice(grid: Grid) -> tuple[str, ...]:
    return tuple(grid.cell(cluster, "qstat", "-u", "alice").out for cluster in ("alpha", "beta"))
