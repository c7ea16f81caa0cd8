"""Reads records of tasks and jobs from files at a cluster, as the owner; gridbridge-as-user runs this program.

Usage: python3 -m gridbridge.campaigns.cli.task_record_reader CAMPAIGN CLUSTER TASKS [jobs]. The program prints one line
of JSON. For each attempt with checkpoints the line has: task, attempt, number of checkpoints, number of timed
checkpoints, their seconds together, and bytes of the last. For each attempt that OAR's first process measured, the line
has: task, attempt, kB of the largest resident set, and written kB. With `jobs`, TASKS has array indices and arrays
instead of tasks and attempts, and the line has: index, array and record of each job that ran several tasks. Exit
status: 0 done; 2 error, on standard error.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import replace

from gridbridge.campaigns.cli.task_output_reading_and_fetching import (
    TaskOutputFolderAtCluster,
    own_campaign_output_folders,
    read_output_tails_by_name,
)
from gridbridge.errors import GridbridgeError, StateError, error_on_one_line
from gridbridge.model.campaigns.task_index_and_attempt_texts import parse_attempt_ranges
from gridbridge.model.fixed_paths import FixedPaths

MOST_BYTES = 4096  # bytes that are read from the end of each file: enough for a few hundred checkpoints
MOST_JOB_BYTES = 1 << 17  # largest number of bytes of a job's record, which may have 1000 tasks
CHECKPOINTS, USAGE, JOBS = "checkpoints", "usage", "jobs"
MOST_DIGITS, MOST_SIZE_DIGITS = 9, 15
DONE, WRONG = 0, 2


def run_task_record_reader(paths: FixedPaths | None = None) -> int:
    """Print the records of the attempts in the command line; return the exit status."""
    campaign, cluster, tasks, *jobs = int(sys.argv[1]), *sys.argv[2:]
    try:
        source = own_campaign_output_folders(campaign, paths or FixedPaths(), ()).get(cluster)
        if source is None:
            raise StateError(f"{cluster}: not configured any more")
        # begin above the campaign's folder, which is missing until the campaign's first task starts
        parent, _, folder = source.folder.rpartition("/")
        source = replace(source, folder=parent or "/")
        if jobs:
            print(json.dumps({JOBS: _read_job_records(source, folder, tasks)}))  # noqa: T201
            return DONE
        attempts = {f"{folder}/{task}.{number}": (task, number) for task, number in parse_attempt_ranges(tasks)}
        names = tuple(f"{attempt}.{kind}" for attempt in attempts for kind in (CHECKPOINTS, USAGE))
        texts = read_output_tails_by_name(source, names, MOST_BYTES)
    except (GridbridgeError, OSError) as error:
        print(error_on_one_line(error), file=sys.stderr)  # noqa: T201
        return WRONG
    records: dict[str, list[tuple[float | None, ...]]] = {CHECKPOINTS: [], USAGE: []}
    parsers: dict[str, Callable[[str], tuple[float | None, ...]]] = {
        CHECKPOINTS: _count_checkpoints,
        USAGE: _parse_usage,
    }
    for name, text in texts.items():
        attempt, _, kind = name.rpartition(".")
        if amounts := parsers[kind](text):
            records[kind].append((*attempts[attempt], *amounts))
    print(json.dumps(records))  # noqa: T201
    return DONE


def _read_job_records(source: TaskOutputFolderAtCluster, folder: str, jobs: str) -> list[tuple[int, int, str]]:
    names = {f"{folder}/group.{array}.{index}": (index, array) for index, array in parse_attempt_ranges(jobs)}
    texts = read_output_tails_by_name(source, tuple(names), MOST_JOB_BYTES)
    return [(*names[name], text) for name, text in texts.items()]


def _count_checkpoints(text: str) -> tuple[int, int, float, int | None]:
    """Return the numbers of checkpoints and of timed checkpoints, the seconds of the timed, and the last's bytes."""
    lines = text.splitlines()[1 if len(text) >= MOST_BYTES else 0 :]  # the first line may be cut off
    timed = [int(word) for line in lines if _is_number(word := line.partition(" ")[0])]
    size = lines[-1].partition(" ")[2] if lines else ""
    is_size = size.isascii() and size.isdigit() and len(size) <= MOST_SIZE_DIGITS
    return len(lines), len(timed), sum(timed) / 100, int(size) if is_size else None


def _parse_usage(text: str) -> tuple[int, ...]:
    """Return kB of memory and written kB; empty if the file is incomplete."""
    words = text.split()
    is_whole = text.endswith("\n") and len(words) == 2 and all(map(_is_number, words))
    return tuple(map(int, words)) if is_whole else ()


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= MOST_DIGITS


if __name__ == "__main__":
    sys.exit(run_task_record_reader())
