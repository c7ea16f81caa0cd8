"""Tests of the parser of `qstat -j`."""

from pathlib import Path

import pytest

from gridbridge.batch.gridengine.qstat_xml_parser import parse_job_accounts_and_errors
from gridbridge.errors import ParseError
from gridbridge.model.jobs_and_accounting import JobAccountAndErrors
from tests.builders.golden import CAPTURED, UNSEEN


def read(path: Path) -> tuple[JobAccountAndErrors, ...]:
    return parse_job_accounts_and_errors(path.read_bytes())


@pytest.mark.parametrize("name", ["hostile", "altered"], ids=["control characters", "changed by qalter"])
def test_name_owner_and_account_of_a_job_are_parsed(name: str) -> None:
    """Newlines, control characters, `<` and Latin-1 in `-v` are printed unchanged."""
    (job,) = read(CAPTURED / f"job-{name}.xml")

    assert (job.name, job.owner, job.account) == (name, "alice", "gb.alpha.9.0.1")


def test_a_name_pattern_returns_several_jobs_in_order() -> None:
    first, second = read(CAPTURED / "job-pending.xml")

    assert (first.name, second.name) == ("gb.alpha.8.0.1", "gb.alpha.8.0.2")
    assert first.job_id < second.job_id


def test_an_error_message_of_a_job_is_parsed() -> None:
    (job,) = read(CAPTURED / "job-error.xml")

    assert job.name == "wrong"
    assert len(job.errors) == 1
    assert "100" in job.errors[0]


@pytest.mark.parametrize("path", [CAPTURED / "job-unknown.xml", UNSEEN / "6.2u5-unknown.xml"], ids=lambda p: p.name)
def test_an_unknown_job_returns_an_empty_result(path: Path) -> None:
    assert read(path) == ()


def test_broken_xml_of_6_2u5_is_repaired() -> None:
    (job,) = read(UNSEEN / "6.2u5-job.xml")

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
