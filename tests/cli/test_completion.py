"""Completion in bash, zsh and fish; zsh and fish are unpacked for the test, not installed."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.packages import unpack

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

    assert done.stdout.split() == ["setup", "simulate", "squeeze", "status"]


@pytest.mark.root
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("gridbridge s", ["setup", "simulate", "squeeze", "status"]),
        ("gridbridge setup transfer --s", ["--short-jobs", "--slots"]),
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
