"""Reads a line of an accounting file in any form, and gives its fields qacct's names.

accounting(5) has 45 fields since Grid Engine 6.2, and 43 before, without `arid` and `ar_sub_time`;
Univa Grid Engine 8.1 to 8.6 adds six or more behind them, and counts its times in milliseconds.
Open Cluster Scheduler 9 writes accounting.jsonl, with an object a line and times in microseconds.
The category may contain colons, so the fields behind it are found by their form.
"""

import json
import re
from collections.abc import Iterable, Iterator

from gridbridge.errors import ParseError

FRONT = (  # before the category
    *("qname", "hostname", "group", "owner", "jobname", "jobnumber", "account", "priority"),
    *("qsub_time", "start_time", "end_time", "failed", "exit_status", "ru_wallclock"),
    *("ru_utime", "ru_stime", "ru_maxrss", *("",) * 16, "granted_pe", "slots", "taskid"),
    *("cpu", "mem", "io"),
)
SUBMITTED = FRONT.index("qsub_time")
NONE = "NONE"
JSON = b"{"
OF_OBJECTS = (JSON, b"#", b"--")  # beside an object: another, a comment, a gap of grep's answer
NUMBER, NO_NUMBER = r"-?[\d.]+", r"(?!-?[\d.]*:)[^:]+"
BEHIND = rf":{NUMBER}:(?P<pe_taskid>[^:]*):{NUMBER}"  # the category: iow, pe_taskid, maxvmem
USUAL = re.compile(rf"{BEHIND}:\d+:\d+$")
OLD = re.compile(rf"{BEHIND}$")
UNIVA = re.compile(rf":{NUMBER}:(?P<pe_taskid>{NO_NUMBER}):{NUMBER}:\d+:\d+(?::[^:]*){{6,}}$")
ENDS = {  # how a line before a record ends, by the form of that record
    USUAL: re.compile(USUAL.pattern.encode()),
    OLD: re.compile(OLD.pattern.encode()),
    UNIVA: re.compile(rf":{NUMBER}$".encode()),
}
HEAD = re.compile(rb"(?:[^:]*:){5}\d+:[^:]*:-?\d+:\d+:\d+:\d+:\d+:\d+:")  # to exit_status
TIMES = ("qsub_time", "start_time", "end_time")
MILLISECONDS, MICROSECONDS = 10**11, 10**14  # a larger number counts them
OF_OBJECT = {  # names in accounting.jsonl, by ours
    "qname": "qname",
    "hostname": "hostname",
    "owner": "owner",
    "jobname": "job_name",
    "jobnumber": "job_number",
    "account": "account",
    "qsub_time": "submission_time",
    "start_time": "start_time",
    "end_time": "end_time",
    "failed": "failed",
    "exit_status": "exit_status",
    "slots": "slots",
    "taskid": "task_number",
}
USED = ("ru_wallclock", "ru_utime", "ru_stime", "ru_maxrss")
OPTIONAL = {"granted_pe": NONE, "pe_taskid": NONE, "deleted_by": ""}


def parse_accounting_line(line: str) -> dict[str, str]:
    """Parse a line of an accounting file; ParseError if its form is unknown."""
    if line.startswith("{"):
        return _of_object(line)
    fields = line.split(":", len(FRONT))
    match = next(
        (candidate for form in _forms(fields) if (candidate := form.search(f":{fields[-1]}"))), None
    )
    if match is None or len(fields) <= len(FRONT):
        raise ParseError(f"accounting: {line[:60]!r} has the form of no version that is known")
    return dict(zip(FRONT, fields, strict=False)) | {"pe_taskid": match["pe_taskid"]}


def epoch_seconds(text: str) -> float:
    """Parse a time as seconds of the epoch; ValueError if it is no time."""
    time = int(text)
    if time > MILLISECONDS:
        return time / (1e6 if time > MICROSECONDS else 1e3)
    return float(time)


def find_lines_with_prefix(data: bytes, prefix: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with a field of this prefix, and their offsets in the data."""
    needles = f":{prefix}".encode(), f'"{prefix}'.encode()
    lines = {begin: line for needle in needles for begin, line in _lines_with(data, needle)}
    yield from sorted(lines.items())


def is_inside_other_record(data: bytes, begin: int, line: bytes) -> bool:
    """Say whether a line lies in the middle of another job's accounting record.

    A job's request may contain line feeds, so a user can forge a line. If the line before does not
    end as records do, its record continues in this line. If the line after does not begin as
    records do, this record continues there. Nobody can make another's line a part of their own
    record. A JSON file contains only objects, and an object contains no line feed.
    """
    end = begin + len(line) + 1
    before = data[data.rfind(b"\n", 0, max(0, begin - 1)) + 1 : max(0, begin - 1)]
    after = data[end : data.find(b"\n", end) if end < len(data) else end]
    if line.startswith(JSON):
        return not all(beside.startswith(OF_OBJECTS) for beside in (before, after) if beside)
    form = _form(line.decode("utf-8", "replace"))
    if form is None:
        return True
    goes_on = before and not before.startswith(b"#") and not ENDS[form].search(before)
    return bool(goes_on or (after and not after.startswith(b"#") and not HEAD.match(after)))


def _form(line: str) -> re.Pattern[str] | None:
    fields = line.split(":", len(FRONT))
    return next((form for form in _forms(fields) if form.search(f":{fields[-1]}")), None)


def _forms(fields: list[str]) -> Iterable[re.Pattern[str]]:
    """Return the forms that a line may have, in the order in which they are tried.

    Univa counts milliseconds. The command line in its last fields may end as any other form does.
    """
    submitted = fields[SUBMITTED] if len(fields) > SUBMITTED else ""
    is_univa = submitted.isdigit() and int(submitted) > MILLISECONDS
    return (UNIVA, *ENDS) if is_univa else ENDS


def _of_object(line: str) -> dict[str, str]:
    try:
        record = json.loads(line)
        used = record["usage"]["rusage"]
        fields = {ours: str(record[theirs]) for ours, theirs in OF_OBJECT.items()}
        fields |= {name: str(used[name]) for name in USED}
        return fields | {name: str(record.get(name, none)) for name, none in OPTIONAL.items()}
    except (KeyError, TypeError, ValueError, RecursionError, AttributeError) as error:
        raise ParseError(f"accounting: {line[:60]!r} is no whole record: {error!r}") from error


def _lines_with(data: bytes, needle: bytes) -> Iterator[tuple[int, bytes]]:
    at = data.find(needle)
    while at >= 0:
        begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        line = data[begin : end if end >= 0 else len(data)]
        if not line.startswith(b"#"):
            yield begin, line
        at = data.find(needle, begin + len(line))
