"""Streams and declared files of a job are copied, and streams are appended once."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gridbridge.errors import GridbridgeError
from gridbridge.model.transfer_route import SshLogin, TransferRoute
from gridbridge.transfer.starter import file_staging, remote_job_submission_step

CAME = b"line\n" * 40_000  # more than is read at once


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("/data/ref", "/data/./ref"),
        ("/data/ref/.", "/data/./ref"),
        ("/data/./ref//", "/data/./ref"),
        ("ref/.", "/home/a/./ref"),
        ("b//ref", "/home/a/./b/ref"),
    ],
)
def test_equal_input_paths_give_one_rsync_source(path: str, source: str) -> None:
    assert file_staging._rsync_source_path(file_staging.RemoteStagingFolder(folder="", cwd="/home/a"), path) == source


@pytest.mark.parametrize(
    ("stream", "begun_at", "before", "after", "times"),
    [
        *((CAME, b"7", b"before\n" + CAME[:done], b"before\n" + CAME, 2) for done in (0, 1, 65536, 65537, len(CAME))),
        (b"line\nmore\n", b"", b"line\n", b"line\nline\nmore\n", 2),
        (b"mine\n", b"0", b"mother's\n", b"mother's\nmine\n", 1),
    ],
    ids=[*("not written", "a byte", "a block", "a block and a byte", "written"), "not begun", "another writer's text"],
)
def test_a_stream_is_appended_once_even_after_an_interruption(
    tmp_path: Path, stream: bytes, begun_at: bytes, before: bytes, after: bytes, times: int
) -> None:
    """An append notes first how long the file was."""
    fetched, target = tmp_path / "stdout", tmp_path / "out"
    fetched.write_bytes(stream)
    target.write_bytes(before)
    if begun_at:
        (tmp_path / "stdout.from").write_bytes(begun_at)

    for _ in range(times):
        file_staging._append_standard_stream_once(str(fetched), str(target))

    assert target.read_bytes() == after


def test_tasks_that_append_to_one_file_lose_no_text(tmp_path: Path) -> None:
    target = tmp_path / "out"

    def append(task: int) -> None:
        fetched = tmp_path / f"stdout{task}"
        fetched.write_bytes(b"done\n")
        file_staging._append_standard_stream_once(str(fetched), str(target))

    with ThreadPoolExecutor(20) as threads:
        list(threads.map(append, range(40)))

    assert target.read_bytes() == b"done\n" * 40


def test_a_stream_can_be_appended_to_a_pipe(tmp_path: Path) -> None:
    fetched, pipe = tmp_path / "stdout", tmp_path / "pipe"
    fetched.write_bytes(b"line\n")
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as threads:
        came = threads.submit(pipe.read_bytes)
        file_staging._append_standard_stream_once(str(fetched), str(pipe))

        assert came.result(10) == b"line\n"


def test_a_stream_target_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_bytes(b"line\n")

    with pytest.raises(GridbridgeError, match="No such file"):
        file_staging._append_standard_stream_once(str(tmp_path / "stdout"), str(tmp_path / "gone/out"))


def an_env(stdout: str, stderr: str, stdin: str = "/dev/null") -> dict[str, str]:
    streams = {"STDIN": stdin, "STDOUT": stdout, "STDERR": stderr}
    return {"LOGNAME": "alice", **{f"SGE_{name}_PATH": path for name, path in streams.items()}}


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (an_env("/dev/null", "/dev/null"), False),
        (an_env("/home/alice/out", "/dev/null"), True),
        (an_env("/dev/null", "/home/alice/err"), True),
        (an_env("/dev/null", "/dev/null", "/home/alice/in"), True),
    ],
    ids=["none", "output", "error", "input"],
)
def test_a_job_without_stream_files_needs_no_staging_of_streams(env: dict[str, str], expected: bool) -> None:
    assert expected is remote_job_submission_step.has_standard_stream_files(env)


@pytest.mark.parametrize(
    ("env", "user", "expected"),
    [
        (an_env("/dev/null", "/dev/null"), "", ""),
        (an_env("/a/out", "/a/out"), "al", "the output stays at far in ~al/out"),
        (an_env("/a/o", "/b/e"), "", "the output stays at far in ~alice/o and ~alice/e"),
    ],
    ids=["none", "one file", "two files"],
)
def test_the_note_names_the_remote_files_of_the_output(env: dict[str, str], user: str, expected: str) -> None:
    assert expected == remote_job_submission_step.remote_output_location(env, SshLogin(host="far", user=user))


@pytest.mark.parametrize(
    ("route", "context", "expected"),
    [
        (TransferRoute(remote_ssh="far", staged="yes"), (), False),
        (TransferRoute(remote_ssh="far"), (("stage_in", ""),), True),
        (TransferRoute(remote_ssh="far", stage_out="x"), (), True),
        (TransferRoute(stage_out="x"), (("stage_in", ""),), False),
    ],
    ids=["streams alone", "by the job", "by its queue", "not by ssh"],
)
def test_a_declared_staging_list_moves_the_job_into_the_folder_of_the_transfer(
    route: TransferRoute, context: tuple[tuple[str, str], ...], expected: bool
) -> None:
    assert expected is route.declares_staged_files(context)
