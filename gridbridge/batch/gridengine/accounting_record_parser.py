"""Parses job ends and usage from accounting lines and `qacct -j` (accounting(5)).

There are 45 fields since 6.2, before 43. Univa 8.1 to 8.6 appends six or more and counts in milliseconds.
Open Cluster Scheduler 9 writes accounting.jsonl: one object in each line, times in microseconds.
"""

import json
import re
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from signal import SIGKILL

from gridbridge.errors import ParseError
from gridbridge.model.campaigns.campaign_file_and_array_names import PREFIX
from gridbridge.model.elastic.published_balance import TasksEndedInMinute
from gridbridge.model.jobs_and_accounting import (
    RESCHEDULED,
    ArrayEndQuery,
    JobEnd,
    JobKillReason,
    JobRunAccounting,
    RemoteJobRunAccounting,
    queue_wait_s,
)
from gridbridge.model.transfer_name import NO_TASK

FRONT = (  # names of the fields before the job's category (accounting(5))
    *("qname", "hostname", "group", "owner", "jobname", "jobnumber", "account", "priority"),
    *("qsub_time", "start_time", "end_time", "failed", "exit_status", "ru_wallclock"),
    *("ru_utime", "ru_stime", "ru_maxrss", *("",) * 8, "ru_oublock", *("",) * 7, "granted_pe", "slots", "taskid"),
    *("cpu", "mem", "io"),
)
SUBMITTED = FRONT.index("qsub_time")
NONE = "NONE"
JSON = b"{"
OF_OBJECTS = (JSON, b"#", b"--")  # how a record, a comment and grep's separator line begin
NUMBER, NO_NUMBER = r"-?[\d.]+", r"(?!-?[\d.]*:)[^:]+"
# the fields iow, pe_taskid and maxvmem, which follow the category
BEHIND = rf":{NUMBER}:(?P<pe_taskid>[^:]*):(?P<maxvmem>{NUMBER})"
USUAL = re.compile(rf"{BEHIND}:\d+:\d+$")
OLD = re.compile(rf"{BEHIND}$")
UNIVA = re.compile(rf":{NUMBER}:(?P<pe_taskid>{NO_NUMBER}):(?P<maxvmem>{NUMBER}):\d+:\d+(?::[^:]*){{6,}}$")
ENDS = {  # {record format: pattern of a record's end, for bytes}
    USUAL: re.compile(USUAL.pattern.encode()),
    OLD: re.compile(OLD.pattern.encode()),
    UNIVA: re.compile(rf":{NUMBER}$".encode()),
}
HEAD = re.compile(rb"(?:[^:]*:){5}\d+:[^:]*:-?\d+:\d+:\d+:\d+:\d+:\d+:")  # the first fields, up to exit_status
TIMES = ("qsub_time", "start_time", "end_time")
MILLISECONDS, MICROSECONDS = 10**11, 10**14  # times in milliseconds, and times in microseconds, are at least this large
OF_OBJECT = {  # {field name in accounting(5): field name in accounting.jsonl}
    **{name: name for name in ("qname", "hostname", "owner", "account", "start_time", "end_time")},
    **{name: name for name in ("failed", "exit_status", "slots")},
    **{"jobname": "job_name", "jobnumber": "job_number", "qsub_time": "submission_time", "taskid": "task_number"},
}
USED = ("ru_wallclock", "ru_utime", "ru_stime", "ru_maxrss")
OPTIONAL = {"granted_pe": NONE, "pe_taskid": NONE, "deleted_by": ""}
BLOCKS_PER_KB = 2  # a block of ru_oublock has 512 bytes (getrusage(2))
_RULE = "=" * 20  # start of the line that qacct prints before each record
_NOTHING = re.compile(r"no jobs running since startup|error: job (id|name) .* not found")
_TIME_FORMATS = ("%a %b %d %H:%M:%S %Y", "%Y-%m-%d %H:%M:%S.%f", "%m/%d/%Y %H:%M:%S.%f")
_SIZES = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}
_MOST, _MOST_AMOUNT = 2**32, 1e15  # largest accepted id or count, and largest accepted number of seconds or kB
_LATEST = 10**18  # no time in microseconds is as large
_DIGITS = 10  # every task id has fewer digits
SIGNALLED = 128  # a larger exit status is 128 plus the number of a signal
_AMOUNT = re.compile(r"([0-9.]+)([KMGT]?)(?:Bs|B|s)?")


