"""Tests that run side by side, in threads: what each waits for, they wait for together.

They have the module's fixtures in common and no job, and none of them counts slots or changes
what another one sees. Each tells its own outcome when its turn comes; one that is run again,
after a failure, runs alone.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

AT_ONCE = 8

Calls = Mapping[pytest.Function, Callable[[], object]]


@pytest.fixture(scope="module")
def abreast(request: pytest.FixtureRequest) -> None:
    """Run the tests of a module that use this, before the first of them tells its outcome."""
    run_users(request, "abreast")


def run_users(request: pytest.FixtureRequest, fixture: str) -> None:
    """Run the tests of a module that use a fixture."""
    items = [item for item in functions(request) if fixture in item.fixturenames]
    run_all([({item: _call(request, item) for item in items}, AT_ONCE)])


def functions(request: pytest.FixtureRequest) -> Iterator[pytest.Function]:
    """Give the tests of a module that were chosen, in their order."""
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.module is request.module:
            yield item


def parameters(item: pytest.Function) -> dict[str, Any]:
    """Return what a test is parametrized with, by name."""
    return dict(item.callspec.params) if hasattr(item, "callspec") else {}


def run_all(lanes: Iterable[tuple[Calls, int]]) -> None:
    """Run tests, in each lane so many at once, and have each tell afterwards how that went."""
    pools = []
    for calls, at_once in lanes:
        pools.append(pool := ThreadPoolExecutor(at_once))
        for item, call in calls.items():
            item.obj = _telling(pool.submit(call), item.obj)
    for pool in pools:
        pool.shutdown()


def _call(request: pytest.FixtureRequest, item: pytest.Function) -> Callable[[], object]:
    """Return a test with its arguments, which are the module's fixtures and its parameters."""
    given = parameters(item)
    names = inspect.signature(item.obj).parameters
    arguments = {name: given[name] if name in given else request.getfixturevalue(name) for name in names}
    return functools.partial(item.obj, **arguments)


def _telling(outcome: Future[object], test: Callable[..., object]) -> Callable[..., object]:
    """Return a test that tells this outcome the first time, and runs when it is called again."""
    outcomes = [outcome]

    @functools.wraps(test)
    def tell(**arguments: object) -> object:
        return outcomes.pop().result() if outcomes else test(**arguments)

    return tell
