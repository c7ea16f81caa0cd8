"""Parses what hands type after qstat_remote, qacct_remote and qdel_remote: times, task ranges, jobs and names."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from gridbridge.errors import ParseError
from gridbridge.model.jobs_and_accounting import RemoteJobRunAccounting
from gridbridge.model.transfer_name import parse_local_job_and_task, parse_qstat_task_ranges

QACCT_TIME = re.compile(r"(?P<year>\d\d(?:\d\d)?)??(?P<rest>\d{8})(?:\.(?P<second>\d\d))?", re.ASCII)
FIRST_SHORT_YEAR = 70  # qacct(1): a year of two digits below 70 is 20YY


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageChoice:
    """Which remote runs count: started within [begin, end], in queues that match `queue`; None chooses all."""

    begin: datetime | None = None
    end: datetime | None = None
    queue: str | None = None  # pattern for a queue or queue@host; empty: every queue, each with its own sum

    def contains(self, record: RemoteJobRunAccounting) -> bool:
        at = record.started_at
        if (self.begin or self.end) and at is None:
            return False
        is_in_time = (not self.begin or not at or at >= self.begin) and (not self.end or not at or at <= self.end)
        names = (record.queue, f"{record.queue}@{record.host}")
        return is_in_time and (not self.queue or any(fnmatchcase(name, self.queue) for name in names))


def usage_period(
    begin: datetime | None, end: datetime | None, days: float | None
) -> tuple[datetime | None, datetime | None]:
    """Return begin and end of a period, of which -d DAYS replaces one (qacct(1)); raise ParseError for all three."""
    if days is None:
        return begin, end
    if begin and end:
        raise ParseError("-b, -e and -d: expected at most two of them")
    length = timedelta(days=days)
    return (begin or (end - length if end else None)), (end or (begin + length if begin else None))


def parse_qacct_time(text: str, now: datetime) -> datetime:
    """Parse `[[CC]YY]MMDDhhmm[.SS]` in the local zone; raise ParseError for any other text."""
    match = QACCT_TIME.fullmatch(text)
    year = int(match["year"] or now.astimezone().year) if match else 0
    if match and match["year"] and len(match["year"]) == 2:
        year += 2000 if year < FIRST_SHORT_YEAR else 1900
    try:
        if match:
            month, day, hour, minute = (int(match["rest"][n : n + 2]) for n in range(0, 8, 2))
            return datetime(year, month, day, hour, minute, int(match["second"] or 0)).astimezone()
    except ValueError:
        pass
    raise ParseError(f"{text!r:.40} is no time; expected [[CC]YY]MMDDhhmm[.SS], such as 202611302200")


def is_job_name(text: str) -> bool:
    """Say whether a text is a job's name or a pattern: names don't begin with a digit (sge_types(1))."""
    return bool(text) and not text[0].isdigit() and text[0] not in "-,."


def parse_job_with_tasks(text: str, ranges: str = "") -> tuple[str, tuple[range, ...]]:
    """Parse `147`, `147.2` or `147.2-3:1,7`, or a job with the ranges of -t; no ranges stand for all tasks."""
    job, dot, tasks = text.partition(".")
    if dot and ranges:
        raise ParseError(f"{text!r} and -t {ranges}: the tasks are given twice")
    parse_local_job_and_task(job)
    if tasks.isdigit():
        parse_local_job_and_task(text)
    if dot and not tasks:
        raise ParseError(f"{text!r} is not a job id; expected JOB, JOB.TASK or JOB.FIRST-LAST")
    return job, parse_task_ranges(tasks or ranges, text)


def parse_task_ranges(ranges: str, where: str) -> tuple[range, ...]:
    try:
        return parse_qstat_task_ranges(ranges)
    except ParseError as error:
        expected = "expected JOB or JOB.TASK, as in qstat, or task ranges such as 2-3 or 1-9:2,12"
        raise ParseError(f"{where!r:.40} is not a job id; {expected}") from error


def is_in_ranges(task: int, ranges: Sequence[range]) -> bool:
    return not ranges or any(task in tasks for tasks in ranges)
