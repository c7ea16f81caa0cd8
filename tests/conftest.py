"""What holds for every test: a busy machine makes none of them fail."""

import pytest
from hypothesis import HealthCheck, settings

from tests.apart import apart as apart

settings.register_profile("gridbridge", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gridbridge")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show why a test needed its second chance; here, where a run in several processes looks."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"RERUN {report.nodeid}")
        terminalreporter.write_line(report.longreprtext[-4000:])
