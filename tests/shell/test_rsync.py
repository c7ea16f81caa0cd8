"""The rsync options of a copy, and the progress and errors read from rsync."""

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from gridbridge.errors import CommandFailed, ProgramOutputTooLong
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell import program_runs, rsync
from gridbridge.shell.rsync import RsyncLimitAndProgress, RsyncProgressAndErrors
from tests.builders.programs import write_program


def told(_: str) -> None:
    """Ignore the progress."""


Play = Callable[[str], None]


@pytest.fixture(name="play")
def _play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    def play(script: str) -> None:
        program = write_program(tmp_path / "rsync", f"#!/bin/sh\n{script}\n")
        monkeypatch.setattr(rsync, "PROGRAM", str(program))

    return play


def test_rsync_gets_a_timeout_for_a_silent_host(tmp_path: Path, play: Play) -> None:
    """Without --timeout rsync would block its round forever."""
    noted = tmp_path / "argv"
    play(f'echo "$*" >{noted}\necho io timeout after 3600 seconds -- exiting >&2\nexit 30')

    with pytest.raises(CommandFailed, match="io timeout after") as failed:
        rsync.rsync_files_to_host(None, ["/x/a"], f"{tmp_path}/", lambda: False)

    assert failed.value.transient
    assert f"--timeout={rsync.SILENCE_S}" in noted.read_text().split()


CUT = """\
client_loop: send disconnect: Broken pipe
rsync: [sender] write error: Broken pipe (32)
rsync error: unexplained error (code 255) at io.c(849) [sender=3.2.7]
"""
CLOSED = "rsync: connection unexpectedly closed (56 bytes received so far) [generator]\n"
FULL = 'rsync: [receiver] write failed on "/data/f": No space left on device (28)\n'


@pytest.mark.parametrize(
    ("said", "status", "why"),
    [
        (CUT, 255, "the connection to beta was lost"),
        (CLOSED, 12, "the connection to beta was lost"),
        (CUT + FULL, 11, '[receiver] write failed on "/data/f": No space left on device (28)'),
        ("", 11, "a file could not be read or written"),
        ("", 14, "exit status 14"),
    ],
    ids=["cut", "closed", "full", "file error", "silent"],
)
def test_the_cause_of_an_rsync_failure_is_reported_without_consequences(
    tmp_path: Path, play: Play, said: str, status: int, why: str
) -> None:
    """Version 3.2.7 prints these lines for a lost host and a full disk."""
    (tmp_path / "words").write_text(said)
    play(f"cat {tmp_path}/words >&2\nexit {status}")

    with pytest.raises(CommandFailed) as failed:
        rsync.rsync_files_to_host(SshLogin(host="beta"), ["/x/a"], f"{tmp_path}/", lambda: False)

    assert failed.value.failure_in_words == why


def test_a_limited_copy_uses_bwlimit_and_inplace() -> None:
    """The program rsync refuses --inplace together with --partial-dir."""
    options = RsyncLimitAndProgress(tell=told, kib_per_s=7).rsync_options()

    assert "--bwlimit=7" in options
    assert "--inplace" in options
    assert not any("partial" in option for option in options)
    assert not any("bwlimit" in option for option in RsyncLimitAndProgress(tell=told).rsync_options())


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (b"", ""),
        (b"\r     10  1%   10.00kB/s    0:00:01", "10  1%   10.00kB/s    0:00:01"),
        (b"\r  1  1%\r" + b" " * 300 + b"\r  20  2%  \r", "20  2%"),
        (b"\r  1  1%\r  30  3% (xfr#1)\n", "30  3% (xfr#1)"),
    ],
)
def test_the_last_progress_line_is_reported(said: bytes, line: str) -> None:
    ours, theirs = program_runs.open_output_pipes()
    os.write(theirs[0], said)
    heard = RsyncProgressAndErrors(*ours)
    heard.read_rest_of_rsync_output()
    program_runs.close_file_descriptors([*ours, *theirs])

    assert line == heard.rsync_progress_line()


@pytest.mark.parametrize("pace", [None, RsyncLimitAndProgress(tell=told)], ids=["words", "progress"])
def test_endless_output_of_a_remote_shell_ends_the_copy(
    tmp_path: Path, play: Play, pace: RsyncLimitAndProgress | None
) -> None:
    play("exec yes >&2")  # as it passes on what the far shell says
    tracemalloc.start()
    try:
        with pytest.raises(ProgramOutputTooLong, match="rsync: its output is larger than 16 MiB"):
            rsync.rsync_files_to_host(SshLogin(host="beta"), ["/x/a"], f"{tmp_path}/", lambda: False, pace)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2 * rsync.MOST_BYTES


def test_a_copy_keeps_only_its_last_progress_line(tmp_path: Path, play: Play) -> None:
    play("yes | head -c 50000000; printf '\\r 7 9%%\\r'")

    assert rsync.rsync_files_to_host(None, ["/x/a"], f"{tmp_path}/", lambda: False, RsyncLimitAndProgress(tell=told))
