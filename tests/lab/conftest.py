"""Fixtures of the tests that need the running lab, which `make lab` starts."""

from collections.abc import Iterator

import pytest

from tests.lab.campaigns import runner
from tests.lab.grid import Grid, of_root

HAS_FAILED = pytest.StashKey[bool]()
SHARED = {"brought", "waysides"}  # fixtures whose jobs several tests inspect: a failure leaves the jobs to others


@pytest.fixture(scope="session")
def grid() -> Iterator[Grid]:
    """Return the lab, shared by the whole test session; jobs cross from alpha to beta only."""
    grid = of_root()
    grid.require_ready()
    runner.stop(grid)  # of `make lab`: tests that need one start their own
    grid.switch("-d")
    grid.switch_back("-d")
    yield grid
    grid.switch("-e")
    grid.switch_back("-e")


@pytest.fixture(scope="module")
def open_to_delta(grid: Grid) -> Iterator[None]:
    grid.switch("-e", "transfer-delta")
    yield
    grid.switch("-d", "transfer-delta")


@pytest.fixture(scope="module")
def open_to_gamma(grid: Grid) -> Iterator[None]:
    grid.switch("-e", "transfer-gamma")
    yield
    grid.switch("-d", "transfer-gamma")


@pytest.fixture(scope="module")
def open_back(grid: Grid) -> Iterator[None]:
    grid.switch_back("-e")
    grid.until(lambda: grid.is_open("beta"), "transfer-alpha to be open")
    yield
    grid.switch_back("-d")


@pytest.fixture(scope="module")
def all_open(open_to_delta: None, open_to_gamma: None) -> None:
    """Open every transfer queue."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Show all logs under a failed lab test, and delete its jobs."""
    outcome = yield
    report = outcome.get_result()
    grid = getattr(item, "funcargs", {}).get("grid")
    if grid and report.when != "teardown":
        item.stash[HAS_FAILED] = report.failed
    if grid and report.failed:
        report.sections.append(("lab logs", grid.logs()))
    is_alone = SHARED.isdisjoint(getattr(item, "fixturenames", ()))
    if grid and report.when == "teardown" and item.stash[HAS_FAILED] and is_alone:
        grid.clear()
