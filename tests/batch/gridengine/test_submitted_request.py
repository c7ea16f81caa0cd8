"""Tests of a job's details and request as printed by qstat or `qsub -verify` of 8.1.9, and as written by execd."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.batch.gridengine.job_request_parser import (
    parse_array_indices_in_job_list,
    parse_execd_config,
    parse_execd_environment,
    parse_job_cwd,
    parse_job_request,
    parse_owner_and_account,
    parse_parallel_request,
)
from gridbridge.batch.gridengine.qstat_xml_parser import parse_job_accounts_and_errors
from gridbridge.batch.gridengine.user_job_queries import convert_qsub_verify_to_xml
from gridbridge.errors import ParseError
from gridbridge.model.job_request import JobRequest
from gridbridge.model.jobs_and_accounting import JobAccountAndErrors
from tests.builders.golden import CAPTURED, UNSEEN
from tests.builders.qstat import job_list, job_row

BYTES = st.binary(max_size=80).filter(lambda data: 0 not in data)


def read(name: str) -> JobRequest:
    return parse_job_request((CAPTURED / f"{name}.xml").read_bytes())


@pytest.mark.parametrize("name", ["job-hostile", "job-altered"])
def test_only_variables_that_qsub_did_not_add_are_the_users(name: str) -> None:
    assert read(name).variables == {"TERM", "A", "B", "C", "D"}


def test_a_job_without_requests_has_an_empty_request() -> None:
    asked = read("job-hostile")

    assert (asked.hard, asked.soft, asked.context) == ((), (), ())
    assert (asked.project, asked.checkpoint, asked.notify) == ("", "", False)
    assert (asked.priority, asked.share, asked.rerun, asked.owner) == (0, 0, "", "alice")


def test_a_resource_list_changed_by_qalter_is_parsed() -> None:
    """After a qalter the lists lack their inner tags."""
    assert read("job-altered").hard == (("arch", "none"),)


@pytest.mark.parametrize(
    ("element", "attribute", "meaning"),
    [
        ("<JB_project>p</JB_project>", "project", "p"),
        ("<JB_checkpoint_name>c</JB_checkpoint_name>", "checkpoint", "c"),
        ("<JB_priority>924</JB_priority>", "priority", -100),
        ("<JB_jobshare>5</JB_jobshare>", "share", 5),
        ("<JB_restart>1</JB_restart>", "rerun", "yes"),
        ("<JB_restart>2</JB_restart>", "rerun", "no"),
        ("<JB_notify>true</JB_notify>", "notify", True),
        (
            "<JB_context><e><VA_variable>a</VA_variable><VA_value>%lt;&amp;&gt;</VA_value></e>"
            "<e><VA_variable>b</VA_variable></e></JB_context>",
            "context",
            (("a", "<&>"), ("b", "")),
        ),
    ],
)
def test_each_xml_element_becomes_its_request_field(element: str, attribute: str, meaning: object) -> None:
    xml = f"<JB_job_number>1</JB_job_number>{element}".encode()

    assert getattr(parse_job_request(xml), attribute) == meaning


@pytest.mark.parametrize("answer", [b"", (CAPTURED / "job-unknown.xml").read_bytes()])
def test_an_answer_without_job_is_a_parse_error(answer: bytes) -> None:
    with pytest.raises(ParseError):
        parse_job_request(answer)
    with pytest.raises(ParseError):
        parse_owner_and_account(answer)


@given(value=BYTES)
def test_execds_environment_file_is_decoded_byte_by_byte(value: bytes) -> None:
    """A newline is escaped, and a backslash is doubled."""
    written = value.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
    read = parse_execd_environment(b"A=1\nB=" + written + b"\nC=\n")

    assert (read["A"], read["B"].encode("utf-8", "surrogateescape"), read["C"]) == ("1", value, "")


def test_execds_config_file_is_parsed() -> None:
    assert parse_execd_config(b'pe=none\nfs_stdin_host=""\ncwd=/a=b\n')["cwd"] == "/a=b"


def test_array_indices_are_selected_by_state() -> None:
    rows = (("pending", "hqw", "1-2"), ("pending", "qw", "3"), ("running", "hr", "4"))
    xml = job_list(*(job_row(7, state, kind=kind, tasks=tasks) for kind, state, tasks in rows))

    every = parse_array_indices_in_job_list(xml, ("7",))
    held = parse_array_indices_in_job_list(xml, ("7",), b"pending", "h")

    assert every == {"7": (range(1, 3), range(3, 4), range(4, 5))}
    assert held == {"7": (range(1, 3),)}


def test_all_options_in_the_output_of_qsub_verify_are_parsed() -> None:
    """The job script has a line `hard resource_list: fake=1`."""
    xml = convert_qsub_verify_to_xml((CAPTURED / "verified.txt").read_bytes(), "alice")
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


def read_jobs(path: Path) -> tuple[JobAccountAndErrors, ...]:
    return parse_job_accounts_and_errors(path.read_bytes())


@pytest.mark.parametrize("name", ["hostile", "altered"], ids=["control characters", "changed by qalter"])
def test_name_owner_and_account_of_a_job_are_parsed(name: str) -> None:
    """Newlines, control characters, `<` and Latin-1 in `-v` are printed unchanged."""
    (job,) = read_jobs(CAPTURED / f"job-{name}.xml")

    assert (job.name, job.owner, job.account) == (name, "alice", "gb.alpha.9.0.1")


def test_a_name_pattern_returns_several_jobs_in_order() -> None:
    first, second = read_jobs(CAPTURED / "job-pending.xml")

    assert (first.name, second.name) == ("gb.alpha.8.0.1", "gb.alpha.8.0.2")
    assert first.job_id < second.job_id


def test_an_error_message_of_a_job_is_parsed() -> None:
    (job,) = read_jobs(CAPTURED / "job-error.xml")

    assert job.name == "wrong"
    assert len(job.errors) == 1
    assert "100" in job.errors[0]


@pytest.mark.parametrize("path", [CAPTURED / "job-unknown.xml", UNSEEN / "6.2u5-unknown.xml"], ids=lambda p: p.name)
def test_an_unknown_job_returns_an_empty_result(path: Path) -> None:
    assert read_jobs(path) == ()


def test_broken_xml_of_6_2u5_is_repaired() -> None:
    (job,) = read_jobs(UNSEEN / "6.2u5-job.xml")

    assert (job.job_id, job.name, job.account) == (34, "old", "gb.alpha.1.0.1")
    assert job.errors == ("can not open $OUT & <in>",)
    assert job.messages == ('queue instance "all.q@old-n1" dropped because it is full',)


@pytest.mark.parametrize("name", ["job-hostile.xml", "job-unknown.xml", "job-error.xml"])
def test_a_truncated_job_detail_is_a_parse_error(name: str) -> None:
    data = (CAPTURED / name).read_bytes().rstrip()
    for end in range(0, len(data), 7):
        with pytest.raises(ParseError):
            parse_job_accounts_and_errors(data[:end])


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\n", b"error: nothing\n", b"<detailed_job_info/>", b"<a><b></a>", b"\x00\xff<"),
        (UNSEEN / "no-connection.xml").read_bytes(),
    ],
    ids=lambda data: repr(data[:40]),
)
def test_output_that_is_no_job_detail_is_refused(data: bytes) -> None:
    with pytest.raises(ParseError):
        parse_job_accounts_and_errors(data)
