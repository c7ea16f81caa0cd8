"""The option types that all commands share, completion in three shells, and the modules of read-only commands."""

import importlib
import os
import pkgutil
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gridbridge import cli
from gridbridge.cli.command_groups_and_options import FiniteNumberRange
from gridbridge.cli.main import gridbridge
from gridbridge.elastic.cli import balance_program
from gridbridge.transfer.cli.qacct_remote_command import qacct_remote
from tests.cli.commands import commands_by_name
from tests.packages import unpack


def every() -> Iterator[click.Command]:
    """Yield the commands of all programs."""
    yield from commands_by_name(gridbridge, "gridbridge").values()
    for module in pkgutil.walk_packages(cli.__path__, "gridbridge.cli."):
        values = vars(importlib.import_module(module.name)).values()
        yield from (value for value in values if isinstance(value, click.Command))


def test_every_float_option_refuses_nan_and_infinity() -> None:
    """NaN passes every range check and makes all results wrong."""
    params = {id(one): one for command in every() for one in command.params}
    numbers = [one for one in params.values() if isinstance(one.type, click.types.FloatParamType)]
    ranges = [one for one in params.values() if isinstance(one.type, click.FloatRange)]

    assert len(ranges) > 10
    assert [one.name for one in (*numbers, *ranges) if not isinstance(one.type, FiniteNumberRange)] == []


@pytest.mark.parametrize("word", ["nan", "inf", "-inf", "1e999"])
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (gridbridge, ("squeeze", "--model", "none", "--minimal-resources")),
        (gridbridge, ("squeeze", "--model", "none", "--target-resources")),
        (gridbridge, ("simulate", "--synthetic", "a", "--max-nodes", "2", "--load")),
        (gridbridge, ("simulate", "--synthetic", "a", "--max-nodes", "2", "--price")),
        (gridbridge, ("balance", "plan", "--job-wait-time")),
        (balance_program.balance, ("--interval",)),
        (qacct_remote, ("-d",)),
    ],
    ids=["minimal", "target", "load", "price", "wait", "interval", "days"],
)
def test_nan_and_infinity_are_refused_in_one_line(command: click.Command, words: tuple[str, ...], word: str) -> None:
    told = CliRunner().invoke(command, (*words, word))

    assert told.exit_code == 2
    assert "is not" in told.output.splitlines()[-1]


@pytest.mark.parametrize(
    "words",
    [
        ("squeeze", "--model", ""),
        ("squeeze", "--model=", "--json"),
        ("squeeze", "--model", "cluster.data", "-S", ""),
        ("squeeze", "--model", "cluster.data", "-C", ""),
        ("squeeze", "--from", ""),
        ("balance", "plan", "--from", ""),
        ("balance", "explain", "17", "--from", ""),
    ],
)
def test_an_empty_option_value_is_refused(words: tuple[str, ...]) -> None:
    """A script with an unset variable must not get an answer about the site's own cluster."""
    done = CliRunner().invoke(gridbridge, words)

    assert (done.exit_code, done.stdout) == (2, "")
    assert "the value is empty" in done.stderr


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


BIN = Path(sys.executable).parent
PACKAGES = ("zsh", "zsh-common", "fish", "fish-common", "libpcre2-32-0")
LIMIT_S = 30.0
ASK_BASH = """
. "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_gridbridge_completion gridbridge; printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSHENV = """
module_path=({root}/usr/lib/*/zsh/*(N))
fpath=({root}/usr/share/zsh/functions/**/*(/N) {folder}/zsh)
PS1='ready '
"""
ZSHRC = "autoload -Uz compinit && compinit -u -D\nunsetopt beep\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("shells"), *PACKAGES)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "dumb"}


def script(shell: str, path: Path) -> str:
    environment = {**os.environ, "_GRIDBRIDGE_COMPLETE": f"{shell}_source"}
    done = subprocess.run([BIN / "gridbridge"], env=environment, capture_output=True, check=True)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(done.stdout)
    return str(path)


def test_bash_completes(tmp_path: Path, environment: dict[str, str]) -> None:
    argv = ["bash", "-c", ASK_BASH, "bash", script("bash", tmp_path / "bash"), "gridbridge", "s"]

    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["setup", "simulate", "squeeze", "status", "support"]


@pytest.mark.root
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("gridbridge s", ["setup", "simulate", "squeeze", "status", "support"]),
        ("gridbridge setup transfer --s", ["--script", "--short-jobs", "--slots"]),
    ],
)
def test_fish_completes(
    typed: str, expected: list[str], root: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    (library,) = root.glob("usr/lib/*/libpcre2-32.so.0")
    ask = f"source {script('fish', tmp_path / 'gridbridge.fish')}; complete -C '{typed}'"
    argv = (root / "usr/bin/fish", "--no-config", "-c", ask)

    done = subprocess.run(
        argv, env=environment | {"LD_LIBRARY_PATH": str(library.parent)}, capture_output=True, text=True, check=True
    )

    found = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert sorted(found) == expected


@pytest.mark.root
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("gridbridge wh\t", "gridbridge why "),
        ("gridbridge setup transfer beta --sh\t", "gridbridge setup transfer beta --short-jobs"),
    ],
)
def test_zsh_completes(typed: str, expected: str, root: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    script("zsh", tmp_path / "zsh/_gridbridge")
    (tmp_path / ".zshenv").write_text(ZSHENV.format(root=root, folder=tmp_path))
    (tmp_path / ".zshrc").write_text(ZSHRC)

    with interactive(str(root / "bin/zsh"), environment) as terminal:
        read_until("ready ", terminal)
        os.write(terminal, typed.encode())
        read_until(expected, terminal)


@contextmanager
def interactive(shell: str, environment: dict[str, str]) -> Iterator[int]:
    """Run an interactive shell and yield its terminal; closing the terminal ends the shell."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(shell, [shell, "-d", "-i"], environment)
    try:
        yield terminal
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


def read_until(words: str, terminal: int) -> None:
    seen, deadline = "", time.monotonic() + LIMIT_S
    while words not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"waited {LIMIT_S:g} s for {words!r}; seen: {seen!r}"
        seen += os.read(terminal, 4096).decode("utf-8", "replace")
