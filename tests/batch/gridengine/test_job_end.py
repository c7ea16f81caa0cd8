"""Tests of a job's end from accounting records, some of which may be forged."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gridbridge.batch.gridengine.status import decide_job_end, decide_past_or_future_job_end
from gridbridge.model.jobs_and_accounting import FutureDatedJobEnd, JobEnd, RemoteJobRunAccounting, RemoteUsageSource

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SEVEN = RemoteJobRunAccounting(
    transfer="gb.alpha.7.0.1",
    cluster="beta",
    source=RemoteUsageSource.ACCOUNTING,
    mark="",
    job_id=2,
    owner="alice",
    ended_at=NOON,
    failed=0,
    exit_status=7,
    user_s=1.0,
)
ZERO = replace(SEVEN, exit_status=0)
PUT_BACK = replace(SEVEN, failed=25, exit_status=99)
PART = replace(SEVEN, pe_task="1.beta-n1", exit_status=1)
UNSEEN = replace(SEVEN, failed=19, exit_status=0, user_s=0.0)
LATER = replace(ZERO, ended_at=NOON + timedelta(minutes=6), host="n1")
KILLED = replace(SEVEN, failed=7, exit_status=137)


@pytest.mark.parametrize(
    ("records", "status", "is_disputed"),
    [
        ([], None, False),
        ([SEVEN], 7, False),
        ([SEVEN, SEVEN], 7, False),
        ([SEVEN, ZERO], None, True),
        ([PUT_BACK, SEVEN], 7, False),
        ([SEVEN, PART], 7, False),
        ([SEVEN, UNSEEN], 7, False),
        ([LATER], None, False),
        ([SEVEN, LATER], 7, False),
        ([UNSEEN, LATER], None, False),
        ([KILLED, LATER], None, False),
    ],
    ids=[
        *("none", "one", "twice the same", "two ends", "put back before"),
        *("a part of it", "one not seen", "in the future", "one in the future"),
        *("a lost run before the future", "a killed run before the future"),
    ],
)
def test_equal_records_settle_an_end_and_different_records_do_not(
    records: list[RemoteJobRunAccounting], status: int | None, is_disputed: bool
) -> None:
    end, disputed = decide_job_end(records, NOON)

    assert (end.exit_status if end else None, disputed) == (status, is_disputed)


def test_an_unseen_end_is_returned_if_no_other_record_exists() -> None:
    end, disputed = decide_job_end([UNSEEN], NOON)

    assert (end and end.is_end_unknown, disputed) == (True, False)


@pytest.mark.parametrize(
    ("records", "status"),
    [([LATER], 0), ([LATER, PUT_BACK], 0), ([UNSEEN, LATER], None), ([KILLED, LATER], None)],
    ids=["alone", "put back", "beside a lost run", "beside a killed one"],
)
def test_an_end_in_the_future_is_returned_as_future_dated(
    records: list[RemoteJobRunAccounting], status: int | None
) -> None:
    """The clock of the task's host may be ahead."""
    end, disputed = decide_past_or_future_job_end(records, NOON)

    assert isinstance(end, FutureDatedJobEnd)
    assert (end.host, end.ended_at, disputed) == ("n1", LATER.ended_at, False)
    assert (end.end.exit_status if end.end else None) == status


def test_an_end_in_the_future_counts_once_its_time_has_come() -> None:
    end, disputed = decide_past_or_future_job_end([UNSEEN, LATER], NOON + timedelta(minutes=2))

    assert isinstance(end, JobEnd)
    assert (end.exit_status, disputed) == (0, False)


def test_the_longest_of_equal_ends_counts() -> None:
    """Another user may have forged the shorter record."""
    long, short = replace(ZERO, wallclock_s=60.0, host="n1"), replace(ZERO, wallclock_s=0.0)

    for records in ([long, short], [short, long]):
        end, is_disputed = decide_job_end(records, NOON)

        assert (end.wallclock_s, end.host, is_disputed) == (60.0, "n1", False)