def parse_accounting_line(line: str) -> dict[str, str]:
    """Parse an accounting line, whose category may contain colons; raise ParseError for other formats."""
    if line.startswith("{"):
        return _parse_json_accounting_record(line)
    fields = line.split(":", len(FRONT))
    match = _match_last_accounting_fields(fields)
    if match is None or len(fields) <= len(FRONT):
        raise ParseError(f"accounting: {line[:60]!r} has an unknown format")
    return dict(zip(FRONT, fields, strict=False)) | match.groupdict()


def parse_epoch_seconds(text: str) -> float:
    """Parse a time as seconds since the epoch; raise ValueError for other text."""
    time = int(text)
    if time > _LATEST:
        raise ValueError(f"{text[:40]} is too large for a time")
    if time > MILLISECONDS:
        return time / (1e6 if time > MICROSECONDS else 1e3)
    return float(time)


def accounting_lines_with_prefix(data: bytes, prefix: str) -> Iterator[tuple[int, bytes]]:
    """Yield each line with a field that begins with `prefix`, and the line's offset in the data."""
    needles = f":{prefix}".encode(), f'"{prefix}'.encode()
    lines = {begin: line for needle in needles for begin, line in _accounting_lines_containing(data, needle)}
    yield from sorted(lines.items())


def is_line_inside_other_record(data: bytes, begin: int, line: bytes) -> bool:
    """Say whether a line lies inside another job's accounting record, and so may be forged.

    A user can forge lines by line feeds in a job's request. In a JSON file each line is a whole record.
    """
    end = begin + len(line) + 1
    before = data[data.rfind(b"\n", 0, max(0, begin - 1)) + 1 : max(0, begin - 1)]
    after = data[end : data.find(b"\n", end) if end < len(data) else end]
    if line.startswith(JSON):
        return not all(beside.startswith(OF_OBJECTS) for beside in (before, after) if beside)
    match = _match_last_accounting_fields(line.decode("utf-8", "replace").split(":", len(FRONT)))
    if match is None:
        return True
    goes_on = before and not before.startswith(b"#") and not ENDS[match.re].search(before)
    return bool(goes_on or (after and not after.startswith(b"#") and not HEAD.match(after)))


def _match_last_accounting_fields(fields: list[str]) -> re.Match[str] | None:
    """Match the last fields of an accounting line with the known formats.

    If the times are in milliseconds, Univa's format is tried first: its last field, a command, may look like another
    format.
    """
    submitted = fields[SUBMITTED] if len(fields) > SUBMITTED else ""
    is_time = submitted.isascii() and submitted.isdigit() and len(submitted) < len(str(_LATEST))
    is_univa = is_time and int(submitted) > MILLISECONDS
    matches = (form.search(f":{fields[-1]}") for form in ((UNIVA, *ENDS) if is_univa else ENDS))
    return next(filter(None, matches), None)


def _parse_json_accounting_record(line: str) -> dict[str, str]:
    try:
        record = json.loads(line)
        used = record["usage"]["rusage"]
        fields = {ours: str(record[theirs]) for ours, theirs in OF_OBJECT.items()}
        fields |= {name: str(used[name]) for name in USED}
        fields |= {"ru_oublock": str(used.get("ru_oublock", 0))}
        fields |= {"maxvmem": str(record["usage"].get("usage", {}).get("maxvmem", 0))}
        return fields | {name: str(record.get(name, none)) for name, none in OPTIONAL.items()}
    except (KeyError, TypeError, ValueError, RecursionError, AttributeError) as error:
        raise ParseError(f"accounting: {line[:60]!r} is incomplete: {error!r}") from error


def _accounting_lines_containing(data: bytes, needle: bytes) -> Iterator[tuple[int, bytes]]:
    at = data.find(needle)
    while at >= 0:
        begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        line = data[begin : end if end >= 0 else len(data)]
        if not line.startswith(b"#"):
            yield begin, line
        at = data.find(needle, begin + len(line))


