"""What hands type after the remote tools: times, periods, task ranges and names."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gridbridge.errors import ParseError
from gridbridge.transfer.cli.remote_tool_arguments import (
    UsageChoice,
    is_in_ranges,
    is_job_name,
    parse_job_with_tasks,
    parse_qacct_time,
    usage_period,
)
from tests.shown import NOW, ago
from tests.transfer.cli.test_remote_tools import REMOTE

pytestmark = pytest.mark.usefixtures("utc")

BEGIN, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("01020304", datetime(2026, 1, 2, 3, 4, tzinfo=UTC)),
        ("2501020304", datetime(2025, 1, 2, 3, 4, tzinfo=UTC)),
        ("9901020304", datetime(1999, 1, 2, 3, 4, tzinfo=UTC)),
        ("202501020304.05", datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2025010203045", None),
        ("20250102", None),  # month 20
        ("", None),
    ],
)
def test_times_are_those_of_qacct(text: str, at: datetime | None) -> None:
    if at is None:
        with pytest.raises(ParseError, match="is no time"):
            parse_qacct_time(text, NOW)
    else:
        assert parse_qacct_time(text, NOW) == at


@pytest.mark.parametrize(
    ("given", "period"),
    [
        ((BEGIN, END, None), (BEGIN, END)),
        ((BEGIN, None, 1), (BEGIN, BEGIN + DAY)),
        ((None, END, 1), (END - DAY, END)),
        ((None, None, 1), (None, None)),
    ],
)
def test_days_replace_the_missing_end_of_a_period(
    given: tuple[datetime | None, datetime | None, float | None], period: tuple[datetime | None, datetime | None]
) -> None:
    assert usage_period(*given) == period


@pytest.mark.parametrize(
    ("choice", "is_chosen"),
    [
        (UsageChoice(), True),
        (UsageChoice(queue=""), True),
        (UsageChoice(queue="all.*"), True),
        (UsageChoice(queue="*@beta-n1"), True),
        (UsageChoice(queue="long.q"), False),
        (UsageChoice(begin=ago(60)), True),
        (UsageChoice(begin=ago(59)), False),
        (UsageChoice(end=ago(60)), True),
        (UsageChoice(end=ago(61)), False),
    ],
)
def test_runs_are_chosen_by_start_and_remote_queue(choice: UsageChoice, is_chosen: bool) -> None:
    record = replace(REMOTE, started_at=ago(60), queue="all.q", host="beta-n1")

    assert choice.contains(record) is is_chosen
    assert choice.contains(replace(record, started_at=None)) is (is_chosen and not (choice.begin or choice.end))


@pytest.mark.parametrize(
    ("text", "ranges", "tasks"),
    [
        ("147", "", (1, 2, 3, 9)),
        ("147.2-3", "", (2, 3)),
        ("147.1-9:4", "", (1, 9)),
        ("147.2", "", (2,)),
        ("147", "2-3,9", (2, 3, 9)),
    ],
)
def test_tasks_stand_behind_the_job_or_in_t(text: str, ranges: str, tasks: tuple[int, ...]) -> None:
    job, parsed = parse_job_with_tasks(text, ranges)

    assert job == "147"
    assert tuple(task for task in (1, 2, 3, 9) if is_in_ranges(task, parsed)) == tasks


def test_a_name_begins_with_no_digit() -> None:
    names = ("render", "r*", "*", "12", "12.3", "-j", ",", "")

    assert list(filter(is_job_name, names)) == ["render", "r*", "*"]
