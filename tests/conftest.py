"""What holds for every test: a busy machine makes none of them fail."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests import order
from tests.apart import apart as apart
from tests.minutes import JUNIT

os.umask(0o022)  # a gridbridge.toml that a group may write is not obeyed
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell put us behind
settings.register_profile("gridbridge", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gridbridge")


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks in a hook of that name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the lab's files be tested side by side, the longest first."""
    order.arrange(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show why a test needed its second chance; here, where a run in several processes looks."""
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
