"""Reads a recorded workload from an accounting file or a Standard Workload Format file."""

import gzip
import lzma
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import BufferedIOBase, BufferedReader
from itertools import chain

from gridbridge.batch.gridengine import accounting_record_parser
from gridbridge.errors import ParseError, StateError
from gridbridge.model.elastic.replay_tasks_and_results import (
    RecordedReplayTask,
    RecordedWorkload,
    ReplayExclusionReason,
    WorkloadLineFault,
)
from gridbridge.model.jobs_and_accounting import LATEST_S, RESCHEDULED, queue_wait_s
from gridbridge.shell.safe_files import iterate_bounded_lines

MOST_BAD = 100_000
GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ\0"  # first bytes of compressed files
TAR, AT_TAR = b"ustar", 257
OTHERS = {
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x1f\x9d": "compress",
}
ParsedLine = RecordedReplayTask | ReplayExclusionReason | WorkloadLineFault
FIELDS = 18
NUMBER = re.compile(rb"[+-]?\d+(?:\.\d*)?")
SUBMITTED, WAITED, RAN, ALLOCATED, ASKED, STATUS, USER, PROGRAM = 1, 2, 3, 4, 7, 10, 11, 13
PARTS = (2, 3, 4)
CANCELLED = 5


def read_workload_file(path: str) -> RecordedWorkload:
    """Read a recorded workload; raises StateError if unreadable, and ParseError without a usable line."""
    try:
        with open(path, "rb") as file:
            too_long = list[int]()
            file_lines = iterate_bounded_lines(_open_decompressed_workload_file(file, path), path, too_long)
            begin = _lines_up_to_first_content(file_lines)
            is_standard = is_standard_workload_line(begin[-1])
            parse = parse_standard_workload_tasks if is_standard else parse_accounting_tasks
            workload = _collect_workload(parse(chain(begin, file_lines)))
            bad = {**dict.fromkeys(too_long, WorkloadLineFault.LENGTH), **workload.bad_lines}
            workload = replace(workload, bad_lines=dict(sorted(bad.items())))
    except OSError as error:
        raise StateError(f"{path}: {error.strerror or error}") from error
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise ParseError(f"{path}: {error}") from error
    if not workload.tasks and workload.left_out and not workload.bad_lines:
        why = ", ".join(f"{lines} {why.value}" for why, lines in sorted(workload.left_out.items()))
        raise ParseError(f"{path}: no task of the file ran: {why}")
    if not workload.tasks:
        bad_line = next(iter(workload.bad_lines.items()), None)
        where = ", line {} has {}".format(*bad_line) if bad_line else ""
        raise ParseError(
            f"{path}: no task can be read{where}; expected lines of accounting(5), of"
            " accounting.jsonl, or of the Standard Workload Format"
        )
    return workload


def _open_decompressed_workload_file(file: BufferedReader, path: str) -> BufferedIOBase:
    """Return the content of a plain, gzip or xz file; raise ParseError for tar and other compressions."""
    begin = file.peek(AT_TAR + len(TAR))
    if begin.startswith(GZIP):
        return _open_decompressed_workload_file(BufferedReader(gzip.GzipFile(fileobj=file)), path)
    if begin.startswith(XZ):
        return _open_decompressed_workload_file(BufferedReader(lzma.LZMAFile(file)), path)
    packer = next((name for mark, name in OTHERS.items() if begin.startswith(mark)), "")
    if begin[AT_TAR:].startswith(TAR):
        packer = "tar"
    if packer:
        raise ParseError(f"{path}: compressed by {packer}; expected a text file, or a file compressed by gzip or xz")
    return file


def _lines_up_to_first_content(file_lines: Iterator[bytes]) -> list[bytes]:
    """Return the lines up to the first non-empty line, which shows the format of the file."""
    beginning = list[bytes]()
    for line in file_lines:
        beginning.append(line)
        if line.strip():
            return beginning
    return [*beginning, b""]


