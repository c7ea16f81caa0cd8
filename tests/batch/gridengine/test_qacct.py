"""Tests of ended jobs as printed by qacct or written into the accounting file, where some are forged."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from operator import attrgetter
from pathlib import Path

import pytest

from gridbridge.batch.gridengine.accounting_record_parser import (
    JobRunAccounting,
    job_end_of_accounting_record,
    parse_accounting_records,
    parse_array_task_records,
    parse_records_by_account_prefix,
    parse_task_end_times,
)
from gridbridge.batch.gridengine.status import decide_job_end, decide_past_or_future_job_end
from gridbridge.decisions.campaigns.task_attempt_outcomes import classify_job_end
from gridbridge.errors import ParseError
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.jobs_and_accounting import (
    ArrayEndQuery,
    FutureDatedJobEnd,
    JobEnd,
    RemoteJobRunAccounting,
    RemoteUsageSource,
)
from tests.builders.golden import CAPTURED, UNSEEN


def read(path: Path) -> tuple[JobRunAccounting, ...]:
    return parse_accounting_records(path.read_bytes(), zone=UTC)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ok", [(0, 0, 0)]),
        ("failed", [(0, 0, 3)]),
        ("killed", [(0, 100, 137)]),
        ("requeued", [(0, 25, 99), (0, 0, 0)]),
        ("array", [(2, 0, 2), (4, 0, 4), (6, 0, 6)]),
    ],
)
def test_qacct_records_have_failed_and_exit_status(name: str, expected: list[tuple[int, int, int]]) -> None:
    ends = [(run.task, run.failed, run.exit_status) for run in read(CAPTURED / f"qacct-{name}.txt")]

    assert expected == (sorted(ends) if name == "array" else ends)


@pytest.mark.parametrize(
    ("failed", "status", "user_s", "expected"),
    [
        (0, 0, 0.1, (0, None)),
        (0, 7, 0.1, (7, None)),
        (0, 143, 0.1, (143, None)),
        (100, 137, 0.1, (None, 9)),
        (0, 0, 0.0, (None, None)),
        (100, 137, 0.0, (None, None)),
        (100, 0, 0.1, (None, None)),
        (26, 0, 0.1, (None, None)),
    ],
)
def test_a_record_without_usage_is_an_unseen_end(
    failed: int, status: int, user_s: float, expected: tuple[int | None, int | None]
) -> None:
    """`qdel -f` and a lost host leave no usage (sge_status(5), failed)."""
    (ok,) = read(CAPTURED / "qacct-ok.txt")
    record = replace(ok, failed=failed, exit_status=status, user_s=user_s, system_s=0.0, max_rss_kb=0.0)

    end = job_end_of_accounting_record(record)

    assert (end.exit_status, end.signal) == expected


def test_a_forced_deletion_is_a_success_without_usage() -> None:
    """`qdel -f` writes failed 0 and exit status 0."""
    (forced,), (ok,) = (read(CAPTURED / f"qacct-{name}.txt") for name in ("forced", "ok"))

    assert (forced.failed, forced.exit_status, forced.has_usage) == (0, 0, False)
    assert (ok.failed, ok.exit_status, ok.has_usage) == (0, 0, True)


def test_a_qacct_record_has_owner_account_queue_and_host() -> None:
    (ok,) = read(CAPTURED / "qacct-ok.txt")

    assert (ok.name, ok.owner, ok.account, ok.queue) == ("ok", "alice", "gb.alpha.7.0.1", "all.q")
    assert ok.host.startswith("alpha-n")


def test_qacct_and_accounting_file_agree() -> None:
    by_file = {(run.job_id, run.task, run.failed): run for run in read(CAPTURED / "accounting.txt")}
    for name in ("ok", "failed", "array", "killed", "forced", "requeued"):
        for told in read(CAPTURED / f"qacct-{name}.txt"):
            kept = by_file[told.job_id, told.task, told.failed]
            exact = attrgetter("submitted_at", "started_at", "ended_at", "exit_status")
            assert exact(kept) == exact(told)
            assert told.user_s == pytest.approx(kept.user_s, abs=0.001)
            assert told.max_rss_kb == pytest.approx(kept.max_rss_kb, rel=0.001)


def test_qacct_times_are_parsed_in_the_given_zone() -> None:
    data = (CAPTURED / "qacct-ok.txt").read_bytes()
    (here,) = parse_accounting_records(data, zone=UTC)
    (there,) = parse_accounting_records(data, zone=timezone(timedelta(hours=9)))

    assert here.ended_at is not None
    assert there.ended_at == here.ended_at - timedelta(hours=9)


def test_colons_in_a_category_shift_no_field() -> None:
    line = (CAPTURED / "accounting.txt").read_text().splitlines()[0]
    fields = line.split(":")
    fields[39] = "-U a:b -l arch=x:y"

    assert parse_accounting_records(":".join(fields).encode() + b"\n") == parse_accounting_records(
        line.encode() + b"\n"
    )


@pytest.mark.parametrize(
    "data",
    [b"# Version: 8.1.9\n#\n", b"no jobs running since startup\n", b"error: job id 99999 not found\n"],
    ids=["comments", "no accounting file yet", "no such job"],
)
def test_an_answer_without_records_is_no_error(data: bytes) -> None:
    assert parse_accounting_records(data) == ()


def test_a_qacct_record_of_a_job_that_never_started_has_no_times() -> None:
    (never,) = read(UNSEEN / "6.2u5-qacct.txt")

    assert (never.failed, never.started_at, never.ended_at) == (26, None, None)
    assert never.submitted_at == datetime(2010, 1, 31, 12, tzinfo=UTC)


def test_open_cluster_scheduler_records_who_deleted_a_job() -> None:
    (killed,) = read(UNSEEN / "ocs-9.2-qacct.txt")

    cancelled, signal = TaskAttemptOutcome.CANCELLED, TaskAttemptOutcome.SIGNAL
    for deleted_by, outcome in ((killed.deleted_by, cancelled), ("", signal), ("NONE", signal)):
        end = job_end_of_accounting_record(replace(killed, deleted_by=deleted_by))
        assert classify_job_end(end, walltime_s=60) is outcome
    assert (killed.task, killed.deleted_by, killed.max_rss_kb) == (3, "alice@new-master", 4832)
    assert killed.ended_at == datetime(2025, 1, 31, 12, 0, 9, 500_000, tzinfo=UTC)


@pytest.mark.parametrize("name", ["qacct-ok.txt", "qacct-killed.txt", "accounting.txt"], ids=lambda name: name)
def test_a_truncated_qacct_answer_gives_only_whole_records(name: str) -> None:
    data = (CAPTURED / name).read_bytes()
    whole = parse_accounting_records(data)
    for end in range(len(data)):
        try:
            records = parse_accounting_records(data[:end])
        except ParseError:
            continue
        assert records == whole[: len(records)]
        assert len(records) > 0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage\n",
        b"error: commlib error: got select error\n",
        b"=" * 62 + b"\nqname all.q\n",
        b"a:" * 60 + b"\n",
        b"\xff\xfe\n",
    ],
    ids=["empty", "garbage", "an error", "half a record", "not numbers", "bytes"],
)
def test_output_that_is_no_accounting_record_is_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(ParseError) as refused:
        parse_accounting_records(data)

    assert len(str(refused.value).splitlines()) == 1


def test_only_accounting_lines_with_the_account_prefix_are_parsed() -> None:
    data = (CAPTURED / "accounting.txt").read_bytes()

    ((line, record),), skipped = parse_records_by_account_prefix(data, "gb.alpha.")

    assert (record.job_id, record.account, skipped) == (2, "gb.alpha.7.0.1", 0)
    assert line.encode() in data.splitlines()
    assert parse_records_by_account_prefix(data, "gb.beta.") == ((), 0)


def test_a_malformed_accounting_line_is_skipped_and_counted() -> None:
    good = (CAPTURED / "accounting.txt").read_bytes().splitlines(keepends=True)[2]
    bad = [
        good.replace(b":ok:", b":\xff:", 1),
        good.replace(b":1795212511:", b":%d:" % 10**18, 1),  # a time beyond every calendar
        b"#\n",
        b"half:a:gb.alpha.1.0.1:line\n",
    ]

    found, skipped = parse_records_by_account_prefix(b"".join([*bad, b"# gb:gb.alpha.2.0.1\n", good]), "gb.alpha.")

    assert [record.job_id for _, record in found] == [2, 2]
    assert skipped == 2


def test_a_job_name_that_looks_like_an_account_is_ignored() -> None:
    good = (CAPTURED / "accounting.txt").read_bytes().splitlines(keepends=True)[0]
    named = good.replace(b":failed:", b":gb.alpha.1.0.1:", 1)

    assert parse_records_by_account_prefix(named, "gb.alpha.") == ((), 0)


def smuggled(inner: bytes, asked: bytes = b"-l arch=x", rest: bytes = b"z") -> bytes:
    """Return a record whose request has a line feed; `inner` and `rest` follow the line feed."""
    own = (CAPTURED / "accounting.txt").read_bytes().splitlines()[0]
    head, tail = own.rsplit(b":NONE:0.000000:NONE:", 1)
    return head + b":" + asked + b"\n" + inner + rest + b":0.000000:NONE:" + tail + b"\n"


OURS = (CAPTURED / "accounting.txt").read_bytes().splitlines(keepends=True)[2]


@pytest.mark.parametrize(
    "data",
    [
        smuggled(OURS),
        smuggled(OURS, asked=b"-l arch=x:0.0:NONE:0.0:0:0"),
        smuggled(OURS, rest=OURS.rsplit(b":NONE:0.0", 1)[0].replace(b"gb.alpha.7.0.1", b"sge")),
        smuggled(OURS + OURS),
        smuggled(OURS.rstrip(b"\n") + b"z\n"),
        smuggled((OURS.rstrip(b"\n") + b"z\n") * 2),
    ],
    ids=["one", "after a head that is whole", "before a tail that is whole", "two", "odd", "odd ones"],
)
def test_a_line_inside_another_jobs_record_is_ignored(data: bytes) -> None:
    """Grid Engine writes a line feed of a request unchanged into the record's category."""
    found, skipped = parse_records_by_account_prefix(data, "gb.alpha.")

    assert (found, skipped) == ((), data.count(b":gb.alpha."))


