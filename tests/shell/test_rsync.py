"""What a copy with a pace asks of rsync, and what is read of its progress."""

import os
import tracemalloc
from pathlib import Path

import pytest

from gridbridge.errors import CommandFailed, ProgramOutputTooLong
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell import program_runs, rsync
from gridbridge.shell.rsync import RsyncLimitAndProgress, RsyncProgressAndErrors


def told(_: str) -> None:
    """Tell nobody."""


def test_a_host_that_falls_silent_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a limit of ours rsync waits for ever, and its round with it."""
    program, noted = tmp_path / "rsync", tmp_path / "argv"
    said = "io timeout after 3600 seconds -- exiting"
    program.write_text(f'#!/bin/sh\necho "$*" >{noted}\necho {said} >&2\nexit 30\n')
    program.chmod(0o755)
    monkeypatch.setattr(rsync, "PROGRAM", str(program))

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
def test_what_follows_from_a_failure_is_not_told_as_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, status: int, why: str
) -> None:
    """Version 3.2.7 says so of a host that is cut off while it copies, and of a full disk there."""
    program, words = tmp_path / "rsync", tmp_path / "words"
    words.write_text(said)
    program.write_text(f"#!/bin/sh\ncat {words} >&2\nexit {status}\n")
    program.chmod(0o755)
    monkeypatch.setattr(rsync, "PROGRAM", str(program))

    with pytest.raises(CommandFailed) as failed:
        rsync.rsync_files_to_host(SshLogin(host="beta"), ["/x/a"], f"{tmp_path}/", lambda: False)

    assert failed.value.words == why


def test_a_pace_limits_the_rate_and_grows_files_in_place() -> None:
    """A partial folder would be left beside, and rsync takes only one of both."""
    options = RsyncLimitAndProgress(tell=told, kib_per_s=7).options()

    assert "--bwlimit=7" in options
    assert "--inplace" in options
    assert not any("partial" in option for option in options)
    assert not any("bwlimit" in option for option in RsyncLimitAndProgress(tell=told).options())


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (b"", ""),
        (b"\r     10  1%   10.00kB/s    0:00:01", "10  1%   10.00kB/s    0:00:01"),
        (b"\r  1  1%\r" + b" " * 300 + b"\r  20  2%  \r", "20  2%"),
        (b"\r  1  1%\r  30  3% (xfr#1)\n", "30  3% (xfr#1)"),
    ],
)
def test_the_last_line_of_progress_is_told(said: bytes, line: str) -> None:
    ours, theirs = program_runs.open_output_pipes()
    os.write(theirs[0], said)
    heard = RsyncProgressAndErrors(*ours)
    heard.take_rest()
    program_runs.close_files([*ours, *theirs])

    assert line == heard.progress()


@pytest.mark.parametrize("pace", [None, RsyncLimitAndProgress(tell=told)], ids=["words", "progress"])
def test_a_far_shell_that_prints_for_ever_ends_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pace: RsyncLimitAndProgress | None
) -> None:
    program = tmp_path / "rsync"
    program.write_text("#!/bin/sh\nexec yes >&2\n")  # as it passes on what the far shell says
    program.chmod(0o755)
    monkeypatch.setattr(rsync, "PROGRAM", str(program))
    tracemalloc.start()
    try:
        with pytest.raises(ProgramOutputTooLong, match="rsync: it printed more than the 16 MiB"):
            rsync.rsync_files_to_host(SshLogin(host="beta"), ["/x/a"], f"{tmp_path}/", lambda: False, pace)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2 * rsync.MOST_BYTES


def test_a_copy_that_tells_of_its_progress_for_days_keeps_the_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "rsync"
    program.write_text("#!/bin/sh\nyes | head -c 50000000; printf '\\r 7 9%%\\r'\n")
    program.chmod(0o755)
    monkeypatch.setattr(rsync, "PROGRAM", str(program))

    assert rsync.rsync_files_to_host(None, ["/x/a"], f"{tmp_path}/", lambda: False, RsyncLimitAndProgress(tell=told))
