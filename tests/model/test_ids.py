"""Transfer names are written and parsed in exactly one form."""

import pytest

from gridbridge.errors import ParseError
from gridbridge.model.transfer_name import TransferAttemptId, is_transfer_name, parse_transfer_name


def test_a_transfer_name_survives_writing_and_parsing() -> None:
    transfer = TransferAttemptId("alpha-2", 12, 3, 1)

    assert str(transfer) == "gb.alpha-2.12.3.1"
    assert parse_transfer_name(str(transfer)) == transfer


@pytest.mark.parametrize(("task", "expected"), [(0, "12"), (3, "12.3")], ids=["a plain job", "an array's task"])
def test_the_local_job_of_a_transfer_is_written_as_in_grid_engine(task: int, expected: str) -> None:
    assert TransferAttemptId("alpha", 12, task, 1).local_job_or_task_id == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "gb.alpha.1.1",
        "gb.alpha.1.1.1.1",
        "xx.alpha.1.1.1",
        "gb.Alpha.1.1.1",
        "gb..1.1.1",
        "gb.al/pha.1.1.1",
        "gb.alpha.-1.1.1",
        "gb.alpha.one.1.1",
        "gb.alpha.\u0661.1.1",
        "gb.alpha.9999999999.1.1",
    ],
    ids=repr,
)
def test_a_malformed_transfer_name_is_refused(name: str) -> None:
    with pytest.raises(ParseError):
        parse_transfer_name(name)

    assert not is_transfer_name(name)
