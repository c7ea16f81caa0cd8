"""Grid commands start fast, because slow modules are imported only when needed."""

import subprocess
import sys

import pytest

SLOW = {
    "rich",
    "matplotlib",
    "sqlalchemy",
    "lxml",
    "paramiko",
    "gridbridge.decisions.campaigns.campaign_cycle_planning",
}
SELDOM_USED = {"tenacity", "gridbridge.config.configuration_file"}
LOADED = "import sys, gridbridge.campaigns.cli.{}; print(*sys.modules)"


@pytest.mark.parametrize(
    ("command", "slow"),
    [
        ("gridstat", SLOW | SELDOM_USED),
        ("gridevents", SLOW | SELDOM_USED),
        ("gridclusters", SLOW | SELDOM_USED),
        ("gridfetch", SLOW | SELDOM_USED),
        ("griddel", SLOW | SELDOM_USED),
        ("gridnotify", SLOW | SELDOM_USED),
        ("gridwait", SLOW),
        ("gridsub", SLOW),
    ],
)
def test_grid_commands_import_no_slow_module_at_start(command: str, slow: set[str]) -> None:
    program = (sys.executable, "-c", LOADED.format(command))
    loaded = subprocess.run(program, capture_output=True, check=True, text=True).stdout.split()

    assert "click" in loaded
    assert not slow & {*loaded}
