"""Programs that other programs start print help and version without doing any work."""

import subprocess
import sys
from pathlib import Path

import pytest

from gridbridge.shell.program_startup import version_with_commit

ROOT = Path(__file__).parents[2]
PROGRAMS = {
    "gridbridge-poller": "gridbridge.transfer.poller.program",
    "gridbridge-as-user": "gridbridge.privileged.as_user",
}
TOLD = {  # these tell their version, too
    "gridbridge-poller": "gridbridge.transfer.poller.program",
    "gridbridge-as-root": "gridbridge.privileged.as_root",
    "gridbridge-runner": "gridbridge.campaigns.runner.program",
    "gridbridge-nikita": "gridbridge.campaigns.nikita.program",
}
DEAR = ("click", "sqlalchemy", "paramiko", "gridbridge.transfer.poller.poller_daemon")  # to load
RUN = """
import atexit, sys
sys.path.append({root!r})
from {module} import main
atexit.register(lambda: print(*(sys.modules.keys() & {dear!r})))
main()
"""


def run(name: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a program as its console script does; its last output line lists the slow modules it loaded."""
    module = (PROGRAMS | TOLD)[name]
    program = RUN.format(root=str(ROOT), module=module, dear=set(DEAR))
    argv = (sys.executable, "-I", "-c", program, *words)
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_help_has_an_example_and_loads_no_slow_module(name: str, option: str) -> None:
    done = run(name, option)

    *told, loaded = done.stdout.splitlines()
    assert (done.returncode, done.stderr, loaded) == (0, "", "")
    assert told[0].startswith(name)
    assert any(line.startswith("Example:") and name in line for line in told)


@pytest.mark.parametrize("name", TOLD)
def test_version_option_prints_the_version(name: str) -> None:
    done = run(name, "--version")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == f"{name} {version_with_commit()}"


@pytest.mark.parametrize("name", ["gridbridge-runner", "gridbridge-nikita"])
def test_a_wrong_option_of_a_campaign_program_prints_one_line(name: str) -> None:
    done = run(name, "--no-such")

    told = f"{name}: unrecognized arguments: --no-such; --help lists the options\n"
    assert (done.returncode, done.stderr) == (2, told)


@pytest.mark.parametrize("words", [("--no-such",), ("word",), ("--help", "word")])
@pytest.mark.parametrize("name", PROGRAMS)
def test_any_other_argument_prints_one_line(name: str, words: tuple[str, ...]) -> None:
    done = run(name, *words)

    assert done.returncode == 2
    assert done.stderr.startswith(f"{name}: ")
    assert done.stderr.count("\n") == 1
