"""After an upgrade each running program of the old version ends, and nobody else's process does."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gridbridge.shell.program_runs import CompletedProgram
from gridbridge.site import program_restart

HOLDER = """
import sys
from gridbridge.shell.program_lock_file import take_lock_until_exit
assert take_lock_until_exit(sys.argv[1])
print(flush=True)
sys.stdin.read()
"""


@contextmanager
def holding(lock: Path) -> Iterator["subprocess.Popen[bytes]"]:
    argv = (sys.executable, "-c", HOLDER, lock)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield process


def test_only_running_programs_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_restart, "SYSTEMD", str(tmp_path / "none"))
    with holding(tmp_path / "poller") as poller:
        locks = {"poller": str(tmp_path / "poller"), "runner": str(tmp_path / "runner")}
        ended = program_restart.restart_running_programs(locks)

    assert (ended, poller.returncode) == (["poller"], -15)


def test_what_systemd_has_restarted_is_not_ended_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with holding(tmp_path / "poller") as old:
        monkeypatch.setattr(program_restart, "SYSTEMD", str(tmp_path))
        calls: list[str] = []

        def run_program(argv: tuple[str, ...], *_: object) -> CompletedProgram:
            calls.append(argv[1])
            old.kill()
            old.wait()
            return CompletedProgram(argv, 0, b"", b"")

        monkeypatch.setattr(program_restart, "run_program", run_program)

        assert program_restart.restart_running_programs({"poller": str(tmp_path / "poller")}) == []
    assert calls == ["daemon-reload", "try-restart"]
