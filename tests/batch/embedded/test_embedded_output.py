"""Tests of the command lines and answers of the embedded cluster's program."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.batch.embedded import embedded_program_calls as calls
from gridbridge.errors import ParseError
from gridbridge.model.job_request import JobRequest, JobSpec
from gridbridge.model.transfer_route import EmbeddedClusterAccess

TEXT = st.binary(max_size=30).filter(lambda data: 0 not in data).map(os.fsdecode)
CLUSTER = calls.PrintedEmbeddedCluster(host="h", slots="2", used="1", waiting="0")
FOLDER = EmbeddedClusterAccess(folder="/c", python="/usr/bin/python3", timeout_s=5)


@given(names=st.lists(TEXT, max_size=4), error=TEXT)
def test_an_answer_is_decoded_as_it_was_encoded(names: list[str], error: str) -> None:
    jobs = [calls.PrintedEmbeddedJob(id=str(n), name=name, error=error) for n, name in enumerate(names, 1)]

    cluster, read = calls.parse_embedded_cluster_and_jobs(calls.encode_embedded_answer(CLUSTER, *jobs))

    assert (vars(cluster), [vars(job) for job in read]) == (vars(CLUSTER), list(map(vars, jobs)))


def test_a_truncated_answer_is_a_parse_error() -> None:
    jobs = (calls.PrintedEmbeddedJob(id="1", name="a"), calls.PrintedEmbeddedJob(id="2", name=".\n."))
    whole = calls.encode_embedded_answer(CLUSTER, *jobs)

    for length in range(len(whole)):
        with pytest.raises(ParseError):
            calls.parse_embedded_cluster_and_jobs(whole[:length])


def test_an_answer_without_ends_is_valid_but_empty_output_is_not() -> None:
    end = calls.PrintedEmbeddedJobEnd(account="a", exit_status="0", host="h")

    assert calls.parse_embedded_job_ends(calls.encode_embedded_answer()) == []
    (read,) = calls.parse_embedded_job_ends(calls.encode_embedded_answer(end))
    assert vars(read) == vars(end)
    with pytest.raises(ParseError):
        calls.parse_embedded_job_ends(b"")


@pytest.mark.parametrize(
    ("request_", "lacks"),
    [
        (JobRequest(), ""),
        (JobRequest(hard=(("remote", ""),)), ""),
        (JobRequest(hard=(("gb_beta_up", ""),)), ""),
        (JobRequest(hard=(("h_rt", ""),)), "h_rt"),
        (JobRequest(notify=True), "-notify"),
        (JobRequest(checkpoint="c"), "checkpointing"),
    ],
    ids=["nothing", "a place at home", "a load value", "a limit", "notify", "checkpointing"],
)
def test_an_unsupported_request_is_refused_by_name(request_: JobRequest, lacks: str) -> None:
    reason = calls.explain_request_refusal(request_)

    assert reason == (f"an embedded cluster has no {lacks}" if lacks else "")


def test_each_part_of_a_job_is_one_option_even_if_it_begins_with_a_dash() -> None:
    spec = JobSpec(transfer="-gb", request=JobRequest(), shell="--held", pe="smp", slots=4)
    argv = calls.submit_held_job_argv(FOLDER, spec)

    assert {"--name=-gb", "--shell=--held", "--cwd=", "--slots=4"} <= set(argv)