def job_end_of_accounting_record(record: JobRunAccounting | RemoteJobRunAccounting) -> JobEnd:
    """Return a record's job end (sge_status(5)); unknown if usage is missing, or for a failure without a signal."""
    end = JobEnd(
        host=record.host,
        user_s=record.user_s,
        system_s=record.system_s,
        wallclock_s=record.wallclock_s,
        max_rss_kb=record.max_rss_kb,
    )
    if isinstance(record, JobRunAccounting):
        end = replace(end, max_vmem_kb=record.max_vmem_kb, written_kb=record.written_kb)
    if record.failed == 0 and record.has_usage:
        return replace(end, exit_status=record.exit_status)
    end = replace(end, reason=f"failed {record.failed}, exit status {record.exit_status}")
    signal = (record.exit_status or 0) - SIGNALLED
    if signal <= 0 or not record.has_usage:
        return end
    # records of Grid Engine 8.1.9 do not name the user who deleted a job
    is_deleted = isinstance(record, JobRunAccounting) and record.deleted_by not in ("", NONE) and signal == SIGKILL
    return replace(end, signal=signal, killed_for=JobKillReason.DELETION if is_deleted else JobKillReason.UNKNOWN)


def parse_accounting_records(data: bytes, *, zone: tzinfo | None = None) -> tuple[JobRunAccounting, ...]:
    """Parse output of `qacct -j JOB` or accounting lines; `zone` is qacct's, by default this system's.

    The result is empty if qacct found no records. Empty or truncated output raises ParseError.
    """
    text = data.decode("utf-8", "replace")
    if _NOTHING.match(text):
        return ()
    if not text.endswith("\n"):
        raise ParseError("qacct: the answer is empty" if not text else "qacct: the answer is truncated")
    if text.startswith(_RULE):
        records = []
        for block in re.split(r"^={20,}\n", text, flags=re.MULTILINE)[1:]:
            pairs = (line.split(None, 1) for line in block.splitlines() if line.strip())
            records.append({pair[0]: pair[1].strip() if len(pair) > 1 else "" for pair in pairs})
    else:
        records = [parse_accounting_line(line) for line in text.split("\n") if line and not line.startswith("#")]
    return tuple(_accounting_record(fields, zone) for fields in records)


def parse_records_by_account_prefix(data: bytes, prefix: str) -> tuple[tuple[tuple[str, JobRunAccounting], ...], int]:
    """Parse the complete lines of jobs whose account string begins with `prefix`.

    Returns (line, record) pairs, and the number of malformed lines and lines inside another record.
    """
    records, skipped = [], 0
    for begin, line in accounting_lines_with_prefix(data, prefix):
        text = line.decode("utf-8", "replace")
        try:
            record = _accounting_record(parse_accounting_line(text), UTC)
        except ParseError:
            record = None
        if record is None or is_line_inside_other_record(data, begin, line):
            skipped += 1
        elif record.account.startswith(prefix):
            records.append((text, record))
    return tuple(records), skipped


def parse_array_task_records(data: bytes, arrays: Sequence[ArrayEndQuery]) -> Iterator[JobRunAccounting]:
    """Yield the accounting records of array tasks; skip malformed lines and lines inside another record."""
    indices: dict[tuple[str, str], Container[int]]
    indices = {(str(array.job_id), array.account): frozenset(array.places) for array in arrays}
    for begin, line in accounting_lines_with_prefix(data, f"{PREFIX}."):
        with suppress(ParseError):
            fields = parse_accounting_line(line.decode("utf-8", "replace"))
            key = fields["jobnumber"], fields["account"]
            is_asked = _parse_task_id(fields["taskid"]) in indices.get(key, ())
            if is_asked and not is_line_inside_other_record(data, begin, line):
                yield _accounting_record(fields, UTC)


