"""Read a recorded workload from an accounting file or a Standard Workload Format file."""

import gzip
import lzma
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from io import BufferedIOBase, BufferedReader
from itertools import chain

from gridbridge.elastic.simulation import accounting_workload, standard_workload_format
from gridbridge.errors import ParseError, StateError
from gridbridge.model.elastic.replay_outcome import (
    ReplayExclusion,
    ReplayTask,
    ReplayWorkload,
    WorkloadLineFault,
)
from gridbridge.shell.files import iterate_lines

MOST_BAD = 100_000
GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ\0"  # what their files begin with
TAR, AT_TAR = b"ustar", 257
OTHERS = {
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x1f\x9d": "compress",
}
Told = ReplayTask | ReplayExclusion | WorkloadLineFault
Reads = Callable[[Iterable[bytes]], Iterator[tuple[int, Told]]]


def read_workload_file(path: str) -> ReplayWorkload:
    """Read a recorded workload of either format.

    Raises StateError when the file can't be read, and ParseError when it has no usable line.
    """
    try:
        with open(path, "rb") as file:
            too_long = list[int]()
            file_lines = iterate_lines(_plain(file, path), path, too_long)
            begin = _begin(file_lines)
            read_lines = (
                standard_workload_format.read_standard_workload_tasks
                if standard_workload_format.is_standard_workload_line(begin[-1])
                else accounting_workload.read_accounting_tasks
            )
            workload = _workload(chain(begin, file_lines), read_lines)
            bad = {**dict.fromkeys(too_long, WorkloadLineFault.LENGTH), **workload.bad_lines}
            workload = replace(workload, bad_lines=dict(sorted(bad.items())))
    except OSError as error:
        raise StateError(f"{path}: {error.strerror or error}") from error
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise ParseError(f"{path}: {error}") from error
    if not workload.tasks and workload.left_out and not workload.bad_lines:
        why = ", ".join(f"{lines} {why.value}" for why, lines in sorted(workload.left_out.items()))
        raise ParseError(f"{path}: no task of it ran: {why}")
    if not workload.tasks:
        bad_line = next(iter(workload.bad_lines.items()), None)
        where = ", line {} has {}".format(*bad_line) if bad_line else ""
        raise ParseError(
            f"{path}: no task can be read{where}; expected lines of accounting(5), of"
            " accounting.jsonl, or of the Standard Workload Format"
        )
    return workload


def _plain(file: BufferedReader, path: str) -> BufferedIOBase:
    """Return the uncompressed content of a file that gzip or xz may have compressed.

    Raises ParseError with the name of any other compression.
    """
    begin = file.peek(AT_TAR + len(TAR))
    if begin.startswith(GZIP):
        return _plain(BufferedReader(gzip.GzipFile(fileobj=file)), path)
    if begin.startswith(XZ):
        return _plain(BufferedReader(lzma.LZMAFile(file)), path)
    packer = next((name for mark, name in OTHERS.items() if begin.startswith(mark)), "")
    if begin[AT_TAR:].startswith(TAR):
        packer = "tar"
    if packer:
        raise ParseError(
            f"{path}: packed by {packer}; expected a text, or one that gzip or xz packed"
        )
    return file


def _begin(file_lines: Iterator[bytes]) -> list[bytes]:
    """Return the lines up to the first non-empty line, by which the format is recognized.

    The lines are kept because a pipe can't be read twice.
    """
    beginning = list[bytes]()
    for line in file_lines:
        beginning.append(line)
        if line.strip():
            return beginning
    return [*beginning, b""]


def _workload(file_lines: Iterable[bytes], read_lines: Reads) -> ReplayWorkload:
    """Collect the tasks of a file; stop when MOST_BAD lines are bad before the first task."""
    tasks, left_out, bad = (
        list[ReplayTask](),
        Counter[ReplayExclusion](),
        dict[int, WorkloadLineFault](),
    )
    for number, row in read_lines(file_lines):
        if isinstance(row, WorkloadLineFault):
            bad[number] = row
            if len(bad) >= MOST_BAD and not tasks:
                break
        elif isinstance(row, ReplayExclusion):
            left_out[row] += 1
        else:
            tasks.append(row)
    tasks.sort(key=lambda task: task.submitted_s)
    return ReplayWorkload(tasks=tuple(tasks), left_out=dict(left_out), bad_lines=bad)
