"""Which streams of a job are files that it does not see elsewhere, and where they lie there."""

import pytest

from gridbridge.model.transfer_route import SshLogin, TransferRoute
from gridbridge.transfer.starter import remote_job_submission_step


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
    assert expected is route.declares(context)
