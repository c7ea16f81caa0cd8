"""Each of several tests that run side by side reports its own outcome; needs no lab."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.lab.abreast import run_all

LIMIT_S = 10


@dataclass(eq=False)
class Item:
    obj: Callable[[], object]


def run(*tests: Callable[[], object]) -> list[Item]:
    items = [Item(test) for test in tests]
    run_all([({item: item.obj for item in items}, len(items))])  # type: ignore[dict-item]
    return items


def test_tests_of_a_module_run_at_the_same_time() -> None:
    both = threading.Barrier(2)
    items = run(lambda: both.wait(LIMIT_S), lambda: both.wait(LIMIT_S))

    assert {item.obj() for item in items} == {0, 1}


def test_a_failed_test_reports_its_failure_and_the_other_tests_pass() -> None:
    well, failed = run(lambda: None, lambda: 1 / 0)

    assert well.obj() is None
    with pytest.raises(ZeroDivisionError):
        failed.obj()


def test_a_test_that_is_called_again_runs_again() -> None:
    """The retry of a failed test runs it anew, instead of repeating the first outcome."""
    ran: list[int] = []
    (item,) = run(lambda: ran.append(1))
    item.obj()
    before = list(ran)
    item.obj()

    assert (before, ran) == ([1], [1, 1])
