"""Tests of the conversion of `qsub -verify` into the XML of `qstat -j`."""

from pathlib import Path

import pytest

from gridbridge.batch.gridengine.job_request_parser import parse_job_cwd, parse_job_request, parse_parallel_request
from gridbridge.batch.gridengine.user_job_queries import convert_qsub_verify_to_xml
from gridbridge.errors import ParseError

TOLD = (Path(__file__).parents[2] / "golden" / "gridengine-8.1.9" / "verified.txt").read_bytes()


def test_all_options_in_the_output_of_qsub_verify_are_parsed() -> None:
    """The job script has a line `hard resource_list: fake=1`."""
    xml = convert_qsub_verify_to_xml(TOLD, "alice")
    request = parse_job_request(xml)

    assert (request.owner, request.project, request.checkpoint) == ("alice", "chem", "x")
    assert request.hard == (("h_rt", "1:0:0"), ("arch", "lx*"))
    assert request.soft == (("mem_free", "2G"),)
    assert (request.queues, request.priority, request.notify) == ("transfer-beta,all.q", -5, True)
    assert (parse_job_cwd(xml), parse_parallel_request(xml)) == ("/home/alice", ("mpi", 8))


def test_a_job_without_options_has_an_empty_request() -> None:
    request = parse_job_request(convert_qsub_verify_to_xml(b"job_number:                 unassigned\n", "bob"))

    assert (request.owner, request.hard, request.soft, request.queues) == ("bob", (), (), "")
    assert (request.priority, request.notify) == (0, False)


def test_context_variables_of_qsub_verify_are_parsed() -> None:
    """The first word is the sign of -ac, -dc or -sc."""
    told = b"job_number: unassigned\ncontext:     +=NONE,stage_in=a:b%2C,stage_out=,note=x=y\n"

    context = dict(parse_job_request(convert_qsub_verify_to_xml(told, "bob")).context)

    assert context == {"stage_in": "a:b%2C", "stage_out": "", "note": "x=y"}


@pytest.mark.parametrize("told", [b"", b"Unable to read script file\n"])
def test_output_of_qsub_verify_without_job_is_refused(told: bytes) -> None:
    with pytest.raises(ParseError, match="the output has no job"):
        convert_qsub_verify_to_xml(told, "alice")