def parse_task_end_times(data: bytes) -> Iterator[tuple[TasksEndedInMinute, str, str]]:
    """Yield the end time, owner and job name of each ended task in accounting lines.

    Skips tasks that never started, requeued runs, parts of parallel tasks and malformed lines.
    """
    for line in data.split(b"\n"):
        with suppress(ValueError, ParseError):
            fields = parse_accounting_line(line.decode("utf-8", "replace"))
            submitted, started, ended = (parse_epoch_seconds(fields[name]) for name in TIMES)
            wait_s = queue_wait_s(submitted, started, ended)
            is_whole = fields["pe_taskid"] == NONE and int(fields["failed"]) not in RESCHEDULED
            if wait_s is not None and is_whole:
                times = TasksEndedInMinute(minute=int(ended // 60), tasks=1, run_s=ended - started, wait_s=wait_s)
                yield times, fields["owner"], fields["jobname"]


def _accounting_record(fields: dict[str, str], zone: tzinfo | None) -> JobRunAccounting:
    try:
        return JobRunAccounting(
            job_id=_parse_integer(fields["jobnumber"]),
            task=_parse_task_id(fields["taskid"]),
            name=fields["jobname"],
            owner=fields["owner"],
            account=fields["account"],
            queue=fields["qname"],
            host=fields["hostname"],
            submitted_at=_parse_record_time(fields["qsub_time"], zone),
            started_at=_parse_record_time(fields["start_time"], zone),
            ended_at=_parse_record_time(fields["end_time"], zone),
            failed=_parse_integer(fields["failed"].partition(":")[0]),  # qacct appends an explanation to the number
            exit_status=_parse_integer(fields["exit_status"].split()[0]),
            wallclock_s=_parse_usage_amount(fields["ru_wallclock"]),
            user_s=_parse_usage_amount(fields["ru_utime"]),
            system_s=_parse_usage_amount(fields["ru_stime"]),
            max_rss_kb=_parse_usage_amount(fields["ru_maxrss"]),
            max_vmem_kb=_parse_optional_amount(_maxvmem(fields)) / 1024,
            written_kb=_parse_optional_amount(fields.get("ru_oublock", "")) / BLOCKS_PER_KB,
            pe=fields.get("granted_pe", ""),
            pe_task="" if fields.get("pe_taskid") == NONE else fields.get("pe_taskid", ""),
            deleted_by=fields.get("deleted_by", ""),
        )
    except KeyError as missing:
        raise ParseError(f"qacct: a record lacks {missing.args[0]}") from missing
    except (ValueError, IndexError, OverflowError, OSError) as wrong:
        raise ParseError(f"qacct: {wrong}") from wrong


def _maxvmem(fields: dict[str, str]) -> str:
    """Return the amount; a truncated record raises KeyError, but Open Cluster Scheduler may print no amount."""
    return fields.get("maxvmem", "") if "deleted_by" in fields else fields["maxvmem"]


def _parse_integer(text: str) -> int:
    """Parse an integer; raise ValueError for a number that Grid Engine can't have written."""
    number = int(text)
    if abs(number) > _MOST:
        raise ValueError(f"{text[:40]} is too large for a number of Grid Engine")
    return number


def _parse_task_id(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else NO_TASK


def _parse_record_time(text: str, zone: tzinfo | None) -> datetime | None:
    """Parse seconds since the epoch, or a date printed by qacct; return None for `0` and `-/-`."""
    if text.isdigit():
        return datetime.fromtimestamp(parse_epoch_seconds(text), UTC) if int(text) else None
    for layout in _TIME_FORMATS:
        try:
            printed = datetime.strptime(text, layout).replace(tzinfo=zone)
        except ValueError:
            continue
        return printed.astimezone(UTC)
    return None


def _parse_optional_amount(text: str) -> float:
    try:
        return _parse_usage_amount(text)
    except ValueError:
        return 0.0


def _parse_usage_amount(text: str) -> float:
    """Parse an amount such as 0.007s, 4.648KB or 4760, in seconds or kB.

    qacct of 8.1.9 prints 4760 kB as 4.648KB, so K stands for a factor of 1024.
    """
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not an amount")
    amount = float(match[1]) * _SIZES[match[2]]
    if amount > _MOST_AMOUNT:
        raise ValueError(f"{text[:40]!r} is too large for an amount of Grid Engine")
    return amount
