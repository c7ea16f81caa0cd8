"""Run the tests of a module in threads, so that they wait for the lab's daemons together.

The tests share the module's fixtures. No two of them use the same job, count slots, or change what
another test observes. A test that is run again after a failure runs alone.
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
    """Run all tests of a module that use this fixture, before the first of them reports its outcome."""
    run_users(request, "abreast")


def run_users(request: pytest.FixtureRequest, fixture: str) -> None:
    items = [item for item in functions(request) if fixture in item.fixturenames]
    run_all([({item: _call(request, item) for item in items}, AT_ONCE)])


def functions(request: pytest.FixtureRequest) -> Iterator[pytest.Function]:
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.module is request.module:
            yield item


def parameters(item: pytest.Function) -> dict[str, Any]:
    return dict(item.callspec.params) if hasattr(item, "callspec") else {}


def run_all(lanes: Iterable[tuple[Calls, int]]) -> None:
    """Run tests and store each outcome; a lane's number limits its simultaneous tests."""
    pools = []
    for calls, at_once in lanes:
        pools.append(pool := ThreadPoolExecutor(at_once))
        for item, call in calls.items():
            item.obj = _telling(pool.submit(call), item.obj)
    for pool in pools:
        pool.shutdown()


def _call(request: pytest.FixtureRequest, item: pytest.Function) -> Callable[[], object]:
    given = parameters(item)
    names = inspect.signature(item.obj).parameters
    arguments = {name: given[name] if name in given else request.getfixturevalue(name) for name in names}
    return functools.partial(item.obj, **arguments)


def _telling(outcome: Future[object], test: Callable[..., object]) -> Callable[..., object]:
    """Return a test that reports the stored outcome at its first call, and runs at each later call."""
    outcomes = [outcome]

    @functools.wraps(test)
    def tell(**arguments: object) -> object:
        return outcomes.pop().result() if outcomes else test(**arguments)

    return tell
