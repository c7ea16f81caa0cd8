"""Read-only commands start quickly: they load no module that they do not need."""

import subprocess
import sys
from pathlib import Path

import pytest

MODEL = Path(__file__).parents[1] / "golden" / "hsqueeze-3.0.2"
SLOW = {"sqlalchemy", "alembic", "matplotlib", "paramiko", "rich", "tenacity", "asyncio"}
CONFIGURED = {"cattrs", "lxml", "tomllib"}
LOADED = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from gridbridge.cli.main import main
sys.argv = ["gridbridge", *sys.argv[1:]]
main()
"""


def loaded(*arguments: str) -> set[str]:
    """Run a command to its end; return the names of the loaded modules."""
    program = (sys.executable, "-I", "-c", LOADED, *arguments)
    ran = subprocess.run(program, capture_output=True, check=True, text=True)
    return {*ran.stderr.split()}


def test_squeezing_a_model_loads_no_configuration_or_state_module() -> None:
    model = next(path for path in sorted(MODEL.rglob("*.data")))

    found = loaded("squeeze", "--model", str(model))

    assert "gridbridge.elastic.balancer.ganeti_squeeze" in found
    assert not (SLOW | CONFIGURED) & found


@pytest.mark.parametrize(
    "command", ["squeeze", "balance plan", "check", "rebalance plan", "status", "why", "explain", "metrics"]
)
def test_help_loads_no_slow_module(command: str) -> None:
    found = loaded(*command.split(), "--help")

    assert "click" in found
    assert not SLOW & found
