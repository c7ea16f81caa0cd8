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
def test_a_job_without_a_file_of_home_has_nothing_to_be_carried(env: dict[str, str], expected: bool) -> None:
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
def test_where_output_stays_is_told(env: dict[str, str], user: str, expected: str) -> None:
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
def test_a_job_works_in_the_transfer_s_folder_if_a_list_is_declared(
    route: TransferRoute, context: tuple[tuple[str, str], ...], expected: bool
) -> None:
    assert expected is route.declares(context)