def test_no_job_can_put_another_users_record_inside_its_own() -> None:
    before, after = smuggled(b"", rest=b"a:b"), smuggled(b"", asked=b"-l a=:0.0:NONE:0.0:0:0")

    ((line, _),), skipped = parse_records_by_account_prefix(before + OURS + after, "gb.alpha.")

    assert (line.encode() + b"\n", skipped) == (OURS, 0)


ARRAY = (7, "gc.alpha.3.1")


def task(place: int, exit_status: int = 0, array: tuple[int, str] = ARRAY) -> bytes:
    fields = OURS.rstrip(b"\n").split(b":")
    fields[5], fields[6] = str(array[0]).encode(), array[1].encode()
    fields[12], fields[35] = str(exit_status).encode(), str(place).encode()
    return b":".join(fields) + b"\n"


def tasks(*lines: bytes, places: range = range(1, 9)) -> list[tuple[int, int, int]]:
    asked = [
        ArrayEndQuery(job_id=number, account=account, places=places) for number, account in (ARRAY, (8, "gc.alpha.3.2"))
    ]
    found = parse_array_task_records(b"".join(lines), asked)
    return [(one.job_id, one.task, one.exit_status) for one in found]


def test_tasks_of_several_arrays_are_parsed_at_once() -> None:
    others = (task(1, array=(9, "gc.alpha.3.1")), task(1, array=(7, "gc.alpha.3.11")), task(9), task(0), b"--\n")
    found = tasks(task(2, 5), *others, OURS, task(3, array=(8, "gc.alpha.3.2")))

    assert found == [(7, 2, 5), (8, 3, 0)]
    assert tasks(task(2), task(3)[:60]) == []  # the task of a truncated line is unknown
    assert tasks(b"x:gc.alpha.3.1:y\n", task(5), task(6)) == [(7, 6, 0)]  # the record before task 5 may continue