def _collect_workload(numbered_lines: Iterable[tuple[int, ParsedLine]]) -> RecordedWorkload:
    """Collect the tasks of a file; give up after 100,000 bad lines without a task."""
    tasks, bad = list[RecordedReplayTask](), dict[int, WorkloadLineFault]()
    left_out = Counter[ReplayExclusionReason]()
    for number, row in numbered_lines:
        if isinstance(row, WorkloadLineFault):
            bad[number] = row
            if len(bad) >= MOST_BAD and not tasks:
                break
        elif isinstance(row, ReplayExclusionReason):
            left_out[row] += 1
        else:
            tasks.append(row)
    tasks.sort(key=lambda task: task.submitted_s)
    return RecordedWorkload(tasks=tuple(tasks), left_out=dict(left_out), bad_lines=bad)


def parse_accounting_tasks(lines: Iterable[bytes]) -> Iterator[tuple[int, ParsedLine]]:
    """Yield each line's number with its task, or with the reason for skipping the line."""
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith(b"#"):
            yield number, _parse_accounting_task(line)


def _parse_accounting_task(line: bytes) -> ParsedLine:
    try:
        fields = accounting_record_parser.parse_accounting_line(line.rstrip(b"\r\n").decode("utf-8", "replace"))
    except ParseError:
        is_begun = accounting_record_parser.HEAD.match(line) and not line.startswith(accounting_record_parser.JSON)
        return WorkloadLineFault.FIELDS if is_begun else WorkloadLineFault.FORM
    try:
        submitted_s, started_s, ended_s = (
            accounting_record_parser.parse_epoch_seconds(fields[name]) for name in accounting_record_parser.TIMES
        )
        slots, failed = int(fields["slots"]), int(fields["failed"])
    except ValueError:
        return WorkloadLineFault.FORM
    if fields["pe_taskid"] != accounting_record_parser.NONE:
        return ReplayExclusionReason.PART
    if failed in RESCHEDULED:
        return ReplayExclusionReason.PUT_BACK
    if started_s <= 0:
        return ReplayExclusionReason.NEVER_STARTED
    wait_s = queue_wait_s(submitted_s, started_s, ended_s)
    if slots < 1:
        return WorkloadLineFault.SLOTS
    if wait_s is None:
        return WorkloadLineFault.END if ended_s < started_s else WorkloadLineFault.TIMES
    return RecordedReplayTask(
        submitted_s=submitted_s,
        run_s=ended_s - started_s,
        slots=slots,
        waited_s=wait_s,
        owner=fields["owner"],
        name=fields["jobname"],
    )


def is_standard_workload_line(line: bytes) -> bool:
    words = line.split()
    return line.lstrip().startswith(b";") or (len(words) == FIELDS and all(map(NUMBER.fullmatch, words)))


def parse_standard_workload_tasks(lines: Iterable[bytes]) -> Iterator[tuple[int, ParsedLine]]:
    """Yield each line's number with its task, or with the reason for skipping the line."""
    begin_s = 0.0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith(b";"):
            key, _, value = text.lstrip(b"; ").partition(b":")
            if key.strip() == b"UnixStartTime" and value.strip().isdigit() and float(value) < LATEST_S:
                begin_s = float(value)
        elif text:
            yield number, _parse_swf_task(text, begin_s)


def _parse_swf_task(text: bytes, begin_s: float) -> ParsedLine:
    try:
        numbers = [float(word) for word in text.split()]
    except ValueError:
        return WorkloadLineFault.FORM
    if len(numbers) != FIELDS:
        return WorkloadLineFault.FIELDS
    if not all(abs(number) < LATEST_S for number in numbers):
        return WorkloadLineFault.TIMES
    slots = int(next((count for count in (numbers[ALLOCATED], numbers[ASKED]) if count > 0), 1))
    if numbers[STATUS] in PARTS:
        return ReplayExclusionReason.PART
    if numbers[RAN] < 0 or (numbers[RAN] == 0 and numbers[STATUS] == CANCELLED):
        return ReplayExclusionReason.CANCELLED if numbers[STATUS] == CANCELLED else ReplayExclusionReason.NEVER_STARTED
    if numbers[SUBMITTED] < 0 or begin_s + numbers[SUBMITTED] >= LATEST_S:
        return WorkloadLineFault.TIMES
    return RecordedReplayTask(
        submitted_s=begin_s + numbers[SUBMITTED],
        run_s=numbers[RAN],
        slots=slots,
        waited_s=max(0.0, numbers[WAITED]),
        owner=f"{numbers[USER]:.0f}",
        name=f"{numbers[PROGRAM]:.0f}",
    )
