"""Settings for every test: a busy machine makes no test fail."""

import os
import signal
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from gridbridge.state import state_file as file
from tests import made, order
from tests.apart import apart as apart
from tests.minutes import JUNIT

pytest_plugins = ["tests.state_files"]
os.umask(os.umask(0o077) | 0o022)  # a gridbridge.toml that a group may write is not obeyed
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell put us behind
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# A run says what the last one said: it takes up no example of an earlier one.
settings.register_profile("same", patient, derandomize=True, database=None)
settings.register_profile("search", patient, max_examples=2000)  # of `make test-long`
settings.load_profile("same")
of_modules = providers._get_local_constants  # that a worker happens to have imported
providers._get_local_constants = lambda: providers._local_constants if settings().derandomize else of_modules()


@pytest.fixture(autouse=True)
def quick_files(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create state files quickly, except where their creation is tested."""
    if "tests/state/" not in request.node.nodeid:
        monkeypatch.setattr(file, "_migrate_state_file_schema", made.migrate)
        monkeypatch.setattr(file, "_set_sqlite_pragmas", made.set_up)


@pytest.fixture
def utc() -> Iterator[None]:
    """Show times in UTC, whatever the machine's time zone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks in a hook of that name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the lab's test files run side by side, the longest first."""
    order.arrange(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print why a test failed before it was rerun."""
    again = terminalreporter.stats.get("rerun", ())
    for report in again:
        terminalreporter.section(f"RERUN {report.nodeid}")
        terminalreporter.write_line(report.longreprtext[-4000:])
    if again and JUNIT.exists():  # for the end of `make test`
        with open(JUNIT / "second-chances", "a", encoding="utf-8") as file:  # of each stage
            file.writelines(map(_chance, again))


def _chance(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    reason = crash.message.splitlines()[0] if crash else "see above"
    return f"{order.plain(report.nodeid)}: {reason}\n"