@pytest.mark.parametrize(
    ("field", "forged"),
    [
        (8, "9" * 400),
        (8, "9" * 5000),
        (9, str(10**18)),
        (12, "9" * 30),
        (13, "9" * 400),
        (14, "9" * 16),
        (35, "²"),
        (35, "9" * 5000),
        (35, "-1"),
        (35, ""),
    ],
    ids=[
        *("late time", "endless time", "start time", "exit status", "duration", "user time", "no digit"),
        *("huge", "negative", "empty"),
    ],
)
def test_a_record_with_an_impossible_field_does_not_hide_other_tasks(field: int, forged: str) -> None:
    """A forged infinite duration or submission time would break each cycle of the runner or balancer."""
    fields = task(4).split(b":")
    fields[field] = forged.encode()
    odd = b":".join(fields)

    assert tasks(odd, task(6)) == [(7, 6, 0)]
    assert next(parse_task_end_times(task(6))) in [*parse_task_end_times(odd + task(6))]
    assert tasks(task(5), smuggled(task(2, 9)), task(6), odd) == [(7, 5, 0), (7, 6, 0)]


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
LOST = replace(SEVEN, failed=19, exit_status=0, user_s=0.0)
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
        ([SEVEN, LOST], 7, False),
        ([LATER], None, False),
        ([SEVEN, LATER], 7, False),
        ([LOST, LATER], None, False),
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
    end, disputed = decide_job_end([LOST], NOON)

    assert (end and end.is_end_unknown, disputed) == (True, False)


@pytest.mark.parametrize(
    ("records", "status"),
    [([LATER], 0), ([LATER, PUT_BACK], 0), ([LOST, LATER], None), ([KILLED, LATER], None)],
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
    end, disputed = decide_past_or_future_job_end([LOST, LATER], NOON + timedelta(minutes=2))

    assert isinstance(end, JobEnd)
    assert (end.exit_status, disputed) == (0, False)


def test_the_longest_of_equal_ends_counts() -> None:
    """Another user may have forged the shorter record."""
    long, short = replace(ZERO, wallclock_s=60.0, host="n1"), replace(ZERO, wallclock_s=0.0)

    for records in ([long, short], [short, long]):
        end, is_disputed = decide_job_end(records, NOON)

        assert (end.wallclock_s, end.host, is_disputed) == (60.0, "n1", False)
